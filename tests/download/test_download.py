"""Data sets: what is kept, fetched, extracted, recorded and refused; the table; the command; `kobert check`."""

import io
import json
import re
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
import zstandard
from local_server import Page, Server, git_sha1_of, sha256_of

from kobert_pipeline import files
from kobert_pipeline.config import recipe_file
from kobert_pipeline.download import download as module
from kobert_pipeline.download import sources as table
from kobert_pipeline.download.download import download, korean_questions
from kobert_pipeline.download.sources import MissingFiles, Source, download_command, missing_file, sources
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.options import FeaturesOptions
from kobert_pipeline.features.task import Task

TRAIN, DEV = b"id\tdocument\tlabel\n1\t\xec\x98\x81\xed\x99\x94\t1\n", b"id\tdocument\tlabel\n2\t\xea\xb8\x80\t0\n"
ARTICLES = {
    "data": [
        {"title": "서울", "paragraphs": [
            {"context": "서울은 수도다.", "qas": [
                {"id": "korean-1-0", "question": "수도는?", "answers": [{"text": "서울", "answer_start": 0}]},
                {"id": "english-1-0", "question": "?", "answers": [{"text": "서울", "answer_start": 0}]},
            ]},
            {"context": "Seoul.", "qas": [{"id": "english-2", "question": "?", "answers": []}]},
        ]},
        {"title": "London", "paragraphs": [{"context": "a", "qas": [{"id": "english-3", "answers": []}]}]},
    ]
}  # fmt: skip


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def known(server: Server, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`known(name, files, ...)` makes the server's files a data set."""

    def add(name: str, files: dict[str, Any], **more: Any) -> None:
        given = {"title": "T", "license": "MIT", "homepage": "https://h", "folder": name, "files": files}
        given |= {} if "hub" in more else {"addresses": [f"{server.url}/gone/", f"{server.url}/"]}
        made = {name: Source.model_validate(given | more)}
        for place in (table, module):
            monkeypatch.setattr(place, "sources", lambda: made, raising=False)

    return add


def get(name: str, data: Path, date: str | None = None) -> dict[str, str]:
    """{path: status} of a download."""
    return {row["path"]: row["status"] for row in download(name, data, date)}


def record(data: Path) -> dict[str, Any]:
    return json.loads((data / "downloads.json").read_text(encoding="utf-8"))


def test_a_set_is_downloaded_once_recorded_and_kept(server, known, data) -> None:
    known("two", {"a.txt": {"git_sha1": git_sha1_of(TRAIN)}, "b/c.txt": {}})
    server.pages |= {"/a.txt": Page(TRAIN), "/b/c.txt": Page(DEV)}
    assert get("two", data) == {"two/a.txt": "downloaded", "two/b/c.txt": "downloaded"}
    facts = record(data)["two/b/c.txt"]
    assert facts["sha256"] == sha256_of(DEV) and facts["size"] == len(DEV) and facts["license"] == "MIT"
    assert facts["address"] == f"{server.url}/b/c.txt"
    server.asked.clear()
    assert get("two", data) == {"two/a.txt": "kept", "two/b/c.txt": "kept"}
    assert not server.asked
    (data / "two" / "a.txt").unlink()
    assert get("two", data) == {"two/a.txt": "downloaded", "two/b/c.txt": "kept"}


@pytest.mark.parametrize("entry", [{"sha256": sha256_of(TRAIN)}, {"git_sha1": git_sha1_of(TRAIN)}, {}])
def test_another_file_is_never_overwritten_and_nothing_else_is_downloaded(server, known, data, entry) -> None:
    known("two", {"first.txt": {}, "a.txt": entry})
    server.pages |= {"/a.txt": Page(TRAIN), "/first.txt": Page(DEV)}
    (data / "two").mkdir(parents=True)
    (data / "two" / "a.txt").write_text("mine")
    with pytest.raises(UserError, match=r"a.txt exists and is kept \(.*move this one away"):
        get("two", data)
    assert (data / "two" / "a.txt").read_text() == "mine"
    assert not server.asked


def test_a_file_with_the_right_checksum_is_kept_wherever_it_came_from(server, known, data) -> None:
    known("one", {"a.txt": {"sha256": sha256_of(TRAIN)}})
    (data / "one").mkdir(parents=True)
    (data / "one" / "a.txt").write_bytes(TRAIN)
    assert get("one", data) == {"one/a.txt": "kept"}


def test_later_downloads_are_held_to_the_recorded_checksum(server, known, data) -> None:
    known("one", {"a.txt": {}})
    server.pages["/a.txt"] = Page(TRAIN)
    get("one", data)
    (data / "one" / "a.txt").unlink()
    server.pages["/a.txt"] = Page(DEV, etag='"2"')
    with pytest.raises(UserError, match=f"SHA-256 is {sha256_of(DEV)}, {sha256_of(TRAIN)} was expected"):
        get("one", data)
    (data / "one" / "a.txt").write_bytes(DEV)
    with pytest.raises(UserError, match="exists and is kept"):
        get("one", data)


def test_the_latest_dump_may_change_and_a_dated_one_may_not(server, known, data) -> None:
    known("wiki", {"wiki-{date}.xml": {}}, addresses=[f"{server.url}/{{date}}/"])
    for date, held in (("latest", False), ("20260101", True)):
        page = server.pages[f"/{date}/wiki-{date}.xml"] = Page(TRAIN)
        assert get("wiki", data, date) == {f"wiki/wiki-{date}.xml": "downloaded"}
        assert get("wiki", data, date) == {f"wiki/wiki-{date}.xml": "kept"}
        (data / "wiki" / f"wiki-{date}.xml").unlink()
        page.content, page.etag = DEV, '"2"'
        if held:
            with pytest.raises(UserError, match="was expected"):
                get("wiki", data, date)
        else:
            assert get("wiki", data) == {f"wiki/wiki-{date}.xml": "downloaded"}
    for date in ("2026", "../../etc"):
        with pytest.raises(UserError, match="is not a date"):
            get("wiki", data, date)


def test_an_edited_record_is_refused(server, known, data) -> None:
    known("one", {"a.txt": {}})
    data.mkdir()
    for text in ("[]", '{"one/a.txt": 3}', "{"):
        (data / "downloads.json").write_text(text)
        with pytest.raises(UserError, match=r"downloads\.json is not a"):
            get("one", data)


def test_korean_questions_are_extracted_as_the_task_reads_them(server, known, data) -> None:
    content = json.dumps(ARTICLES).encode()
    known("tydi", {"all.json": {"korean_questions": "ko.json"}})
    server.pages["/all.json"] = Page(content)
    assert get("tydi", data) == {"tydi/all.json": "downloaded", "tydi/ko.json": "extracted"}
    assert [example["id"] for example in Task.choose("korquad").read(data / "tydi" / "ko.json")] == ["korean-1-0"]
    assert korean_questions((data / "tydi" / "ko.json").read_bytes()) == (data / "tydi" / "ko.json").read_bytes()
    assert get("tydi", data) == {"tydi/all.json": "kept", "tydi/ko.json": "kept"}
    (data / "tydi" / "ko.json").write_text("mine")
    with pytest.raises(UserError, match=r"ko\.json exists and differs"):
        get("tydi", data)
    assert (data / "tydi" / "ko.json").read_text() == "mine"


def test_members_of_an_archive_are_extracted_byte_for_byte(server, known, data) -> None:
    packed, rows = io.BytesIO(), 'id\tsentence1\tsentence2\tlabel\n1\t그는 "왔다.\t그가 왔다.\t1\n'.encode()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in ("x/ko/dev.tsv", "x/de/dev.tsv"):
            info = tarfile.TarInfo(name)
            info.size = len(rows)
            archive.addfile(info, io.BytesIO(rows))
    known("paws", {"x.tar.gz": {"members": {"x/ko/dev.tsv": "dev.tsv"}}})
    server.pages["/x.tar.gz"] = Page(packed.getvalue())
    assert get("paws", data) == {"paws/x.tar.gz": "downloaded", "paws/dev.tsv": "extracted"}
    assert (data / "paws" / "dev.tsv").read_bytes() == rows
    assert Task.choose("pair").read(data / "paws" / "dev.tsv")[0]["label"] == 1
    assert sorted(path.name for path in (data / "paws").iterdir()) == ["dev.tsv", "x.tar.gz"]


@pytest.mark.parametrize("checksum", [git_sha1_of, sha256_of], ids=["git", "lfs"])
def test_a_file_of_the_hub_is_held_to_what_the_hub_states(server, known, data, monkeypatch, checksum) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", server.url)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.url + "/{repo_id}/resolve/{revision}/{filename}"
    )
    known("hub", {"copa/train.jsonl": {}}, hub="o/n@c0ffee")
    content = '{"premise": "비가 왔다.", "alternative_1": "젖었다.", "alternative_2": "말랐다.", "label": 0}\n'
    path = "/datasets/o/n/resolve/c0ffee/copa/train.jsonl"
    page = server.pages[path] = Page(content.encode(), etag=f'"{checksum(content.encode())}"', breaks=[60])
    assert get("hub", data) == {"hub/copa/train.jsonl": "downloaded"}
    assert record(data)["hub/copa/train.jsonl"]["address"] == server.url + path
    assert Task.choose("choice").read(data / "hub" / "copa" / "train.jsonl")[0]["label"] == 0
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert get("hub", data) == {"hub/copa/train.jsonl": "kept"}
    with pytest.raises(UserError, match="HF_HUB_OFFLINE is set"):
        get("hub", data / "other")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    page.content = content.replace("0", "1").encode()
    with pytest.raises(UserError, match="was expected"):
        get("hub", data / "other")
    del server.pages[path]
    with pytest.raises(UserError, match=f"{path} cannot be read"):
        get("hub", data / "other")


def test_a_full_disk_is_noticed_before_the_first_file(server, known, data) -> None:
    known("large", {"a.txt": {}, "b.txt": {"size": 10**18}})
    server.pages["/a.txt"] = Page(TRAIN)
    with pytest.raises(UserError, match="GB of disk space"):
        get("large", data)
    assert not server.asked


# the table


def test_the_table_names_every_data_set_that_is_promised() -> None:
    assert set(sources()) == {
        "nsmc", "korquad", "kowiki", "klue", "kornli", "korsts", "kobest", "tydiqa-ko", "paws-x-ko", "question-pair",
    }  # fmt: skip
    tasks = {name.partition("-v1.1")[0] for name in sources()["klue"].files}
    assert tasks == {"ynat", "klue-sts", "klue-nli", "klue-ner", "klue-re", "klue-dp", "klue-mrc", "wos"}


def test_every_row_of_the_table_is_well_formed() -> None:
    paths = [path for source in sources().values() for path in source.paths()]
    assert len(paths) == len(set(paths))
    assert all(re.fullmatch(r"[\w{}.-]+(/[\w{}.-]+)+", path) and ".." not in path for path in paths)
    for name, source in sources().items():
        assert all(address.startswith("https://") and address.endswith("/") for address in source.addresses)
        assert source.homepage.startswith("https://") and source.license
        for entry in source.files.values():
            assert re.fullmatch(r"[0-9a-f]{40}|", entry.git_sha1 or "") is not None
            assert re.fullmatch(r"[0-9a-f]{64}|", entry.sha256 or "") is not None
            assert entry.git_sha1 or entry.sha256 or name in ("kowiki", "kobest")


@pytest.mark.parametrize(
    ("source", "name"),
    [("nsmc", "ratings_train.txt"), ("nsmc", "ratings_test.txt"), ("korquad", "KorQuAD_v1.0_dev.json")],
)
def test_the_checksums_of_the_table_are_those_of_the_real_files(
    source: str, name: str, real_data: Path, tmp_path: Path
) -> None:
    entry = sources()[source].files[name]
    with (
        (real_data / sources()[source].folder / f"{name}.zst").open("rb") as packed,
        (tmp_path / name).open("wb") as unpacked,
    ):
        zstandard.ZstdDecompressor().copy_stream(packed, unpacked)
    expected = module.Expected(entry.size, entry.sha256, entry.git_sha1)
    assert expected.git_sha1 and expected.difference(tmp_path / name) is None


def test_the_guide_lists_every_data_set_with_its_licence(repo) -> None:
    for guide in (repo / "docs" / "data.md", repo / "docs" / "ko" / "data.md"):
        text = guide.read_text(encoding="utf-8")
        for name, source in sources().items():
            row = next(line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
            assert source.homepage in row
            if name != "paws-x-ko":  # words, not a name
                assert source.license in row


def test_the_tasks_of_the_guide_are_tasks(repo) -> None:
    text = (repo / "docs" / "data.md").read_text(encoding="utf-8")
    tasks = [yaml.safe_load(task) for task in re.findall(r"`task: (.*?)`", text)]
    assert len(tasks) == 12 and all(Task.choose(task) for task in tasks)
    example = yaml.safe_load(re.search(r"^```yaml\n(.*?)^```", text, re.M | re.S)[1])["features"]["ner"]
    options = FeaturesOptions.model_validate(example)
    assert {options.train, options.dev} <= set(sources()["klue"].paths())
    assert set(re.findall(r"kobert download (\w[\w-]+)", text)) <= set(sources())


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("nsmc/ratings_train.txt", "kobert download nsmc --data-dir D"),
        ("qa/KorQuAD_v1.0_train.json", "kobert download korquad --data-dir D"),
        ("qa/tydiqa-goldp-ko-train.json", "kobert download tydiqa-ko --data-dir D"),
        ("paws-x-ko/dev_2k.tsv", "kobert download paws-x-ko --data-dir D"),
        ("kobest/*/train.jsonl", "kobert download kobest --data-dir D"),
        ("kowiki/kowiki-latest-pages-articles.xml.bz2", "kobert download kowiki --data-dir D"),
        ("kowiki/kowiki-20260101-pages-articles.xml.bz2", "kobert download kowiki --date 20260101 --data-dir D"),
        ("kowiki/kowiki-2026-pages-articles.xml.bz2", None),
        ("nsmc/raw_reviews.parquet", None),
        ("**", None),
        ("*.txt", None),
    ],
)
def test_the_command_for_a_file_of_a_recipe(path: str, command: str | None) -> None:
    assert download_command(path, Path("D")) == command


def test_the_sentence_about_a_missing_file_survives_pickling() -> None:
    import pickle

    error = MissingFiles([Path("D/nsmc/ratings_test.txt"), Path("D/a b"), Path("/elsewhere/c")], Path("D"))
    assert "`kobert download nsmc --data-dir D`" in str(error) and "3 files are missing" in str(error)
    assert pickle.loads(pickle.dumps(error)).sentences == error.sentences
    assert "kobert download nsmc --data-dir 'D E'" in missing_file(Path("D E/nsmc/ratings_test.txt"), Path("D E"))


# the command


def test_the_command_downloads_and_reports(server, known, data, kobert, monkeypatch) -> None:
    known("one", {"a.txt": {}})
    server.pages["/a.txt"] = Page(TRAIN)
    said = kobert("download", "one", "--data-dir", data)
    assert said.code == 0, said.err
    assert "one: T\nlicence: MIT (https://h)\n" in said.out and "one/a.txt  downloaded" in said.out
    monkeypatch.setenv("KOBERT_DATA", str(data))
    assert kobert("download", "one", "--json").json == {
        "name": "one", "license": "MIT", "homepage": "https://h",
        "files": [{"path": "one/a.txt", "status": "kept", "size": len(TRAIN), "sha256": sha256_of(TRAIN)}],
    }  # fmt: skip


def test_the_command_lists_the_data_sets_with_their_licences(kobert) -> None:
    said = kobert("download", "--list").out
    listed = kobert("download", "--list", "--json").json["data_sets"]
    assert [row["name"] for row in listed] == list(sources())
    assert all(row["name"] in said and row["license"] in said for row in listed)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name a data set"),
        (["nsmc"], "say where the data belongs with --data-dir DIR or the environment variable KOBERT_DATA"),
        (["nsmcc", "--data-dir", "d"], "did you mean 'nsmc'?"),
        (["nsmc", "--data-dir", "d", "--date", "20260101"], "nsmc has no versions by date"),
        (["kowiki", "--data-dir", "d", "--date", "soon"], "'soon' is not a date"),
        (["nsmc", "--data-dir", "file"], "--data-dir file is not a folder"),
    ],
)
def test_a_mistake_is_answered_in_a_sentence(kobert, tmp_path, monkeypatch, words, said) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(files, "CLONE", tmp_path)
    (tmp_path / "file").write_text("")
    assert said in kobert("download", *words).complaint
    assert not (tmp_path / "d").exists()


def test_check_names_the_command_for_each_missing_file_at_once(kobert, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(files, "CLONE", tmp_path)
    content = recipe_file.load("tiny", [])
    content["data_dir"] = str(tmp_path)
    content["corpus"]["sources"] = [
        {"name": "wikipedia", "path": "kowiki/kowiki-20260101-pages-articles.xml.bz2"},
        {"name": "text", "path": ["mine/a.txt", "mine/b.txt"]},
    ]
    content["corpus"]["decontaminate"] = [{"name": "nsmc", "path": "nsmc/ratings_test.txt"}]
    content["tokenizer"]["report"] = {
        "sources": {"x": {"name": "nsmc", "path": "nsmc/ratings_test.txt"}}, "answers": "qa/KorQuAD_v1.0_dev.json"
    }  # fmt: skip
    content["features"]["nsmc"] |= {"train": "nsmc/ratings_train.txt", "test": "nsmc/ratings_test.txt"}
    content["features"]["korquad"] |= {
        "train": ["qa/tydiqa-goldp-ko-train.json", "qa/KorQuAD_v1.0_train.json"], "test": "qa/KorQuAD_v1.0_dev.json"
    }  # fmt: skip
    recipe = tmp_path / "r.yaml"
    recipe.write_text(yaml.safe_dump(content), encoding="utf-8")
    said = kobert("check", recipe)
    found = dict(re.findall(r"^(\S+) does not exist; (?:fetch it with `(.*?)`)?", said.out, re.M))
    commands = {Path(path).relative_to(tmp_path).as_posix(): command for path, command in found.items()}
    where = f"--data-dir {tmp_path}"
    assert commands == {
        "kowiki/kowiki-20260101-pages-articles.xml.bz2": f"kobert download kowiki --date 20260101 {where}",
        "mine/a.txt": "", "mine/b.txt": "",
        "nsmc/ratings_test.txt": f"kobert download nsmc {where}",
        "nsmc/ratings_train.txt": f"kobert download nsmc {where}",
        "qa/KorQuAD_v1.0_dev.json": f"kobert download korquad {where}",
        "qa/KorQuAD_v1.0_train.json": f"kobert download korquad {where}",
        "qa/tydiqa-goldp-ko-train.json": f"kobert download tydiqa-ko {where}",
    }  # fmt: skip
    *problems, memory = said.out.splitlines()
    assert memory.startswith("Pretraining needs about ") and len(problems) == len(commands)
    assert "the first of 8 problems" in said.complaint
