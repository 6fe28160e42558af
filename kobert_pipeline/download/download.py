"""Download a data set: keep the files that are here already, fetch and check the others, and record them all.

`downloads.json` in the data folder records each file's SHA-256, licence, address and date. No file is ever replaced:
one that differs from what is expected is refused by name.
"""

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kobert_pipeline.download.fetch import Expected, fetched, refuse_full_disk
from kobert_pipeline.download.sources import DATE, LATEST, Source, SourceFile, find_source
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import atomic_write, read_json, sha256, write_json

RECORD = "downloads.json"


def download(name: str, data_dir: Path, date: str | None) -> list[dict[str, Any]]:
    """Download what is missing of the data set `name` to `data_dir`; returns a row per file with its `path`, `status`
    (downloaded, kept or extracted), `size` and `sha256`. Raises UserError for what cannot be had, and for a file that
    is here but is another one, before anything is downloaded."""
    source = find_source(name)
    if date and not source.dated:
        raise UserError(f"{name} has no versions by date; leave out --date")
    date = date or LATEST
    if not DATE.fullmatch(date):
        raise UserError(f"--date {date!r:.40} is not a date; give it as YYYYMMDD, or {LATEST}")
    entries = {f"{source.folder}/{file}".replace("{date}", date): entry for file, entry in source.files.items()}
    record = read_record(data_dir)
    here = {path: is_here(data_dir / path, expected_of(entries[path], record.get(path, {}))) for path in entries}
    data_dir.mkdir(parents=True, exist_ok=True)
    refuse_full_disk(data_dir, sum(entry.size or 0 for path, entry in entries.items() if not here[path]))
    rows = []
    for path, entry in entries.items():
        if not here[path]:
            # the newest version may be another one than the last time
            recorded = {} if source.dated and date == LATEST else record.get(path, {})
            file = path.removeprefix(f"{source.folder}/")
            addresses, expected = locate(source, file, date, expected_of(entry, recorded))
            with fetched(addresses, data_dir / path, expected) as facts:
                # before the file has its name, so that every file with a name has a record
                # read again, since `record` lacks the files that this loop has recorded
                write_json(data_dir / RECORD, read_record(data_dir) | {path: facts | {"license": source.license}})
        rows.append(row_of(data_dir, path, "kept" if here[path] else "downloaded"))
        for extracted, content in derive(data_dir / path, entry):
            status = place(data_dir / source.folder / extracted, content)
            rows.append(row_of(data_dir, f"{source.folder}/{extracted}", status))
    return rows


def read_record(data_dir: Path) -> dict[str, Any]:
    """What was recorded of each downloaded file, by its path below `data_dir`."""
    path = data_dir / RECORD
    record = read_json(path) if path.exists() else {}
    if not isinstance(record, dict) or not all(isinstance(facts, dict) for facts in record.values()):
        raise UserError(f"{path} is not a record of downloads; move it away, then run the same command again")
    return record


def expected_of(entry: SourceFile, recorded: dict[str, Any]) -> Expected:
    """What is known of a file: from the table, or else from the record of an earlier download."""
    known = Expected(entry.size, entry.sha256, entry.git_sha1)
    return known if known.checksum else Expected(sha256=recorded.get("sha256"))


def is_here(target: Path, expected: Expected) -> bool:
    """Whether the file was downloaded already. Raises UserError if there is another file of this name."""
    if not target.exists():
        return False
    unknown = "no download has recorded its checksum, so there is nothing to compare it with"
    difference = expected.difference(target) if expected.checksum else unknown
    if difference:
        raise UserError(
            f"{target} exists and is kept ({difference}); to download the file, move this one away or choose another "
            "--data-dir"
        )
    return True


def locate(source: Source, file: str, date: str, expected: Expected) -> tuple[list[str], Expected]:
    """The addresses of a file, and what is known of it, including what the Hub states."""
    if source.hub is None:
        return [address.replace("{date}", date) + file for address in source.addresses], expected
    address, stated = on_the_hub(source.hub, file)
    return [address], expected if expected.checksum else stated


def on_the_hub(hub: str, file: str) -> tuple[str, Expected]:
    """The address of a file on the Hub (the environment variable HF_ENDPOINT names another host), and what the Hub
    states about it. Its own client would leave a copy in a cache and check the size alone."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import HTTPError, OfflineModeIsEnabled  # type: ignore[attr-defined]

    repo, _, revision = hub.partition("@")
    address = hf_hub_url(repo, file, repo_type="dataset", revision=revision)
    try:
        stated = get_hf_file_metadata(address)
    except OfflineModeIsEnabled:
        raise UserError("HF_HUB_OFFLINE is set, so nothing can be downloaded from the Hub; unset it") from None
    except (HTTPError, OSError) as error:
        raise UserError(f"{address} cannot be read ({' '.join(str(error).split())[:200]}); try again later") from None
    # the ETag is the SHA-256 of large files and the git SHA-1 of others
    checksum = {64: "sha256", 40: "git_sha1"}.get(len(stated.etag or ""))
    return address, Expected(stated.size, **{checksum: stated.etag} if checksum else {})


def derive(path: Path, entry: SourceFile) -> Iterator[tuple[str, bytes]]:
    """The name and content of each file that is made from a downloaded one."""
    if entry.members:
        with tarfile.open(path) as archive:
            # read by name and never unpacked, so nothing in the archive decides where a file is written
            for member, name in entry.members.items():
                file = archive.extractfile(member)
                assert file is not None  # the archive's checksum is known
                yield name, file.read()
    if entry.korean_questions:
        yield entry.korean_questions, korean_questions(path.read_bytes())


def korean_questions(content: bytes) -> bytes:
    """A file of TyDi QA in SQuAD form with its Korean questions alone; a question's id begins with its language."""
    articles = []
    for article in json.loads(content)["data"]:
        korean_paragraphs = [
            paragraph | {"qas": questions}
            for paragraph in article["paragraphs"]
            if (questions := [qa for qa in paragraph["qas"] if qa["id"].startswith("korean-")])
        ]
        if korean_paragraphs:
            articles.append(article | {"paragraphs": korean_paragraphs})
    # the same bytes each time, since `place` compares them with the file that exists
    return json.dumps({"data": articles}, ensure_ascii=False, sort_keys=True).encode()


def place(target: Path, content: bytes) -> str:
    """Write a file that was made from a downloaded one, or keep an equal one. Raises UserError for another file."""
    if target.exists():
        if target.read_bytes() != content:
            raise UserError(
                f"{target} exists and differs from what would be extracted; move it away or choose another --data-dir"
            )
        return "kept"
    with atomic_write(target) as part:
        part.write_bytes(content)
    return "extracted"


def row_of(data_dir: Path, path: str, status: str) -> dict[str, Any]:
    """What is reported of a file."""
    file = data_dir / path
    return {"path": path, "status": status, "size": file.stat().st_size, "sha256": sha256(file)}
