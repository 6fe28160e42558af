"""Counting the words that sentences share with a question."""

import pytest

from kobert_pipeline.questions.lexical_overlap import sentence_overlaps, token_overlaps

CONTEXT = "김유신은 서라벌에서 태어났다. 그는 장군이 되어 백제와 싸웠다. 김춘추는 백제의 사신을 만났다."


def test_a_word_counts_the_less_the_more_sentences_have_it() -> None:
    overlaps = sentence_overlaps("백제와 싸운 장군은 누구인가?", CONTEXT)
    assert [CONTEXT[start:end] for start, end, _ in overlaps] == CONTEXT.replace(". ", ".\n").split("\n")
    # 백제 is in two sentences, 싸우 and 장군 are in one
    assert [overlap for _, _, overlap in overlaps] == pytest.approx([0, 1, 0.5 / 2.5])


@pytest.mark.parametrize("question", ["비가 언제 오는가?", "그는 누구인가?", ""])
def test_words_that_only_ask_and_particles_count_for_nothing(question: str) -> None:
    assert [overlap for _, _, overlap in sentence_overlaps(question, CONTEXT)] == [0, 0, 0]


def test_an_empty_context_has_no_overlap() -> None:
    assert not sentence_overlaps("누구인가?", "")
    assert token_overlaps([(0, 1), (-1, -1)], []).tolist() == [0, 0]
