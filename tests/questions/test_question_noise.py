"""Noise in made questions changes words and their order, and never what is asked for."""

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from kobert_pipeline.corpus.decontaminate import EvaluationTexts
from kobert_pipeline.corpus.document import Document, write_documents
from kobert_pipeline.questions.generate import QuestionGeneration, generate_questions
from kobert_pipeline.questions.noise import DETERMINERS, FEWEST_WORDS, with_noise

QUESTIONS = [
    "1443년에 한글을 만든 조선의 네 번째 임금은 누구인가?",
    "이어진 두 나라의 갈등은 몇 년도에 불공평한 휴전협정으로 일단락되었을까?",
    "그 회사가 서울에 지은 어느 건물이 처음으로 상을 받았나?",
    "이 마을에 사는 사람은 모두 몇 명인가?",
    "그가 태어난 곳은 어느 나라인가?",
    "그는 누구인가?",
    "무엇?",
    "가 가 가 가 가 가 가?",
]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("share", [0, 0.25, 0.9])
def test_what_stays_is_of_the_question_and_asks_for_the_same(question: str, share: float) -> None:
    words = question.split()
    for seed in range(50):
        noisy = with_noise(question, share, random.Random(seed)).split()
        assert Counter(noisy) <= Counter(words) and noisy[-1] == words[-1]
        assert len(noisy) >= min(FEWEST_WORDS, len(words)) and (share or len(noisy) == len(words))
        pairs = set(pairwise(noisy))
        for determiner, noun in pairwise(words):
            assert determiner not in DETERMINERS or determiner not in noisy or (determiner, noun) in pairs
        for asking in ("누구인가?", "몇", "어느", "무엇?"):
            assert (asking in noisy) == (asking in words)


def test_about_the_share_of_the_words_is_left_out_and_most_questions_have_another_order() -> None:
    question = " ".join(f"낱말{number}" for number in range(20)) + " 있었나?"
    rows = [with_noise(question, 0.25, random.Random(seed)).split() for seed in range(400)]
    assert 0.72 < sum(map(len, rows)) / (400 * 21) < 0.80
    in_order = sum(row[:-1] == sorted(row[:-1], key=lambda word: int(word[2:])) for row in rows)
    assert 0.3 < in_order / 400 < 0.5
    assert with_noise(question, 0.25, random.Random(1)) == with_noise(question, 0.25, random.Random(1))


def test_questions_are_made_of_the_same_answers_with_noise_and_without(tmp_path: Path) -> None:
    text = (
        "춘천은 대한민국의 도시이다. 춘천에는 1997년에 세워진 넓고 조용한 국립 도서관이 있다. "
        + "산과 강이 있다. " * 30
    )
    document = Document(id="1", source="a", text=text, ordered=True)
    write_documents(tmp_path / "part-00000.parquet", [document])
    made = [
        generate_questions(QuestionGeneration(questions=9, noise=noise), tmp_path, EvaluationTexts(set()))
        for noise in (0, 0.5)
    ]
    without, with_some = ([one | {"question": ""} for one in examples] for examples in made)
    assert without == with_some and without
    assert [one["question"] for one in made[0]] != [one["question"] for one in made[1]]
    assert "noise" not in QuestionGeneration().dump(), "runs of before it stay valid"
