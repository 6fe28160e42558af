"""Pairs of texts from the corpus: neighbours, the same text twice, and questions with their paragraphs."""

import json
import random
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from kobert_pipeline.corpus.decontaminate import EvaluationTexts, remove_whitespace
from kobert_pipeline.corpus.document import Document, documents_from, write_documents
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.tasks.rerank import Rerank
from kobert_pipeline.questions import generate
from kobert_pipeline.questions.bm25 import Bm25, largest
from kobert_pipeline.questions.corpus_pairs import (
    CorpusPairs,
    example_of,
    make_pairs,
    sources_in,
    with_negatives,
)
from kobert_pipeline.tables.open_text import open_lines

NOTHING = EvaluationTexts(set())


def paragraph(name: str, number: int) -> str:
    """Forty random syllables, so that no two paragraphs overlap."""
    rng = random.Random(f"{name} {number}")
    return "".join(chr(rng.randrange(0xAC00, 0xD7A4)) for _ in range(40))


def documents(folder: Path) -> Path:
    """Forty ordered documents of three paragraphs below a heading, and two of gathered reviews."""
    folder.mkdir()
    ordered = [
        Document(f"d{n}", "wiki.txt", "\n".join(["제목", *(paragraph(f"d{n}", i) for i in range(3))]))
        for n in range(40)
    ]
    reviews = [
        Document(f"r{n}", "reviews.txt", "\n".join(paragraph(f"r{n}", i) for i in range(2)), ordered=False)
        for n in range(2)
    ]
    write_documents(folder / "part-00000.parquet", [*ordered, *reviews])
    return folder


def pairs_of(document: Document, kind: str) -> list[tuple[str, str]]:
    examples = [example_of(source, {}) for source in sources_in(document, kind)]
    return [(example["text"], example["text_pair"]) for example in examples if example]


def test_pairs_of_a_document_are_its_neighbours_or_the_same_text_twice() -> None:
    document = Document("d", "s", "\n".join([paragraph("d", 0), "짧은 제목", paragraph("d", 1), paragraph("d", 2)]))
    assert pairs_of(document, "neighbours") == [(paragraph("d", n), paragraph("d", n + 1)) for n in range(2)]
    assert pairs_of(document, "same") == [(paragraph("d", n), paragraph("d", n)) for n in range(3)]
    gathered = Document("r", "s", document.text, ordered=False)
    assert not pairs_of(gathered, "neighbours")
    assert len(pairs_of(gathered, "same")) == 3


WAR = (
    "이순신은 조선의 장군이다. 이순신은 1592년에 한산도에서 일본의 수군을 크게 이겼다. "
    "1592년에 한산도에서 조선의 수군은 배를 거의 잃지 않았다. "
    "일본의 수군은 1592년에 한산도에서 배를 많이 잃었다. "
    "임진왜란은 1598년에 이순신이 노량에서 전사한 뒤에 끝났다. 그는 거북선을 만들었다. "
    "거북선은 조선의 수군이 임진왜란에서 쓴 배이다."
)


def test_questions_are_paired_with_their_paragraphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of documents whose order means something, also for dev; a paragraph with nothing to ask about has none."""
    monkeypatch.setattr(generate, "ELSEWHERE_SHARE", 1)  # else hardly one of seven
    folder = tmp_path / "corpus"
    folder.mkdir()
    graves = "{}의 무덤은 고향의 뒷산에서 나그네가 찾아냈다."
    names = ("권율", "곽재우", "김시민", "조헌", "고경명", "사명당", "신립", "원균", "김덕령", "유성룡")
    texts = [f"{WAR.replace('이순신', name)} {graves.format(name)}" for name in names]
    # so long that it is not joined with the next one
    nothing = [paragraph("d", n) * (1 + generate.ENOUGH // len(paragraph("d", n))) for n in range(len(texts))]
    asked = [Document(f"d{n}", "wiki.txt", f"{nothing[n]}\n{text}") for n, text in enumerate(texts)]
    gathered = Document("r", "reviews.txt", WAR, ordered=False)
    write_documents(folder / "part-00000.parquet", [*asked, gathered])
    train, dev = make_pairs(CorpusPairs(kind="questions"), folder, NOTHING, 0.4, 1)
    assert train and dev and len(train) + len(dev) == len(texts)
    left_out = []
    for pair in [*train, *dev]:
        whole = texts[int(pair["id"].removeprefix("corpus-d").partition("#")[0])]
        assert pair["text"].endswith("?") and pair["text"][:-1] not in pair["text_pair"]
        # the paragraph, or what is left of it without one sentence
        assert len(whole) / 2 < len(pair["text_pair"]) <= len(whole)
        left_out.append(pair["text_pair"] != whole)
    assert any(left_out) and not all(left_out)
    # a paragraph that overlaps dev or test is not asked about, even where the pair would overlap no more
    known = EvaluationTexts([graves.format(name) for name in names[:3]])
    clear = make_pairs(CorpusPairs(kind="questions"), folder, known, 0.4, 1)
    assert {pair["id"].partition("#")[0] for split in clear for pair in split} <= {
        f"corpus-d{n}" for n in range(3, len(names))
    }
    assert train == make_pairs(CorpusPairs(kind="questions"), folder, NOTHING, 0.4, 1)[0]
    with pytest.raises(UserError, match=r"questions: 150"):
        make_pairs(CorpusPairs(kind="questions", sources=("reviews*",)), folder, NOTHING, 0.4, 1)


@pytest.mark.parametrize(("kind", "count"), [("neighbours", 40), ("same", 42)])
def test_train_and_dev_come_from_different_documents_and_dev_is_never_the_same_text(
    kind: Any, count: int, tmp_path: Path
) -> None:
    train, dev = make_pairs(CorpusPairs(kind=kind), documents(tmp_path / "corpus"), NOTHING, 0.2, 1)
    of_train, of_dev = ({pair["id"].partition("#")[0] for pair in split} for split in (train, dev))
    assert len(of_train) + len(of_dev) == count
    assert not of_train & of_dev
    assert len(of_dev) > 2
    assert all((pair["text"] == pair["text_pair"]) == (kind == "same") for pair in train)
    assert all(pair["text"] != pair["text_pair"] for pair in dev)


def test_without_a_share_for_dev_all_documents_are_for_train(tmp_path: Path) -> None:
    corpus = documents(tmp_path / "corpus")
    every, none = make_pairs(CorpusPairs(), corpus, NOTHING, 0, 1)
    train, dev = make_pairs(CorpusPairs(), corpus, NOTHING, 0.2, 1)
    ids = [{pair["id"] for pair in split} for split in (every, train, dev)]
    assert not none and ids[1] < ids[0] and ids[2] < ids[0]


def test_a_smaller_number_is_a_part_of_a_larger_one_and_known_texts_and_other_sources_are_left_out(
    tmp_path: Path,
) -> None:
    corpus = documents(tmp_path / "corpus")
    every, _ = make_pairs(CorpusPairs(), corpus, NOTHING, 0.2, 1)
    some, dev = make_pairs(CorpusPairs(number=10), corpus, NOTHING, 0.2, 1)
    assert (len(some), len(dev)) == (10, 2)
    assert some == every[:10]
    assert len({pair["id"].partition("#")[0] for pair in some}) > 5  # not the first documents
    clear, _ = make_pairs(CorpusPairs(), corpus, EvaluationTexts({some[0]["text_pair"]}), 0.2, 1)
    assert [pair for pair in every if some[0]["text_pair"] not in (pair["text"], pair["text_pair"])] == clear
    with pytest.raises(UserError, match="the corpus of reviews"):
        make_pairs(CorpusPairs(sources=("reviews*",)), corpus, NOTHING, 0.2, 1)


@pytest.fixture(scope="module")
def wikipedia(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first articles of the bundled slice of Wikipedia."""
    return articles(tmp_path_factory.mktemp("wikipedia"), 40)


@pytest.fixture(scope="module")
def some_articles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A part of them, of which all questions are made several times."""
    return articles(tmp_path_factory.mktemp("wikipedia"), 16)


def articles(folder: Path, number: int) -> Path:
    path = Path(__file__).resolve().parents[2] / "corpora" / "kowiki" / "kowiki-12m.jsonl.zst"
    with open_lines(path) as lines:
        rows = [json.loads(line) for line in islice(lines, number)]
    documents = [Document(row["id"], "kowiki.jsonl", row["text"]) for row in rows]
    write_documents(folder / "part-00000.parquet", documents)
    return folder


def test_negatives_are_what_bm25_ranks_first_without_the_answer(wikipedia: Path) -> None:
    options = CorpusPairs(kind="questions", negatives=3)
    sources = [source for document in documents_from(wikipedia, ()) for source in sources_in(document, "questions")]
    examples = [example for source in sources[:40] if (example := example_of(source, {}))]
    answers = [example["answer"] for example in examples]
    paragraphs = [source.text for source in sources]
    made = with_negatives(examples, [*paragraphs, *paragraphs], options)
    assert len(made) > 20 and not any("answer" in example for example in made)
    scores = Bm25(paragraphs).scores([example["text"] for example in examples])
    for example, answer, row in zip(examples, answers, scores.tolist(), strict=True):
        ranked = [paragraphs[index] for index in sorted(range(len(paragraphs)), key=lambda index: -row[index])]
        # all paragraphs may have an answer such as 3
        without = [text for text in ranked[:100] if remove_whitespace(answer) not in remove_whitespace(text)]
        assert example["negatives"] == without[:3]
        assert example["text_pair"] not in example["negatives"]


def test_a_question_with_too_few_negatives_is_left_out(some_articles: Path) -> None:
    train, dev = make_pairs(CorpusPairs(kind="questions", negatives=2), some_articles, NOTHING, 0.2, 1)
    assert train and dev and {len(pair["negatives"]) for pair in [*train, *dev]} == {2}
    assert (train, dev) == make_pairs(CorpusPairs(kind="questions", negatives=2), some_articles, NOTHING, 0.2, 1)
    without, _ = make_pairs(CorpusPairs(kind="questions"), some_articles, NOTHING, 0.2, 1)
    kept = {pair["id"] for pair in train}
    assert [pair | {"negatives": []} for pair in train] == [pair for pair in without if pair["id"] in kept]
    # what overlaps dev or test is no negative either
    known = train[0]["negatives"][0]
    clear, _ = make_pairs(CorpusPairs(kind="questions", negatives=2), some_articles, EvaluationTexts({known}), 0.2, 1)
    assert clear and not any(known in (pair["text_pair"], *pair["negatives"]) for pair in clear)
    with pytest.raises(UserError, match="and more paragraphs than negatives"):
        make_pairs(CorpusPairs(kind="questions", number=3, negatives=50), some_articles, NOTHING, 0.2, 1)
    with pytest.raises(ValidationError, match="set kind to questions, or leave negatives out"):
        CorpusPairs(negatives=1)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.integers(1, 12))
def test_the_largest_are_those_of_a_plain_sort(scores: list[int], count: int) -> None:
    expected = sorted(range(len(scores)), key=lambda index: (-scores[index], index))[:count]
    assert largest(np.array(scores, np.float32), count).tolist() == expected


def test_a_reranker_learns_from_each_text_of_a_question() -> None:
    pair = {"id": "a", "group": "글?", "text": "글?", "text_pair": "맞는 글", "negatives": ["다른 글", "또 다른 글"]}
    examples = Rerank().of_pairs([pair, pair | {"id": "b"}])
    assert [(example["id"], example["text_pair"], example["label"]) for example in examples[:3]] == [
        ("a-0", "맞는 글", 1), ("a-1", "다른 글", 0), ("a-2", "또 다른 글", 0),
    ]  # fmt: skip
    assert {(example["group"], example["text"]) for example in examples} == {("글?", "글?")} and len(examples) == 6


def test_pairs_are_made_by_the_rules_that_questions_are_made_by() -> None:
    """Whose version is part of both records: other rules make other questions."""
    assert CorpusPairs().rules == generate.QuestionGeneration().rules
