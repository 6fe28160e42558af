"""A text on which the analyzer dies or hangs is the only one lost and is named; absurd texts do no harm."""

import os
import signal
import subprocess
import sys
import time
import unicodedata

import pytest
from faulty import DiesAtItsFirstStart, FaultySegmenter

from kobert_pipeline.analysis import stage
from kobert_pipeline.analysis.analyzed import read_analysis
from kobert_pipeline.analysis.stage import AnalysisOptions, run
from kobert_pipeline.analysis.workers import CHUNK_CHARACTERS, FailedDocument, Workers
from kobert_pipeline.corpus.cleaning import clean
from kobert_pipeline.corpus.document import Document, document_parts, write_documents
from kobert_pipeline.errors import UserError
from kobert_pipeline.morphemes.segmenter import Segmenter, batches_of

GOOD = [f"{number}번 글이 왔다" for number in range(40)]


def outcome(texts, num_workers=2, timeout=60.0):
    with Workers(FaultySegmenter(), num_workers, timeout) as workers:
        return [
            result.reason if isinstance(result, FailedDocument) else result.words(text)
            for text, result in zip(texts, workers.segment(texts), strict=True)
        ]


def alone(text):
    (found,) = Segmenter("whitespace").segment([text])
    return found.words(text)


REASONS = {
    "죽는다": "the analyzer died on it (exit code -9)",
    "거절한다": "the analyzer refused it (RuntimeError: not this one)",
}


@pytest.mark.parametrize(
    "guilty",
    [
        {0: "죽는다", 7: "거절한다", 8: "죽는다", 39: "거절한다"},
        *(
            pytest.param(dict.fromkeys(places, word), marks=pytest.mark.slow)
            for word in REASONS
            for places in ([0], [39], [7, 8, 30])
        ),
    ],
)
def test_only_the_guilty_texts_are_lost(guilty):
    texts = [f"{text} {guilty.get(place, '')}".strip() for place, text in enumerate(GOOD)]
    expected = [REASONS[guilty[place]] if place in guilty else alone(text) for place, text in enumerate(texts)]
    assert outcome(texts) == expected


def test_a_text_that_hangs_is_given_up():
    texts = [GOOD[0], "여기서 멈춘다", GOOD[1]]  # which takes three timeouts: of all, of a half, and its own
    found = outcome(texts, timeout=1.0)
    assert found == [alone(GOOD[0]), "the analyzer took more than 1 s for it", alone(GOOD[1])]


def test_order_and_morphemes_do_not_depend_on_the_number_of_workers():
    texts = [f"{number} " + "가나 다 " * (number * 997 % 4001) for number in range(60)]
    assert sum(map(len, texts)) > 3 * CHUNK_CHARACTERS
    assert outcome(texts, 1) == outcome(texts, 3) == [alone(text) for text in texts]


def test_chunks_are_whole_texts_in_order():
    texts = ["가" * 60_000, "나" * 60_000, "다", "라" * 250_000, "마"]
    assert [[text[0] for text in chunk] for chunk in batches_of(texts, CHUNK_CHARACTERS)] == [
        ["가", "나"],
        ["다", "라"],
        ["마"],
    ]
    assert list(batches_of([], CHUNK_CHARACTERS)) == []


def corpus_of(folder, texts):
    documents = [Document(f"글-{number}", "s", text) for number, text in enumerate(texts)]
    write_documents(folder / "corpus" / "part-00000.parquet", documents)
    return folder / "corpus"


ABSURD = {
    "one word of 100,000 characters": ("가나다", 33_334),
    "one letter 100,000 times": ("ㅋ", 100_000),
    "only emoji": ("😀👨‍👩‍👧‍👦🇰🇷❤️", 5000),
    "unpaired surrogates": ("했다\ud800 갔다\udfff", 10),
    "null bytes": ("했\x00다\x00", 100),
    "one line of 1 MB": ("그는 오늘도 학교에 갔다가 돌아왔다. ", 17_000),
    "combining marks": ("가" + "\u0301" * 500, 100),
    "old Hangul": ("나랏〮말〯ᄊᆞ미〮 듕귁〮에〮달아〮", 1000),
    "right to left": ("שלום عربى ", 5000),
}


@pytest.mark.parametrize("share", [0.1, pytest.param(1, marks=pytest.mark.slow)])
def test_absurd_texts_are_analysed_like_others(tmp_path, share):
    texts = [clean(unit * int(count * share)) for unit, count in ABSURD.values()]
    corpus = corpus_of(tmp_path, [*texts, "그는 갔다"])
    counts = run(AnalysisOptions(), corpus, tmp_path, tmp_path / "out", num_workers=1)
    assert (counts["documents"], counts["failed"]) == (len(texts) + 1, [])
    for row in (row for part in document_parts(tmp_path / "out") for row in read_analysis(part)):
        text = row.document.text
        assert "".join(text[one.start : one.end] for one in row.segmentation) == "".join(text.split())


@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_pool_that_breaks_is_started_anew_and_nothing_is_lost(num_workers, tmp_path):
    """Its tasks are too large for a pipe to hold them all."""
    texts = [f"{number}번 글이 왔다 " * (CHUNK_CHARACTERS // 10) for number in range(6)]
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it hangs"))
    signal.alarm(120)
    try:
        with Workers(DiesAtItsFirstStart(tmp_path / "started"), num_workers, 60) as workers:
            first = workers.pool
            results = list(workers.segment(texts))
            assert (workers.pool is not first or num_workers == 2) and workers.broken == 0
            workers.pool.stop()  # between two results
            workers.pool.join()
            results += workers.segment(texts[:1])
    finally:
        signal.alarm(0)
    assert [result.words(text) for text, result in zip([*texts, texts[0]], results, strict=True)] == [
        alone(text) for text in [*texts, texts[0]]
    ]


def test_a_document_that_fails_is_named_in_the_counts_and_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(stage, "Workers", lambda segmenter, *rest: Workers(FaultySegmenter(), *rest))
    corpus = corpus_of(tmp_path, [GOOD[0], "이것이 죽는다", GOOD[1]])
    counts = run(AnalysisOptions(analyzer="whitespace"), corpus, tmp_path, tmp_path / "out", num_workers=1)
    assert counts["documents_failed"] == 1
    assert counts["failed"] == [{"id": "글-1", "reason": "the analyzer died on it (exit code -9)"}]
    assert [row.document.text for row in read_analysis(tmp_path / "out" / "part-00000.parquet")] == GOOD[:2]
    assert run(AnalysisOptions(analyzer="whitespace"), corpus, tmp_path, tmp_path / "out") == counts, (
        "also when taken from the marks"
    )


def test_an_analyzer_that_fails_everywhere_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(stage, "Workers", lambda segmenter, *rest: Workers(FaultySegmenter(), *rest))
    with pytest.raises(UserError, match=r"failed on every document; the first: .*글-0"):
        run(
            AnalysisOptions(),
            corpus_of(tmp_path, ["거절한다", "또 거절한다"]),
            tmp_path,
            tmp_path / "out",
            num_workers=1,
        )


SCRIPT = """
import sys
from faulty import FaultySegmenter
from kobert_pipeline.analysis.workers import Workers
if __name__ == "__main__":
    with Workers(FaultySegmenter(), 2, 1000) as workers:
        print(*[child.pid for child in __import__("multiprocessing").active_children()], flush=True)
        list(workers.segment(["여기서 멈춘다"]))
"""


def test_no_worker_outlives_a_killed_parent(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py")], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        process.stdout.readline()
        children = children_of(process.pid, 2)
        process.kill()
    deadline = time.monotonic() + 20
    while (left := [child for child in children if alive(child)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left


def children_of(pid, count):
    """The processes that `pid` started to work, once there are `count`."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found = [
            int(line.split()[0])
            for line in subprocess.run(
                ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True
            ).stdout.splitlines()
        ]
        if len(found) >= count:
            return found
        time.sleep(0.1)
    raise AssertionError("no workers were started")


def alive(pid):
    result = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return bool(result) and not result.startswith("Z")


class Unloadable:
    """An analyzer whose model cannot be loaded in the worker processes."""

    def segment(self, texts, num_workers=None):
        raise OSError("no model here")


def test_workers_that_cannot_start_are_no_documents_fault():
    with pytest.raises(UserError, match="worker processes cannot start"), Workers(Unloadable(), 1, 60.0) as workers:
        list(workers.segment(GOOD))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "does not exist"),
        ("", "is empty"),
        ("모델\n모델\tNNQ\n", r"words.tsv, line 2: .*'NNQ' is no tag.*did you mean"),
        ("대한 민국\n", r"a form without white space.*'민국' is no tag, such as NNG; join the parts of a word"),
        ("모델,NNP\n구상금\n", r"line 1: '모델,NNP' has its tag after a comma; put a tab"),
        ("구상금,nng,3\n", r"line 1: '구상금,nng,3' has its tag after a comma"),
        ("구상금, NNG\n", r"line 1: '구상금,' has its tag after a comma"),
        ("모델 NNP 3 새\n", "has 4 columns"),
        ("모델\tNNP\tviel\n", "the third column is a score.*'viel'"),
        ("모델\tNNP\tnan\n모델 NNG inf", r"line 1: .*'nan' .also refused: line 2"),
    ],
)
def test_a_user_dictionary_that_does_not_serve_is_refused_by_line(tmp_path, content, said):
    if content is not None:
        (tmp_path / "words.tsv").write_text(content, encoding="utf-8")
    options = AnalysisOptions(analyzer={"name": "kiwi", "user_dictionary": "words.tsv"})
    with pytest.raises(UserError, match=said):
        options.analyzer.files(tmp_path)


def test_a_word_may_be_called_like_a_tag_and_have_a_comma(tmp_path):
    (tmp_path / "words.tsv").write_text("IC\nMM\tNNP\n1,000원권\n", encoding="utf-8")
    analyzer = AnalysisOptions(analyzer={"name": "kiwi", "user_dictionary": "words.tsv"}).analyzer
    assert [word[:2] for word in analyzer.user_words(tmp_path)] == [("IC", "NNG"), ("MM", "NNP"), ("1,000원권", "NNG")]


def test_a_word_of_a_user_dictionary_is_one_morpheme_whatever_follows_it(tmp_path):
    words = ["손해배상청구권", "완전포괄주의", "개발부담금", "미필적고의"]
    compound = "미필적 고의"  # which Kiwi knows, and which hides the word without a space
    decomposed = unicodedata.normalize("NFD", words[2]) + "\u200b"  # as copied from a web page
    content = f"# 용어\n\n{words[0]}\n{words[1]}\tNNP\t15\n{decomposed} NNG\n{words[3]}\n"
    (tmp_path / "words.tsv").write_text(content, encoding="utf-8")
    analyzer = AnalysisOptions(analyzer={"name": "kiwi", "user_dictionary": "words.tsv"}).analyzer
    assert [word for word, *_ in analyzer.segmenter(tmp_path).user_words] == [*words, compound]
    texts = [
        f"원고의 {word}{ending} 정하였다." for word in words for ending in ("은", "을", "이란", "마다", "에 관하여")
    ]
    for text, segmented in zip(texts, analyzer.segmenter(tmp_path).segment(texts), strict=True):
        spelled = [text[morpheme.start : morpheme.end] for morpheme in segmented]
        assert any(word in spelled for word in words), spelled
