"""Attention is that of `transformers`, sums to morphemes and characters keep it, and the page shows it offline."""

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import font_manager
from pages import Page, asks_no_server, needs_node

from kobert_pipeline.features.task import Task
from kobert_pipeline.inference.loading import load_tokenizer
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer
from kobert_pipeline.questions.exact_match import TYPES, match_types
from kobert_pipeline.questions.pos_feature import POS_TYPES
from kobert_pipeline.visualize.attention import CAVEAT, UNITS, Attention, Unit, characters, sum_to_units, words
from kobert_pipeline.visualize.attention_page import attention_page
from kobert_pipeline.visualize.page import write_page
from kobert_pipeline.visualize.tokens import Tokens

TEXT = "그 영화 정말 재밌었다. 칼국수를 또 먹고 싶다고 했다!"
HOSTILE = "</script><script>alert('글')</script>&\"<img src=http://x>"


@pytest.fixture(scope="module")
def nsmc(tiny: Any) -> Path:
    return Path(tiny.run_dir / "publish" / "nsmc")


@pytest.fixture(scope="module")
def attention(nsmc: Path) -> Attention:
    return Attention.load(nsmc, [TEXT])


def eager_attentions(folder: Path, *texts: str) -> np.ndarray:
    """(layers, heads, S, S), as `transformers` computes them."""
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    inputs = MorphemeTokenizer.from_pretrained(folder)(*texts, return_tensors="pt")
    return np.stack([layer[0].detach().numpy() for layer in model(**inputs, output_attentions=True).attentions])


def test_weights_are_those_of_transformers(nsmc: Path, attention: Attention) -> None:
    assert attention.weights.shape[:2] == (1, 2)
    np.testing.assert_allclose(attention.weights, eager_attentions(nsmc, TEXT), atol=1e-6)
    pair = Attention.load(nsmc, [TEXT, "정말?"])
    expected = eager_attentions(nsmc, TEXT, "정말?")
    np.testing.assert_allclose(pair.weights, expected, atol=1e-6, err_msg="the second text has token type 1")
    assert [unit.side for unit in pair.units["morphemes"]].count(None) == 3, "[CLS] and two [SEP]"


def test_a_question_is_read_with_the_token_types_of_its_fine_tuning(nsmc: Path) -> None:
    """Those of `exact_match_feature` and `pos_feature`, where the model was tuned with them."""
    tokenizer: Any = load_tokenizer(nsmc)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        type_vocab_size=POS_TYPES, initializer_range=1.0, attn_implementation="eager",
    )  # fmt: skip
    model = transformers.BertForQuestionAnswering(config).eval()
    texts = ["칼국수를 또 먹고 싶다고 했나?", TEXT]
    inputs = tokenizer(*texts, return_tensors="pt")
    marks = {"exact_match_feature": True}
    for options, marked in (({}, False), (marks, True), (marks | {"pos_feature": True}, True)):
        model.config.task_specific_params = {"korquad": {"max_length": 64} | options}
        given = dict(inputs)
        if marked:
            types = match_types(inputs["input_ids"][0].tolist(), inputs.sequence_ids(0))
            if options.get("pos_feature"):
                task = Task.choose({"name": "korquad"} | options)
                example = {"id": "", "question": texts[0], "context": texts[1], "answers": []}
                types = task.featurize([example], tokenizer, 64)["token_type_ids"]
                assert types.max() >= TYPES
            given["token_type_ids"] = inputs["token_type_ids"].new_tensor(types.tolist())[None]
        expected = model.bert(**given, output_attentions=True).attentions[0][0].detach().numpy()
        found = Attention.of("model", model, tokenizer, texts).weights[0]
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("options", [{"question_token": True}, {"max_question_tokens": 4}])
def test_a_question_is_read_as_in_its_fine_tuning(nsmc: Path, options: dict[str, Any]) -> None:
    tokenizer: Any = load_tokenizer(nsmc)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        task_specific_params={"korquad": {"max_length": 64} | options},
    )  # fmt: skip
    model = transformers.BertForQuestionAnswering(config).eval()
    example = {"id": "", "question": "칼국수를 또 먹고 싶다고 했나?", "context": TEXT, "answers": []}
    expected = Task.choose({"name": "korquad"} | options).featurize([example], tokenizer, 64)["input_ids"]
    attention = Attention.of("model", model, tokenizer, [example["question"], TEXT])
    assert [unit.detail.partition("(id ")[2].split(")")[0] for unit in attention.units["tokens"]] == [
        str(token_id) for token_id in expected
    ]


def groups(size: int) -> st.SearchStrategy[list[list[int]]]:
    """Units of tokens, each token in one or several."""
    covering = st.lists(st.lists(st.integers(0, size - 1), min_size=1, max_size=4, unique=True), max_size=6)
    return covering.map(lambda found: [*found, *([i] for i in range(size) if not any(i in group for group in found))])


@given(st.data())
def test_rows_add_up_to_one_after_summing(draw: st.DataObject) -> None:
    size = draw.draw(st.integers(1, 7))
    units = [Unit("", "", 0, tuple(group)) for group in draw.draw(groups(size))]
    weights = np.random.default_rng(draw.draw(st.integers(0, 99))).dirichlet(np.ones(size), (2, 3, size))
    found = sum_to_units(weights, units)
    assert found.shape == (2, 3, len(units), len(units))
    np.testing.assert_allclose(found.sum(-1), 1)
    assert (found >= 0).all()


def test_columns_are_summed_and_rows_averaged() -> None:
    weights = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0], [0.0, 1.0, 0.0]])
    found = sum_to_units(weights, [Unit("", "", 0, (0,)), Unit("", "", 0, (1, 2))])
    np.testing.assert_allclose(found, [[0.1, 0.9], [0.25, 0.75]])
    # a token of two characters is split evenly
    found = sum_to_units(weights, [Unit("", "", 0, (i,)) for i in (0, 1, 1, 2)])
    np.testing.assert_allclose(found[0], [0.1, 0.1, 0.1, 0.7])
    np.testing.assert_allclose(found[1], found[2])


def characters_of(units: list[Unit]) -> str:
    """The characters of the texts. The mark at the beginning of an eojeol may be a token of its own, without any."""
    return "".join(unit.label for unit in units if unit.side is not None and unit.label != "▁")


def test_units_are_the_morphemes_and_the_characters_of_the_text(nsmc: Path, attention: Attention) -> None:
    labels = {name: [unit.label for unit in units] for name, units in attention.units.items()}
    assert [labels[name][0] for name in UNITS] == ["[CLS]"] * 3
    assert [labels[name][-1] for name in UNITS] == ["[SEP]"] * 3
    expected = "그 영화 정말 재밌 었 다 . 칼국수 를 또 먹 고 싶 다고 했 다 !"
    assert " ".join(labels["morphemes"][1:-1]) == expected
    assert characters_of(attention.units["characters"]) == TEXT.replace(" ", "")
    assert len(labels["tokens"]) > len(labels["morphemes"]), "some morphemes have several tokens"
    did = next(unit for unit in attention.units["morphemes"] if unit.label == "했")
    assert re.fullmatch(r"▁했 \(id \d+\), characters 28 to 29, 하\+었 \(V\w\+EP\)", did.detail)
    for units in attention.units.values():
        assert sorted({token for unit in units for token in unit.tokens}) == list(range(len(labels["tokens"])))


def test_every_character_is_a_unit_in_every_style(nsmc: Path) -> None:
    text = "했다는데요? 갔다 😀 " + "가\u0301"
    for style in ("surface", "form", "lemma", "none"):
        tokenizer = MorphemeTokenizer.from_pretrained(nsmc, style=style)
        tokens = Tokens.of(tokenizer, [text])
        for units in (words(tokens), characters(tokens)):
            members = [token for unit in units for token in unit.tokens]
            assert set(members) == set(range(len(tokens.tokens))), style
        found = characters_of(characters(tokens))
        assert set(found) <= set(text), style
        if style in ("surface", "none"):
            assert found == text.replace(" ", ""), style


def test_page_is_one_file_that_asks_no_server(attention: Attention, tmp_path: Path) -> None:
    write_page(tmp_path / "a.html", attention_page(attention, 0, None, "morphemes"))
    found = Page(tmp_path / "a.html")
    asks_no_server(found)
    assert TEXT in found.texts and CAVEAT in "".join(found.texts)
    assert f"Attention of {attention.name}: {TEXT}" in found.texts, "the title has model and text"
    code = re.findall(r"<script>(.*?)</script>", found.html, re.S)
    assert len(code) == 1
    assert base64.b64encode(hashlib.sha256(code[0].encode()).digest()).decode() in found.html, "the policy's script"
    weights = np.frombuffer(base64.b64decode(found.data["weights"]), "<u2").reshape(attention.weights.shape) / 65535
    np.testing.assert_allclose(weights, attention.weights, atol=1 / 65535)


def test_hostile_text_is_text(nsmc: Path, tmp_path: Path) -> None:
    attention = Attention.load(nsmc, [HOSTILE, "\ud800"])
    write_page(tmp_path / "a.html", attention_page(attention, 0, None, "tokens"))
    found = Page(tmp_path / "a.html")
    assert [tag for tag, _ in found.tags].count("script") == 2, "data and code"
    assert "img" not in [tag for tag, _ in found.tags]
    assert HOSTILE in found.texts
    assert characters_of(attention.units["characters"]) == HOSTILE.replace(" ", "")
    labels = [unit["label"] for unit in found.data["units"]["characters"]]
    assert labels == [unit.label for unit in attention.units["characters"]]


@needs_node
def test_script_shows_the_sums_of_python(attention: Attention, tmp_path: Path) -> None:
    write_page(tmp_path / "a.html", attention_page(attention, 0, None, "morphemes"))
    steps = [("view", "matrix"), ("head", "1"), ("unit", "characters"), ("view", "lines"), ("word", "2")]
    at_first, matrix, head, by_character, lines, word = Page(tmp_path / "a.html").states(*steps)
    for state, unit, of_head in (
        (matrix, "morphemes", None),
        (head, "morphemes", 1),
        (by_character, "characters", 1),
    ):
        expected = attention.matrix(0, of_head, unit)
        expected = expected / expected.max()
        found = np.zeros_like(expected)
        cells = [one for one in state["picture"] if one["name"] == "rect"]
        start = {axis: min(int(one[axis]) for one in cells) for axis in ("x", "y")}  # no row or column is empty
        for one in cells:
            column, row = ((int(one[axis]) - start[axis]) // (int(one["width"]) + 1) for axis in ("x", "y"))
            found[row, column] = float(one["fill-opacity"])
        np.testing.assert_allclose(found, np.where(expected < 0.01, 0, expected), atol=0.011)
    units = attention.units["morphemes"]
    labels = [one["text"] for one in at_first["picture"] if one["name"] == "text"]
    assert labels == [unit.label for unit in units for _ in range(2)]
    row = attention.matrix(0, 1, "characters")[2]
    names = [unit.label for unit in attention.units["characters"]]
    assert word["said"].startswith(f"{names[2]} reads from: {names[row.argmax()]} {row.max():.3f}")
    assert len([one for one in word["picture"] if one["name"] == "path"]) == (row / row.max() >= 0.01).sum()
    assert len(lines["picture"]) > len(word["picture"])


@needs_node
def test_a_large_matrix_is_drawn_without_its_smallest_weights(attention: Attention, tmp_path: Path) -> None:
    weights = np.random.default_rng(6).dirichlet(np.ones(200), (1, 1, 200)).astype(np.float32)
    units = [Unit(str(i), "", 0, (i,)) for i in range(200)]
    large = replace(attention, weights=weights, units=dict.fromkeys(UNITS, units))
    write_page(tmp_path / "a.html", attention_page(large, 0, None, "tokens"))
    for state, name in zip(Page(tmp_path / "a.html").states(("view", "matrix")), ("path", "rect"), strict=True):
        drawn = [one for one in state["picture"] if one["name"] == name]
        assert 15_000 < len(drawn) <= 20_000
        assert f" {weights.max():.3f}, " in state["said"]


@needs_node
def test_a_click_chooses_a_word_and_another_one_all(attention: Attention, tmp_path: Path) -> None:
    write_page(tmp_path / "a.html", attention_page(attention, 0, None, "morphemes"))
    at_first, reads, is_read, none = Page(tmp_path / "a.html").states(("click", 4), ("click", 5), ("click", 5))
    assert (reads["controls"]["word"], reads["controls"]["direction"]) == ("2", "from")
    assert (is_read["controls"]["word"], is_read["controls"]["direction"]) == ("2", "to")
    assert " is read by: " in is_read["said"]
    assert none["picture"] == at_first["picture"]


def test_command_writes_pages_and_pictures_and_overwrites_nothing(
    nsmc: Path, tmp_path: Path, kobert: Callable[..., Any]
) -> None:
    page, picture, text = tmp_path / "a.html", tmp_path / "a.png", tmp_path / "a.svg"
    assert kobert("visualize", "attention", nsmc, TEXT, "--pair", "정말?", "--out", page, "--head", 2).code == 0
    assert '<option value="1" selected>2</option>' in Page(page).html
    # whatever fonts this machine has, all have these
    assert kobert("visualize", "attention", nsmc, "cost $5 $x", "--out", picture, "--unit", "tokens").code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert kobert("visualize", "attention", nsmc, TEXT, "--out", text).code == 0
    assert ">재밌<" in text.read_text(encoding="utf-8")
    for out in (page, picture, text):
        before = out.read_bytes()
        complaint = kobert("visualize", "attention", nsmc, TEXT, "--out", out).complaint
        assert f"{out} exists already and is not overwritten" in complaint
        assert out.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"a.html", "a.png", "a.svg"}


def test_what_cannot_be_drawn_is_refused_in_one_sentence(
    nsmc: Path, tmp_path: Path, kobert: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def complaint(*words: object, out: str = "x.html") -> str:
        return str(kobert("visualize", "attention", nsmc, *words, "--out", tmp_path / out).complaint)

    assert "must end in one of .html, .png, .svg" in complaint(TEXT, out="x.pdf")
    assert "did you mean 'morphemes'" in complaint(TEXT, "--unit", "morpheme")
    assert "layers 1 to 1, -1 is the last" in complaint(TEXT, "--layer", 2)
    assert "heads 1 to 2" in complaint(TEXT, "--head", 0)
    monkeypatch.setattr(font_manager, "findSystemFonts", list)
    assert "no installed font has '" in complaint(TEXT, out="x.png")
    assert not list(tmp_path.iterdir())
    result = kobert("visualize", "attention", nsmc, TEXT * 50, "--out", tmp_path / "long.html")
    limit = load_tokenizer(nsmc).model_max_length
    assert result.err.strip().endswith(said := f"The text is longer, and was truncated to {limit} tokens.")
    assert said in Page(tmp_path / "long.html").texts
    monkeypatch.setattr("kobert_pipeline.visualize.attention.MAX_TOKENS", 9)
    assert Attention.load(nsmc, [TEXT]).weights.shape[-1] == 9
