"""The channel from rank 0 to the other ranks, and what these do with its messages."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from torch.distributed import HashStore

from kobert_pipeline import distributed
from kobert_pipeline.distributed import Channel, MainProcessExited
from kobert_pipeline.errors import UserError
from kobert_pipeline.runs import manifest, runner
from kobert_pipeline.runs.manifest import Record
from kobert_pipeline.runs.runner import Job


@pytest.fixture
def channels(monkeypatch: pytest.MonkeyPatch) -> tuple[Channel, Channel]:
    """Those of rank 0 and of rank 1, in one process; the second is `channel()`."""
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


def job(folder: Path, made: list[Path], **options: Any) -> Job:
    def make(out: Path) -> dict[str, Any]:
        made.append(out)
        return {}

    return Job("pretrain", folder, 1, {"total_tokens": 5, **options}, make, ("model/*",))


def begun(folder: Path) -> Record:
    record = Record("pretrain", 1, {"total_tokens": 5}, {"shards": "abc"})
    manifest.start(folder, record, ["model/*"])
    return record


def test_a_follower_makes_what_the_first_began_and_no_books(channels: tuple[Channel, Channel], tmp_path: Path) -> None:
    made: list[Path] = []
    folders = [tmp_path / "pretrain" / name for name in ("one", "two")]
    channels[0].send({"runs": False, "fingerprint": "whatever it was"})
    channels[0].send({"runs": True, "fingerprint": begun(folders[1]).fingerprint})
    runner.follow([job(folder, made) for folder in folders], "pretrain")
    assert made == [folders[1]]
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["started.json"]


def test_a_follower_that_does_not_see_the_folder_says_so(channels: tuple[Channel, Channel], tmp_path: Path) -> None:
    made: list[Path] = []
    channels[0].send({"runs": True, "fingerprint": "abc"})
    with pytest.raises(UserError, match=r"rank 1 does not see what rank 0 started.*a run folder that all of them see"):
        runner.follow([job(tmp_path / "pretrain", made)], "pretrain")
    assert not made


def test_a_follower_with_other_options_says_so(channels: tuple[Channel, Channel], tmp_path: Path) -> None:
    made: list[Path] = []
    channels[0].send({"runs": True, "fingerprint": begun(tmp_path / "pretrain").fingerprint})
    with pytest.raises(
        UserError, match=r"rank 1 was started with other options.*option pretrain.total_tokens was 5 and is now 6"
    ):
        runner.follow([job(tmp_path / "pretrain", made, total_tokens=6)], "pretrain")
    assert not made
