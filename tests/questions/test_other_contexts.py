"""Questions are shown with another paragraph of the corpus that answers them, where there is one."""

from pathlib import Path

import pytest

from kobert_pipeline.corpus.decontaminate import EvaluationTexts
from kobert_pipeline.corpus.document import Document, write_documents
from kobert_pipeline.questions.answer_candidates import candidates_in_sentence, tagged_sentences
from kobert_pipeline.questions.generate import QuestionGeneration, generate_questions
from kobert_pipeline.questions.other_contexts import OtherContexts

ASKED = "훈민정음 해례본은 1940년에 경상북도 안동에서 발견되었다."
ANSWERING = (
    "국보인 훈민정음 해례본은 오랫동안 사라졌다가 일제 강점기에 안동의 한 집에서 나왔고, 1940년에 전형필이 샀다."
)
UNRELATED = "1940년에 파리가 함락되었고, 이듬해에는 전선이 동쪽으로 옮겨 갔으며 많은 사람이 집을 잃었다."
COPY = "훈민정음 해례본은 1940년에 경상북도 안동에서 발견되었다. 지금은 서울에 있다."


def with_paragraphs(*paragraphs: str) -> OtherContexts:
    others = OtherContexts()
    for paragraph in (*paragraphs, "서울은 대한민국의 수도이다.", "한강은 서해로 흐른다."):
        others.add(paragraph, tagged_sentences(paragraph))
    return others


def asked_at(answer: str, others: OtherContexts) -> tuple[str, int] | None:
    return others.find(answer, tagged_sentences(ASKED)[0], ASKED)


@pytest.mark.parametrize("order", [(ASKED, UNRELATED, ANSWERING), (ANSWERING, ASKED, UNRELATED)])
def test_the_paragraph_that_shares_words_is_found_wherever_it_stands(order: tuple[str, ...]) -> None:
    assert asked_at("1940년", with_paragraphs(*order)) == (ANSWERING, ANSWERING.index("1940년"))


@pytest.mark.parametrize("other", [UNRELATED, COPY, ASKED])
def test_neither_an_unrelated_paragraph_nor_a_copy_is_taken(other: str) -> None:
    assert asked_at("1940년", with_paragraphs(ASKED, other)) is None


def test_an_answer_that_no_other_paragraph_has_is_not_found() -> None:
    assert asked_at("경상북도 안동", with_paragraphs(ASKED, UNRELATED)) is None


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_at_most_the_share_of_a_paragraphs_questions_is_shown_with_another(share: float, tmp_path: Path) -> None:
    texts = [
        f"훈민정음은 조선의 글자이다. {ASKED} 이 책에는 집현전 학자 8명이 쓴 해설이 있다. " + "가나다라 " * 20,
        f"전형필은 대한민국의 수집가이다. {ANSWERING} 이 책은 1962년에 국보로 지정되었다. " + "마바사아 " * 20,
        *(f"{name}은 대한민국의 도시이다. " + "산과 강이 있다. " * 30 for name in ("춘천", "원주", "안산", "울산")),
    ]
    write_documents(tmp_path / "part-00000.parquet", [
        Document(id=str(number), source="a", text=text, ordered=True) for number, text in enumerate(texts)
    ])  # fmt: skip
    options = QuestionGeneration(questions=100, per_context=2, other_contexts=share)
    examples = generate_questions(options, tmp_path, EvaluationTexts(set()))
    assert examples
    elsewhere = 0
    for example in examples:
        ((answer, start),) = example["answers"]
        assert example["context"][start:].startswith(answer)
        elsewhere += example["context"] in texts and example["context"] != example["group"]
    assert (elsewhere > 0) == (share > 0)
    assert elsewhere <= 2 * round(2 * share)


def test_every_candidate_is_remembered_with_its_place() -> None:
    others = with_paragraphs(ASKED, ANSWERING)
    for sentence in tagged_sentences(ANSWERING):
        for candidate in candidates_in_sentence(ANSWERING, sentence):
            text = ANSWERING[candidate.start : candidate.end]
            if mention := others.find(text, tagged_sentences(ASKED)[0], ASKED):
                assert mention[0][mention[1] :].startswith(text)
