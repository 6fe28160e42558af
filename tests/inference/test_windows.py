"""Long texts in windows: every token is read, short texts stay as they are, and work grows with the length."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kobert_pipeline as kobert
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.rows import PREDICT_BATCH_SIZE
from kobert_pipeline.features.sequence import probabilities
from kobert_pipeline.features.task import Task
from kobert_pipeline.inference.embed import BATCH_TOKENS, Embedder
from kobert_pipeline.inference.windows import OVERLAP, windows_of
from kobert_pipeline.serve.model import ServedModel

WORDS = "배우들의 연기가 정말 좋았고 음악도 훌륭했지만 두 시간이 아까웠다 "
SHORT = ["정말 재밌다", "", "뷁"]
LABELS = {"negative": 0, "positive": 1}
LONG = [WORDS * 40, "서울은 한국의 수도이다. " * 60 + "비가 온다"]


@pytest.fixture(scope="module")
def nsmc(tiny: Any) -> Path:
    folder: Path = tiny.run_dir / "publish" / "nsmc"
    return folder


@pytest.fixture
def loaded(nsmc: Path) -> Any:
    return kobert.load(nsmc)


@pytest.fixture
def shapes(loaded: Any) -> Iterator[list[tuple[int, int]]]:
    """The windows and tokens, padding included, of all batches that the encoder reads."""
    found: list[tuple[int, int]] = []

    def note(model: Any, args: tuple[Any, ...], given: dict[str, Any]) -> None:
        ids = args[0] if args else given["input_ids"]
        found.append((len(given.get("first", ids)), ids.numel()))  # a packed batch is one row with all its windows

    hook = loaded.model.base_model.register_forward_pre_hook(note, with_kwargs=True)
    yield found
    hook.remove()


def test_windows_overlap_and_hold_every_token(loaded: Any) -> None:
    length = loaded.tokenizer.model_max_length
    ids, text_of = windows_of(loaded.tokenizer, [*SHORT, *LONG], length)
    whole = loaded.tokenizer([*SHORT, *LONG], verbose=False)["input_ids"]
    assert windows_of(loaded.tokenizer, [], length)[0] == []
    for number, expected in enumerate(whole):
        first, *others = [row for row, text in zip(ids, text_of, strict=True) if text == number]
        assert bool(others) == (len(expected) > length)
        assert all(len(row) <= length and (row[0], row[-1]) == (expected[0], expected[-1]) for row in [first, *others])
        joined = first[1:-1] + [token for row in others for token in row[1 + length // OVERLAP : -1]]
        assert joined == expected[1:-1]


def test_vector_and_label_of_a_long_text_are_the_weighted_means_of_its_windows(loaded: Any) -> None:
    embedder, unequal = Embedder(loaded.model, loaded.tokenizer), False
    for text, vector, row in zip(
        LONG, loaded.embed(LONG, long="windows"), loaded.predict(LONG, long="windows"), strict=True
    ):
        ids, _ = windows_of(loaded.tokenizer, [text], embedder.max_length)
        weights = [len(window) for window in ids]
        assert len(ids) > 2
        unequal |= len(set(weights)) > 1
        by_hand = np.average([embedder.embed_ids([window])[0] for window in ids], axis=0, weights=weights)
        np.testing.assert_allclose(vector, by_hand, atol=1e-5)
        logits = [
            loaded.model(**loaded.tokenizer.pad({"input_ids": [window]}, return_tensors="pt")).logits for window in ids
        ]
        mean = np.average([one[0].detach().numpy() for one in logits], axis=0, weights=weights)
        assert list(row["scores"].values()) == pytest.approx(probabilities(mean), abs=2e-4)
        assert row["text"] == text and row["label"] == max(row["scores"], key=row["scores"].get)
    assert unequal, "or the weights would not matter"


def test_short_texts_have_the_same_results_either_way(loaded: Any) -> None:
    np.testing.assert_array_equal(loaded.embed(SHORT, long="windows"), loaded.embed(SHORT))
    assert loaded.predict(SHORT, long="windows") == loaded.predict(SHORT)
    assert loaded.embed([], long="windows").shape == loaded.embed([]).shape


def test_rows_of_texts_that_were_read_in_part_say_so(nsmc: Path, loaded: Any) -> None:
    texts = [SHORT[0], LONG[0], SHORT[1], LONG[1]]
    said = [row.get("truncated") for row in loaded.predict(texts)]
    assert said == [None, True, None, True]
    assert loaded.predict(texts) == ServedModel("nsmc", str(nsmc)).predict(
        [{"text": text, "label": 0} for text in texts]
    )
    assert not any("truncated" in row for row in loaded.predict(texts, long="windows"))


def test_the_server_gives_the_results_of_the_command(nsmc: Path, loaded: Any) -> None:
    served = ServedModel("nsmc", str(nsmc), "windows")
    texts = SHORT + LONG
    assert served.predict([{"text": text, "label": 0} for text in texts]) == loaded.predict(texts, long="windows")
    vectors, tokens = zip(*served.embed(texts), strict=True)
    np.testing.assert_array_equal(vectors, loaded.embed(texts, long="windows"))
    ids, text_of = windows_of(loaded.tokenizer, texts, served.max_length)
    assert list(tokens) == [sum(len(row) for row, of in zip(ids, text_of, strict=True) if of == n) for n in range(5)]


def test_a_document_of_100_000_characters_is_read_in_pieces_of_bounded_size(
    loaded: Any, shapes: list[tuple[int, int]]
) -> None:
    """Ten times the text is ten times the windows, and no batch is larger: time is linear and memory is not."""
    work: dict[tuple[str, int], tuple[int, int]] = {}
    for name, read, limit in (
        ("embed", loaded.embed, BATCH_TOKENS),
        ("predict", loaded.predict, PREDICT_BATCH_SIZE * loaded.tokenizer.model_max_length),
    ):
        for characters in (10_000, 100_000):
            shapes.clear()
            read((WORDS * 3000)[:characters], long="windows")
            tokens = [numbers for _, numbers in shapes]
            assert max(tokens) <= limit
            work[name, characters] = (sum(rows for rows, _ in shapes), sum(tokens))
        for few, many in zip(work[name, 10_000], work[name, 100_000], strict=True):
            assert many == pytest.approx(10 * few, rel=0.1)


@pytest.mark.parametrize(
    ("name", "texts", "long", "said"),
    [
        ("nsmc", ["글"], "window", "either truncated or split, not 'window' - did you mean 'windows'?"),
        ("mlm", ["[MASK]"], "windows", "does not read single texts, which alone are split into windows"),
    ],
)
def test_what_cannot_be_split_is_refused(name: str, texts: list[str], long: str, said: str, tiny: Any) -> None:
    with pytest.raises(UserError) as error:
        kobert.load(tiny.run_dir / "publish" / name).predict(texts, long=long)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("name", "splits"), [("nsmc", True), ("multilabel", True), ("choice", False), ("re", False), ("span", False)]
)
def test_a_text_is_split_only_where_its_windows_mean_something_alone(name: str, splits: bool) -> None:
    assert Task.choose(name).takes_windows == splits


@pytest.mark.parametrize(("long", "truncated"), [("truncate", 2), ("windows", 0)])
def test_commands_count_what_they_truncate(
    nsmc: Path, loaded: Any, kobert: Any, tmp_path: Path, long: str, truncated: int
) -> None:
    """`predict` and `evaluate` say how many texts they read a part of; in windows both read the same."""
    texts = [*SHORT[::2], *LONG]
    labels = [row["label"] for row in loaded.predict(texts, long=long)]
    lines = [
        f"{number}\t{text}\t{LABELS[label]}" for number, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]
    (tmp_path / "reviews.txt").write_text("\n".join(["id\tdocument\tlabel", *lines]) + "\n", encoding="utf-8")
    (tmp_path / "lines.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    predicted = kobert("predict", nsmc, "--in", tmp_path / "lines.txt", "--long", long)
    evaluated = kobert("evaluate", nsmc, tmp_path / "reviews.txt", "--long", long, "--json")
    assert evaluated.json["clean"].get("truncated", 0) == truncated
    assert evaluated.json["clean"]["scores"]["accuracy"] == 100
    assert loaded.evaluate(tmp_path / "reviews.txt", long=long)["clean"] == evaluated.json["clean"]
    note = f"note: 2 of 4 texts have more than {loaded.tokenizer.model_max_length} tokens"
    assert [note in result.err for result in (predicted, evaluated)] == [truncated > 0] * 2


def test_evaluate_refuses_windows_of_what_is_no_single_text(tiny: Any, kobert: Any, corpora: Path) -> None:
    result = kobert("evaluate", tiny.run_dir / "publish" / "korquad", corpora / "qa_dev.json", "--long", "windows")
    assert result.code == 2 and "does not read single texts" in result.err
