"""The messages from rank 0 to the other ranks, and how these follow them."""

import dataclasses
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from torch.distributed import HashStore

from kobert_pipeline import distributed
from kobert_pipeline.distributed import Channel, MainProcessExited
from kobert_pipeline.errors import Postponed, UserError
from kobert_pipeline.runs import manifest, runner
from kobert_pipeline.runs.manifest import Record
from kobert_pipeline.runs.runner import Job


@pytest.fixture
def channels(monkeypatch: pytest.MonkeyPatch) -> tuple[Channel, Channel]:
    """The channels of rank 0 and of rank 1 in one process; `channel()` returns the second one."""
    store = HashStore()
    main, other = Channel(store), Channel(store)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(distributed, "ACKNOWLEDGE_TIMEOUT", timedelta(seconds=0.1))
    monkeypatch.setattr(distributed, "ignore_launcher", lambda: None)
    monkeypatch.setattr(runner, "channel", lambda: other)
    monkeypatch.setattr(runner, "NETWORK_FOLDER_DELAY", 0.0)
    return main, other


def test_every_message_is_received_once_and_in_order(channels: tuple[Channel, Channel]) -> None:
    main, other = channels
    for number in range(3):
        main.send({"number": number})
    assert [other.receive()["number"] for _ in range(3)] == [0, 1, 2]


def test_a_waiting_rank_learns_that_rank_0_exits(channels: tuple[Channel, Channel]) -> None:
    main, other = channels
    main.send({"number": 0})
    main.exit(75)
    assert other.receive() == {"number": 0}
    with pytest.raises(MainProcessExited) as exited:
        other.receive()
    assert exited.value.exit_code == 75
    main.store.wait(["acknowledged by 1"], timedelta(seconds=0.1))


def test_a_rank_that_fails_asks_for_the_exit_code_of_rank_0(channels: tuple[Channel, Channel]) -> None:
    main, other = channels
    main.send({"number": 0})
    assert other.exit_code_of_main(timedelta(seconds=0.1)) is None
    main.send({"number": 1})
    main.exit(2)
    assert other.exit_code_of_main(timedelta(seconds=0.1)) == 2


def job(folder: Path, folders_run: list[Path], **options: Any) -> Job:
    def run(out: Path) -> dict[str, Any]:
        folders_run.append(out)
        return {}

    return Job("pretrain", folder, 1, {"total_tokens": 5, **options}, run, ("model/*",))


def started(folder: Path) -> Record:
    record = Record("pretrain", 1, {"total_tokens": 5}, {"shards": "abc"})
    manifest.start(folder, record, ["model/*"])
    return record


def test_a_follower_runs_what_rank_0_started_and_writes_no_manifest(
    channels: tuple[Channel, Channel], tmp_path: Path
) -> None:
    folders_run: list[Path] = []
    folders = [tmp_path / "pretrain" / name for name in ("one", "two")]
    channels[0].send({"runs": False, "fingerprint": "of a skipped job"})
    channels[0].send({"runs": True, "fingerprint": started(folders[1]).fingerprint})
    runner.follow([job(folder, folders_run) for folder in folders], "pretrain")
    assert folders_run == [folders[1]]
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["started.json"]


def test_a_job_that_waits_is_no_job_of_a_follower(
    channels: tuple[Channel, Channel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs that read a test set too early are postponed on every rank, and those that need them run on none."""
    folders_run: list[Path] = []
    earlier, later = (job(tmp_path / "pretrain" / name, folders_run) for name in ("one", "two"))
    later = dataclasses.replace(later, inputs={"pretrain/one": earlier.folder})
    postponed = {earlier.folder: earlier}
    with monkeypatch.context() as of_rank_0:
        of_rank_0.setattr(runner, "channel", lambda: channels[0])
        assert runner._run_or_postpone(later, {}, postponed, redo=False, redo_changed=False) is None
    assert channels[1].receive() == {"job": later.title, "runs": False, "fingerprint": ""}

    def waits(out: Path) -> dict[str, Any]:
        raise Postponed("the test set")

    channels[0].send({"runs": True, "fingerprint": started(earlier.folder).fingerprint})
    runner.follow([dataclasses.replace(earlier, run=waits)], "pretrain")


def test_a_follower_that_does_not_see_the_folder_reports_it(channels: tuple[Channel, Channel], tmp_path: Path) -> None:
    folders_run: list[Path] = []
    channels[0].send({"runs": True, "fingerprint": "abc"})
    with pytest.raises(UserError, match=r"rank 1 does not see what rank 0 started.*a run folder that all of them see"):
        runner.follow([job(tmp_path / "pretrain", folders_run)], "pretrain")
    assert not folders_run


def test_a_follower_with_other_options_reports_them(channels: tuple[Channel, Channel], tmp_path: Path) -> None:
    folders_run: list[Path] = []
    channels[0].send({"runs": True, "fingerprint": started(tmp_path / "pretrain").fingerprint})
    with pytest.raises(
        UserError, match=r"rank 1 was started with other options.*option pretrain.total_tokens was 5 and is now 6"
    ):
        runner.follow([job(tmp_path / "pretrain", folders_run, total_tokens=6)], "pretrain")
    assert not folders_run
