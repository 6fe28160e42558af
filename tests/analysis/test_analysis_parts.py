"""Stored segmentations equal the original ones, and a finished part is not analysed again."""

import numpy as np
import pytest
from front_end import PROPERTY, any_text
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kobert_pipeline.analysis import stage
from kobert_pipeline.analysis.analyzed import AnalyzedDocument, read_analysis, write_analysis
from kobert_pipeline.analysis.stage import AnalysisOptions, run
from kobert_pipeline.corpus.document import Document, document_parts, read_documents, write_documents
from kobert_pipeline.corpus.executor import Executor
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json_with_digest, write_json_with_digest
from kobert_pipeline.morphemes.morpheme import STYLES, Segmentation
from kobert_pipeline.morphemes.segmentation import initials
from kobert_pipeline.morphemes.segmenter import Segmenter

SEGMENTERS = [Segmenter("whitespace"), *(Segmenter(style=style) for style in STYLES)]


@settings(PROPERTY, max_examples=30)
@given(texts=st.lists(any_text, max_size=4))
@example(texts=["", " \n", "가\n\n  나"])
def test_segmentations_come_back_as_they_were(tmp_path_factory, texts):
    for analyzer in SEGMENTERS:
        rows = [
            AnalyzedDocument(Document(str(i), "s", text, i % 2 == 0), segmentation)
            for i, (text, segmentation) in enumerate(zip(texts, analyzer.segment(texts), strict=True))
        ]
        path = tmp_path_factory.mktemp("part") / "part-00000.parquet"
        write_analysis(path, rows)
        found = list(read_analysis(path))
        assert found == rows, analyzer
        assert [row.words() for row in found] == [row.words() for row in rows], analyzer


def test_distances_are_wide_enough_for_far_and_long_morphemes(tmp_path):
    text = "가" * 300_000
    starts, ends, sentences = np.array([[0, 40_000, 0], [200_000, 200_001, 1], [200_001, 300_000, 2]], np.int32).T
    row = AnalyzedDocument(
        Document("1", "s", text), Segmentation(starts, ends, sentences, initials(text, starts, ends))
    )
    write_analysis(tmp_path / "part-00000.parquet", [row])
    assert list(read_analysis(tmp_path / "part-00000.parquet")) == [row]


def test_tokens_are_the_marked_morphemes(kiwi):
    document = Document("1", "s", "나는 했다.\n그래")
    tokens = AnalyzedDocument(document, next(kiwi.segment([document.text]))).words()
    assert tokens == ["▁나", "는", "▁했", "다", ".", "▁그래"]


def test_the_stage_stores_the_analyzers_morphemes_of_every_part(front_end, kiwi):
    assert [path.name for path in document_parts(front_end.analysis)] == [
        path.name for path in document_parts(front_end.corpus)
    ]
    assert len(document_parts(front_end.analysis)) > 1
    for path in document_parts(front_end.corpus):
        documents = list(read_documents(path))
        rows = list(read_analysis(front_end.analysis / path.name))
        assert [row.document for row in rows] == documents
        assert [row.segmentation for row in rows] == list(kiwi.segment(document.text for document in documents))


@pytest.fixture
def small(tmp_path):
    """A corpus of two parts."""
    for number, texts in enumerate([["무대 위에서 했다.\n갔다. 또 갔다"], ["그래", "정말 재밌었다 그치"]]):
        write_documents(
            tmp_path / "corpus" / f"part-{number:05d}.parquet",
            [Document(f"{number}.{i}", "s", text) for i, text in enumerate(texts)],
        )
    return tmp_path


def analyse(small):
    return run(AnalysisOptions(analyzer="whitespace"), small / "corpus", small, small / "out", num_workers=1)


def test_the_counts_are_those_of_the_texts(small):
    assert analyse(small) == {
        "documents": 3,
        "characters": 31,
        "morphemes": 12,
        "eojeols": 10,
        "sentences": 4,
        "documents_failed": 0,
        "failed": [],
    }


def test_sentences_within_a_line_are_counted(small, kiwi):
    documents = [document for part in document_parts(small / "corpus") for document in read_documents(part)]
    segmentations = list(kiwi.segment(document.text for document in documents))
    counts = stage.write_part(small / "part-00000.parquet", list(zip(documents, segmentations, strict=True)))
    assert counts["sentences"] == sum(
        len({morpheme.sentence for morpheme in segmentation}) for segmentation in segmentations
    )
    assert counts["sentences"] > 4, "Kiwi finds two sentences in a line"


def test_a_finished_part_is_not_analysed_again(small):
    counts = analyse(small)
    first, second = document_parts(small / "out")
    (small / "out" / f"{second.name}.done.json").unlink()
    before, content = first.stat().st_mtime_ns, second.read_bytes()
    second.write_bytes(b"half a file")
    assert analyse(small) == counts
    assert first.stat().st_mtime_ns == before
    assert second.read_bytes() == content


def test_a_finished_parts_counts_are_taken_from_its_mark(small):
    counts = analyse(small)
    mark = small / "out" / "part-00000.parquet.done.json"
    content = read_json_with_digest(mark)
    assert content["counts"]["morphemes"] == 8
    write_json_with_digest(mark, content | {"counts": content["counts"] | {"morphemes": 1008}})
    assert analyse(small)["morphemes"] == counts["morphemes"] + 1000


def test_a_part_that_changed_is_named(small):
    analyse(small)
    part = document_parts(small / "out")[1]
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"part-00001\.parquet has changed"):
        analyse(small)


def test_every_part_is_read_once_and_one_without_documents_is_written_too(tmp_path, monkeypatch):
    texts = {"part-00000": ["첫째 글이다."], "part-00001": [], "part-00002": ["둘째다.", "셋째 글."], "part-00003": []}
    for name, own in texts.items():
        documents = [Document(f"{name}-{i}", "a.txt", text, True) for i, text in enumerate(own)]
        write_documents(tmp_path / "corpus" / f"{name}.parquet", documents)
    read = []
    real = stage.read_documents
    monkeypatch.setattr(stage, "read_documents", lambda path: (read.append(path.stem), real(path))[1])
    options = AnalysisOptions(analyzer="whitespace")
    counts = run(options, tmp_path / "corpus", tmp_path, tmp_path / "out", num_workers=1)
    assert read == list(texts)
    assert counts["documents"] == 3
    found = {path.stem: [row.document.text for row in read_analysis(path)] for path in document_parts(tmp_path / "out")}
    assert found == texts


class OneByOne(Executor):
    """Runs the tasks in this process, each twice, as a cluster may that starts a lost task again."""

    def build(self, steps, tasks, logs):
        raise NotImplementedError

    def run_parts(self, step, sizes, out, activity):
        for rank in range(len(sizes)):
            step(None, rank, len(sizes))
            written = stage.document_parts(step.corpus)[rank].name
            before = (out / written).stat().st_mtime_ns
            step(None, rank, len(sizes))
            assert (out / written).stat().st_mtime_ns == before, "a finished part is not written again"


def test_part_by_part_the_analysis_is_the_same(tmp_path):
    corpus = tmp_path / "corpus"
    for number in range(2):
        documents = [Document(f"{number}-{i}", "s", "나는 간다\n\n너도") for i in range(3)]
        write_documents(corpus / f"part-{number:05d}.parquet", documents)
    options = AnalysisOptions.model_validate({"analyzer": "whitespace"})
    counts = run(options, corpus, tmp_path, tmp_path / "here", 1)
    assert counts["documents"] == 6
    assert run(options, corpus, tmp_path, tmp_path / "there", executor=OneByOne(name="one")) == counts
    for path in document_parts(tmp_path / "here"):
        assert (tmp_path / "there" / path.name).read_bytes() == path.read_bytes()
