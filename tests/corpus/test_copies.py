"""Copies: of equals the first stays, near ones are found as often as the theory says, and nothing else is dropped."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kobert_pipeline.corpus.deduplicate import DIGEST, exact_copies, near_copies
from kobert_pipeline.corpus.document import document_parts, read_documents
from kobert_pipeline.corpus.options import CorpusOptions
from kobert_pipeline.corpus.readers.text import Text
from kobert_pipeline.corpus.stage import run

WORDS = [f"{one}{two}{ending}" for one in "가나다라마바사아" for two in "강산물불길꽃별달" for ending in ("은", "을", "에서", "처럼")]


def prose(rng, eojeols):
    return " ".join(rng.choice(WORDS, eojeols))


def changed(rng, text, count):
    words = text.split()
    for place in rng.choice(len(words), count, replace=False):
        words[place] = "바뀐말"
    return " ".join(words)


def gather(folder, texts, **options):
    folder.mkdir(exist_ok=True)
    (folder / "a.txt").write_text("\n".join(texts), encoding="utf-8")
    chosen = {"sources": [Text(path="a.txt", documents_by="line")], **options}
    counts = run(CorpusOptions.model_validate(chosen), folder, folder / "out")
    return [document.text for part in document_parts(folder / "out") for document in read_documents(part)], counts


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(files=st.lists(st.lists(st.integers(0, 5), max_size=6), max_size=5))
def test_of_equal_digests_the_first_in_order_stays(files):
    digests = [np.array([[value] * DIGEST for value in file], np.uint8).reshape(-1, DIGEST) for file in files]
    seen, expected = set(), []
    for file in files:
        expected.append([row for row, value in enumerate(file) if value in seen or seen.add(value)])
    assert [rows.tolist() for rows in exact_copies(digests)] == expected


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(files=st.lists(st.dictionaries(st.integers(0, 8), st.integers(0, 3), max_size=6), max_size=5))
def test_of_a_cluster_the_first_in_order_stays(tmp_path_factory, files):
    folder = tmp_path_factory.mktemp("clusters")
    seen, expected = set(), []
    for number, file in enumerate(files):
        if file:
            (folder / f"{number:06d}.clusters").write_bytes(b"".join(struct.pack("<2I", *pair) for pair in file.items()))
        expected.append([row for row, cluster in sorted(file.items()) if cluster in seen or seen.add(cluster)])
    assert [rows.tolist() for rows in near_copies(folder, len(files))] == expected


def test_a_nearly_equal_document_goes_and_the_first_of_a_cluster_stays(tmp_path):
    rng = np.random.default_rng(1)
    originals = [prose(rng, 200) for _ in range(20)]
    copies = [changed(rng, text, 1) for text in originals for _ in range(2)]
    found, counts = gather(tmp_path / "one", originals + copies, part_characters=3000)
    assert found == originals
    assert counts["documents_dropped_near_duplicate"] == len(copies)
    backward, _ = gather(tmp_path / "two", copies[::-1] + originals, part_characters=3000)
    assert backward == copies[::-1][::2]


def test_texts_that_only_share_words_stay(tmp_path):
    rng = np.random.default_rng(2)
    texts = [prose(rng, 200) for _ in range(200)]
    found, counts = gather(tmp_path, texts)
    assert found == texts
    assert not counts.get("documents_dropped_near_duplicate")


@pytest.mark.parametrize(("changes", "low", "high"), [(1, 0.99, 1.0), (60, 0.0, 0.02)])
def test_near_copies_are_found_by_how_much_they_share(tmp_path, changes, low, high):
    """One of 200 eojeols changed leaves 0.95 of the 5-grams in common (found with p > 0.999), sixty leave about 0.1."""
    rng = np.random.default_rng(3)
    originals = [prose(rng, 200) for _ in range(100)]
    _, counts = gather(tmp_path, originals + [changed(rng, text, changes) for text in originals])
    assert low <= counts.get("documents_dropped_near_duplicate", 0) / 100 <= high


def test_neither_kind_is_looked_for_when_not_asked(tmp_path):
    rng = np.random.default_rng(4)
    text = prose(rng, 100)
    texts = [text, text, changed(rng, text, 1)]
    assert len(gather(tmp_path / "all", texts)[0]) == 1
    assert len(gather(tmp_path / "exact", texts, deduplicate={"minhash": None})[0]) == 2
    assert len(gather(tmp_path / "none", texts, deduplicate={"exact": False, "minhash": None})[0]) == 3


def test_dropped_documents_are_laid_aside_with_their_reason(tmp_path):
    import pyarrow.parquet

    rng = np.random.default_rng(5)
    text = prose(rng, 100)
    gather(tmp_path, [text, "짧다", text, changed(rng, text, 1)], keep_dropped=True)
    rows = [
        row for path in sorted((tmp_path / "out" / "dropped").glob("*.parquet")) for row in pyarrow.parquet.read_table(path).to_pylist()
    ]
    assert sorted((row["id"], row["reason"]) for row in rows) == [
        ("a.txt#1", "short"),
        ("a.txt#2", "duplicate"),
        ("a.txt#3", "near_duplicate"),
    ]
    assert next(row["text"] for row in rows if row["reason"] == "short") == "짧다"
    assert not (gather(tmp_path / "without", [text, "짧다"]) and (tmp_path / "without" / "out" / "dropped").exists())
