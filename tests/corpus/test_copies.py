"""Copies: the first of equal documents is kept, near copies are found as often as the theory says, and nothing else is
dropped."""

import resource
import struct

import numpy as np
import pytest
from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupCluster
from hypothesis import given, settings
from hypothesis import strategies as st

from kobert_pipeline.corpus.deduplicate import DIGEST, allow_open_files, exact_copies, near_copies
from kobert_pipeline.corpus.document import document_parts, read_documents
from kobert_pipeline.corpus.options import CorpusOptions
from kobert_pipeline.corpus.readers.text import Text
from kobert_pipeline.corpus.stage import run
from kobert_pipeline.errors import UserError

WORDS = [
    f"{one}{two}{ending}"
    for one in "가나다라마바사아"
    for two in "강산물불길꽃별달"
    for ending in ("은", "을", "에서", "처럼")
]


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
    first, expected = {}, [{} for _ in files]
    for number, file in enumerate(files):
        for row, value in enumerate(file):
            if first.setdefault(value, (number, row)) != (number, row):
                expected[number][row] = first[value]
    assert exact_copies(digests) == expected


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(pairs=st.lists(st.tuples(*[st.integers(0, 3), st.integers(0, 6)] * 2), max_size=12))
def test_of_a_cluster_the_first_in_order_stays(tmp_path_factory, pairs):
    """Clusters are those of datatrove."""
    folder = tmp_path_factory.mktemp("pairs")
    for number in range(2):
        (folder / f"{number:05d}_00.dups").write_bytes(
            b"".join(struct.pack("<4I", *pair) for pair in pairs[number::2] if pair[:2] != pair[2:])
        )
    MinhashDedupCluster(
        str(folder), str(folder / "clusters"), config=MinhashConfig(num_buckets=2), save_cluster_id=True
    ).run()
    first, expected = {}, [{} for _ in range(4)]
    for number in range(4):
        path = folder / "clusters" / f"{number:06d}.clusters"
        for row, cluster in sorted(struct.iter_unpack("<2I", path.read_bytes())) if path.is_file() else []:
            if first.setdefault(cluster, (number, row)) != (number, row):
                expected[number][row] = first[cluster]
    assert near_copies(folder, 4) == expected


def test_near_copies_are_found_below_any_path(tmp_path):
    rng = np.random.default_rng(6)
    originals = [prose(rng, 200) for _ in range(5)]
    _, counts = gather(tmp_path / "a[1] b*c?", originals + [changed(rng, text, 1) for text in originals])
    assert counts["documents_dropped_near_duplicate"] == 5


def test_more_chunks_than_a_process_may_open_are_refused_or_allowed(monkeypatch):
    limits = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 1000))
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: limits.append(pair))
    for count in (200, 1000):
        allow_open_files(count)
    assert limits == [(1000, 1000)]
    with pytest.raises(UserError, match=r"lets a process open 1000 files; raise `ulimit -Hn`"):
        allow_open_files(1001)


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


def test_near_copies_are_found_by_how_much_they_share(tmp_path):
    """One of 200 eojeols changed leaves 0.95 of the 5-grams in common (found with p > 0.999), sixty leave about 0.1."""
    rng = np.random.default_rng(3)
    originals = [prose(rng, 200) for _ in range(100)]
    near, far = ([changed(rng, text, count) for text in originals] for count in (1, 60))
    kept = set(gather(tmp_path, originals + near + far)[0])
    assert kept.issuperset(originals)
    assert len(kept.intersection(near)) <= 1
    assert len(kept.intersection(far)) >= 98


def test_neither_kind_is_looked_for_when_not_asked(tmp_path):
    rng = np.random.default_rng(4)
    text = prose(rng, 100)
    texts = [text, text, changed(rng, text, 1)]
    assert len(gather(tmp_path / "all", texts)[0]) == 1
    assert len(gather(tmp_path / "exact", texts, deduplicate={"minhash": None})[0]) == 2
    assert len(gather(tmp_path / "none", texts, deduplicate={"exact": False, "minhash": None})[0]) == 3


def test_dropped_documents_are_written_with_their_reason(tmp_path):
    import pyarrow.parquet

    rng = np.random.default_rng(5)
    text = prose(rng, 100)
    near = changed(rng, text, 1)
    # the last one is equal to a document that is itself a near copy, of the first
    gather(tmp_path, [text, "짧다", text, near, near], keep_dropped=True, part_characters=100)
    rows = [
        row
        for path in sorted((tmp_path / "out" / "dropped").glob("*.parquet"))
        for row in pyarrow.parquet.read_table(path).to_pylist()
    ]
    assert sorted((row["id"], row["reason"], row["copy_of"]) for row in rows) == [
        ("a.txt#1", "short", ""),
        ("a.txt#2", "duplicate", "a.txt#0"),
        ("a.txt#3", "near_duplicate", "a.txt#0"),
        ("a.txt#4", "duplicate", "a.txt#0"),
    ]
    assert next(row["text"] for row in rows if row["reason"] == "short") == "짧다"
    assert not (gather(tmp_path / "without", [text, "짧다"]) and (tmp_path / "without" / "out" / "dropped").exists())
