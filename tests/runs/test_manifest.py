"""The guarantees of `runs`: a stage with a manifest is complete, an unchanged one is skipped, a changed one refused,
and a damaged file is named."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kobert_pipeline import files
from kobert_pipeline.features.options import FeaturesOptions
from kobert_pipeline.features.stage import analyzer_versions
from kobert_pipeline.files import write_json
from kobert_pipeline.morphemes.analyzers import kiwi
from kobert_pipeline.runs import manifest, reuse, stage_folder
from kobert_pipeline.runs.input_difference import input_difference
from kobert_pipeline.runs.manifest import Record

ALL_JOBS = 12
"""corpus analysis tokenizer shards, two features, pretrain, two finetunes, three publishes."""


def statuses(result) -> dict[str, str]:
    return {f"{row['stage']} {row['name']}".strip(): row["status"] for row in result.json["stages"]}


def flip(path: Path) -> None:
    """Flip one bit in the middle of the file; size and name stay the same."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_second_run_skips_everything_within_seconds_and_writes_nothing(tiny, tmp_path, kobert) -> None:
    run_dir = tiny.copy(tmp_path / "runs" / "x")
    before = {path: path.stat().st_mtime_ns for path in run_dir.rglob("*")}
    start_time = time.monotonic()
    found = statuses(kobert("run", tiny.recipe, "--run-dir", run_dir, "--json"))
    assert time.monotonic() - start_time < 5
    assert list(found.values()) == ["skipped"] * ALL_JOBS
    after = {path: path.stat().st_mtime_ns for path in run_dir.rglob("*") if path.name != ".lock"}
    assert {path: time for path, time in before.items() if path != run_dir} == after


def test_manifest_lists_every_file_with_its_size_and_hash_and_where_it_came_from(tiny) -> None:
    made = tiny.manifests()
    assert len(made) == ALL_JOBS
    for folder, one in made.items():
        at = tiny.run_dir / folder
        on_disk = set(manifest.artefacts(at, one["writes"]))
        assert set(one["files"]) == on_disk
        for name, file in one["files"].items():
            assert (file["size"], file["sha256"]) == ((at / name).stat().st_size, files.sha256(at / name))
        assert one["counts"]
        assert one["seconds"] > 0 and one["cpu_seconds"] > 0
        assert {"python", "torch", "tokenizers", "kiwipiepy_model"} <= set(one["versions"])
        assert json.loads((at / "started.json").read_text())["fingerprint"] == one["fingerprint"]
        assert str(tiny.run_dir) not in json.dumps(one), "a manifest contains no path of the machine"


def test_changed_option_is_refused_by_name_and_nothing_is_touched(tiny, tmp_path, kobert) -> None:
    for number, (stage, setting) in enumerate(
        [
            ("corpus", "corpus.filters.min_characters=11"),
            ("analysis", "analysis.analyzer=whitespace"),
            ("tokenizer", "tokenizer.subword.vocab_size=1400"),
            ("shards", "shards.held_out=0.1"),
            ("features", "features.nsmc.dev_seed=2"),
            ("pretrain", "pretrain.plan.learning_rate=1e-3"),
            ("pretrain", "pretrain.architecture.hidden_size=64"),
            ("finetune", "finetune.nsmc.plan.epochs=2"),
            ("publish", "publish.nsmc.license=mit"),
        ]
    ):
        place = tmp_path / str(number)
        place.mkdir()
        run_dir = tiny.copy(place / "runs" / "x")
        complaint = kobert("run", tiny.recipe, "--run-dir", run_dir, "--set", setting).complaint
        key, _, value = setting.partition("=")
        assert f"option {key}" in complaint, (stage, setting)
        assert value.replace("1e-3", "0.001") in complaint, (stage, setting)
        assert f"--redo {stage}" in complaint, (stage, setting)
        assert tiny.manifests(run_dir) == tiny.manifests(), (stage, setting)


def test_changed_input_file_is_refused_by_name(tiny, tmp_path, data_copy, kobert) -> None:
    run_dir = tiny.copy(tmp_path / "runs" / "x")
    with (data_copy / "reviews_test.txt").open("a", encoding="utf-8") as file:
        file.write("99999\t또 하나의 평이다\t1\n")
    complaint = kobert("features", tiny.recipe, "--run-dir", run_dir, "--set", f"data_dir={data_copy}").complaint
    assert "reviews_test.txt" in complaint
    assert "has changed" in complaint


def test_a_file_that_was_added_or_removed_is_named_and_not_those_after_it() -> None:
    before = {"analyzer": "x", "file 1 a.txt": "1", "file 2 c.txt": "2", "file 3 c.txt": "3"}
    changes = {
        "b.txt was added": {"file 1 a.txt": "1", "file 2 b.txt": "9", "file 3 c.txt": "2", "file 4 c.txt": "3"},
        "a.txt was removed": {"file 1 c.txt": "2", "file 2 c.txt": "3"},
        "c.txt was removed": {"file 1 a.txt": "1", "file 2 c.txt": "3"},
        "c.txt was added": {"file 1 a.txt": "1", "file 2 c.txt": "2", "file 3 c.txt": "3", "file 4 c.txt": "3"},
        "c.txt has changed": {"file 1 a.txt": "1", "file 2 c.txt": "2", "file 3 c.txt": "4"},
        "files are in another order": {"file 1 a.txt": "1", "file 2 c.txt": "3", "file 3 c.txt": "2"},
    }
    for expected, now in changes.items():
        assert input_difference(before, {"analyzer": "x"} | now) == f"its input {expected}"
    assert input_difference(before, before | {"analyzer": "y"}) == "its input analyzer has changed"
    assert input_difference(before, dict(before)) is None


def test_redo_runs_one_stage_again_and_equal_results_keep_the_rest(tiny, tmp_path, kobert) -> None:
    run_dir = tiny.copy(tmp_path / "runs" / "x")
    found = statuses(
        kobert("run", tiny.recipe, "--run-dir", run_dir, "--redo", "shards", "--redo", "features", "--json")
    )
    assert {name for name, status in found.items() if status == "done"} == {
        "shards",
        "features nsmc",
        "features korquad",
    }
    assert {status for name, status in found.items() if name.split()[0] not in ("shards", "features")} == {"skipped"}


def test_redo_with_another_option_makes_later_stages_stale(tiny, tmp_path, kobert) -> None:
    run_dir = tiny.copy(tmp_path / "runs" / "x")
    setting = ("--set", "shards.held_out=0.2")
    assert kobert("shards", tiny.recipe, "--run-dir", run_dir, *setting, "--redo").code == 0
    complaint = kobert("pretrain", tiny.recipe, "--run-dir", run_dir, *setting).complaint
    assert "input shards has changed" in complaint


def test_redo_changed_runs_again_what_an_edited_text_or_another_option_changes(
    tiny, tmp_path, data_copy, kobert
) -> None:
    run_dir = tiny.copy(tmp_path / "runs" / "x")
    words = ("run", tiny.recipe, "--run-dir", run_dir, "--until", "tokenizer", "--redo-changed", "--json")
    option = ("--set", "tokenizer.subword.vocab_size=1400")
    assert statuses(kobert(*words, *option)) == {"corpus": "skipped", "analysis": "skipped", "tokenizer": "done"}

    with next(data_copy.glob("documents/*.txt")).open("a", encoding="utf-8") as file:
        file.write("\n\n새로 쓴 글이다. 어제는 없던 문장이 여기에 있다.\n")
    edited = statuses(kobert(*words, *option, "--set", f"data_dir={data_copy}"))
    assert edited == {"corpus": "done", "analysis": "done", "tokenizer": "done"}


def test_redo_does_not_reuse_another_run(tiny, tmp_path, kobert) -> None:
    for name in ("a", "b"):
        tiny.copy(tmp_path / "runs" / name, "corpus")
    found = statuses(kobert("corpus", tiny.recipe, "--run-dir", tmp_path / "runs" / "b", "--redo", "--json"))
    assert found == {"corpus": "done"}


def test_redo_deletes_only_what_it_can_create_again(tiny, tmp_path, data_copy, kobert) -> None:
    run_dir = tiny.copy(tmp_path / "runs" / "x")
    (data_copy / "reviews_test.txt").unlink()
    for arguments in (("run", "--redo", "pretrain"), ("features", "--redo")):
        command, *options = arguments
        result = kobert(command, tiny.recipe, "--run-dir", run_dir, "--set", f"data_dir={data_copy}", *options)
        assert "reviews_test.txt does not exist" in result.complaint
    assert tiny.manifests(run_dir) == tiny.manifests()


def test_deletion_killed_at_any_file_is_completed_by_the_next_command(tiny, tmp_path, monkeypatch, kobert) -> None:
    unlink, left = Path.unlink, 0

    def until_killed(path: Path, missing_ok: bool = False) -> None:
        nonlocal left
        if left == 0:
            raise KeyboardInterrupt
        left -= 1
        unlink(path, missing_ok)

    def killed_after(files: int, analysis: Path) -> bool:
        nonlocal left
        left = files
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", until_killed)
            try:
                stage_folder.delete(analysis)
            except KeyboardInterrupt:
                return True
        return False

    number = 0
    while killed_after(number, tiny.copy(tmp_path / str(number), "analysis") / "analysis"):
        stage_folder.finish_deletion(tmp_path / str(number) / "analysis")
        assert not (tmp_path / str(number) / "analysis").exists(), number
        number += 1
    assert number > len(list((tiny.run_dir / "analysis").glob("part-*.parquet")))
    run_dir = tiny.copy(tmp_path / "x", "corpus", "analysis")
    assert killed_after(3, run_dir / "analysis")
    assert kobert("analysis", tiny.recipe, "--run-dir", run_dir, "--set", "analysis.analyzer=whitespace").code == 0
    assert tiny.manifests(run_dir)["analysis"]["options"]["analyzer"]["name"] == "whitespace"


def test_single_stage_is_refused_if_an_earlier_one_has_other_options(tiny, tmp_path, kobert) -> None:
    for number, stage in enumerate(["tokenizer", "pretrain", "publish"]):
        place = tmp_path / str(number)
        place.mkdir()
        run_dir = tiny.copy(place / "runs" / "x")
        complaint = kobert(stage, tiny.recipe, "--run-dir", run_dir, "--set", "analysis.analyzer=whitespace").complaint
        assert (
            f"{run_dir / 'analysis'} was created with different options: option analysis.analyzer.name was 'kiwi' and "
            "is now 'whitespace'" in complaint
        ), stage
        assert tiny.manifests(run_dir) == tiny.manifests(), stage


def test_single_stage_is_refused_if_an_earlier_one_has_other_inputs(tiny, tmp_path, kobert) -> None:
    run_dir = tiny.copy(tmp_path / "runs" / "x")
    made = files.read_json_with_digest(run_dir / "corpus" / "manifest.json")
    made["files"]["part-00000.parquet"]["sha256"] = "0"
    files.write_json_with_digest(run_dir / "corpus" / "manifest.json", made)
    complaint = kobert("shards", tiny.recipe, "--run-dir", run_dir).complaint
    assert f"{run_dir / 'analysis'} was created from different inputs: its input corpus has changed" in complaint


def test_training_stages_need_no_raw_files(tiny, tmp_path, kobert) -> None:
    run_dir = tiny.copy(tmp_path / "runs" / "x")
    for stage in ("pretrain", "finetune"):
        found = statuses(kobert(stage, tiny.recipe, "--run-dir", run_dir, "--set", f"data_dir={tmp_path}", "--json"))
        assert set(found.values()) == {"skipped"}


def test_published_folder_depends_on_the_name_and_the_text_of_the_recipe(tiny, tmp_path, kobert) -> None:
    for number, change in enumerate(["name", "description"]):
        place = tmp_path / str(number)
        place.mkdir()
        run_dir = tiny.copy(place / "runs" / "x")
        recipe = Path(shutil.copyfile(tiny.recipe, place / f"{'other' if change == 'name' else 'tiny'}.yaml"))
        setting = ["--set", "description=another"] if change == "description" else []
        complaint = kobert("publish", recipe, "--run-dir", run_dir, *setting).complaint
        folder = run_dir / "publish" / "nsmc"
        assert f"{folder} was created from different inputs: its input recipe has changed" in complaint, change
        assert "--redo publish" in complaint, change


def test_training_manifest_contains_no_text_of_the_corpus(tiny) -> None:
    assert "contaminated_samples" in tiny.manifests()["corpus"]["counts"]
    history = json.loads((tiny.run_dir / "publish" / "mlm" / "training_manifest.json").read_text(encoding="utf-8"))
    assert history["stages"]["corpus"]["counts"]["documents_kept"]
    assert "contaminated_samples" not in history["stages"]["corpus"]["counts"]


def test_stage_without_its_inputs_names_the_missing_stage(tiny, tmp_path, kobert) -> None:
    for number, (stage, upstream) in enumerate(
        [("analysis", "corpus"), ("shards", "analysis"), ("features", "tokenizer"), ("publish", "tokenizer")]
    ):
        place = tmp_path / str(number)
        place.mkdir()
        run_dir = place / "runs" / "x"
        complaint = kobert(stage, tiny.recipe, "--run-dir", run_dir).complaint
        assert str(run_dir / upstream) in complaint, (stage, upstream)
        assert "not finished" in complaint, (stage, upstream)
        assert not (run_dir / stage).exists(), (stage, upstream)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


DAMAGE = {
    "bit in a shard": ("pretrain", "shards/train-00000.ids.npy", flip, "is damaged"),
    "bit in the boundaries": ("pretrain", "shards/held_out-00001.boundaries.npy", flip, "is damaged"),
    "truncated corpus": ("analysis", "corpus/part-00000.parquet", truncate, "is damaged"),
    "truncated analysis": ("tokenizer", "analysis/part-00001.parquet", truncate, "is damaged"),
    "missing shard": ("pretrain", "shards/train-00000.documents.npy", Path.unlink, "is missing"),
    "missing model": ("finetune", "pretrain/model/model.safetensors", Path.unlink, "is missing"),
    "bit in the model": ("finetune", "pretrain/model/model.safetensors", flip, "is damaged"),
    "bit in features": ("finetune", "features/nsmc/train/input_ids.npy", flip, "is damaged"),
    "bit in the vocabulary": ("shards", "tokenizer/morphemes.json", flip, "is damaged"),
    "missing best model": ("publish", "finetune/nsmc/1/model/config.json", Path.unlink, "is missing"),
}


def test_damaged_upstream_is_named_and_not_used(tiny, tmp_path, kobert) -> None:
    for number, kind in enumerate(DAMAGE):
        place = tmp_path / str(number)
        place.mkdir()
        stage, name, damage, said = DAMAGE[kind]
        run_dir = tiny.copy_before(place / "runs" / "x", stage)
        damage(run_dir / name)
        for command in ([stage], ["run"]):
            complaint = kobert(*command, tiny.recipe, "--run-dir", run_dir).complaint
            assert str(run_dir / name) in complaint, kind
            assert said in complaint, kind
            assert f"--redo {name.split('/')[0]}" in complaint, kind
        made = [
            path
            for path in (run_dir / stage).rglob("*")
            if path.is_file() and ("nsmc" in str(path) or "nsmc" not in name)
        ]
        assert not made, kind


def test_damaged_last_stage_is_found_by_the_next_run(tiny, tmp_path, kobert) -> None:
    run_dir = tiny.copy(tmp_path / "runs" / "x")
    flip(run_dir / "publish" / "nsmc" / "model.safetensors")
    complaint = kobert("run", tiny.recipe, "--run-dir", run_dir).complaint
    assert "publish/nsmc/model.safetensors is damaged" in complaint


def test_equal_stages_of_another_run_are_reused_and_others_computed(tiny, tmp_path, kobert) -> None:
    tiny.copy(tmp_path / "runs" / "a", "corpus", "analysis", "tokenizer")
    arguments = ("run", tiny.recipe, "--run-dir", tmp_path / "runs" / "b", "--until", "tokenizer")
    found = statuses(kobert(*arguments, "--set", "tokenizer.subword.vocab_size=1400", "--json"))
    assert found == {"corpus": "reused", "analysis": "reused", "tokenizer": "done"}
    made = tiny.manifests(tmp_path / "runs" / "b")
    assert made["analysis"]["files"] == tiny.manifests()["analysis"]["files"]
    assert made["analysis"]["reused_from"] == "a/analysis"
    shutil.rmtree(tmp_path / "runs" / "a")
    assert set(statuses(kobert(*arguments, "--set", "tokenizer.subword.vocab_size=1400", "--json")).values()) == {
        "skipped"
    }


def test_leftover_files_are_not_mixed_into_a_reused_stage(tiny, tmp_path, kobert) -> None:
    tiny.copy(tmp_path / "runs" / "a", "corpus")
    own = tiny.copy(tmp_path / "runs" / "b", "corpus") / "corpus"
    (own / "manifest.json").unlink()
    (own / "part-00099.parquet").write_bytes(b"left over")
    assert statuses(kobert("corpus", tiny.recipe, "--run-dir", own.parent, "--json")) == {"corpus": "reused"}
    assert tiny.manifests(own.parent)["corpus"]["files"] == tiny.manifests()["corpus"]["files"]
    assert not (own / "part-00099.parquet").exists()


@pytest.mark.parametrize("moment", ["gone", "other bytes"])
def test_stage_is_computed_if_the_other_run_is_redone_meanwhile(
    moment: str, tiny, tmp_path, monkeypatch, kobert
) -> None:
    other_run = tiny.copy(tmp_path / "runs" / "a", "corpus") / "corpus"

    def link(source: Path, target: Path) -> None:
        if moment == "gone":
            shutil.rmtree(other_run, ignore_errors=True)
            raise FileNotFoundError(source)
        target.write_bytes(b"half a part")

    monkeypatch.setattr(reuse.os, "link", link)
    run_dir = tmp_path / "runs" / "b"
    assert statuses(kobert("corpus", tiny.recipe, "--run-dir", run_dir, "--json")) == {"corpus": "done"}
    assert tiny.manifests(run_dir)["corpus"]["files"] == tiny.manifests()["corpus"]["files"]


def test_manifest_names_the_run_that_a_stage_was_reused_from_and_what_computed_it(
    tiny, tmp_path, kobert, monkeypatch
) -> None:
    tiny.copy(tmp_path / "runs" / "a", "features")
    tiny.copy(tmp_path / "runs" / "b", "tokenizer")
    monkeypatch.setattr("kobert_pipeline.runs.manifest.versions", lambda: {"python": "later"})
    found = statuses(kobert("features", tiny.recipe, "--run-dir", tmp_path / "runs" / "b", "--json"))
    assert set(found.values()) == {"reused"}
    reused, original = (tiny.manifests(tmp_path / "runs" / run)["features/nsmc"] for run in ("b", "a"))
    assert reused["reused_from"] == "a/features/nsmc"
    assert reused["versions"] == original["versions"] != {"python": "later"}


def test_features_of_another_version_of_the_analyzer_are_refused(tiny, tmp_path, kobert, monkeypatch) -> None:
    run_dir = tiny.copy(tmp_path / "run", "tokenizer", "features")
    monkeypatch.setattr(kiwi, "version", lambda: "kiwipiepy 9.9")
    complaint = kobert("features", tiny.recipe, "--run-dir", run_dir).complaint
    assert "its input analyzer has changed" in complaint
    # one that only trains on them may not even have the analyzer
    assert kobert("finetune", tiny.recipe, "--run-dir", tiny.copy(tmp_path / "all")).code == 0


@pytest.mark.parametrize(
    ("from_corpus", "style", "expected"),
    [
        ({}, "surface", {"analyzer": kiwi.version()}),
        ({}, "none", {}),
        ({"synthesize": {}}, "none", {"analyzer": kiwi.version()}),
        ({"pairs": {"kind": "questions"}}, "none", {"analyzer": kiwi.version()}),
        ({"pairs": {}}, "none", {}),
        ({"task": {"name": "korquad", "answer_priors": {"type": 8}}}, "none", {"analyzer": kiwi.version()}),
    ],
)
def test_features_record_the_analyzers_that_they_depend_on(from_corpus, style, expected, tmp_path) -> None:
    write_json(tmp_path / "tokenizer_config.json", {"analyzer": "kiwi", "style": style})
    (tmp_path / "morphemes.json").touch()
    task = "contrastive" if "pairs" in from_corpus else "korquad"
    options = FeaturesOptions.model_validate({"task": task, "train": "a.json", **from_corpus})
    assert analyzer_versions(options, tmp_path) == expected


def test_damaged_stage_of_another_run_is_not_reused(tiny, tmp_path, kobert) -> None:
    """The stage is computed instead, with the right bytes."""
    flip(tiny.copy(tmp_path / "runs" / "a", "corpus") / "corpus" / "part-00000.parquet")
    result = kobert("corpus", tiny.recipe, "--run-dir", tmp_path / "runs" / "b", "--json")
    assert statuses(result) == {"corpus": "done"}
    assert tiny.manifests(tmp_path / "runs" / "b")["corpus"]["files"] == tiny.manifests()["corpus"]["files"]


def test_options_that_cannot_change_the_result_are_not_in_the_fingerprint(tiny, tmp_path, kobert) -> None:
    run_dir = tiny.copy(tmp_path / "runs" / "x")
    options = ["max_minutes=90", "log_every=3", "keep_checkpoints=5", "checkpoint_every=7"]
    settings = [f"{plan}.{option}" for plan in ("pretrain.plan", "finetune.nsmc.plan") for option in options]
    arguments = [part for setting in settings for part in ("--set", setting)]
    found = statuses(kobert("run", tiny.recipe, "--run-dir", run_dir, "--num-workers", "1", *arguments, "--json"))
    assert set(found.values()) == {"skipped"}


def test_options_outside_the_fingerprint_change_no_file_and_no_count(tiny, tmp_path, kobert) -> None:
    run_dir = tiny.copy(tmp_path / "runs" / "x", "tokenizer", "shards")
    settings = ["pretrain.plan.log_every=7", "pretrain.plan.checkpoint_every=4", "pretrain.plan.keep_checkpoints=1"]
    result = kobert(
        "pretrain", tiny.recipe, "--run-dir", run_dir, *[part for one in settings for part in ("--set", one)]
    )
    assert result.code == 0, result.err
    made, expected = tiny.manifests(run_dir)["pretrain"], tiny.manifests()["pretrain"]
    assert made["files"] == expected["files"]
    assert made["counts"] == expected["counts"]


@pytest.mark.slow
def test_number_of_workers_changes_no_byte_of_the_analysis(tiny, tmp_path, kobert_process) -> None:
    run_dir = tiny.copy(tmp_path / "runs" / "x", "corpus")
    assert kobert_process("analysis", tiny.recipe, "--run-dir", run_dir, "--num-workers", "2").code == 0
    assert tiny.manifests(run_dir)["analysis"]["files"] == tiny.manifests()["analysis"]["files"]


def test_second_process_on_a_run_is_refused(tiny, tmp_path, kobert, start_kobert) -> None:
    run_dir = tmp_path / "runs" / "x"
    first = start_kobert("run", tiny.recipe, "--run-dir", run_dir, "--until", "corpus", "--num-workers", 1)
    while not (run_dir / "corpus" / "started.json").exists():
        assert first.poll() is None
        time.sleep(0.005)
    first.send_signal(signal.SIGSTOP)  # the stage takes a second
    complaint = kobert("run", tiny.recipe, "--run-dir", run_dir, "--until", "corpus").complaint
    first.send_signal(signal.SIGCONT)
    assert "another kobert process works on" in complaint
    assert str(run_dir) in complaint
    assert first.wait() == 0
    again = kobert("run", tiny.recipe, "--run-dir", run_dir, "--until", "corpus", "--json")
    assert statuses(again) == {"corpus": "skipped"}


def state_words(kobert, *arguments: object) -> dict[str, str]:
    return {row["job"]: row["status"] for row in kobert("status", *arguments, "--json").json["stages"]}


def test_status_words(tiny, tmp_path, kobert) -> None:
    run_dir = tmp_path / "runs" / "x"
    assert set(state_words(kobert, tiny.recipe, "--run-dir", run_dir).values()) == {"missing"}
    tiny.copy(run_dir)
    assert list(state_words(kobert, tiny.recipe, "--run-dir", run_dir).values()) == ["done"] * ALL_JOBS
    stale = state_words(kobert, tiny.recipe, "--run-dir", run_dir, "--set", "finetune.nsmc.plan.epochs=2")
    assert stale["finetune nsmc/1"].startswith("stale: ")
    assert "finetune.nsmc.plan.epochs was 1 and is now 2" in stale["finetune nsmc/1"]
    assert stale["finetune korquad/1"] == "done"
    (run_dir / "finetune" / "nsmc" / "1" / "manifest.json").unlink()
    shutil.rmtree(run_dir / "publish" / "korquad")
    flip(run_dir / "features" / "korquad" / "dev" / "input_ids.npy")
    found = state_words(kobert, tiny.recipe, "--run-dir", run_dir)
    assert found["finetune nsmc/1"] == "started"
    assert found["publish korquad"] == "missing"
    assert found["publish nsmc"].startswith("waiting: ")
    assert found["features korquad"].startswith("damaged: ")
    assert "input_ids.npy" in found["features korquad"]
    assert found["features nsmc"] == found["publish mlm"] == "done"


def test_status_writes_nothing(tiny, tmp_path, kobert) -> None:
    assert kobert("status", tiny.recipe, "--run-dir", tmp_path / "runs" / "x").code == 0
    assert not (tmp_path / "runs").exists()


def test_partial_stage_is_never_taken_for_finished(tiny, tmp_path, kobert) -> None:
    """Files without a manifest, including a wrong one: the stage is created again, not resumed."""
    run_dir = tiny.copy(tmp_path / "runs" / "x", "corpus")
    (run_dir / "corpus" / "manifest.json").unlink()
    flip(run_dir / "corpus" / "part-00000.parquet")
    (run_dir / "corpus" / "part-00099.parquet").write_bytes(b"left over")
    assert statuses(kobert("corpus", tiny.recipe, "--run-dir", run_dir, "--json")) == {"corpus": "done"}
    assert tiny.manifests(run_dir)["corpus"]["files"] == tiny.manifests()["corpus"]["files"]


def test_part_that_changed_before_its_stage_was_finished_is_named(tiny, tmp_path, kobert) -> None:
    run_dir = tiny.copy(tmp_path / "runs" / "x", "corpus", "analysis")
    (run_dir / "analysis" / "manifest.json").unlink()
    flip(run_dir / "analysis" / "part-00001.parquet")
    complaint = kobert("analysis", tiny.recipe, "--run-dir", run_dir).complaint
    assert "analysis/part-00001.parquet has changed" in complaint


def test_fingerprint_depends_on_stage_version_options_and_inputs_only() -> None:
    def fingerprint(**changes: object) -> str:
        return manifest.Record(
            **{"stage": "s", "version": 1, "options": {"a": 1, "b": 2}, "inputs": {"x": "0"}} | changes
        ).fingerprint

    changed = [
        fingerprint(stage="t"), fingerprint(version=2), fingerprint(options={"a": 1, "b": 3}),
        fingerprint(options={"a": 1}),
        fingerprint(inputs={"x": "1"}), fingerprint(inputs={"y": "0"}), fingerprint(),
    ]  # fmt: skip
    assert len(set(changed)) == len(changed)
    assert fingerprint(options={"b": 2, "a": 1}) == fingerprint()


def test_a_stage_with_files_that_this_version_does_not_write_is_not_reused(tmp_path):
    """Its files could not be deleted again: no pattern of the stage names them."""
    record = Record("corpus", 1, {}, {})
    for run, name in (("a", "old.txt"), ("b", "new.txt")):
        folder = tmp_path / run / "corpus"
        manifest.start(folder, record, [name])
        (folder / name).write_text(name, encoding="utf-8")
        manifest.finish(folder, record, [name], manifest.list_files(folder, [name]), {}, {"seconds": 1.0})
    assert reuse.reuse(tmp_path / "c" / "corpus", record, ["older.txt"]) is None
    assert not (tmp_path / "c").exists()
    assert reuse.reuse(tmp_path / "c" / "corpus", record, ["new.txt"])["reused_from"] == "b/corpus"


def test_a_record_of_another_version_says_what_changed() -> None:
    record = Record("corpus", 2, {}, {})
    stored = {"options": {}, "inputs": {}, "version": 1}
    assert manifest.difference(stored, record) == "it has version 1 of the stage's format, this is version 2"
    assert "a version of kobert with other records" in manifest.difference(stored | {"version": 2}, record)


def test_a_manifest_without_its_entries_is_damaged(tmp_path) -> None:
    files.write_json_with_digest(tmp_path / "manifest.json", {"stage": "corpus"})
    with pytest.raises(manifest.Damaged, match=r"manifest\.json lacks required entries"):
        manifest.verify(tmp_path)


def test_time_of_earlier_commands_and_of_child_processes_counts(tmp_path) -> None:
    # more than the bound below: the system counts the time of child processes in ticks of a hundredth of a second
    burn = "import time\nwhile time.process_time() < 0.25: pass"
    with manifest.record_elapsed(tmp_path) as elapsed:
        subprocess.run([sys.executable, "-c", burn], check=True)
    first = elapsed()
    assert 0.2 <= first.cpu_seconds < 0.2 + 10
    recorded = manifest.elapsed_before(tmp_path)
    assert recorded.cpu_seconds == pytest.approx(first.cpu_seconds, abs=0.1)
    with manifest.record_elapsed(tmp_path) as elapsed:
        time.sleep(0.2)
    # not than `first`, which a busy machine may read long after the record was written
    assert elapsed().seconds > recorded.seconds + 0.15
    assert first.cpu_seconds - 0.1 <= elapsed().cpu_seconds < first.cpu_seconds + 0.2


def test_a_run_of_an_earlier_version_is_not_compared(tiny, tmp_path, kobert) -> None:
    run_dir = tiny.copy(tmp_path / "run", "tokenizer", "pretrain")
    path = run_dir / "pretrain" / "manifest.json"
    record = files.read_json_with_digest(path)
    files.write_json_with_digest(path, record | {"counts": {"steps": 3}})
    complaint = kobert("compare", run_dir).complaint
    assert "run was made by an earlier version of kobert with other records; run it again" in complaint
