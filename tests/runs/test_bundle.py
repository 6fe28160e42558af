"""A run in parts to a machine that only trains, and back: nothing is lost, changed, overwritten or pretended."""

import importlib.util
import json
import shutil
import signal
from pathlib import Path

import pytest
import yaml
from safetensors import safe_open
from test_house import dotted, modules, room_of

from kobert_pipeline.cli.bundle import NOT_FOR_TRAINING, part_size, print_bundle
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json_with_digest, sha256, write_json_with_digest
from kobert_pipeline.runs.bundle import _round

BEFORE_TRAINING = ("tokenizer", "shards", "features")


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder but locks."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def sent(tiny, kobert, tmp_path_factory) -> Path:
    """A bundle of what pretrain and finetune read, in parts of 50 kB."""
    out = tmp_path_factory.mktemp("sent") / "to-gpu"
    result = kobert("bundle", tiny.recipe, "--run-dir", tiny.run_dir, "--out", out, "--part", "50kB")
    assert result.code == 0, result.err
    return out


def part_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("part-*"))


def test_what_is_unpacked_is_bit_for_bit_what_was_packed(tiny, sent, kobert, tmp_path) -> None:
    assert len(part_names(sent)) > 3
    assert max((sent / name).stat().st_size for name in part_names(sent)) == 50_000
    assert kobert("unbundle", sent, "--run-dir", tmp_path / "tiny").code == 0
    unpacked = contents(tmp_path / "tiny")
    recipe = yaml.safe_load(unpacked.pop("tiny.yaml"))
    assert recipe == yaml.safe_load(tiny.recipe.read_text(encoding="utf-8")) | {"data_dir": "."}
    packed = contents(tiny.run_dir)
    stages = {name: packed[name] for name in packed if name.startswith(BEFORE_TRAINING) and ".done." not in name}
    assert unpacked == stages


@pytest.mark.slow
def test_a_machine_with_the_listed_packages_alone_trains_the_same_model_and_brings_it_home(
    tiny, sent, kobert, fresh, tmp_path
) -> None:
    listed = {line.partition("  #")[0] for line in (sent / "requirements.txt").read_text().splitlines()}
    assert not any(line.startswith(NOT_FOR_TRAINING) for line in listed)
    missing = ["kiwipiepy_model", *(name.replace("-", "_") for name in NOT_FOR_TRAINING)]
    of_training = [
        dotted(path)
        for path in modules()
        if room_of(path) in ("training", "pretrain", "finetune") and path.stem != "__init__"
        # Triton comes with PyTorch for a GPU
        if path.stem != "triton_attention" or importlib.util.find_spec("triton")
    ]
    assert len(of_training) > 20
    # None in sys.modules makes a library look not installed, to `import` and to `importlib.util.find_spec`
    code = f"""import importlib, sys
for name in {missing!r}: sys.modules[name] = None
for name in {of_training!r}: importlib.import_module(f"kobert_pipeline.{{name}}")
from kobert_pipeline.cli.main import app
for line in [["unbundle", {str(sent)!r}], *([stage, "runs/tiny/tiny.yaml"] for stage in ("pretrain", "finetune")),
             ["bundle", "runs/tiny/tiny.yaml", "--from", "pretrain", "--out", "trained", "--part", "50kB"]]:
    sys.argv = ["kobert", *line]
    app(standalone_mode=False)
assert sys.modules["kiwipiepy"] is None
"""
    away, home = tmp_path / "away", tmp_path / "home"
    away.mkdir()
    result = fresh(code, cwd=away)
    assert result.code == 0, result.err[-2000:]
    assert "kobert pretrain runs/tiny/tiny.yaml" in (sent / "README.md").read_text(encoding="utf-8")
    assert "kobert run YOUR_RECIPE.yaml --run-dir runs/tiny" in (away / "trained" / "README.md").read_text(
        encoding="utf-8"
    )
    tiny.copy_before(home, "pretrain")
    assert kobert("unbundle", away / "trained", "--run-dir", home).code == 0
    trained, expected = tiny.manifests(home), tiny.manifests()
    assert {name: trained[name]["files"] for name in trained} == {
        name: expected[name]["files"] for name in expected if not name.startswith("publish")
    }
    assert (home / "pretrain" / "logs" / "log.jsonl").is_file()
    states = kobert("status", tiny.recipe, "--run-dir", home, "--json").json["stages"]
    assert {row["status"] for row in states if not row["job"].startswith("publish")} == {"done"}


def test_parts_may_arrive_in_any_order_and_what_is_missing_is_named(sent, kobert, tmp_path) -> None:
    names, carried, run_dir = part_names(sent), tmp_path / "carried", tmp_path / "tiny"
    for batch in (names[3:], names[1:3], names[:1]):
        shutil.rmtree(carried, ignore_errors=True)  # as where every call brings its own files
        carried.mkdir()
        for name in ("bundle.json", *batch):
            shutil.copy(sent / name, carried)
        assert not (run_dir / "shards").exists()
        answer = kobert("unbundle", carried, "--run-dir", run_dir, "--json").json
        assert answer["missing"] == (names[: names.index(batch[0])])
    assert (run_dir / "features" / "korquad" / "manifest.json").is_file()
    assert not list(run_dir.glob(".unbundle-*"))
    # again, although the parts are gone
    assert kobert("unbundle", carried, "--run-dir", run_dir, "--json").json["missing"] == []


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:-1] + bytes([data[-1] ^ 1])])
def test_a_damaged_part_is_named_and_the_others_are_kept(damage, sent, kobert, tmp_path) -> None:
    carried, run_dir, bad = Path(shutil.copytree(sent, tmp_path / "carried")), tmp_path / "tiny", part_names(sent)[1]
    (carried / bad).write_bytes(damage((sent / bad).read_bytes()))
    (carried / part_names(sent)[2]).unlink()
    complaint = kobert("unbundle", carried, "--run-dir", run_dir).complaint
    assert f"{bad} is damaged or incomplete" in complaint and f"still missing: {part_names(sent)[2]}" in complaint
    for name in part_names(sent)[1:3]:
        shutil.copy(sent / name, carried)
    (carried / part_names(sent)[0]).unlink()
    assert kobert("unbundle", carried, "--run-dir", run_dir, "--json").json["missing"] == []


@pytest.mark.parametrize("name", ["shards/mine.txt", "shards/manifest.json", "features/nsmc/task.json", "tiny.yaml"])
def test_no_file_of_the_user_is_overwritten(name, sent, kobert, tmp_path) -> None:
    path = tmp_path / "tiny" / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    before = contents(tmp_path / "tiny")
    assert str(path) in kobert("unbundle", sent, "--run-dir", tmp_path / "tiny").complaint
    assert contents(tmp_path / "tiny") == before


@pytest.mark.parametrize("name", ["../out", "shards/../../out", "/etc/out", ".lock"])
def test_a_bundle_writes_to_folders_of_stages_only(name, sent, kobert, tmp_path) -> None:
    carried = Path(shutil.copytree(sent, tmp_path / "carried"))
    index = json.loads((carried / "bundle.json").read_text(encoding="utf-8"))
    index["files"][0]["folder"], index["files"][0]["name"] = name, "started.json"
    write_json_with_digest(carried / "bundle.json", index)
    assert "not of a stage" in kobert("unbundle", carried, "--run-dir", tmp_path / "tiny").complaint


@pytest.mark.parametrize(
    ("name", "is_allowed"), [("cmp (1)", True), ("실험, 2차", True), (".x", False), ("a\tb", False)]
)
def test_a_bundle_has_no_name_that_would_be_refused_on_the_other_machine(
    name: str, is_allowed: bool, sent, kobert, tiny, tmp_path
) -> None:
    recipe, carried = tmp_path / f"{name}.yaml", Path(shutil.copytree(sent, tmp_path / "carried"))
    shutil.copy(tiny.recipe, recipe)
    packed = kobert("bundle", recipe, "--run-dir", tiny.run_dir, "--out", tmp_path / "out")
    write_json_with_digest(carried / "bundle.json", read_json_with_digest(carried / "bundle.json") | {"name": name})
    unpacked = kobert("unbundle", carried, "--run-dir", tmp_path / "tiny")
    assert (packed.code, unpacked.code) == ((0, 0) if is_allowed else (2, 2)), packed.err + unpacked.err


@pytest.mark.parametrize(
    ("change", "key_word"), [(None, "copy it from the bundle first"), ({"format": 99}, "use the same version"),
                             ({"name": "../up"}, "not a plain file name")],
)  # fmt: skip
def test_an_index_that_cannot_be_used_is_refused(change, key_word, sent, kobert, tmp_path) -> None:
    carried = Path(shutil.copytree(sent, tmp_path / "carried"))
    if change:
        index = json.loads((carried / "bundle.json").read_text(encoding="utf-8"))
        write_json_with_digest(carried / "bundle.json", index | change)
    else:
        (carried / "bundle.json").unlink()
    assert key_word in kobert("unbundle", carried, "--run-dir", tmp_path / "tiny").complaint
    assert not (tmp_path / "tiny").exists()


def test_a_file_that_is_not_what_the_index_lists_is_not_unpacked(sent, kobert, tmp_path) -> None:
    carried = Path(shutil.copytree(sent, tmp_path / "carried"))
    index = json.loads((carried / "bundle.json").read_text(encoding="utf-8"))
    index["files"][0]["sha256"] = "0" * 64
    write_json_with_digest(carried / "bundle.json", index)
    name = Path(index["files"][0]["folder"], index["files"][0]["name"])
    complaint = kobert("unbundle", carried, "--run-dir", tmp_path / "tiny").complaint
    assert f"{tmp_path / 'tiny' / name} would differ from what bundle.json lists" in complaint
    assert not (tmp_path / "tiny" / name).exists()


def test_what_is_printed_names_the_missing_parts_and_the_files_to_copy(sent, kobert, tmp_path, capsys) -> None:
    carried, names = Path(shutil.copytree(sent, tmp_path / "carried")), part_names(sent)
    (carried / names[1]).unlink()
    printed = kobert("unbundle", carried, "--run-dir", tmp_path / "tiny").out
    assert f"1 of {len(names)} parts are missing: {names[1]}\n" in printed
    print_bundle({"folder": "out", "parts": {}, "jobs": [], "left_out": [], "files_to_copy": ["base/vocab.txt"]})
    assert "where pretrain.base names it on the other machine: base/vocab.txt" in capsys.readouterr().out


def test_a_file_where_a_folder_is_to_be_written_is_left_alone(sent, kobert, tmp_path) -> None:
    (tmp_path / "tiny").write_text("mine")
    assert "is not a folder" in kobert("unbundle", sent, "--run-dir", tmp_path / "tiny").complaint
    assert (tmp_path / "tiny").read_text() == "mine"


def test_a_bundle_of_other_options_than_the_recipe_is_refused(tiny, kobert, tmp_path) -> None:
    arguments = ("bundle", tiny.recipe, "--run-dir", tiny.run_dir, "--out", tmp_path / "out")
    assert "shards.held_out was 0.08" in kobert(*arguments, "--set", "shards.held_out=0.1").complaint
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    assert "exists already" in kobert(*arguments).complaint


def test_what_is_not_finished_is_left_out_and_named(tiny, kobert, tmp_path) -> None:
    run_dir = tiny.copy(tmp_path / "tiny", "corpus", "analysis", "tokenizer", "shards")
    arguments = ("bundle", tiny.recipe, "--run-dir", run_dir)
    answer = kobert(*arguments, "--out", tmp_path / "out", "--json").json
    assert answer["jobs"] == ["tokenizer", "shards"]
    assert answer["left_out"] == ["features nsmc", "features korquad"]
    assert "nothing to bundle" in kobert(*arguments, "--from", "pretrain", "--out", tmp_path / "none").complaint


KILLED = """
import os, signal, sys
from kobert_pipeline import files
from kobert_pipeline.cli.main import app
rename, count = files.Path.replace, int(sys.argv.pop(1))
def replace(path, target):
    global count
    count -= 1
    if not count: os.kill(os.getpid(), signal.SIGKILL)
    return rename(path, target)
files.Path.replace = replace
sys.argv[0] = "kobert"
app(standalone_mode=False)
"""


@pytest.mark.parametrize("writes", [1, 9, 40])
def test_a_killed_unbundle_is_completed_by_the_same_command(writes, tiny, sent, kobert, fresh, tmp_path) -> None:
    run_dir = tmp_path / "tiny"
    assert fresh(KILLED, writes, "unbundle", sent, "--run-dir", run_dir).code == -signal.SIGKILL
    whole = [path.parent for path in run_dir.rglob("manifest.json")]
    assert len(whole) < 4
    assert kobert("unbundle", sent, "--run-dir", run_dir).code == 0
    for stage in BEFORE_TRAINING:
        packed = contents(tiny.run_dir / stage)
        assert contents(run_dir / stage) == {name: packed[name] for name in packed if ".done." not in name}


def test_a_killed_bundle_leaves_no_folder_and_is_written_again(tiny, sent, fresh, kobert, tmp_path) -> None:
    arguments = ("bundle", tiny.recipe, "--run-dir", tiny.run_dir, "--out", tmp_path / "out", "--part", "50kB")
    code = KILLED.replace("files.Path.replace = replace", "files.Path.rename = replace")
    assert fresh(code, 1, *arguments).code == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    assert kobert(*arguments).code == 0
    assert contents(tmp_path / "out") == contents(sent)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_rounded_weights_are_recorded_as_such_and_keep_what_was_made_from_them_valid(tiny, kobert, tmp_path) -> None:
    home = tiny.copy_before(tmp_path / "home", "pretrain")
    arguments = ("--run-dir", tiny.run_dir, "--from", "pretrain", "--until", "finetune", "--out", tmp_path / "trained")
    assert kobert("bundle", tiny.recipe, *arguments, "--bf16").code == 0
    assert kobert("unbundle", tmp_path / "trained", "--run-dir", home).code == 0
    weights = "model/model.safetensors"
    before, after = tiny.manifests()["pretrain"], tiny.manifests(home)["pretrain"]
    assert after["rounded_to_bfloat16"][weights] == before["files"][weights] != after["files"][weights]
    assert after["files"][weights]["sha256"] == sha256(home / "pretrain" / weights)
    with safe_open(home / "pretrain" / weights, "np") as rounded:
        assert {rounded.get_slice(name).get_dtype() for name in rounded.keys()} == {"BF16"}  # noqa: SIM118
    states = kobert("status", tiny.recipe, "--run-dir", home, "--json").json["stages"]
    assert {row["status"] for row in states if not row["job"].startswith("publish")} == {"done"}
    # a seed that is trained from the rounded weights is recorded to be made from those
    assert kobert("finetune", tiny.recipe, "--run-dir", home, "--set", "finetune.nsmc.seeds=[1, 9]").code == 0
    seeds = {seed: tiny.manifests(home)[f"finetune/nsmc/{seed}"]["inputs"]["pretrain"] for seed in (1, 9)}
    assert seeds[1] == tiny.manifests()["finetune/nsmc/1"]["inputs"]["pretrain"] != seeds[9]
    row = kobert("compare", home, "--json").json["runs"]
    assert {entry["finetune"]: entry["seeds"] for entry in row} == {"korquad": 1, "nsmc": 2}


def test_a_published_model_says_that_its_weights_were_rounded(tiny, kobert, tmp_path) -> None:
    home = tiny.copy_before(tmp_path / "home", "pretrain")
    arguments = ("--run-dir", tiny.run_dir, "--from", "pretrain", "--until", "finetune", "--out", tmp_path / "trained")
    assert kobert("bundle", tiny.recipe, *arguments, "--bf16").code == 0
    assert kobert("unbundle", tmp_path / "trained", "--run-dir", home).code == 0
    assert kobert("publish", tiny.recipe, "--run-dir", home).code == 0
    published = json.loads((home / "publish" / "nsmc" / "training_manifest.json").read_text(encoding="utf-8"))
    assert "model/model.safetensors" in published["stages"]["finetune/nsmc/1"]["rounded_to_bfloat16"]


@pytest.mark.parametrize(("text", "size"), [("60MB", 60_000_000), ("1.5 GiB", 3 * 2**29), ("2000", 2000)])
def test_sizes_of_parts(text, size) -> None:
    assert part_size(text) == size


@pytest.mark.parametrize("text", ["", "60", "MB", "-1MB", "6O MB", "1e3MB", "60MBit"])
def test_what_is_no_size_of_a_part(text) -> None:
    with pytest.raises(UserError, match="--part"):
        part_size(text)


@pytest.mark.parametrize(("size", "is_taken"), [(1, True), (2, False), (3, False)])
def test_weights_that_rounding_does_not_make_smaller_stay_as_they_are(size: int, is_taken: bool, tmp_path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"ab")
    paths = {"model/model.safetensors": tmp_path / "model.safetensors", "logs/log.jsonl": tmp_path / "log.jsonl"}
    rounded = _round(paths, tmp_path / "work", lambda source, target: target.write_bytes(bytes(size)))
    assert list(rounded) == ["model/model.safetensors"] * is_taken
