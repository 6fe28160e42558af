"""Shards hold the same ids as the saved tokenizer gives, with the boundaries of all larger units."""

import itertools
import shutil
import unicodedata
from typing import Any

import numpy as np
import pytest
from front_end import loaded
from tokenizers import Tokenizer, models

from kobert_pipeline.analysis.analyzed import AnalyzedDocument, read_analysis
from kobert_pipeline.corpus.cleaning import clean
from kobert_pipeline.corpus.document import Document, document_parts, in_split
from kobert_pipeline.corpus.readers.jsonl import JsonLines
from kobert_pipeline.errors import UserError
from kobert_pipeline.morphemes.morpheme import Segmentation
from kobert_pipeline.morphemes.morpheme_tokenizer import VOCABULARY_FILE
from kobert_pipeline.morphemes.raw_text_backend import read_morpheme_backend
from kobert_pipeline.morphemes.segmentation import initials
from kobert_pipeline.morphemes.segmenter import Segmenter
from kobert_pipeline.shards.format import (
    DOCUMENT,
    EOJEOL,
    FIELDS,
    MORPHEME,
    PARAGRAPH,
    SENTENCE,
    Shard,
    Shards,
    number_sources,
    open_shard,
    shard_path,
    write_shard,
)
from kobert_pipeline.shards.stage import ShardsOptions, boundaries_of, make_shard, run

HELD_OUT = 0.1
CHOSEN = [4, 8, 48, 73, 86, 95, 101, 131, 141, 153, 198]
"""The held-out ones of kowiki#0 to kowiki#199 at a share of 0.05."""


@pytest.fixture(scope="module")
def backend(front_end):
    backend = read_morpheme_backend(front_end.tokenizer / VOCABULARY_FILE)
    backend.encode_special_tokens = True
    return backend


@pytest.fixture(scope="module")
def rows(front_end):
    return [row for part in document_parts(front_end.analysis) for row in read_analysis(part)]


def analysed(analyzer, texts, ordered=True):
    documents = [Document(str(i), "s", text, ordered) for i, text in enumerate(texts)]
    return [
        AnalyzedDocument(document, found) for document, found in zip(documents, analyzer.segment(texts), strict=True)
    ]


def ids_of(tokenizer, texts):
    return tokenizer(texts, add_special_tokens=False, split_special_tokens=True).input_ids


def documents_of(shard):
    return [shard.ids[start:end].tolist() for start, end in zip(shard.documents, shard.documents[1:], strict=False)]


# ids


@pytest.mark.parametrize(("split", "held"), (("train", False), ("held_out", True)))
def test_ids_are_the_saved_tokenizers_on_every_bundled_document(split: Any, held: Any, front_end, tokenizer, rows):
    found = [ids for shard in Shards.open(front_end.shards, split).shards for ids in documents_of(shard)]
    wanted = [row.document.text for row in rows if in_split(row.document.id, HELD_OUT) == held]
    assert found == ids_of(tokenizer, wanted)
    assert len(found) > 3


def test_ids_are_the_saved_tokenizers_on_reviews_and_contexts(tokenizer, backend, kiwi, bundled):
    texts = [clean(document.text) for document in bundled]
    assert documents_of(make_shard(backend, analysed(kiwi, texts))) == ids_of(tokenizer, texts)


def test_ids_are_the_saved_tokenizers_on_real_documents(tokenizer, backend, kiwi, real_data):
    reader = JsonLines(path="kowiki/kowiki-12m.jsonl.zst")
    texts = [clean(document.text)[:1000] for document, _ in zip(reader.read(real_data), range(60), strict=False)]
    assert len(texts) == 60
    assert documents_of(make_shard(backend, analysed(kiwi, texts))) == ids_of(tokenizer, texts)


@pytest.mark.parametrize(
    "text", ["무대 [MASK] 위[SEP]했다 [CLS] [PAD] [UNK]", "▁가 ▁", "😀👨‍👩‍👧 ㅋㅋㅋ", "", "가" * 3000 + " 끝"]
)
def test_ids_are_the_saved_tokenizers_on_odd_texts(text: Any, tokenizer, backend, kiwi):
    (found,) = documents_of(make_shard(backend, analysed(kiwi, [text])))
    assert found == ids_of(tokenizer, text)
    assert not set(found) & {0, 2, 3, 4}


def test_decomposed_documents_have_the_ids_of_composed_ones(tokenizer, backend, kiwi):
    text = "무대 위에서 했다."
    (found,) = documents_of(make_shard(backend, analysed(kiwi, [text])))
    assert found == ids_of(tokenizer, unicodedata.normalize("NFD", text))


# boundaries


def test_boundaries_are_counted_by_the_text(front_end, rows):
    shards = [shard for split in ("train", "held_out") for shard in Shards.open(front_end.shards, split).shards]
    boundaries = np.concatenate([shard.boundaries for shard in shards])
    assert {
        "documents": np.count_nonzero(boundaries & DOCUMENT),
        "paragraphs": np.count_nonzero(boundaries & PARAGRAPH),
        "sentences": np.count_nonzero(boundaries & SENTENCE),
        "eojeols": np.count_nonzero(boundaries & EOJEOL),
        "morphemes": np.count_nonzero(boundaries & MORPHEME),
    } == {
        "documents": len(rows),
        "paragraphs": sum(len(row.document.text.split("\n")) for row in rows),
        "sentences": sum(int(row.segmentation.sentences[-1]) + 1 for row in rows),
        "eojeols": sum(len(row.document.text.split()) for row in rows),
        "morphemes": sum(len(row.segmentation) for row in rows),
    }


def test_a_larger_boundary_is_a_smaller_one_too(front_end):
    for shard in Shards.open(front_end.shards, "train").shards:
        for larger, smaller in (
            (DOCUMENT, PARAGRAPH),
            (PARAGRAPH, SENTENCE),
            (PARAGRAPH, EOJEOL),
            (EOJEOL, MORPHEME),
            (SENTENCE, MORPHEME),
        ):
            assert not np.any((shard.boundaries & larger > 0) & (shard.boundaries & smaller == 0))
        assert np.array_equal(np.flatnonzero(shard.boundaries & DOCUMENT), shard.documents[:-1])


def test_boundaries_are_where_the_text_has_them(backend, kiwi):
    text = "나는 했다. 그는 갔다.\n  끝이다"
    shard = make_shard(backend, analysed(kiwi, [text, "", "또"]))
    tokens = [backend.id_to_token(i) for i in shard.ids]
    marks = [
        "".join(letter for letter, bit in zip("mespd", (1, 2, 4, 8, 16), strict=True) if bits & bit)
        for bits in shard.boundaries
    ]
    eojeols = [i for i, mark in enumerate(marks) if "e" in mark]
    assert all(tokens[i].startswith("▁") for i in eojeols)
    assert len(eojeols) == 6
    assert [marks[i] for i in eojeols] == ["mespd", "me", "mes", "me", "mesp", "mespd"]
    assert shard.documents.tolist() == [0, len(shard.ids) - 1, len(shard.ids) - 1, len(shard.ids)]


def test_tokens_inside_a_morpheme_begin_nothing(backend):
    shard = make_shard(backend, analysed(Segmenter("whitespace"), ["다" * 60]))
    assert len(shard.ids) > 10
    assert shard.boundaries.tolist() == [31] + [0] * (len(shard.ids) - 1)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_shard_says_whether_order_means_anything(ordered: Any, backend, kiwi):
    assert make_shard(backend, analysed(kiwi, ["가", "나"], ordered)).ordered.tolist() == [ordered] * 2, ordered


def test_ids_are_small_integers(front_end):
    (shard, *_) = Shards.open(front_end.shards, "train").shards
    assert (shard.ids.dtype, shard.boundaries.dtype, shard.documents.dtype, shard.ordered.dtype) == (
        np.uint16,
        np.uint8,
        np.int64,
        bool,
    )


# the split


def test_the_split_is_a_fixed_choice_by_the_id():
    chosen = [number for number in range(200) if in_split(f"kowiki#{number}", 0.05)]
    assert chosen == CHOSEN, "changing the choice would let documents that were held out into training"


def test_the_share_is_kept_and_a_larger_share_only_adds():
    ids = [f"문서-{number}" for number in range(20_000)]
    shares = [{one for one in ids if in_split(one, share)} for share in (0.005, 0.05, 0.4)]
    assert shares[0] < shares[1] < shares[2]
    assert [len(share) / len(ids) for share in shares] == pytest.approx([0.005, 0.05, 0.4], rel=0.15)


def test_counts_are_those_of_the_shards(front_end, tmp_path):
    counts = run(ShardsOptions(held_out=HELD_OUT), front_end.analysis, front_end.tokenizer, tmp_path)
    for split in ("train", "held_out"):
        shards = Shards.open(tmp_path, split)
        assert counts[f"{split}_tokens"] == len(shards)
        assert counts[f"{split}_documents"] == sum(len(shard.ordered) for shard in shards.shards)
    assert counts["train_documents"] + counts["held_out_documents"] == 82
    for path in front_end.shards.glob("*.npy"):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), "made twice, the same bytes"


def test_a_share_that_leaves_a_split_empty_is_refused(front_end, tmp_path):
    with pytest.raises(UserError, match=r"shards\.held_out = 1e-09"):
        run(ShardsOptions(held_out=1e-9), front_end.analysis, front_end.tokenizer, tmp_path)


def test_a_finished_part_is_not_made_again_and_one_that_changed_is_named(front_end, tmp_path):
    out = tmp_path / "shards"
    shutil.copytree(front_end.shards, out)
    times = {path.name: path.stat().st_mtime_ns for path in out.glob("*.npy")}
    (out / "train-00001.ids.npy.done.json").unlink()
    run(ShardsOptions(held_out=HELD_OUT), front_end.analysis, front_end.tokenizer, out)
    again = {path.name for path in out.glob("*.npy") if path.stat().st_mtime_ns != times[path.name]}
    assert again == {name for name in times if "-00001." in name}
    ids = out / "train-00000.ids.npy"
    ids.write_bytes(ids.read_bytes()[:-2] + b"\x07\x00")
    with pytest.raises(UserError, match=r"train-00000\.ids\.npy has changed"):
        run(ShardsOptions(held_out=HELD_OUT), front_end.analysis, front_end.tokenizer, out)


# the format


def numbered(first, lengths):
    """A shard of documents with these numbers of tokens, ids counting up from `first`."""
    documents = np.cumsum([0, *lengths], dtype=np.int64)
    ids = np.arange(first, first + documents[-1], dtype=np.uint16)
    return Shard(
        ids, (ids % 32).astype(np.uint8), documents, np.ones(len(lengths), bool), *number_sources("x" * len(lengths))
    )


def test_a_shard_comes_back_as_it_was(tmp_path):
    write_shard(tmp_path, "train-00000", numbered(7, [3, 0, 4]))
    back, wanted = open_shard(tmp_path, "train-00000"), numbered(7, [3, 0, 4])
    for field in FIELDS:
        assert np.array_equal(getattr(back, field), getattr(wanted, field))
        assert getattr(back, field).dtype == getattr(wanted, field).dtype
    assert isinstance(back.ids, np.memmap)


def test_several_shards_are_one_sequence(tmp_path):
    sizes = [[5, 2], [], [3], [0], [4, 4]]
    starts = np.cumsum([0, *map(sum, sizes)]).tolist()
    for number, (lengths, first) in enumerate(zip(sizes, starts, strict=False)):
        write_shard(tmp_path, f"train-{number:05d}", numbered(first, lengths))
    write_shard(tmp_path, "held_out-00000", numbered(1000, [2]))
    shards = Shards.open(tmp_path, "train")
    assert len(shards) == 18
    assert shards.offsets.tolist() == starts
    for lengths, first in zip(sizes, starts, strict=False):
        for start in range(first, first + sum(lengths)):
            for end in range(start, first + sum(lengths) + 1):
                ids, boundaries = shards.gather(np.array([start]), np.array([end - start]))
                assert ids.tolist() == list(range(start, end))
                assert boundaries.tolist() == [i % 32 for i in range(start, end)]
    assert len(Shards.open(tmp_path, "held_out")) == 2
    with pytest.raises(UserError, match="no shard of the split 'nothing'"):
        Shards.open(tmp_path, "nothing")


def test_a_damaged_array_is_the_users_to_make_again(tmp_path):
    for field, damage in itertools.product(FIELDS, ["missing", "empty", "half", "noise", "short"]):
        write_shard(tmp_path, "train-00000", numbered(7, [30, 40]))
        path = shard_path(tmp_path, "train-00000", field)
        content = path.read_bytes()
        array = np.load(path)
        if damage == "missing":
            path.unlink()
        elif damage == "short":
            np.save(path, array[:-1])
        else:
            path.write_bytes({"empty": b"", "half": content[: len(content) // 2], "noise": b"noise" * 40}[damage])
        with pytest.raises(UserError, match=r"train-00000.*--redo shards"):
            open_shard(tmp_path, "train-00000")


def test_an_array_without_documents_is_damaged(tmp_path):
    write_shard(tmp_path, "train-00000", numbered(7, [3]))
    np.save(shard_path(tmp_path, "train-00000", "documents"), np.empty(0, np.int64))
    with pytest.raises(UserError, match="train-00000"):
        open_shard(tmp_path, "train-00000")


@pytest.mark.parametrize("size", [1500, 2**16, 2**16 + 1])
def test_ids_fit_their_type(size: Any):
    vocabulary = {f"p{i}": i for i in range(size - 1)} | {"[UNK]": size - 1}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    shard = make_shard(backend, analysed(Segmenter("whitespace"), ["없다"]))
    assert shard.ids.dtype == (np.uint16 if size <= 2**16 else np.uint32), size
    assert shard.ids.tolist() == [size - 1], size


def test_the_stage_needs_only_the_saved_folder(front_end, tmp_path):
    """A tokenizer saved again by `transformers` gives the same shards."""
    loaded(front_end.tokenizer).save_pretrained(tmp_path / "tokenizer")
    run(ShardsOptions(held_out=HELD_OUT), front_end.analysis, tmp_path / "tokenizer", tmp_path / "shards")
    for path in front_end.shards.glob("*.npy"):
        assert (tmp_path / "shards" / path.name).read_bytes() == path.read_bytes()


def test_a_morpheme_of_an_empty_span_at_a_line_break_ends_its_line() -> None:
    """As the copula that Kiwi adds where the text leaves it out."""
    text = "그것\n다음"
    starts, ends = np.array([0, 2, 3], np.int32), np.array([2, 2, 5], np.int32)
    initial = initials(text, starts, ends)
    segmentation = Segmentation(starts, ends, np.array([0, 0, 1], np.int32), initial, ["그것", "이", "다음"])
    bits = boundaries_of(AnalyzedDocument(Document("a", "a.txt", text), segmentation), np.arange(3))
    assert [bool(bit & PARAGRAPH) for bit in bits] == [True, False, True]
