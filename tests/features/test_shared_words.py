"""Counting the words that sentences share with a question, and the bonus for answers in sentences that have many."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from kobert_pipeline.features.format import Features
from kobert_pipeline.features.shared_words import shares, token_shares
from kobert_pipeline.features.task import Task
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer

CONTEXT = "김유신은 서라벌에서 태어났다. 그는 장군이 되어 백제와 싸웠다. 김춘추는 백제의 사신을 만났다."


def test_a_word_counts_the_less_the_more_sentences_have_it() -> None:
    found = shares("백제와 싸운 장군은 누구인가?", CONTEXT)
    assert [CONTEXT[start:end] for start, end, _ in found] == [f"{one.rstrip('.')}." for one in CONTEXT.split(". ")]
    # 백제 is in two sentences, 싸우 and 장군 are in one
    assert [share for _, _, share in found] == pytest.approx([0, 1, 0.5 / 2.5])
    # nothing is shared; words that only ask, and particles, count for nothing
    for question in ("비가 언제 오는가?", "그는 누구인가?", ""):
        assert [share for _, _, share in shares(question, CONTEXT)] == [0, 0, 0]
    assert not shares("누구인가?", "")
    assert token_shares([(0, 1), (-1, -1)], []).tolist() == [0, 0]


def test_answers_in_sentences_with_the_words_of_the_question_have_a_bonus(
    morpheme_tokenizer: MorphemeTokenizer,
) -> None:
    """The best of all spans, found by trying each, for random logits and contexts of several windows; training features
    have no shares."""
    questions = ("백제와 싸운 장군은 누구인가?", "김유신은 어디에서 태어났나?", "무엇인가?")
    examples: list[Any] = [
        {"id": str(n), "group": "", "question": question, "context": CONTEXT * (1 + n), "answers": []}
        for n, question in enumerate(questions)
    ]
    task: Any = Task.choose({"name": "korquad", "sentence_bonus": 5.0, "max_answer_tokens": 4, "stride": 3})
    features = Features(task.featurize(examples, morpheme_tokenizer, 40), examples)
    windows = features.arrays["windows"]
    assert len(windows) - 1 > len(examples)
    rng = np.random.default_rng(2)
    logits = {
        name: [rng.normal(size=length + 2).astype(np.float32) for length in features.lengths]
        for name in ("start_logits", "end_logits")
    }
    best: dict[int, tuple[float, int, int]] = {}
    for window, (first, after) in enumerate(pairwise(windows)):
        offsets, number = features.arrays["offsets"][first:after].tolist(), int(features.arrays["example"][window])
        inside = [i for i, (start, _) in enumerate(offsets) if start >= 0]
        of_sentences = shares(examples[number]["question"], examples[number]["context"])
        for i, j in ((i, j) for i in inside for j in inside if i <= j < i + 4):
            [share] = [share for start, end, share in of_sentences if start <= offsets[i][0] < end]
            score = float(logits["start_logits"][window][i]) + float(logits["end_logits"][window][j]) + 5 * share
            if number not in best or score > best[number][0]:
                best[number] = (score, offsets[i][0], offsets[j][1])
    found = task.best_spans(logits, features)
    assert {number: span[1:] for number, span in found.items()} == {number: span[1:] for number, span in best.items()}
    assert [found[n][0] for n in sorted(found)] == pytest.approx([best[n][0] for n in sorted(best)], abs=1e-5)
    assert "sentence_shares" not in task.in_training().featurize(examples, morpheme_tokenizer, 40)
