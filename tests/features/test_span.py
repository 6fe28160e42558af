"""Answers are mapped to tokens by characters of the raw context."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kobert_pipeline.features.answer_calibration import TEMPERATURES, AnswerCalibration
from kobert_pipeline.features.answer_spans import BRACKETS, ScoredWindow, answer_tokens, text_parts
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.task import Task
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer
from kobert_pipeline.questions import MADE
from kobert_pipeline.questions.answer_priors import candidates_for
from kobert_pipeline.questions.exact_match import TYPES, match_types
from kobert_pipeline.questions.lexical_overlap import sentence_overlaps
from kobert_pipeline.questions.pos_feature import CLASSES
from kobert_pipeline.tokenizer.loading import load_tokenizer
from kobert_pipeline.tokenizer.special_tokens import CLS_ID, MASK_ID, SEP_ID

Window = tuple[dict[str, Any], np.ndarray, np.ndarray, tuple[int, int]]


@pytest.fixture(scope="module")
def examples(corpora: Path) -> list[dict[str, Any]]:
    return Task.choose("korquad").read(corpora / "qa_train.json")


@pytest.fixture(scope="module")
def featurized(examples: list, morpheme_tokenizer: MorphemeTokenizer) -> dict[int, Features]:
    """The bundled questions at several lengths."""
    return {
        max_length: Features(Task.choose("korquad").featurize(examples, morpheme_tokenizer, max_length), examples)
        for max_length in (64, 128, 384)
    }


def windows(features: Features) -> list[Window]:
    """(example, input ids, offsets, (first, last token)) of each window."""
    arrays = features.arrays
    parts = [slice(*arrays["windows"][i : i + 2]) for i in range(len(features))]
    spans = zip(arrays["start_positions"].tolist(), arrays["end_positions"].tolist(), strict=True)
    return [
        (features.examples[arrays["example"][i]], arrays["input_ids"][part], arrays["offsets"][part], span)
        for i, (part, span) in enumerate(zip(parts, spans, strict=True))
    ]


def test_the_tokens_of_an_answer_cover_it_in_every_window_that_holds_it(featurized: dict[int, Features]) -> None:
    for max_length, features in featurized.items():
        held = 0
        for example, _, offsets, (first, last) in windows(features):
            text, start = example["answers"][0]
            end, context = start + len(text), offsets[offsets[:, 0] >= 0]
            if context[:, 0].min() <= start and end <= context[:, 1].max():
                held += 1
                assert first <= last, max_length
                assert offsets[first][0] <= start < offsets[first][1], "the first token holds the first character"
                assert offsets[last][0] < end <= offsets[last][1], "the last token holds the last character"
                assert text in example["context"][offsets[first][0] : offsets[last][1]], max_length
            else:
                assert (first, last) == (0, 0), max_length
        assert held >= len(features.examples), max_length
        assert max_length > 64 or held < len(features), max_length


@pytest.mark.parametrize("most_tokens", (4, 64))
def test_a_question_token_ends_every_question(
    most_tokens: Any, examples: list, morpheme_tokenizer: MorphemeTokenizer
) -> None:
    """Also one that is truncated; the context and its answers are those without the token, where the window has room
    for both."""
    plain, asked = (
        Task.choose({"name": "korquad", "max_question_tokens": most, "question_token": given})
        for most, given in ((most_tokens - 1, False), (most_tokens, True))
    )
    without, found = (
        Features(task.featurize(examples, morpheme_tokenizer, length), examples)
        for task, length in ((plain, 383), (asked, 384))
    )
    assert len(without) == len(found)
    for (_, ids, _, (first, last)), (_, longer, _, moved) in zip(windows(without), windows(found), strict=True):
        end = ids.tolist().index(SEP_ID)
        assert longer.tolist() == [*ids[:end], MASK_ID, *ids[end:]]
        assert moved == ((first + 1, last + 1) if first else (0, 0))


def test_windows_overlap_by_the_stride_and_cover_the_context(featurized: dict[int, Features]) -> None:
    for max_length, features in featurized.items():
        stride = min(128, max_length // 4)
        by_example: dict[str, list[np.ndarray]] = {}
        for example, _, offsets, _ in windows(features):
            by_example.setdefault(example["id"], []).append(offsets[offsets[:, 0] >= 0])
        assert len(by_example) == len(features.examples), max_length
        for example in features.examples:
            parts = by_example[example["id"]]
            covered = {i for part in parts for left, right in part.tolist() for i in range(left, right)}
            assert covered >= {i for i, character in enumerate(example["context"]) if not character.isspace()}, (
                max_length
            )
            for before, after in pairwise(parts):
                assert before[-stride:].tolist() == after[:stride].tolist(), max_length


def test_windows_are_question_and_context_under_max_length(
    featurized: dict[int, Features], morpheme_tokenizer: MorphemeTokenizer
) -> None:
    for max_length, features in featurized.items():
        for (example, ids, offsets, _), begin in zip(windows(features), features.arrays["windows"], strict=False):
            assert len(ids) <= max_length, max_length
            question = morpheme_tokenizer(example["question"], add_special_tokens=False)["input_ids"]
            assert ids[: len(question) + 2].tolist() == [CLS_ID, *question, SEP_ID], max_length
            assert ids[-1] == SEP_ID, max_length
            context = slice(len(question) + 2, len(ids) - 1)
            assert (offsets[context] >= 0).all(), max_length
            assert (np.delete(offsets, range(context.start, context.stop), axis=0) == -1).all(), max_length
            types = features.arrays["token_type_ids"][begin : begin + len(ids)]
            assert types.tolist() == [0] * context.start + [1] * (len(ids) - context.start), max_length


@pytest.mark.parametrize("max_length", [48, 64, 128])
def test_a_long_question_is_cut_so_that_the_context_has_room(
    max_length: Any, examples: list, morpheme_tokenizer: MorphemeTokenizer
) -> None:
    question = "동해 바다에서 가장 오래된 등대는 어디에 있으며 언제 처음으로 불을 밝혔는지 " * 4
    arrays = Task.choose("korquad").featurize([{**examples[0], "question": question}], morpheme_tokenizer, max_length)
    assert arrays["end_positions"].max() > 0, max_length
    assert np.diff(arrays["windows"]).max() <= max_length, max_length


@pytest.mark.parametrize("padding", ["front", "back", "both"])
def test_white_space_around_an_answer_does_not_hide_it(
    padding: Any, examples: list, morpheme_tokenizer: MorphemeTokenizer
) -> None:
    context = "첨성대는 경주시에 있는 신라 시대의 건축물이다."
    bare = context.index("신라 시대")
    start, end = bare - (padding != "back"), bare + len("신라 시대의") + (padding != "front")
    example = {**examples[0], "context": context, "answers": [[context[start:end], start]]}
    arrays = Task.choose("korquad").featurize([example], morpheme_tokenizer, 64)
    first, last = int(arrays["start_positions"][0]), int(arrays["end_positions"][0])
    assert context[arrays["offsets"][first][0] : arrays["offsets"][last][1]] == "신라 시대의", padding


logit_rows = st.integers(1, 12).flatmap(
    lambda size: st.tuples(
        *[st.lists(st.integers(-5, 5), min_size=size, max_size=size) for _ in range(2)], st.integers(0, size)
    )
)


@given(logit_rows, st.integers(0, 3), st.integers(0, 2), st.integers(1, 13))
def test_best_span_equals_brute_force(rows: tuple, question: int, padding: int, longest: int) -> None:
    starts, ends, size = rows
    size = min(size, len(starts))
    offsets = np.array(
        [(-1, -1)] * question + [(10 * i, 10 * i + 7) for i in range(size)] + [(-1, -1)] * padding
    ).reshape(-1, 2)
    tempting = 100.0  # outside the context the logits are the highest
    start_logits, end_logits = (np.full(len(offsets), tempting, np.float32) for _ in range(2))
    start_logits[question : question + size], end_logits[question : question + size] = starts[:size], ends[:size]
    found = ScoredWindow(start_logits, end_logits, offsets, longest).best()
    allowed = [(i, j) for i in range(size) for j in range(i, min(size, i + longest))]
    if not allowed:
        assert found is None
        return
    assert found is not None
    score, first, last = found
    assert score == max(starts[i] + ends[j] for i, j in allowed)
    place = (first // 10, (last - 7) // 10)
    assert place in allowed
    assert starts[place[0]] + ends[place[1]] == score


def test_predict_takes_the_best_over_all_windows_and_gives_raw_text() -> None:
    """Two windows of the first question, one of the second, none with a context for the third."""
    offsets = [(-1, -1), (0, 2), (4, 6), (-1, -1), (4, 6), (7, 9), (-1, -1), (0, 3), (-1, -1)]
    features = Features(
        {"windows": np.array([0, 3, 6, 8, 9]), "offsets": np.array(offsets), "example": np.array([0, 0, 1, 2])},
        [{"context": "가나  다라\t마바"}, {"context": "A B"}, {"context": "없음"}],
    )
    starts = [[9, 1, 0], [9, 2, 1], [0, -3], [5]]
    ends = [[9, 0, 2], [9, 1, 4], [0, -3], [5]]
    padding = [99.0]  # logits after a window's tokens do not count
    logits = {
        name: [np.array(row + padding) for row in rows]
        for name, rows in (("start_logits", starts), ("end_logits", ends))
    }
    assert Task.choose("korquad").predict(logits, features) == ["다라\t마바", "A B", ""]


def test_predict_keeps_to_the_longest_answer_allowed() -> None:
    offsets = [(i, i + 1) for i in range(4)]
    features = Features(
        {"windows": np.array([0, 4]), "offsets": np.array(offsets), "example": np.array([0])}, [{"context": "가나다라"}]
    )
    logits = {"start_logits": [np.array([5.0, 0, 0, 0])], "end_logits": [np.array([0, 1.0, 0, 5])]}
    longest = {3: "가나", 4: "가나다라"}
    for tokens, expected in longest.items():
        assert Task.choose({"name": "korquad", "max_answer_tokens": tokens}).predict(logits, features) == [expected]


def test_perfect_logits_score_near_the_top(featurized: dict[int, Features]) -> None:
    """With certain logits at the labels only the token boundaries can cost something."""
    for max_length, features in featurized.items():
        task = Task.choose("korquad")
        lengths = features.lengths
        logits = {}
        for name, positions in task.targets(features).items():
            rows = [np.zeros(length) for length in lengths]
            for row, position in zip(rows, positions, strict=True):
                row[position] = 10.0 if position else 0.0
            logits[name.replace("positions", "logits")] = rows
        scores = task.score(task.predict(logits, features), features.examples)
        assert scores["exact_match"] >= 95, max_length
        assert scores["f1"] >= 98, max_length


def test_answers_of_whole_words_begin_and_end_where_words_do(
    examples: list, morpheme_tokenizer: MorphemeTokenizer
) -> None:
    """The best of all such spans in one line with both brackets or none, found by trying each, for random logits."""
    examples = [
        one | {"context": one["context"].replace(" ", "\n").replace("\n", " ", 3).replace("은", "(").replace("의", ")")}
        for one in examples
    ]
    rng = np.random.default_rng(1)
    task: Any = Task.choose({"name": "korquad", "whole_words": True, "max_answer_tokens": 5})
    features = Features(task.featurize(examples, morpheme_tokenizer, 64), examples)
    starts = features.arrays["windows"]
    logits = {
        name: [rng.normal(size=length).astype(np.float32) for length in features.lengths]
        for name in ("start_logits", "end_logits")
    }
    plain = task.model_copy(update={"whole_words": False}).best_spans(logits, features)
    assert task.best_spans(logits, features) != plain
    best: dict[int, tuple[float, int, int]] = {}
    for window, (first, after) in enumerate(pairwise(starts)):
        offsets, boundaries = (features.arrays[name][first:after] for name in ("offsets", "word_boundaries"))
        example = int(features.arrays["example"][window])
        context = examples[example]["context"]
        for i in np.flatnonzero(boundaries[:, 0] & (offsets[:, 0] >= 0)):
            for j in range(i, min(i + 5, len(offsets))):
                span = context[offsets[i, 0] : offsets[j, 1]]
                if "\n" in span or any(span.count(pair[0]) != span.count(pair[1]) for pair in BRACKETS):
                    continue
                score = float(logits["start_logits"][window][i]) + float(logits["end_logits"][window][j])
                if offsets[j, 0] >= 0 and boundaries[j, 1] and (example not in best or score > best[example][0]):
                    best[example] = (score, int(offsets[i, 0]), int(offsets[j, 1]))
    assert task.best_spans(logits, features) == best


def test_words_that_are_eojeols_are_no_boundaries(examples: list, morpheme_tokenizer_folder: Path) -> None:
    """They keep particles with nouns, so answers may begin and end inside them."""
    rng = np.random.default_rng(1)
    task: Any = Task.choose({"name": "korquad", "whole_words": True})
    without = task.model_copy(update={"whole_words": False})
    plain = load_tokenizer(morpheme_tokenizer_folder / "plain")
    for tokenizer in (plain, load_tokenizer(morpheme_tokenizer_folder, style="none")):
        features = Features(task.featurize(examples, tokenizer, 64), examples)
        logits = {
            name: [rng.normal(size=length).astype(np.float32) for length in features.lengths]
            for name in ("start_logits", "end_logits")
        }
        assert task.best_spans(logits, features) == without.best_spans(logits, features)


def random_logits(features: Features, seed: int) -> dict[str, list[np.ndarray]]:
    """Logits of a batch that is padded by two tokens."""
    rng = np.random.default_rng(seed)
    return {
        name: [rng.normal(size=length + 2).astype(np.float32) for length in features.lengths]
        for name in ("start_logits", "end_logits")
    }


def context_spans(features: Features, longest: int) -> Iterator[tuple[int, int, list[tuple[int, int]], int, int]]:
    """(window, example, offsets, first token, last token) of every span of at most `longest` tokens in a context."""
    for window, (first, after) in enumerate(pairwise(features.arrays["windows"])):
        offsets, example = features.arrays["offsets"][first:after].tolist(), int(features.arrays["example"][window])
        inside = [index for index, (start, _) in enumerate(offsets) if start >= 0]
        yield from ((window, example, offsets, i, j) for i in inside for j in inside if i <= j < i + longest)


def test_priors_of_candidates_equal_brute_force(examples: list, morpheme_tokenizer: MorphemeTokenizer) -> None:
    """Training features have no candidates."""
    dated = {"id": "d", "group": "", "question": "언제?", "context": "그는 1443년 5월 3일에 났다.", "answers": []}
    examples = [*examples, dated]
    task: Any = Task.choose({"name": "korquad", "answer_priors": {"phrase": 3, "type": 2}, "max_answer_tokens": 8})
    features = Features(task.featurize(examples, morpheme_tokenizer, 64), examples)
    logits = random_logits(features, 2)
    type_matches = [
        {(start, end): matches for start, end, matches in candidates_for(example["question"], example["context"])}
        for example in examples
    ]
    best: dict[int, tuple[float, int, int]] = {}
    for window, example, offsets, i, j in context_spans(features, 8):
        span, context = (offsets[i][0], offsets[j][1]), examples[example]["context"]
        # the tokens that a candidate would have as the answer of a training example
        score = float(logits["start_logits"][window][i]) + float(logits["end_logits"][window][j])
        if span in type_matches[example] and answer_tokens(offsets, [[context[slice(*span)], span[0]]]) == (i, j):
            score += 3 + 2 * type_matches[example][span]
        if example not in best or score > best[example][0]:
            best[example] = (score, *span)
    spans = task.best_spans(logits, features)
    assert spans == best
    assert sum(spans[index][1:] in type_matches[index] for index in spans) > len(spans) * 0.6
    assert {dated["context"][slice(*span)] for span in type_matches[-1]} == {"1443년", "1443년 5월 3일"}
    # both begin with the same token
    assert (features.arrays["candidate_lengths"][features.arrays["windows"][-2] :] > 0).all(1).sum() == 1
    trained = task.in_training().featurize(examples, morpheme_tokenizer, 64)
    assert not {"candidate_lengths", "candidate_type_matches"} & set(trained)
    assert all(np.array_equal(trained[name], features.arrays[name]) for name in trained)


def test_the_prior_of_overlaps_equals_brute_force(morpheme_tokenizer: MorphemeTokenizer) -> None:
    """For contexts of several windows; training features have no overlaps."""
    context = "김유신은 서라벌에서 태어났다. 그는 장군이 되어 백제와 싸웠다. 김춘추는 백제의 사신을 만났다."
    questions = ("백제와 싸운 장군은 누구인가?", "김유신은 어디에서 태어났나?", "무엇인가?")
    examples: list[Any] = [
        {"id": str(n), "group": "", "question": question, "context": context * (1 + n), "answers": []}
        for n, question in enumerate(questions)
    ]
    task: Any = Task.choose({"name": "korquad", "answer_priors": {"overlap": 5}, "max_answer_tokens": 4, "stride": 3})
    features = Features(task.featurize(examples, morpheme_tokenizer, 40), examples)
    assert len(features) > len(examples)
    logits = random_logits(features, 2)
    sentences = [sentence_overlaps(example["question"], example["context"]) for example in examples]
    best: dict[int, tuple[float, int, int]] = {}
    for window, example, offsets, i, j in context_spans(features, 4):
        [overlap] = [overlap for start, end, overlap in sentences[example] if start <= offsets[i][0] < end]
        score = float(logits["start_logits"][window][i]) + float(logits["end_logits"][window][j]) + 5 * overlap
        if example not in best or score > best[example][0]:
            best[example] = (score, offsets[i][0], offsets[j][1])
    spans = task.best_spans(logits, features)
    assert {index: span[1:] for index, span in spans.items()} == {index: span[1:] for index, span in best.items()}
    assert [spans[n][0] for n in sorted(spans)] == pytest.approx([best[n][0] for n in sorted(best)], abs=1e-5)
    assert "sentence_overlaps" not in task.in_training().featurize(examples, morpheme_tokenizer, 40)


@pytest.mark.parametrize(
    "spell",
    [
        lambda text: normalize("NFD", text),
        lambda text: text.replace("대", "대\u200b").replace("언", "언\u00ad"),
    ],
    ids=["decomposed", "invisible"],
)
def test_priors_do_not_depend_on_how_a_text_is_spelled(spell: Any, morpheme_tokenizer: MorphemeTokenizer) -> None:
    texts = {
        "question": "훈민정음은 언제 창제되었는가?",
        "context": "세종대왕은 1443년에 훈민정음을 창제하였다. 이순신은 아니다.",
    }
    priors = {"phrase": 4, "type": 8, "overlap": 12}
    task: Any = Task.choose({"name": "korquad", "answer_priors": priors})
    composed, spelled = (
        task.featurize([{"id": "1", "group": "", "answers": [], **changed}], morpheme_tokenizer, 64)
        for changed in (texts, {name: spell(text) for name, text in texts.items()})
    )
    for name in ("input_ids", "candidate_lengths", "candidate_type_matches", "sentence_overlaps"):
        assert np.array_equal(composed[name], spelled[name]), name
    assert composed["candidate_type_matches"].any() and composed["sentence_overlaps"].any()


def test_exact_matches_are_token_types_in_every_window(morpheme_tokenizer: MorphemeTokenizer) -> None:
    context = "등대는 1903년에 처음 불을 밝혔다. " + "민수가 세 번 부산에 갔다. " * 30
    example = {"id": "1", "group": "", "question": "등대는 언제 처음 불을 밝혔는가?", "context": context, "answers": []}
    tasks = [Task.choose({"name": "korquad", "exact_match_feature": is_marked}) for is_marked in (False, True)]
    plain, marked = (Features(task.featurize([example], morpheme_tokenizer, 64), [example]) for task in tasks)
    assert len(plain) == len(marked) > 2
    np.testing.assert_array_equal(plain.arrays["input_ids"], marked.arrays["input_ids"])
    for first, after in pairwise(marked.arrays["windows"]):
        ids = marked.arrays["input_ids"][first:after].tolist()
        end = ids.index(SEP_ID)
        sides = [None, *[0] * (end - 1), None, *[1] * (len(ids) - end - 2), None]
        assert marked.arrays["token_type_ids"][first:after].tolist() == match_types(ids, sides).tolist()
    assert marked.arrays["token_type_ids"].max() == TYPES - 1


def test_parts_of_speech_are_token_types(morpheme_tokenizer: MorphemeTokenizer) -> None:
    """Those of matches, and by the class of the morpheme that a token begins with; of a tenth of the training examples
    none."""
    context = "등대는 1903년에 처음 불을 밝혔다. " + "김민수가 (세 번) 부산에 갔다. " * 30
    example = {"id": "1", "group": "", "question": "등대는 언제 처음 불을 밝혔는가?", "context": context, "answers": []}
    marks = {"name": "korquad", "exact_match_feature": True}
    tasks = [Task.choose(marks), Task.choose(marks | {"pos_feature": True})]
    plain, tagged = (Features(task.featurize([example], morpheme_tokenizer, 64), [example]) for task in tasks)
    types, classes = tagged.arrays["token_type_ids"] % TYPES, tagged.arrays["token_type_ids"] // TYPES
    np.testing.assert_array_equal(types, plain.arrays["token_type_ids"])
    begins = tagged.arrays["offsets"][:, 0]
    tags = {"1903": "SN", "김민수": "NNP", "가 (": "J", "(": "SS", "부산": "NNP", "다.": "E"}
    for word, tag in tags.items():
        places = np.isin(begins, [match.start() for match in re.finditer(re.escape(word), context)])
        expected = next(number for number, tags_of_class in enumerate(CLASSES, 1) if tag in tags_of_class)
        assert places.any() and set(classes[places]) == {expected}, word
    examples = [example | {"id": str(number)} for number in range(200)]
    arrays = tasks[1].in_training().featurize(examples, morpheme_tokenizer, 64)
    has_tags = np.add.reduceat(arrays["token_type_ids"] >= TYPES, arrays["windows"][:-1]) > 0
    assert 0.8 < has_tags.mean() < 0.97
    for text in (normalize("NFD", context), context.replace("민", "민\u200b")):
        rest = Features(tasks[1].featurize([example | {"context": text}], morpheme_tokenizer, 64), [example])
        np.testing.assert_array_equal(rest.arrays["token_type_ids"], tagged.arrays["token_type_ids"])


def test_parts_of_speech_extend_matches() -> None:
    with pytest.raises(ValueError, match="pos_feature needs exact_match_feature: true"):
        Task.choose({"name": "korquad", "pos_feature": True})


def test_a_word_that_a_window_cuts_ends_in_the_next(morpheme_tokenizer: MorphemeTokenizer) -> None:
    """Borders of words do not depend on the length of the windows."""
    context = "블라디보스토크에서 훈민정음을 " * 12
    example = {"id": "1", "group": "", "question": "누구인가?", "context": context, "answers": []}
    task: Any = Task.choose({"name": "korquad", "whole_words": True, "stride": 3})
    boundaries: list[set[Any]] = []
    for length in (32, 384):
        features = task.featurize([example], morpheme_tokenizer, length)
        rows = zip(features["offsets"].tolist(), features["word_boundaries"].tolist(), strict=True)
        boundaries.append({(*span, *pair) for span, pair in rows if span[0] >= 0})
        assert not features["word_boundaries"][features["offsets"][:, 0] < 0].any()
    assert len(features["windows"]) == 2
    assert boundaries[0] == boundaries[1]
    assert {boundary[2:] for boundary in boundaries[0]} == {(0, 0), (1, 0), (0, 1), (1, 1)}


# the probability of an answer

SOFTMAX = {"temperature": 1, "slope": 1, "intercept": 0}
"""A calibration that leaves shares as they are."""


def random_features(count: int, **options: Any) -> tuple[Any, dict[str, list[np.ndarray]], Features]:
    """A task, logits and `count` questions; each has two windows, which share two characters of the context."""
    rng = np.random.default_rng(7)
    window = [[(-1, -1), *((start + i, start + i + 1) for i in range(4))] for start in (0, 2)]
    arrays = {
        "windows": np.arange(0, 10 * count + 1, 5),
        "offsets": np.array([span for _ in range(count) for row in window for span in row]),
        "example": np.repeat(np.arange(count), 2),
    }
    # what is right has high logits, but not always
    examples = [{"question": "?", "context": "가나다라마바", "answers": [["나", 1]]} for _ in range(count)]
    logits = {name: [rng.normal(size=5) * 2 for _ in range(2 * count)] for name in ("start_logits", "end_logits")}
    for rows in logits.values():
        for row in rows[::2]:
            row[2] += 3
    return Task.choose({"name": "span", "max_answer_tokens": 3, **options}), logits, Features(arrays, examples)


@pytest.mark.parametrize("null_threshold", [None, -6.0])
def test_probabilities_are_a_softmax_over_every_span_once_and_change_no_answer(null_threshold: float | None) -> None:
    options = {"answer_calibration": SOFTMAX | {"temperature": 2.5}, "null_threshold": null_threshold}
    task, logits, features = random_features(20, **options)
    without = task.model_copy(update={"answer_calibration": None})
    predictions = task.predict(logits, features)
    assert predictions == without.predict(logits, features)
    assert ("" in predictions) is (null_threshold is not None)
    rows = task.results(predictions, logits, features)
    assert [row | {"probability": None} for row in rows] == without.results(predictions, logits, features)
    for index, row in enumerate(rows):
        scores: dict[tuple[int, int], float] = {}
        for window in (2 * index, 2 * index + 1):
            starts, ends = (logits[name][window] for name in ("start_logits", "end_logits"))
            for i in range(1, 5):
                for j in range(i, min(i + 3, 5)):
                    span = i + 2 * (window % 2), j + 2 * (window % 2)
                    scores[span] = max(scores.get(span, -np.inf), starts[i] + ends[j])
        if null_threshold is not None:
            nulls = [logits["start_logits"][w][0] + logits["end_logits"][w][0] for w in (2 * index, 2 * index + 1)]
            scores[0, 0] = min(nulls) - null_threshold
        shares = np.exp(np.array(list(scores.values())) / 2.5)
        assert row["probability"] == pytest.approx(shares.max() / shares.sum(), abs=1e-4)


def test_dev_settles_a_calibration_by_which_probabilities_are_as_high_as_answers_are_right() -> None:
    task, logits, features = random_features(250)
    settled = task.calibrate(logits, features)
    assert settled.inference_state() == {
        "max_answer_tokens": 3,
        "answer_calibration": settled.answer_calibration.dump(),
    }
    predictions = task.predict(logits, features)
    rows = settled.results(predictions, logits, features)
    right = sum(prediction == "나" for prediction in predictions) / 250
    assert 0.2 < right < 0.8
    assert sum(row["probability"] for row in rows) / 250 == pytest.approx(right, abs=0.01)
    sure = [prediction == "나" for prediction, row in zip(predictions, rows, strict=True) if row["probability"] > 0.5]
    assert 20 < len(sure) < 230 and sum(sure) / len(sure) > right + 0.05
    assert settled.calibrate({name: [0 * row for row in rows] for name, rows in logits.items()}, features) == settled


def test_too_few_questions_settle_no_calibration_and_there_is_no_probability() -> None:
    task, logits, features = random_features(49)
    assert task.calibrate(logits, features) == task
    assert {row["probability"] for row in task.results(task.predict(logits, features), logits, features)} == {None}


def test_made_questions_settle_no_calibration() -> None:
    """Their answers are nearly all right, and people's are not."""
    task, logits, features = random_features(250)
    asked = [example | {"id": f"tydi-{number}"} for number, example in enumerate(features.examples)]
    made = [example | {"id": f"{MADE}{number}"} for number, example in enumerate(features.examples)]
    assert task.calibrate(logits, Features(features.arrays, made[:201] + asked[201:])) == task
    mixed = task.calibrate(logits, Features(features.arrays, made[:125] + asked[125:]))
    assert mixed.answer_calibration not in (None, task.calibrate(logits, features).answer_calibration)


def test_a_context_without_tokens_has_no_probability() -> None:
    task = Task.choose({"name": "span", "answer_calibration": SOFTMAX})
    arrays = {"windows": np.array([0, 1]), "offsets": np.array([(-1, -1)]), "example": np.array([0])}
    features = Features(arrays, [{"question": "?", "context": " ", "answers": []}])
    logits = {name: [np.zeros(1)] for name in ("start_logits", "end_logits")}
    [row] = task.results(task.predict(logits, features), logits, features)
    assert (row["answer"], row["score"], row["probability"]) == ("", None, None)


def test_answers_that_are_all_right_or_all_wrong_settle_no_calibration() -> None:
    odds = np.random.default_rng(0).normal(size=(60, len(TEMPERATURES)))
    for right in (np.ones(60, bool), np.zeros(60, bool)):
        assert AnswerCalibration.fit(odds, right) is None


def test_where_the_surer_answers_are_more_often_wrong_all_have_the_share_that_is_right() -> None:
    odds = np.linspace(-3, 3, 60)[:, None].repeat(len(TEMPERATURES), 1)
    right = np.arange(60) < 15
    calibration = AnswerCalibration.fit(odds, right)
    assert calibration is not None and calibration.slope == 0
    for scores in ([9.0, 0.0], [1.0, 0.9]):
        assert calibration.probability(np.array(scores)) == pytest.approx(0.25, abs=1e-3)


def test_a_question_without_candidates_counts_for_no_calibration() -> None:
    task, logits, features = random_features(60)
    examples = [*features.examples, features.examples[0] | {"context": " "}]
    arrays = {
        "windows": np.append(features.arrays["windows"], features.arrays["windows"][-1] + 1),
        "offsets": np.vstack([features.arrays["offsets"], [(-1, -1)]]),
        "example": np.append(features.arrays["example"], 60),
    }
    with_blank = {name: [*rows, np.zeros(1)] for name, rows in logits.items()}
    settled = task.calibrate(with_blank, Features(arrays, examples))
    assert settled.answer_calibration is not None
    assert settled.answer_calibration == task.calibrate(logits, features).answer_calibration


@pytest.mark.parametrize(("longest", "span"), [(2, None), (3, (3.0, 0, 3))])
def test_a_word_that_is_longer_than_an_answer_may_be_is_none(longest: int, span: tuple[float, int, int] | None) -> None:
    starts, ends = np.array([1, -np.inf, -np.inf]), np.array([-np.inf, -np.inf, 2])
    assert ScoredWindow(starts, ends, np.array([(0, 1), (1, 2), (2, 3)]), longest).best() == span


@pytest.mark.parametrize(
    ("answer", "is_allowed"),
    [
        ("정사(正史)", True), ("정사(正史", False), ("正史", True), ("‘단군왕검’", True), ("‘단군왕검", False),
        ("Schindler’s List", True), ("’90년대", True), ("끝이다.\n새", False),
    ],
)  # fmt: skip
def test_an_answer_has_both_halves_or_none(answer: str, is_allowed: bool) -> None:
    text = "그는 정사(正史)와 ‘단군왕검’을 읽고 ’90년대에 Schindler’s List를 보았다. 끝이다.\n새 줄이다."
    start, parts = text.index(answer), text_parts(text)
    assert len(parts) == len(text) + 1
    assert (parts[start] == parts[start + len(answer)]) == is_allowed
