"""The whole corpus stage on small trees: what is dropped, why, and that the counts add up."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from front_end import CORPORA

from kobert_pipeline.cli.run_results import characters_by_source, corpus_results
from kobert_pipeline.corpus.document import document_parts, is_from, read_documents
from kobert_pipeline.corpus.filters import FilterOptions
from kobert_pipeline.corpus.phases import task_inputs
from kobert_pipeline.corpus.reader import Reader, Skipped
from kobert_pipeline.corpus.readers.html import Html
from kobert_pipeline.corpus.readers.json import Json
from kobert_pipeline.corpus.readers.jsonl import JsonLines
from kobert_pipeline.corpus.readers.nsmc import Nsmc
from kobert_pipeline.corpus.readers.squad import Squad
from kobert_pipeline.corpus.readers.subtitles import Subtitles
from kobert_pipeline.corpus.readers.text import Text
from kobert_pipeline.corpus.stage import SAMPLES, VERSION, CorpusOptions, raw_files, run, version
from kobert_pipeline.errors import UserError
from kobert_pipeline.pipeline.preflight import source_names

HELD = "이 영화는 정말로 재미있고 감동적이었습니다"
OTHER = "배우들의 연기가 훌륭해서 두 번이나 보았어요"
THIRD = "음악이 좋았고 장면마다 아름다운 그림 같았다"


def gather(folder, documents, held=(), **options):
    """Run the stage on these documents; returns the kept ones and the counts."""
    (folder / "a.txt").write_text("\n\n".join(documents), encoding="utf-8")
    (folder / "test.txt").write_text(
        "id\tdocument\tlabel\n" + "".join(f"{i}\t{text}\t1\n" for i, text in enumerate(held)), encoding="utf-8"
    )
    options = {"decontaminate": [Nsmc(path="test.txt")] if held else [], **options}
    counts = run(
        CorpusOptions.model_validate({"sources": [Text(path="a.txt", ordered=False)], **options}),
        folder,
        folder / "out",
    )
    return [document for part in document_parts(folder / "out") for document in read_documents(part)], counts


EXACT_ONLY = {"minhash": None}


def dropped(counts):
    return {
        key.removeprefix("documents_dropped_"): value
        for key, value in counts.items()
        if key.startswith("documents_dropped_")
    }


def add_up(counts):
    return counts["documents_read"] == counts["documents_kept"] + sum(dropped(counts).values())


def test_a_contaminated_review_goes_and_the_rest_of_its_film_stays(tmp_path):
    documents, counts = gather(
        tmp_path, [f"{OTHER}\n{HELD.replace(' ', '  ')}\n{THIRD}", THIRD + " 두 번째"], held=[HELD]
    )
    assert [document.text for document in documents] == [f"{OTHER}\n{THIRD}", THIRD + " 두 번째"]
    assert not documents[0].ordered
    assert counts["paragraphs_contaminated"] == 1
    assert counts["characters_contaminated"] == len(HELD)
    assert counts["contaminated_samples"] == [HELD]
    assert add_up(counts)


def test_a_wholly_contaminated_document_is_dropped_as_such(tmp_path):
    documents, counts = gather(tmp_path, [HELD, OTHER], held=[HELD])
    assert [document.text for document in documents] == [OTHER]
    assert dropped(counts) == {"contaminated": 1}
    assert add_up(counts)


def test_evaluation_texts_are_found_however_they_were_written(tmp_path):
    trained_of_held = {
        f"&quot;{THIRD}&quot;": f'"{THIRD}"',
        HELD[:8] + "\u200b" + HELD[8:]: HELD,
        "&lt;무대&gt; 정말 재미있었어요": "<무대> 정말 재미있었어요",
        "가\u1102\u1161다라마바사아자차카타": "가나다라마바사아자차카타",
    }
    documents, counts = gather(tmp_path, [*trained_of_held.values(), OTHER], held=trained_of_held)
    assert [document.text for document in documents] == [OTHER]
    assert dropped(counts) == {"contaminated": 4}


def test_equal_documents_are_kept_once_and_counted(tmp_path):
    documents, counts = gather(
        tmp_path, [OTHER, OTHER.replace(" ", "  "), OTHER.replace(" ", ""), THIRD, OTHER + "!"], deduplicate=EXACT_ONLY
    )
    assert [document.text for document in documents] == [OTHER, THIRD, OTHER + "!"]
    assert dropped(counts) == {"duplicate": 2}
    assert add_up(counts)


def test_duplicates_stay_when_asked_to(tmp_path):
    documents, counts = gather(tmp_path, [OTHER, OTHER], deduplicate={"exact": False, "minhash": None})
    assert len(documents) == counts["documents_kept"] == 2
    assert dropped(counts) == {}


def test_every_reason_is_counted_and_the_counts_add_up(tmp_path):
    texts = [OTHER, OTHER, "짧다", "this is not a Korean document at all", HELD, THIRD, "\u200b\ufeff"]
    documents, counts = gather(tmp_path, texts, held=[HELD], filters=FilterOptions(min_characters=5))
    assert dropped(counts) == {"duplicate": 1, "short": 2, "not_korean": 1, "contaminated": 1}
    assert add_up(counts)
    assert counts["documents_read"] == len(texts)
    assert counts["characters_read"] == sum(map(len, texts))
    assert counts["characters_kept"] == sum(len(document.text) for document in documents)


def test_samples_are_few(tmp_path):
    held = [f"{HELD} {i}번째로" for i in range(SAMPLES + 10)]
    _, counts = gather(tmp_path, ["\n".join([*held, OTHER])], held=held)
    assert counts["paragraphs_contaminated"] == SAMPLES + 10
    assert len(counts["contaminated_samples"]) == SAMPLES


def test_samples_show_no_ones_number_or_address(tmp_path):
    held = f"{HELD} 문의는 010-1234-5678 또는 hong@example.co.kr로"
    _, counts = gather(tmp_path, [f"{held}\n{OTHER}"], held=[held])
    assert counts["contaminated_samples"] == [f"{HELD} 문의는 000-0000-0000 또는 user@example.com로"]


def test_dropped_documents_are_masked_like_the_kept_ones(tmp_path):
    rows = [{"id": "1", "text": "010-1234-5678"}, {"id": "2", "text": OTHER}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    options = CorpusOptions(sources=[JsonLines(path="a.jsonl")], keep_dropped=True, cleaning={"mask": ["phone"]})
    run(options, tmp_path, tmp_path / "out")
    (path,) = (tmp_path / "out" / "dropped").glob("sifted-*.parquet")
    assert pyarrow.parquet.read_table(path)["text"].to_pylist() == ["000-0000-0000"]


def test_half_a_character_costs_nothing_but_itself(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        json.dumps({"id": "\ud83d1", "text": f"{OTHER}\ud83d\n{THIRD}"}), encoding="utf-8"
    )
    options = CorpusOptions(sources=[JsonLines(path="a.jsonl")], keep_dropped=True)
    counts = run(options, tmp_path, tmp_path / "out")
    (document,) = [document for part in document_parts(tmp_path / "out") for document in read_documents(part)]
    assert (document.id, document.text, counts["paragraphs_dropped_mojibake"]) == ("1", f"{OTHER}\n{THIRD}", 0)


def test_small_files_of_a_source_are_read_together(tmp_path):
    for number in range(50):
        (tmp_path / f"{number:02d}.txt").write_text(f"{OTHER} {number}번째", encoding="utf-8")
    size = (tmp_path / "10.txt").stat().st_size
    sources = [Text(path="*.txt"), Text(path="0*.txt"), Text(path="*.txt", limit_characters=100)]
    options = CorpusOptions(sources=sources, part_characters=size * 20 - 10)
    names = [[path.name for path in unit.files] for unit in task_inputs(options, tmp_path)]
    every = [f"{number:02d}.txt" for number in range(50)]
    assert names == [every[:20], every[20:40], every[40:], every[:10], every]
    one = CorpusOptions(sources=[Text(path="*.txt")], deduplicate=EXACT_ONLY)
    run(one, tmp_path, tmp_path / "out")
    (part,) = document_parts(tmp_path / "out")
    assert [document.id for document in read_documents(part)] == [f"{name}#0" for name in every]


def test_parts_are_full_and_keep_the_order(tmp_path):
    texts = [f"{OTHER} {i}번째" for i in range(20)]
    documents, _ = gather(tmp_path, texts, part_characters=100, deduplicate=EXACT_ONLY)
    sizes = [sum(len(document.text) for document in read_documents(part)) for part in document_parts(tmp_path / "out")]
    assert len(sizes) > 3
    assert all(size >= 100 for size in sizes[:-1])
    assert [document.text for document in documents] == texts


def test_a_corpus_of_which_nothing_is_left_is_refused(tmp_path):
    said = r"^no document was kept of 3 read \(dropped: 1 not korean, 2 short\); change what dropped them in corpus\.f"
    with pytest.raises(UserError, match=said):
        gather(tmp_path, ["short", "This is a text in another language.", "짧다"])


def test_the_stage_reads_what_it_says_it_reads():
    options = CorpusOptions(sources=[Text(path="documents/*.txt")], decontaminate=[Squad(path="qa_dev.json")])
    assert [path.name for path in raw_files(options, CORPORA)] == [
        "blog.txt", "dialogue.txt", "encyclopedia.txt", "legal.txt", "news.txt", "review.txt", "qa_dev.json",
    ]  # fmt: skip


def test_the_stage_makes_the_same_files_twice(tmp_path):
    options = CorpusOptions(
        sources=[Text(path="documents/*.txt")], decontaminate=[Nsmc(path="reviews_test.txt")], part_characters=30_000
    )
    counts = [run(options, CORPORA, tmp_path / name) for name in "ab"]
    assert counts[0] == counts[1]
    first, second = ({path.name: path.read_bytes() for path in document_parts(tmp_path / name)} for name in "ab")
    assert first == second
    assert len(first) > 1


def test_the_corpus_counts_the_characters_of_each_source_and_those_it_keeps(tmp_path):
    """Of the JSON the text of another key is not read, and of the chat the names and times are not."""
    rows = [{"title": "파도 이야기", "text": f"{number}. 동해의 물결이 인다.\n둘째 줄이다."} for number in range(3)]
    (tmp_path / "a.json").write_text(json.dumps(rows), encoding="utf-8")
    chat = "".join(f"[이모] [오후 1:{number}0] {number}번째 파도가 밀려온다 아주 높이\n" for number in range(4))
    (tmp_path / "b.txt").write_text(chat, encoding="utf-8")
    sources = [
        {"name": "json", "path": "a.json", "documents_at": "*", "text": "text"},
        {"name": "chat", "path": "b.txt"},
    ]
    counts = run(CorpusOptions.model_validate({"sources": sources}), tmp_path, tmp_path / "out", 1)
    of_json, of_chat = counts["sources"]["a.json"], counts["sources"]["b.txt"]
    assert of_json["characters_in"] == sum(len(text) + 1 for row in rows for text in row.values())
    assert of_chat["characters_in"] == len(chat)
    assert all(of["characters_in"] > of["characters_read"] >= of["characters_kept"] > 0 for of in (of_json, of_chat))
    assert counts["characters_in"] == of_json["characters_in"] + of_chat["characters_in"]
    share = 10_000 * of_chat["characters_kept"] // of_chat["characters_in"] / 100
    assert f"b.txt: {share:g}% of" in ", ".join(corpus_results(counts))


@pytest.mark.parametrize(("kept", "share"), [(995_100, "99.51"), (999_999, "99.99"), (1_000_000, "100"), (0, "0")])
def test_a_source_of_which_something_was_lost_is_not_kept_whole(kept: int, share: str) -> None:
    counts = {"a.txt": {"characters_in": 1_000_000, "characters_kept": kept}}
    assert characters_by_source(counts) == [f"a.txt: {share}% of 1,000,000 characters kept"]


@pytest.mark.parametrize(
    ("reader", "source"),
    [
        (Json(path="*.json", text="body"), "*.json"),
        (Json(path="*.json", text="body", documents_at="data.*"), "a.json"),
        (Subtitles(path="*.srt"), "*.srt"),
        (Html(path="*.html"), "*.html"),
        (JsonLines(path="*.json"), "a.json"),
    ],
)
def test_the_source_is_the_file_unless_the_file_is_a_document(reader: Reader, source: str) -> None:
    assert reader.source_of(Path("a.json"), {}) == source


def test_a_source_is_matched_by_its_own_name_also_of_several_patterns(tmp_path: Path) -> None:
    for name in ("1.txt", "a.txt", "2.txt"):
        (tmp_path / name).write_text("한 줄", encoding="utf-8")
    for path, source in (("[0-9].txt", "[0-9].txt"), (["[0-9].txt", "a.txt"], "[0-9].txt and 1 more")):
        options = CorpusOptions(sources=[Text(path=path, documents_by="file")])
        assert source_names(options, tmp_path) == [source] and is_from(source, [source])
        assert not is_from(source, ["a.txt"])


@pytest.mark.parametrize(
    ("by", "sources"),
    [
        ("blank_line", ["a/1.txt", "b/1.txt", "2.txt"]),
        ("line", ["a/1.txt", "b/1.txt", "2.txt"]),
        ("file", ["**/*.txt"]),
    ],
)
def test_where_each_file_is_a_document_all_files_are_one_source(by: Any, sources: list[str], tmp_path: Path) -> None:
    for name in ("a/1.txt", "b/1.txt", "2.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("한 줄\n\n다음 줄", encoding="utf-8")
    options = CorpusOptions(sources=[Text(path="**/*.txt", documents_by=by)])
    documents = [document for unit in task_inputs(options, tmp_path) for document in unit.documents(Skipped())]
    assert {document.id.partition("#")[0] for document in documents} == {"a/1.txt", "b/1.txt", "2.txt"}
    assert {document.source for document in documents} == set(sources)
    assert source_names(options, tmp_path) == sorted(sources), "the names that options such as pretrain.sources take"
    assert all(is_from(source, ["*.txt"]) for source in sources)
    assert (version(options) == VERSION) == (by != "file")
