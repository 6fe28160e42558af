"""What processes that train together tell each other, and what a follower does with it."""

from pathlib import Path
from typing import Any

import pytest
from torch.distributed import HashStore

from kobert_pipeline import manifest, running
from kobert_pipeline.errors import UserError
from kobert_pipeline.manifest import Record
from kobert_pipeline.processes import Ended
from kobert_pipeline.running import Job
from kobert_pipeline.training import team as team_room
from kobert_pipeline.training.team import Team


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> tuple[Team, Team]:
    """The first process and another, in one; the second is `team()`."""
    store = HashStore()
    first, other = Team(store), Team(store)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(team_room, "PATIENCE", 0.0)
    monkeypatch.setattr(team_room, "_ignore_the_launcher", lambda: None)
    monkeypatch.setattr(team_room, "team", lambda: other)
    monkeypatch.setattr(running, "SIGHT", 0.0)
    return first, other


def test_everything_told_is_heard_once_in_order(two: tuple[Team, Team]) -> None:
    first, other = two
    for number in range(3):
        first.tell({"number": number})
    assert [other.hear()["number"] for _ in range(3)] == [0, 1, 2]


def test_who_waits_hears_that_the_first_ended(two: tuple[Team, Team]) -> None:
    first, other = two
    assert other.ended() is None
    first.tell({"number": 0})
    first.end(75)
    assert other.hear() == {"number": 0}
    with pytest.raises(Ended) as ended:
        other.hear()
    assert ended.value.status == 75


def job(folder: Path, made: list[Path], **options: Any) -> Job:
    def make(out: Path) -> dict[str, Any]:
        made.append(out)
        return {}

    return Job("pretrain", folder, 1, {"pieces": 5, **options}, make, ("model/*",))


def begun(folder: Path) -> Record:
    record = Record("pretrain", 1, {"pieces": 5}, {"shards": "abc"})
    manifest.start(folder, record, ["model/*"])
    return record


def test_a_follower_makes_what_the_first_began_and_no_books(two: tuple[Team, Team], tmp_path: Path) -> None:
    made: list[Path] = []
    folders = [tmp_path / "pretrain" / name for name in ("one", "two")]
    two[0].tell({"makes": False, "fingerprint": "whatever it was"})
    two[0].tell({"makes": True, "fingerprint": begun(folders[1]).fingerprint})
    running.follow([job(folder, made) for folder in folders], "pretrain")
    assert made == [folders[1]]
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["started.json"]


def test_a_follower_that_does_not_see_the_folder_says_so(two: tuple[Team, Team], tmp_path: Path) -> None:
    made: list[Path] = []
    two[0].tell({"makes": True, "fingerprint": "abc"})
    with pytest.raises(UserError, match=r"process 1 does not see what the first one began.*a run folder that all of them see"):
        running.follow([job(tmp_path / "pretrain", made)], "pretrain")
    assert not made


def test_a_follower_with_other_options_says_so(two: tuple[Team, Team], tmp_path: Path) -> None:
    made: list[Path] = []
    two[0].tell({"makes": True, "fingerprint": begun(tmp_path / "pretrain").fingerprint})
    with pytest.raises(UserError, match=r"process 1 was started otherwise.*option pretrain.pieces was 5 and is now 6"):
        running.follow([job(tmp_path / "pretrain", made, pieces=6)], "pretrain")
    assert not made
