"""`kobert similar`: rankings by vectors, BM25 and both, and how well they find the right text."""

import json
import math
import unicodedata
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

import kobert_pipeline as kobert_package
from kobert_pipeline.features.metrics import ranking_scores
from kobert_pipeline.inference.similar import ranks, standard_scores, top
from kobert_pipeline.questions.bm25 import K1_OF_PAIRS, QUESTION_WORDS, B, Bm25, search_terms

TEXTS = [
    "배우들의 연기가 정말 좋았다.",
    "연기는 좋은데 이야기가 지루하다.",
    "음악이 아름다운 영화",
    "",
    "연기, 연기, 연기!",
]


def table(scores: list[list[float]]) -> Any:
    """Scores by the number of a query, which is its text."""
    return lambda queries: np.array([scores[int(query)] for query in queries], np.float32)


def numbered(count: int) -> list[str]:
    return [str(number) for number in range(count)]


@given(st.integers(1, 600), st.integers(1, 12), st.integers(0, 2**32))
def test_ranks_and_the_best_equal_plain_loops(queries: int, texts: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 5, (queries, texts)).tolist()  # many are equal
    gold = rng.integers(0, texts, queries)
    expected = [sum(other >= row[right] for other in row) for row, right in zip(scores, gold, strict=True)]
    assert ranks(table(scores), numbered(queries), gold).tolist() == expected
    numbers, values = top(table(scores), numbered(queries), 3)
    for row, best, of_best in zip(scores, numbers.tolist(), values.tolist(), strict=True):
        assert best == sorted(range(texts), key=lambda number: (-row[number], number))[:3]
        assert of_best == [row[number] for number in best]


def test_scores_of_a_ranking_equal_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    scores, gold = rng.random((50, 30)), rng.integers(0, 30, 50)
    found = ranking_scores(ranks(table(scores.tolist()), numbered(50), gold))
    relevance = np.eye(30)[gold]
    assert found["ndcg@10"] == pytest.approx(100 * ndcg_score(relevance, scores, k=10))
    places = [1 + sorted(-row).index(-row[right]) for row, right in zip(scores, gold, strict=True)]
    assert found["mrr@10"] == pytest.approx(100 * np.mean([1 / place if place <= 10 else 0 for place in places]))
    assert found["recall@1"] == pytest.approx(100 * np.mean([place == 1 for place in places]))
    assert found["recall@10"] == pytest.approx(100 * np.mean([place <= 10 for place in places]))


def test_bm25_is_the_formula_over_its_terms() -> None:
    """Lucene's: idf = ln(1 + (N - n + 0.5) / (n + 0.5)), without the constant factor k1 + 1."""
    queries = ["연기가 좋은 영화", "쀍뚫", "", "이야기 이야기", "누구의 연기?"]
    documents, asked = search_terms(TEXTS), search_terms(queries, QUESTION_WORDS)
    mean_length = sum(map(len, documents)) / len(documents)
    frequency = Counter(term for document in documents for term in set(document))

    def score(query: list[str], document: list[str]) -> float:
        total = 0.0
        for term in query:
            if count := document.count(term):
                idf = math.log(1 + (len(documents) - frequency[term] + 0.5) / (frequency[term] + 0.5))
                total += idf * count / (count + K1_OF_PAIRS * (1 - B + B * len(document) / mean_length))
        return total

    expected = [[score(query, document) for document in documents] for query in asked]
    found = Bm25(TEXTS).scores(queries)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert found[0].any() and not found[1].any() and not found[2].any()
    assert not Bm25(["", ""]).scores(["연기"]).any()


def test_terms_are_morphemes_that_carry_meaning() -> None:
    (terms,) = search_terms(["배우들의 연기가 3번 좋았다!"])
    assert [term for term in terms if "/" in term] == ["배우/NNG", "연기/NNG", "3/SN", "번/NNB", "좋/VA"]


def test_pairs_of_characters_are_terms_inside_runs_of_content() -> None:
    """A compound is found by its parts, whatever the analyzer makes of it; particles and endings are in no pair."""
    (terms,) = search_terms(["손해배상청구권은 소멸하였습니다"])
    assert {"손해/NNG", "손해", "해배", "배상", "상청", "청구", "소멸"} <= set(terms)
    assert not {"하였", "습니", "권은", "은소"} & set(terms)
    assert search_terms(["누구의 연기가 좋은가?"], QUESTION_WORDS) == [["연기/NNG", "좋/VA", "연기"]]
    particles, nothing = search_terms(["은/는", ""])
    assert particles and not nothing  # nothing but particles: better than no term at all
    decomposed = unicodedata.normalize("NFD", "배우들의 연기")
    expected = search_terms(["배우들의 연기"])
    assert search_terms([decomposed]) == search_terms(["배우\u200b들의 연\u00ad기"]) == expected
    assert search_terms(["왜/NNP는 왜 왔나"], QUESTION_WORDS) and search_terms(["연기 \ud800"])[0][:1] == ["연기/NNG"]
    scores = Bm25(["배상금을 지급하라", "날씨가 좋다"]).scores(["손해배상청구권", "누가 말했습니까"])
    assert scores[0, 0] > 0 == scores[0, 1] and not scores[1].any()


def test_standard_scores_have_mean_0_and_deviation_1() -> None:
    found = standard_scores(np.array([[1.0, 2.0, 3.0], [5.0, 5.0, 5.0]]))
    assert found[0].mean() == pytest.approx(0) and found[0].std() == pytest.approx(1)
    assert not found[1].any()


@pytest.fixture
def place(beside_encoder: Path) -> Path:
    """The working folder, with `texts.txt`, and the published encoder as `mlm`."""
    (beside_encoder / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    return beside_encoder


def test_the_ranking_is_by_the_cosine_of_the_vectors(place: Path, kobert: Callable[..., Any]) -> None:
    vectors = kobert_package.load("mlm").embed([TEXTS[0], *TEXTS])
    cosines = vectors[1:] @ vectors[0] / np.linalg.norm(vectors[1:], axis=1) / np.linalg.norm(vectors[0])
    printed = kobert("similar", "mlm", TEXTS[0], "--in", "texts.txt", "--by", "mean", "--top-k", 3, "--json")
    assert printed.code == 0, printed.err
    rows = [json.loads(line) for line in printed.out.splitlines()]
    assert [row["line"] - 1 for row in rows] == np.argsort(-cosines)[:3].tolist()
    assert [row["score"] for row in rows] == pytest.approx(sorted(cosines.tolist(), reverse=True)[:3], abs=1e-3)
    assert rows[0]["text"] == rows[0]["snippet"] == TEXTS[0] and [row["rank"] for row in rows] == [1, 2, 3]
    (place / "more.txt").write_text(f"다른 글\n{TEXTS[0]}", encoding="utf-8")
    two_files = ("similar", "mlm", TEXTS[0], "--in", "texts.txt", "--in", "more.txt", "--by", "bm25", "--top-k", 2)
    found = [json.loads(line) for line in kobert(*two_files, "--json").out.splitlines()]
    assert {(row["file"], row["line"]) for row in found} == {("texts.txt", rows[0]["line"]), ("more.txt", 2)}
    assert "more.txt:2 " in kobert(*two_files).out
    shown = kobert("similar", "mlm", "연기", "음악", "--in", "texts.txt", "--by", "bm25", "--by", "hybrid")
    assert shown.out.count("(by bm25)") == 2 and "음악이 아름다운 영화" in shown.out


@pytest.mark.parametrize("by", ["mean", "bm25", "hybrid"])
def test_blank_lines_are_no_candidates(place: Path, kobert: Callable[..., Any], by: str) -> None:
    lines = ["", TEXTS[0], " \u3000", "\u200b\ufeff", TEXTS[1], "\t"]
    Path("blank.txt").write_text("\n".join(lines), encoding="utf-8")
    printed = kobert("similar", "mlm", TEXTS[0], "연기", "--in", "blank.txt", "--by", by, "--json")
    assert printed.code == 0, printed.err
    rows = [json.loads(line) for line in printed.out.splitlines()]
    assert [(row["line"], row["text"]) for row in rows[:2]] == [(2, TEXTS[0]), (5, TEXTS[1])]
    assert {row["line"] for row in rows[2:]} == {2, 5} and len(rows) == 4


def test_blank_lines_alone_are_refused(place: Path, kobert: Callable[..., Any]) -> None:
    Path("blank.txt").write_text(" \n\u200b\n", encoding="utf-8")
    refused = kobert("similar", "mlm", "음악", "--in", "blank.txt", "--by", "bm25")
    assert (refused.code, "all texts to search in are blank" in refused.err) == (2, True)


@pytest.mark.parametrize("codec", ["cp949", "utf-16", "utf-16-le", "utf-8-sig"])
def test_lines_in_every_korean_encoding_are_searched(place: Path, kobert: Callable[..., Any], codec: str) -> None:
    Path("old.txt").write_bytes("\r\n".join(TEXTS).encode(codec))
    found = kobert("similar", "mlm", TEXTS[1], "--in", "old.txt", "--by", "bm25", "--top-k", 1, "--json")
    assert json.loads(found.out)["text"] == TEXTS[1], found.err


def test_the_rows_of_a_table_are_searched(place: Path, kobert: Callable[..., Any]) -> None:
    Path("t.csv").write_text('id,평\n1,음악이 좋다\n2,"연기가\n좋다"\n', encoding="utf-8")
    asked = ("similar", "mlm", "연기", "--in", "t.csv", "--column", "평", "--by", "bm25", "--top-k", 1)
    found = json.loads(kobert(*asked, "--json").out)
    assert (found["row"], found["text"]) == (2, "연기가\n좋다")
    assert found["id"] == "2"
    assert kobert(*asked).out.splitlines()[1].split()[:5] == ["rank", "score", "row", "id", "text"]
    assert kobert(*asked).out.rstrip().endswith("2    2   연기가 좋다")
    Path("t.csv").write_text("평\n" + "연기 " * 200, encoding="utf-8")
    assert "id" not in json.loads(kobert(*asked, "--json").out)
    assert kobert(*asked).out.rstrip().endswith("…") and len(kobert(*asked).out.splitlines()[-1].rstrip()) < 230


def test_a_column_can_be_named_whose_values_name_the_rows(place: Path, kobert: Callable[..., Any]) -> None:
    Path("t.csv").write_text("id,사건번호,평\n1,2020다1,음악이 좋다\n2,2020다2,연기가 좋다\n", encoding="utf-8")
    table = ("--column", "평", "--id-column", "사건번호")
    by_file = kobert("similar", "mlm", "연기", "--in", "t.csv", *table, "--by", "bm25", "--json").json
    assert kobert("index", "mlm", "t.csv", *table, "--out", "index").code == 0
    by_index = kobert("similar", "mlm", "연기", "--index", "index", "--by", "bm25", "--json").json
    assert by_file["id"] == by_index["id"] == "2020다2" and by_file["row"] == 2
    Path("t.csv").write_text("사건번호,평\n2020다1,[MASK]이 좋다\n2020다2,[MASK]가 좋다\n", encoding="utf-8")
    filled = kobert("predict", "mlm", "--in", "t.csv", "--column", "평", "--id-column", "사건번호", "--json").out
    assert [json.loads(line)["id"] for line in filled.splitlines()] == ["2020다1", "2020다2"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("similar", "mlm", "연기", "--in", "t.csv", "--column", "평", "--id-column", "사건"),
            "did you mean '사건번호'?",
        ),
        (("predict", "mlm", "--in", "t.csv", "--column", "평", "--id-column", "수"), "with --id-column"),
        (("predict", "mlm", "글", "--id-column", "사건번호"), "--id-column names a column of a table"),
        (
            ("index", "mlm", "lines.txt", "--out", "i", "--id-column", "수"),
            "name that of its texts, too, with --column",
        ),
    ],
    ids=str,
)
def test_a_column_of_ids_that_is_not_there_is_refused(
    place: Path, kobert: Callable[..., Any], arguments: tuple[str, ...], said: str
) -> None:
    Path("t.csv").write_text("사건번호,평\n2020다1,음악이 좋다\n", encoding="utf-8")
    Path("lines.txt").write_text("음악이 좋다\n", encoding="utf-8")
    assert said in kobert(*arguments).complaint


def test_questions_find_their_contexts(place: Path, kobert: Callable[..., Any], corpora: Path) -> None:
    methods = ["mean", "first-last", "bm25", "hybrid"]
    given = [part for method in methods for part in ("--by", method)]
    result = kobert("similar", "mlm", "--gold", corpora / "qa_dev.json", *given, "--bm25-weight", 1, "--json").json
    assert list(result["methods"]) == methods and result["queries"] > result["texts"] > 1
    assert result["methods"]["hybrid"] == result["methods"]["bm25"]  # all the weight
    assert result["methods"]["bm25"]["recall@1"] > 50
    shown = kobert("similar", "mlm", "--gold", corpora / "qa_dev.json", "--by", "bm25").out
    assert f"{result['methods']['bm25']['mrr@10']:.2f}" in shown


def test_wrong_arguments_are_refused(place: Path, kobert: Callable[..., Any], corpora: Path) -> None:
    for arguments, said in (
        (["연기"], "--in FILE"),
        (["--in", "texts.txt"], "give a QUERY"),
        (["연기", "--gold", corpora / "qa_dev.json"], "or --gold FILE.json without these"),
        (["--gold", corpora / "qa_dev.json", "--top-k", 3], "shows none; leave --top-k out"),
        (["연기", "--in", "texts.txt", "--rerank-top", 20], "--rerank-top is for --rerank CHECKPOINT"),
        (["연기", "--in", "nowhere.txt"], "nowhere.txt is not a file"),
        # what the shell makes of `--in *.txt`
        (
            ["연기", "--in", "texts.txt", "texts.txt"],
            "only the name right after --in is read as one; repeat --in for each file",
        ),
        (["연기", "--in", corpora / "qa_dev.json"], "is not one text per line"),
        (["연기", "--in", "texts.txt", "--by", "mena"], "did you mean 'mean'"),
        (["연기", "--in", "texts.txt", "--by", "weighted"], "needs weights of tokens"),
    ):
        assert said in kobert("similar", "mlm", *arguments).complaint


def test_a_search_for_words_lists_no_text_without_them(beside_encoder: Path, kobert: Any) -> None:
    Path("texts.txt").write_text("배우의 연기가 좋다\n음악이 아름답다\n", encoding="utf-8")
    asked = ("similar", "mlm", "연기", "바나나", "--in", "texts.txt", "--by", "bm25")
    found = [json.loads(line)["query"] for line in kobert(*asked, "--json").out.splitlines()]
    assert found == ["연기"]
    assert "바나나  (by bm25; no text has a word of it, or a part of one)" in kobert(*asked).out
