"""No file of the user is deleted, moved or overwritten, and no file is used that kobert's records do not list."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kobert_pipeline import files
from kobert_pipeline.cli import clean
from kobert_pipeline.config import recipe_file
from kobert_pipeline.errors import Damaged, NotOurs, UserError
from kobert_pipeline.pretrain.stage import WRITES
from kobert_pipeline.runs import manifest, runner, stage_folder
from kobert_pipeline.runs.seeds import current_seeds
from kobert_pipeline.training.plan import STEP


def contents(folder: Path) -> dict[str, bytes]:
    """The contents of every file in the folder and its subfolders, except the lock of the run."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


def test_a_stage_folder_with_a_file_of_the_user_is_refused_by_every_command(tiny, tmp_path, kobert) -> None:
    """For each stage, one file of the user is in its folder; the earlier stages are finished."""
    for stage, place in {
        "corpus": "book.txt", "analysis": "deep/er/book.txt", "tokenizer": "vocab.txt", "shards": "train-00000.ids.npy",
        "features": "nsmc/train/input_ids.npy", "pretrain": "model/config.json",
        "finetune": "nsmc/1/model/model.safetensors",
        "publish": "nsmc/README.md",
    }.items():  # fmt: skip
        run_dir = tiny.copy_before(tmp_path / stage, stage)
        path = run_dir / stage / place
        path.parent.mkdir(parents=True)
        path.write_text("mine")
        before = contents(run_dir)
        for command in ([stage], ["run", "--until", stage], [stage, "--redo"]):
            complaint = kobert(*command, tiny.recipe, "--run-dir", run_dir).complaint
            assert f"{path} was not written by kobert" in complaint and "--run-dir" in complaint
            assert contents(run_dir) == before, "nothing was written either"
        rows = kobert("status", tiny.recipe, "--run-dir", run_dir, "--json").json["stages"]
        assert any(row["status"].startswith("not ours") for row in rows)


@pytest.mark.parametrize(
    "place",
    (
        "notes.txt",
        "checkpoints/step-mine/model.safetensors.bak",
        "logs/mine.log",
        "model/pytorch_model.bin",
    ),
)
def test_a_file_put_into_a_stage_keeps_it_from_being_deleted(place: Any, tiny, tmp_path, kobert) -> None:
    run_dir = tiny.copy(tmp_path / place.replace("/", "-"), "tokenizer", "shards", "pretrain")
    path = run_dir / "pretrain" / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine")
    before = contents(run_dir)
    assert str(path) in kobert("pretrain", tiny.recipe, "--run-dir", run_dir, "--redo").complaint
    assert contents(run_dir) == before
    assert kobert("pretrain", tiny.recipe, "--run-dir", run_dir).code == 0, (
        "as long as nothing is deleted it may be there"
    )


def test_litter_of_systems_and_tools_is_left_alone(tiny, tmp_path, kobert) -> None:
    run_dir = tiny.copy(tmp_path / "x", "corpus", "analysis", "tokenizer", "shards")
    litter = [run_dir / "shards" / name for name in (".DS_Store", "__pycache__/x.pyc", "._train-00000.ids.npy")]
    for path in litter:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"litter")
    assert kobert("shards", tiny.recipe, "--run-dir", run_dir, "--redo").code == 0
    assert all(path.exists() for path in litter)
    assert tiny.manifests(run_dir)["shards"]["files"] == tiny.manifests()["shards"]["files"]


def test_links_are_never_followed_out_of_a_stage(tiny, tmp_path, kobert) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "part-00000.parquet").write_text("mine")
    run_dir = tiny.copy(tmp_path / "x", "corpus", "analysis")
    (run_dir / "analysis" / "dropped").symlink_to(victim)
    assert "was not written by kobert" in kobert("analysis", tiny.recipe, "--run-dir", run_dir, "--redo").complaint
    shutil.rmtree(run_dir / "corpus")
    (run_dir / "corpus").symlink_to(victim)
    assert (
        f"{run_dir / 'corpus' / 'part-00000.parquet'} was not written"
        in kobert("corpus", tiny.recipe, "--run-dir", run_dir).complaint
    )
    (run_dir / "corpus").unlink()
    (run_dir / "corpus").symlink_to(tmp_path / "nowhere")
    assert "is a link to a folder that does not exist" in kobert("corpus", tiny.recipe, "--run-dir", run_dir).complaint
    assert contents(victim) == {"part-00000.parquet": b"mine"}


def test_a_stage_moved_to_another_disk_and_linked_is_used_and_redone_there(tiny, tmp_path, kobert) -> None:
    run_dir = tiny.copy(tmp_path / "x", "corpus", "analysis", "tokenizer")
    elsewhere = Path(shutil.copytree(tiny.run_dir / "shards", tmp_path / "big disk"))
    (run_dir / "shards").symlink_to(elsewhere)
    assert kobert("shards", tiny.recipe, "--run-dir", run_dir, "--json").json["stages"][0]["status"] == "skipped"
    assert kobert("shards", tiny.recipe, "--run-dir", run_dir, "--redo").code == 0
    assert (run_dir / "shards").is_symlink() and (elsewhere / "manifest.json").is_file()


def test_names_in_recipes_are_plain_file_names(tiny, tmp_path, kobert) -> None:
    for number, section in enumerate(["features", "finetune", "publish"]):
        place = tmp_path / str(number)
        place.mkdir()
        victim = place / "victim"
        victim.mkdir()
        (victim / "notes.txt").write_text("mine")
        for name in ("../../victim", str(victim), "a/b", "..", ".", "", "a\\b", ".hidden", "-x", "a\nb", "x" * 300):
            recipe = place / "bad.yaml"
            content = recipe_file.load(str(tiny.recipe), [])
            more = {"features": {}, "finetune": {"features": "nsmc"}, "publish": {"source": "nsmc"}}[section]
            content[section][name] = content[section]["nsmc"] | more
            recipe.write_text(json.dumps(content))
            for command in ("check", "run"):
                complaint = kobert(
                    command, recipe, *([] if command == "check" else ["--run-dir", place / "runs" / "x"])
                ).complaint
                assert section in complaint and "plain file name" in complaint, section
        assert contents(victim) == {"notes.txt": b"mine"}, section


def test_a_manifest_that_names_files_outside_its_folder_is_not_reused(tiny, tmp_path, kobert) -> None:
    (tmp_path / "runs").mkdir()
    other = tiny.copy(tmp_path / "runs" / "a", "corpus") / "corpus"
    secret = other.parent / "payload.txt"
    secret.write_text("payload")
    made = files.read_json_with_digest(other / "manifest.json")
    entry = {"size": secret.stat().st_size, "sha256": files.sha256(secret)}
    for name in ("../payload.txt", str(secret), "link/payload.txt"):
        (other / "link").symlink_to(other.parent) if name.startswith("link") else None
        files.write_json_with_digest(other / "manifest.json", made | {"files": made["files"] | {name: entry}})
        with pytest.raises(Damaged, match="not inside"):
            manifest.verify(other)
        run_dir = tmp_path / "runs" / "b"
        rows = kobert("corpus", tiny.recipe, "--run-dir", run_dir, "--json").json["stages"]
        assert [row["status"] for row in rows] == ["done"]
        assert not list(run_dir.rglob("payload.txt"))
        shutil.rmtree(run_dir)


@pytest.mark.parametrize(
    ("stage", "source", "copy"),
    (
        ("analysis", "corpus/part-00000.parquet", "corpus/part-00000 (copy).parquet"),
        ("tokenizer", "analysis/part-00000.parquet", "analysis/part-99999.parquet"),
        ("pretrain", "shards/train-00000.ids.npy", "shards/train-00099.ids.npy"),
        ("finetune", "features/nsmc/train/input_ids.npy", "features/nsmc/train/extra.npy"),
        ("publish", "pretrain/model/config.json", "pretrain/model/generation_config.json"),
    ),
)
def test_an_unlisted_file_of_a_kind_that_is_read_is_refused(
    stage: Any, source: Any, copy: Any, tiny, tmp_path, kobert
) -> None:
    """A copied shard would be trained on, and a copied part read; files of other kinds are no input of any stage."""
    run_dir = tiny.copy_before(tmp_path / stage, stage)
    (run_dir / stage).exists() or shutil.copy(run_dir / source, run_dir / copy)
    complaint = kobert(stage, tiny.recipe, "--run-dir", run_dir).complaint
    assert f"{run_dir / copy} is not listed" in complaint, stage
    (run_dir / copy).rename(run_dir / copy.rpartition("/")[0] / "notes.txt")
    folder = run_dir.joinpath(*copy.split("/")[: 2 if copy.startswith("features") else 1])
    assert manifest.verify(folder), "a file of another kind is no input of any stage"


def test_every_file_of_a_run_fits_the_patterns_that_its_record_names(tiny) -> None:
    for record in sorted(tiny.run_dir.rglob(stage_folder.STARTED)):
        assert stage_folder.foreign_files(record.parent) == []


def test_patterns_stay_inside_their_part_of_the_path() -> None:
    assert files.matches_any("part-00001.parquet.part", ["part-*.parquet"])
    assert files.matches_any("a.npy.done.json", ["*.npy"])
    assert files.matches_any("logs/sift/logs/x.log", ["logs/sift/**"])
    assert not files.matches_any("part-1/evil.parquet", ["part-*.parquet"])
    checkpoint = f"checkpoints/.{STEP}/model.safetensors"
    assert files.matches_any("checkpoints/.step-00000100.part/model.safetensors", [checkpoint])
    for mine in (".step-00000100.part/notes", "step-00000100.part/model.safetensors", ".step-1.part/model.safetensors"):
        assert not files.matches_any(f"checkpoints/{mine}", [checkpoint])
    assert not files.matches_any("logs/sift", ["logs/sift/**"]) and not files.matches_any("work/x", ["logs/**"])


def test_a_checkpoint_that_a_kill_left_half_written_does_not_stop_the_next_run(tiny, tmp_path, kobert) -> None:
    run_dir = tiny.copy(tmp_path / "x", "corpus", "analysis", "tokenizer", "shards", "features", "pretrain")
    (run_dir / "pretrain" / "manifest.json").unlink()
    checkpoints = sorted((run_dir / "pretrain" / "checkpoints").glob("step-*"))
    begun = checkpoints[-1].with_name(f".{checkpoints[-1].name}.part")
    checkpoints[-1].rename(begun)
    (begun / "checkpoint.json").unlink()
    rows = kobert("status", tiny.recipe, "--run-dir", run_dir, "--json").json["stages"]
    assert next(row["status"] for row in rows if row["job"] == "pretrain") == "started"
    assert kobert("run", tiny.recipe, "--run-dir", run_dir, "--until", "pretrain").code == 0
    assert not begun.exists()
    assert tiny.manifests(run_dir)["pretrain"]["files"] == tiny.manifests()["pretrain"]["files"]


def test_clean_lists_and_with_yes_deletes_what_a_finished_run_no_longer_needs(tiny, tmp_path, kobert) -> None:
    run_dir = tiny.copy(tmp_path / "x")
    (run_dir / "notes.txt").write_text("mine")
    before = contents(run_dir)
    listed = kobert("clean", tiny.recipe, "--run-dir", run_dir, "--json").json
    assert contents(run_dir) == before
    assert {Path(row["folder"]).relative_to(run_dir).parts[0] for row in listed["folders"]} == {"pretrain", "finetune"}
    assert not listed["deleted"] and listed["bytes"] == sum(row["bytes"] for row in listed["folders"]) > 0
    text = kobert("clean", tiny.recipe, "--run-dir", run_dir).out
    assert "checkpoints" in text and "--yes" in text
    assert kobert("clean", tiny.recipe, "--run-dir", run_dir, "--yes", "--json").json["deleted"]
    after = contents(run_dir)
    assert after == {name: content for name, content in before.items() if "checkpoints/" not in name}
    assert {row["status"] for row in kobert("run", tiny.recipe, "--run-dir", run_dir, "--json").json["stages"]} == {
        "skipped"
    }
    assert kobert("clean", tiny.recipe, "--run-dir", run_dir, "--json").json["folders"] == []


def test_clean_keeps_the_checkpoints_of_an_unfinished_stage_and_foreign_files(tiny, tmp_path, kobert) -> None:
    run_dir = tiny.copy(tmp_path / "x", "pretrain")
    (run_dir / "pretrain" / "manifest.json").unlink()
    assert kobert("clean", tiny.recipe, "--run-dir", run_dir, "--yes", "--json").json["folders"] == []
    tiny.copy(run_dir, "finetune")
    checkpoints = run_dir / "finetune" / "nsmc" / "1" / "checkpoints"
    copies = [checkpoints / name / "model.safetensors" for name in ("step-00000004-keep", "step-best", ".step-old")]
    for mine in (checkpoints / "mine.safetensors", *copies):
        mine.parent.mkdir(exist_ok=True)
        mine.write_text("mine")
    assert kobert("clean", tiny.recipe, "--run-dir", run_dir, "--yes").code == 0
    assert all(mine.exists() for mine in (checkpoints / "mine.safetensors", *copies))


def test_clean_keeps_the_checkpoints_of_a_stage_that_began_again_before_it_had_the_lock(
    tiny, tmp_path, kobert, monkeypatch
) -> None:
    run_dir = tiny.copy(tmp_path / "x", "pretrain")
    listed = kobert("clean", tiny.recipe, "--run-dir", run_dir, "--json").json["folders"]
    assert [Path(row["folder"]).name for row in listed] == ["pretrain"]
    before = contents(run_dir)

    @contextmanager
    def lock_after_another_run(run: Path) -> Iterator[None]:
        (run / "pretrain" / "manifest.json").unlink()
        with files.locked(run):
            yield

    monkeypatch.setattr(clean, "locked", lock_after_another_run)
    cleaned = kobert("clean", tiny.recipe, "--run-dir", run_dir, "--yes", "--json").json
    assert cleaned == {"folders": [], "bytes": 0, "deleted": False}
    assert contents(run_dir) == {name: content for name, content in before.items() if name != "pretrain/manifest.json"}


def test_check_refuses_a_run_that_needs_more_disk_space_than_is_free(tiny, tmp_path, kobert, monkeypatch) -> None:
    enough = kobert("check", tiny.recipe, "--run-dir", tmp_path / "x", "--json").json
    assert (
        enough["disk_bytes_needed"] > sum(path.stat().st_size for path in tiny.run_dir.rglob("*") if path.is_file()) / 2
    )
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    complaint = kobert("check", tiny.recipe, "--run-dir", tmp_path / "x").complaint
    assert "disk" in complaint and "--run-dir" in complaint


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("model/.tmpUwVH5P", True), ("checkpoints/.step-00000010.part/.tmpUwVH5P", True),
        ("checkpoints/step-00000010/.tmpUwVH5P", True), (".tmpUwVH5P", False), ("model/.tmp", False),
        ("model/tmpUwVH5P", False), ("model/mine/.tmpUwVH5P", False),
    ],
)  # fmt: skip
def test_weights_that_were_being_written_when_a_command_was_killed_are_ours(name: str, ours: bool) -> None:
    assert stage_folder.matches(name, WRITES) == ours


def test_the_lock_of_a_run_overwrites_nothing(tmp_path) -> None:
    (tmp_path / ".lock").write_text("mine")
    with files.locked(tmp_path):
        pass
    assert (tmp_path / ".lock").read_text() == "mine"


def test_the_lock_of_a_run_holds_in_its_own_process_too(tmp_path) -> None:
    with files.locked(tmp_path):
        with pytest.raises(UserError, match="works on"), files.locked(tmp_path / "." / "x" / ".."):
            pass
        held = subprocess.run([sys.executable, "-c", HOLDS, tmp_path], capture_output=True, text=True)
        assert "works on" in held.stderr, "the second lock's end did not end the first"
    with files.locked(tmp_path):
        pass


HOLDS = """
import sys
from pathlib import Path
from kobert_pipeline.files import locked
with locked(Path(sys.argv[1])):
    pass
"""


@pytest.mark.parametrize("content", ["meanwhile", "before"])
def test_a_file_that_changes_while_its_stage_runs_is_named(content: str, tmp_path) -> None:
    texts = tmp_path / "train.tsv"
    texts.write_text("before")
    os.utime(texts, (0, 0))

    def stage(out: Path) -> dict[str, Any]:
        texts.write_text(content)
        (out / "result.txt").write_text(texts.read_text())
        return {}

    folder = tmp_path / "run" / "features" / "x"
    job = runner.Job("features", folder, 1, {}, stage, ("result.txt",), source_files=lambda: [texts], name="x")
    if content == "before":  # saved once more as it was
        runner.run([job])
        assert manifest.is_finished(folder)
        return
    with pytest.raises(
        UserError, match=r"train\.tsv changed while features x ran; run it again with --redo features/x"
    ):
        runner.run([job])
    assert not manifest.is_finished(folder)


def test_a_record_that_was_changed_is_refused(tmp_path) -> None:
    path = tmp_path / "manifest.json"
    for content in (
        "",
        "[]",
        "{}",
        "null",
        '{"files": {}}',
        "{",
        '{"digest": null}',
        "\udcff".encode("utf-8", "surrogatepass").decode("latin-1"),
    ):
        path.write_text(content)
        with pytest.raises(Damaged):
            files.read_json_with_digest(path)
    files.write_json_with_digest(path, {"a": 1.0, "b": ["가", None]})
    assert files.read_json_with_digest(path) == {"a": 1.0, "b": ["가", None]}
    with pytest.raises((Damaged, NotOurs)):
        os.truncate(path, path.stat().st_size - 3)
        files.read_json_with_digest(path)


def test_a_run_that_was_moved_renamed_copied_or_linked_is_still_done(tiny, tmp_path, kobert) -> None:
    """No record contains the path of its run, so only the contents of the folders count."""
    run_dir = tiny.copy(tmp_path / "first" / "a name")
    moved = run_dir.rename(tmp_path / "other name")
    memory = Path("/dev/shm")  # another file system, where there is one
    elsewhere = memory / f"kobert-{tmp_path.parent.name}-{tmp_path.name}" if memory.is_dir() else tmp_path / "elsewhere"
    (tmp_path / "link").symlink_to(moved)
    try:
        for place in (moved, tmp_path / "link", Path(shutil.copytree(moved, elsewhere))):
            rows = kobert("run", tiny.recipe, "--run-dir", place, "--json").json["stages"]
            assert {row["status"] for row in rows} == {"skipped"}, place
    finally:
        shutil.rmtree(elsewhere, ignore_errors=True)


def test_a_file_in_the_place_of_a_stage_folder_is_left_alone(tiny, tmp_path, kobert) -> None:
    run_dir = tiny.copy_before(tmp_path / "run", "tokenizer")
    (run_dir / "tokenizer").write_text("mine")
    assert "is a file that kobert did not write" in kobert("tokenizer", tiny.recipe, "--run-dir", run_dir).complaint
    assert (run_dir / "tokenizer").read_text() == "mine"


def test_a_file_that_is_put_into_a_stage_while_it_runs_is_named_and_left(tiny, tmp_path, kobert, monkeypatch) -> None:
    run_dir, run_stage = tiny.copy_before(tmp_path / "run", "shards"), runner._run_stage

    def with_a_file(job: Any) -> Any:
        counts = run_stage(job)
        (job.folder / "mine.txt").write_text("mine")
        return counts

    monkeypatch.setattr(runner, "_run_stage", with_a_file)
    result = kobert("shards", tiny.recipe, "--run-dir", run_dir)
    printed = "".join(result.err.split())  # a display breaks lines anywhere in a long path
    assert result.code == 0 and "mine.txtwasaddedduringtherun;itisnotinthemanifest" in printed
    assert (run_dir / "shards" / "mine.txt").read_text() == "mine"
    assert "mine.txt" not in tiny.manifests(run_dir)["shards"]["files"]


def test_an_interrupted_deletion_leaves_all_that_the_stage_wrote(tmp_path) -> None:
    record = {"writes": ["part-*.parquet"], "deleting": True}
    files.write_json_with_digest(tmp_path / stage_folder.STARTED, record)
    for name in ("part-00000.parquet", "mine.txt"):
        (tmp_path / name).write_text("abc")
    assert stage_folder.leftovers(tmp_path).keys() == {"part-00000.parquet", stage_folder.STARTED}
    files.write_json_with_digest(tmp_path / stage_folder.STARTED, record | {"deleting": False})
    assert stage_folder.leftovers(tmp_path) == {}


def test_a_run_without_leftovers_has_nothing_to_clean(tiny, tmp_path, kobert) -> None:
    run_dir = tiny.copy(tmp_path / "run", "tokenizer")
    assert "nothing to delete" in kobert("clean", tiny.recipe, "--run-dir", run_dir).out
    (run_dir / "corpus").mkdir()
    rows = kobert("status", tiny.recipe, "--run-dir", run_dir, "--json").json["stages"]
    assert rows[0]["status"] == "missing", "an empty folder is no stage that was begun"


def test_soft_labels_alone_are_no_seeds(tmp_path) -> None:
    files.write_json_with_digest(tmp_path / "soft-labels" / stage_folder.FINISHED, {"options": {}, "finished": "2026"})
    assert current_seeds(tmp_path) == ([], {})
