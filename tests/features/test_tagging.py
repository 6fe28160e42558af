"""Entities are mapped to tokens by characters of the raw text, in whatever windows the text is read."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kobert_pipeline.errors import UserError
from kobert_pipeline.features import stage
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.options import FeaturesOptions
from kobert_pipeline.features.tagging import has_max_context, max_context_tokens, token_labels
from kobert_pipeline.features.task import Task
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer
from kobert_pipeline.tokenizer.special_tokens import CLS_ID, IGNORE_INDEX, SEP_ID

TASK: Any = Task.choose({"name": "tagging", "labels": ["PER", "LOC"]})
SENTENCES = [
    ("김민수가 부산에서  배를 탔다. ", [(0, 3, "PER"), (5, 7, "LOC")]),
    ("비가\t왔다.\n", []),
    ("박서연은 강릉시청에 갔다. ", [(0, 3, "PER"), (5, 9, "LOC")]),
]


def example(*sentences: int) -> dict[str, Any]:
    """A text of these sentences."""
    text, entities = "", []
    for number in sentences:
        entities += [(len(text) + start, len(text) + end, kind) for start, end, kind in SENTENCES[number][1]]
        text += SENTENCES[number][0]
    return TASK.example(str(len(sentences)), text, entities)


EMPTY = {"id": "0", "group": "", "text": "", "entities": []}
"""As predictions get it; no file may have one."""
EXAMPLES = [example(0), example(*[0, 1, 2] * 9), example(1), EMPTY, example(*[2] * 4)]


@pytest.fixture(scope="module")
def every_window(morpheme_tokenizer: MorphemeTokenizer) -> dict[tuple[int, int], Features]:
    """The same texts in windows of several lengths and strides."""
    made = {}
    for max_length, stride in ((16, 32), (16, 3), (24, 0), (64, 7), (512, 32)):
        task = TASK.model_copy(update={"stride": stride})
        features = Features(task.featurize(EXAMPLES, morpheme_tokenizer, max_length), EXAMPLES)
        assert features.lengths.max() <= max_length
        made[max_length, stride] = features
    return made


def test_each_token_of_a_text_is_labelled_once_and_in_order(
    every_window: dict, morpheme_tokenizer: MorphemeTokenizer
) -> None:
    for cut, featurized in every_window.items():
        for one, tokens in zip(EXAMPLES, max_context_tokens(featurized), strict=True):
            whole = morpheme_tokenizer(one["text"], add_special_tokens=False, return_offsets_mapping=True)
            assert featurized.arrays["input_ids"][tokens].tolist() == whole["input_ids"], cut
            assert featurized.arrays["offsets"][tokens].tolist() == [list(span) for span in whole["offset_mapping"]], (
                cut
            )
        special = np.isin(featurized.arrays["input_ids"], (CLS_ID, SEP_ID))
        assert (featurized.arrays["labels"][special] == IGNORE_INDEX).all(), cut


def test_labels_are_those_of_the_whole_text_whatever_the_windows(
    every_window: dict, morpheme_tokenizer: MorphemeTokenizer
) -> None:
    for cut, featurized in every_window.items():
        for one, tokens in zip(EXAMPLES, max_context_tokens(featurized), strict=True):
            whole = Features(TASK.featurize([one], morpheme_tokenizer, 512), [one])
            assert featurized.arrays["labels"][tokens].tolist() == whole.arrays["labels"][1:-1].tolist(), cut


def test_a_token_counts_in_the_window_in_which_it_is_farthest_from_an_edge(every_window: dict) -> None:
    """By brute force over every token of every window: an edge of a window that is none of the text's takes context
    away."""
    for cut, featurized in every_window.items():
        arrays = featurized.arrays
        spans = [range(*arrays["windows"][i : i + 2].tolist())[1:-1] for i in range(len(featurized))]
        where: dict[tuple[int, int, int], list[tuple[float, int]]] = {}
        for i, span in enumerate(spans):
            whose = arrays["example"][i]
            first = i == 0 or arrays["example"][i - 1] != whose
            last = i + 1 == len(spans) or arrays["example"][i + 1] != whose
            for token in span:
                left = np.inf if first else token - span[0]
                right = np.inf if last else span[-1] - token
                where.setdefault((whose, *arrays["offsets"][token].tolist()), []).append((min(left, right), token))
        for places in where.values():
            chosen = [room for room, token in places if arrays["labels"][token] != IGNORE_INDEX]
            assert len(chosen) == 1, cut
            assert chosen[0] == max(room for room, _ in places), cut


def test_right_labels_decode_to_the_entities_in_characters_of_the_raw_text(every_window: dict) -> None:
    for cut, featurized in every_window.items():
        certain = 9 * np.eye(5)[np.maximum(featurized.arrays["labels"], 0)]
        logits = {
            "logits": [np.pad(row, ((0, 3), (0, 0))) for row in np.split(certain, featurized.arrays["windows"][1:-1])]
        }
        assert TASK.predict(logits, featurized) == [one["entities"] for one in EXAMPLES], cut
        assert TASK.score(TASK.predict(logits, featurized), EXAMPLES)["entity_f1"] == 100, cut
        for found in TASK.scored_entities(logits, featurized):
            assert all(score == pytest.approx(1 / (1 + 4 * np.exp(-9))) for *_, score in found), cut


windows_of_texts = st.lists(st.integers(1, 40), min_size=1, max_size=4)


@settings(deadline=None)
@given(windows_of_texts, st.integers(4, 12), st.integers(0, 3))
def test_halves_of_what_windows_share_make_the_text_again(texts: list[int], room: int, stride: int) -> None:
    """Windows as the tokenizer cuts them, over texts whose tokens are numbers, with a special token at either end."""
    rows, example_of = [], []
    for text, size in enumerate(texts):
        begins = [0]
        while begins[-1] + room < size:
            begins.append(begins[-1] + room - stride)
        rows += [[-1, *range(begin, min(begin + room, size)), -1] for begin in begins]
        example_of += [text] * len(begins)
    tokens = np.array([token for row in rows for token in row])
    bounds = np.cumsum([0] + [len(row) for row in rows])
    chosen = has_max_context(bounds, np.array(example_of), tokens >= 0, stride)
    assert tokens[chosen].tolist() == [token for size in texts for token in range(size)]


edges = st.lists(st.integers(0, 30), min_size=2, max_size=12, unique=True).map(sorted)


@settings(deadline=None)
@given(edges, edges)
def test_tokens_across_the_boundaries_of_entities_carry_them_and_no_other_token_does(
    cuts: list[int], others: list[int]
) -> None:
    entities = [(*pair, "PER") for pair in list(pairwise(cuts))[::2]]
    offsets = np.array(list(pairwise(sorted({*cuts, *others}))))
    labels = token_labels(offsets, entities, ["LOC", "PER"])
    for (start, end), label in zip(offsets.tolist(), labels.tolist(), strict=True):
        holder = [one for one in entities if one[0] <= start and end <= one[1]]
        assert label == (0 if not holder else 3 if start == holder[0][0] else 4)


@pytest.mark.parametrize(
    ("offsets", "entities", "expected"),
    [
        ([(0, 4)], [(0, 2, "PER")], [1]),  # a token across the boundary: what it holds most of
        ([(0, 4)], [(0, 1, "PER"), (1, 4, "LOC")], [3]),
        ([(0, 4)], [(0, 2, "PER"), (2, 4, "LOC")], [1]),
        ([(0, 3), (3, 4)], [(2, 4, "PER")], [1, 2]),
        ([(0, 1), (0, 1), (1, 2)], [(0, 2, "LOC")], [3, 4, 4]),  # style form: two tokens over one character
        ([], [(0, 1, "PER")], []),
    ],
)
def test_tokens_over_a_border(offsets: Any, entities: Any, expected: Any) -> None:
    assert token_labels(np.array(offsets).reshape(-1, 2), entities, ["PER", "LOC"]).tolist() == expected


def test_an_i_without_a_beginning_begins_and_one_of_another_type_too() -> None:
    offsets = np.array([(i, i + 1) for i in range(7)])
    arrays = {"windows": np.array([0, 7]), "offsets": offsets, "example": np.array([0]), "labels": np.zeros(7)}
    labels = [2, 2, 4, 3, 0, 2, 1]  # I-PER I-PER I-LOC B-LOC O I-PER B-PER
    found = TASK.predict({"logits": [np.eye(5)[labels]]}, Features(arrays, [{"text": "가나다라마바사"}]))
    assert found == [[[0, 2, "PER"], [2, 3, "LOC"], [3, 4, "LOC"], [5, 6, "PER"], [6, 7, "PER"]]]


def test_the_features_stage_counts_entities_and_borders_inside_tokens(
    tmp_path: Path, morpheme_tokenizer_folder: Path
) -> None:
    rows = [
        ("세종대왕은 서울에 살았다", [[0, 4, "PER"], [6, 8, "LOC"]]),
        ("12345678번 버스", []),
        ("1443년", [[1, 5, "DAT"]]),
    ]
    lines = "\n".join(json.dumps({"text": text, "entities": entities}, ensure_ascii=False) for text, entities in rows)
    (tmp_path / "a.jsonl").write_text(lines, encoding="utf-8")
    (tmp_path / "dev.jsonl").write_text(lines.replace("살았다", "살았네").replace("버스", "배"), encoding="utf-8")
    options = FeaturesOptions(task="tagging", train="a.jsonl", dev="dev.jsonl")
    counts = stage.run(options, morpheme_tokenizer_folder, tmp_path, tmp_path / "out")
    train = Features.load(tmp_path / "out" / "train")
    inside = sum(
        (start not in train.arrays["offsets"][tokens][:, 0]) + (end not in train.arrays["offsets"][tokens][:, 1])
        for one, tokens in zip(train.examples, max_context_tokens(train), strict=True)
        for start, end, _ in one["entities"]
    )
    assert (counts["train_entities"], counts["train_entity_borders_inside_tokens"]) == (3, inside)
    assert counts["dev_entity_f1_ceiling"] == (100 if inside == 0 else pytest.approx(200 / 3, abs=1e-3))


def test_the_space_before_a_token_belongs_to_no_entity() -> None:
    """SentencePiece with Metaspace, as in DeBERTa-v3, counts the space before a word in its first token."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    pieces = ["<unk>", "<s>", "</s>", "▁민수", "가", "▁부산", "에", "▁갔다"]
    backend = Tokenizer(models.Unigram([(piece, -1.0) for piece in pieces], 0))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", pad_token="</s>")
    examples = [TASK.example("0", "민수가 부산에 갔다", [(0, 2, "PER"), (4, 6, "LOC")])]
    features = Features(TASK.featurize(examples, tokenizer, 64), examples)
    assert features.arrays["offsets"].tolist() == [[0, 2], [2, 3], [4, 6], [6, 7], [8, 10]]
    assert TASK.counts(features) == {"entities": 2, "entity_borders_inside_tokens": 0, "entity_f1_ceiling": 100.0}


class OneWordOneToken:
    """A tokenizer whose tokens are eojeols, so that particles are in the tokens of names."""

    model_input_names = ("input_ids", "token_type_ids")

    def __call__(self, texts: list[str], **options: Any) -> Any:
        rows = []
        for text in texts:
            begins = [i for i, character in enumerate(text) if character != " " and (i == 0 or text[i - 1] == " ")]
            rows.append([(0, 0), *((i, i + len(text[i:].split(" ")[0])) for i in begins), (0, 0)])

        class Encoded(dict):
            def sequence_ids(self, i: int) -> list[int | None]:
                return [None, *[0] * (len(rows[i]) - 2), None]

        ids = [[1] * len(row) for row in rows]
        return Encoded(
            input_ids=ids, token_type_ids=ids, offset_mapping=rows, overflow_to_sample_mapping=list(range(len(rows)))
        )


def test_the_ceiling_is_what_tokens_over_borders_leave() -> None:
    examples = [TASK.example("0", "김민수가 부산 갔다", [(0, 3, "PER"), (5, 7, "LOC")])]
    features = Features(TASK.featurize(examples, OneWordOneToken(), 64), examples)
    assert TASK.counts(features) == {"entities": 2, "entity_borders_inside_tokens": 1, "entity_f1_ceiling": 50.0}


WRONG_ENTITIES = [
    ([(0, 9, "PER")], r"an entity is from 0 to 9 \('김민수 왔다'\); the text has 6 characters"),
    ([(2, 2, "PER")], "from 2 to 2"),
    ([(-1, 2, "PER")], "from -1 to 2"),
    ([(3, 4, "PER")], r"from 3 to 4 \(' '\)"),
    ([(0, 3, "PER"), (2, 4, "LOC")], "two entities overlap, '김민수' and '수 '; drop one"),
    ([(0, 3, "ORG")], "the type of '김민수' is 'ORG'; allowed are PER, LOC"),
]


@pytest.mark.parametrize(("entities", "message"), WRONG_ENTITIES)
def test_an_entity_that_does_not_fit_is_refused(entities: list, message: str) -> None:
    with pytest.raises(UserError, match=message):
        TASK.example("0", "김민수 왔다", entities)


def test_white_space_at_the_ends_of_an_entity_is_not_part_of_it() -> None:
    assert TASK.example("0", "김민수 왔다", [(0, 4, "PER")])["entities"] == [[0, 3, "PER"]]
    assert TASK.example("0", "김민수 왔다", [(3, 6, "PER")])["entities"] == [[4, 6, "PER"]]


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["PER", "PER"], "'PER' is listed twice"),
        (["O"], "'O' means that there is no entity"),
        ([], "at least"),
    ],
)
def test_wrong_labels_are_refused(labels: Any, said: Any) -> None:
    with pytest.raises(Exception, match=said):
        Task.choose({"name": "ner", "labels": labels})
