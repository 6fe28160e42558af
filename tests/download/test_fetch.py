"""One file over HTTP: whatever a server does, the file has the right bytes or does not exist."""

import fcntl
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from local_server import Page, Server, git_sha1_of, sha256_of

from kobert_pipeline.download import fetch
from kobert_pipeline.download.fetch import Expected, fetched, git_sha1
from kobert_pipeline.errors import UserError
from kobert_pipeline.progress import Progress, shown_on

CONTENT = "".join(f"{number}번째 줄\n" for number in range(100)).encode()
OTHER = bytes(reversed(CONTENT))
KNOWN = Expected(sha256=sha256_of(CONTENT))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "data" / "file.txt"


def get(server: Server, target: Path, *paths: str, expected: Expected = KNOWN) -> dict[str, Any]:
    """Fetch from these paths of the server."""
    addresses = [server.url + path for path in paths or ("/a",)]
    with fetched(addresses, target, expected) as facts:
        assert not target.exists()  # until the record is written
    return facts


def only_the_file(target: Path, content: bytes = CONTENT) -> bool:
    return target.read_bytes() == content and [path.name for path in target.parent.iterdir()] == [target.name]


def test_a_file_arrives_with_its_checksum_and_progress(server, target) -> None:
    server.pages["/a"] = Page(CONTENT, headers={"Last-Modified": "Mon, 02 Mar 2026 01:02:03 GMT"})
    seen: list[Progress] = []
    with shown_on(SimpleNamespace(report=seen.append)):  # type: ignore[arg-type]
        facts = get(server, target, expected=Expected())
    assert only_the_file(target)
    assert facts == {
        "sha256": sha256_of(CONTENT), "size": len(CONTENT), "address": f"{server.url}/a",
        "last_modified": "Mon, 02 Mar 2026 01:02:03 GMT",
    }  # fmt: skip
    assert seen[-1] == Progress("file.txt", len(CONTENT), len(CONTENT), "bytes") and len(seen) > 5


def test_the_checksum_of_git_is_that_of_git_itself(tmp_path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"hello\n")
    assert git_sha1(path) == "ce013625030ba8dba906f756967f9e9ca394464a" == git_sha1_of(b"hello\n")


def test_a_connection_that_breaks_is_resumed_as_often_as_it_brings_something(server, target) -> None:
    server.pages["/a"] = Page(CONTENT, breaks=[120] * 6)
    get(server, target)
    assert only_the_file(target)
    assert [asked for _, asked in server.asked] == [None, *(f"bytes={120 * n}-" for n in range(1, 7))]


def test_a_later_process_resumes_what_an_earlier_one_has_left(server, target) -> None:
    server.pages["/a"] = Page(CONTENT, breaks=[300, 0, 0, 0])
    with pytest.raises(UserError, match="could not be downloaded"):
        get(server, target)
    assert target.with_name("file.txt.part").stat().st_size == 300
    server.asked.clear()
    get(server, target)
    assert only_the_file(target)
    assert server.asked == [("/a", "bytes=300-")]


def test_a_complete_part_needs_no_bytes_but_its_name(server, target) -> None:
    server.pages["/a"] = Page(CONTENT)
    with pytest.raises(KeyboardInterrupt), fetched([f"{server.url}/a"], target, KNOWN):
        raise KeyboardInterrupt
    get(server, target)
    assert only_the_file(target)
    assert server.asked[-1] == ("/a", f"bytes={len(CONTENT)}-")


def test_a_file_that_changes_between_two_parts_is_fetched_anew(server, target) -> None:
    page = server.pages["/a"] = Page(OTHER, breaks=[300, 0, 0, 0])
    with pytest.raises(UserError):
        get(server, target, expected=Expected())
    page.content, page.etag, page.breaks = CONTENT, '"2"', []
    get(server, target, expected=Expected())
    assert only_the_file(target)


def test_a_part_that_was_damaged_is_fetched_anew(server, target) -> None:
    server.pages["/a"] = Page(CONTENT, breaks=[300, 0, 0, 0])
    with pytest.raises(UserError):
        get(server, target)
    target.with_name("file.txt.part").write_bytes(OTHER[:300])
    get(server, target)
    assert only_the_file(target)


@pytest.mark.parametrize(
    "page",
    [
        Page(CONTENT, ranges=False, breaks=[300, 200]),
        Page(CONTENT, etag=None, breaks=[300, 200]),
        Page(CONTENT, etag='W/"weak"', breaks=[300, 200]),
        Page(CONTENT, breaks=[300], headers={"Content-Range": "bytes 7-9/10"}),
        Page(CONTENT, breaks=[300], headers={"Content-Range": "nonsense"}),
    ],
    ids=["ignores Range", "no version", "a weak version", "another range", "no range"],
)
def test_a_server_that_cannot_resume_is_asked_for_the_whole_file(server, target, page) -> None:
    server.pages["/a"] = page
    get(server, target)
    assert only_the_file(target)


def test_a_server_that_cannot_resume_and_always_breaks_is_given_up(server, target) -> None:
    server.pages["/a"] = Page(CONTENT, ranges=False, breaks=[300] * 100)
    with pytest.raises(UserError, match="could not be downloaded"):
        get(server, target)
    assert len(server.asked) == 1 + len(fetch.PAUSES)
    assert not target.exists()


def test_a_redirect_is_followed(server, target) -> None:
    server.pages |= {"/a": Page(status=302, headers={"Location": "/b"}), "/b": Page(CONTENT, breaks=[300])}
    get(server, target)
    assert only_the_file(target)


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (Page(status=404), "HTTP status 404"),
        (Page(status=503), "HTTP status 503"),
        (Page(OTHER), "SHA-256 is"),
        (Page(CONTENT[:-1]), "SHA-256 is"),
        (Page(CONTENT, headers={"Content-Type": "text/html; charset=utf-8"}), "it is a web page"),
        (Page(CONTENT, breaks=[0] * 9), "IncompleteRead|ended after"),
    ],
    ids=["absent", "busy", "other content", "short content", "a web page", "always broken"],
)
def test_the_next_address_is_tried_and_a_refusal_names_each(server, target, page, reason) -> None:
    server.pages["/bad"] = page
    with pytest.raises(UserError, match=f"file.txt could not be downloaded from .*/bad .*{reason}.*nor from .*/gone"):
        get(server, target, "/bad", "/gone")
    assert list(target.parent.iterdir()) == []
    server.pages["/good"] = Page(CONTENT)
    get(server, target, "/bad", "/good")
    assert only_the_file(target)


def test_a_file_of_another_size_is_refused_before_its_bytes_come(server, target) -> None:
    server.pages["/a"] = Page(CONTENT + b"x" * 10_000)
    with pytest.raises(UserError, match="bytes, 1,390 were expected"):
        get(server, target, expected=Expected(size=1390))
    assert list(target.parent.iterdir()) == []


def test_a_server_that_cannot_be_reached_is_named(target, monkeypatch) -> None:
    monkeypatch.setattr(fetch, "PAUSES", ())
    with pytest.raises(UserError, match=r"could not be downloaded from http://127.0.0.1:9/a \(ConnectionError"):
        get(Server("http://127.0.0.1:9"), target)


def test_a_full_disk_is_noticed_before_anything_is_written(server, target, monkeypatch) -> None:
    server.pages["/a"] = Page(CONTENT)
    monkeypatch.setattr(fetch.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1000}))
    with pytest.raises(UserError, match="of disk space"):
        get(server, target)
    assert list(target.parent.iterdir()) == []


def test_files_of_others_are_left_alone(server, target) -> None:
    server.pages["/a"] = Page(CONTENT)
    target.parent.mkdir()
    part = target.with_name("file.txt.part")
    part.write_text("mine")
    with pytest.raises(UserError, match="exists and is not from kobert"):
        get(server, target)
    assert part.read_text() == "mine"
    part.unlink()
    with (
        pytest.raises(UserError, match="appeared during the download"),
        fetched([f"{server.url}/a"], target, KNOWN),
    ):
        target.write_text("mine")
    assert target.read_text() == "mine"


def test_two_processes_do_not_write_one_file(server, target) -> None:
    server.pages["/a"] = Page(CONTENT, breaks=[300, 0, 0, 0])
    with pytest.raises(UserError):
        get(server, target)
    with target.with_name("file.txt.part").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="another kobert process downloads"):
            get(server, target)
    assert json.loads(target.with_name("file.txt.part.json").read_text())["validator"] == '"1"'
    get(server, target)
    assert only_the_file(target)


@pytest.mark.parametrize(("size", "said"), [(3, None), (None, None), (1234, "it has 3 bytes, 1,234 were expected")])
def test_a_file_of_another_size_is_another_file(size: int | None, said: str | None, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert Expected(size=size).difference(tmp_path / "a") == said
