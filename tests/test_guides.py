"""The guides in docs/: a reader who types what they say gets what they promise."""

import csv
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kobert_pipeline.pipeline.stages import plan
from kobert_pipeline.tables.open_text import open_lines

REPO = Path(__file__).resolve().parents[1]
CORPORA = REPO / "kobert_pipeline" / "pipeline" / "recipes" / "tiny"
BUNDLED = ("corpora", "models")
PAGES = ("pretraining.md", "finetuning.md", "publishing.md")
"""The three pages on your own data and models, in the order in which their commands work."""


def own_data(folder: str = "docs") -> str:
    """The text of these pages."""
    return "\n".join((REPO / folder / page).read_text(encoding="utf-8") for page in PAGES)


GUIDE = own_data()
SCALING = (REPO / "docs" / "scaling.md").read_text(encoding="utf-8")


def blocks(language: str, guide: str = GUIDE) -> list[str]:
    """The fenced blocks of a language in a guide."""
    return re.findall(rf"^```{language}\n(.*?)^```", guide, re.M | re.S)


def block(language: str, text: str, guide: str = GUIDE) -> str:
    """The first fenced block of a language in a guide that contains a text."""
    return next(block for block in blocks(language, guide) if text in block)


def commands(guide: str) -> list[list[str]]:
    """The commands that a guide has people type."""
    return [shlex.split(line.removeprefix("$ ")) for block in blocks("console", guide) for line in block.splitlines()]


SMALLER = {
    "total_tokens: 1_000_000": "total_tokens: 30_000",
    "seeds: [1, 2, 3]": "seeds: [1]",
    "epochs: 3": "epochs: 1",
    "num_hidden_layers: 2": "num_hidden_layers: 1",
}
"""So that the test takes seconds; the rest of the recipe stays as it is printed."""
USERS_OWN = {
    "NAME.py",
    "newcomer.py",
    "mine.yaml",
    "topics.yaml",
    "law.yaml",
    "little.yaml",
    "documents.yaml",
    "manual.yaml",
}
"""Files of the guides that their readers write."""


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the guide's recipe, and the bundled corpora under its names."""
    workdir = tmp_path_factory.mktemp("own")
    shutil.copytree(CORPORA / "documents", workdir / "mydata" / "texts")
    table = block("csv", "sentence1,sentence2")
    pairs = list(csv.reader(table.splitlines()))
    (workdir / "mydata" / "pairs.csv").write_text(table, encoding="utf-8")
    (workdir / "mydata" / "texts" / "pairs.txt").write_text("\n\n".join(pairs[1][:2] + pairs[2][:2]), encoding="utf-8")
    for name in ("reviews_train.txt", "reviews_test.txt"):
        shutil.copy(CORPORA / name, workdir / "mydata")
    (workdir / "mydata" / "terms.txt").write_text(block("text", "손해배상청구권"), encoding="utf-8")
    recipe = block("yaml", "data_dir: mydata")
    for printed, smaller in SMALLER.items():
        assert printed in recipe
        recipe = recipe.replace(printed, smaller)
    # the sections on labels, on questions and choices, and on spans add to it
    content = yaml.safe_load(recipe)
    for name in ("labels: [교통, 날씨]", "kinds.csv", "lives.jsonl", "lighthouse.jsonl", "visits.jsonl"):
        # without epochs the guide's fine-tunings have 300 steps
        few = block("yaml", name).replace("plan: {learning_rate", "plan: {epochs: 1, learning_rate")
        for section, added in yaml.safe_load(few).items():
            content[section] |= added
    (workdir / "mine.yaml").write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    for name, first in (("topics", "text,topic"), ("kinds", "text,교통")):
        header, *rows = block("csv", first).splitlines()
        many = [row.replace("?", f"? {i}번째로 묻는다", 1) for i in range(12) for row in rows]
        (workdir / "mydata" / f"{name}.csv").write_text("\n".join([header, *many]), encoding="utf-8")
    header, *rows = block("csv", "story,").splitlines()
    stories = [row.replace(".", f" ({i}번째).", 1) for i in range(12) for row in rows]
    (workdir / "mydata" / "stories.csv").write_text("\n".join([header, *stories]), encoding="utf-8")
    lives = [
        row.replace('다", "subject', f"다 {i}번째로" + '", "subject')
        for i in range(12)
        for row in block("jsonl", "subject").splitlines()
    ]
    (workdir / "mydata" / "lives.jsonl").write_text("\n".join(lives), encoding="utf-8")
    questions = [
        row.replace("밝혔다.", f"밝혔다. {i}번째 이야기다.")
        for i in range(12)
        for row in block("jsonl", "question").splitlines()
    ]
    (workdir / "mydata" / "lighthouse.jsonl").write_text("\n".join(questions), encoding="utf-8")
    marked = [
        row.replace('", "entities', f' {i}번째로", "entities')
        for i in range(12)
        for row in block("json", "entities").splitlines()
    ]
    (workdir / "mydata" / "visits.jsonl").write_text("\n".join(marked), encoding="utf-8")
    shutil.copy(CORPORA / "documents" / "encyclopedia.txt", workdir / "mydata" / "manual.txt")
    (workdir / "manual.yaml").write_text(block("yaml", "checkpoint: mini-korquad"), encoding="utf-8")
    return workdir


@pytest.fixture(scope="module")
def outputs(workdir, kobert_process) -> dict[str, str]:
    """What every command of the guide printed, run one after the other in `workdir`."""
    listed = [line for block in blocks("console") for line in block.splitlines()]
    lines = [line.removeprefix("$ kobert ") for line in listed if line.startswith("$ kobert ")]
    assert len(lines) > 5
    outputs: dict[str, str] = {}
    for line in lines:
        result = kobert_process(*shlex.split(line), cwd=workdir)
        assert result.code == 0, f"{line}: {result.err[-1000:]}"
        outputs[line] = result.out
    return outputs


@pytest.mark.slow
def test_the_commands_of_the_guide_run_one_after_the_other(workdir, outputs) -> None:
    assert "done" in outputs["status mine.yaml"]
    assert "missing" not in outputs["status mine.yaml"]
    topics, kinds, lives, answers, choices, visits, moods, many = (
        printed for line, printed in outputs.items() if line.startswith("predict")
    )
    assert "label: " in moods
    reviews = (workdir / "mydata" / "reviews_test.txt").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["text"] for line in many.splitlines()] == [line.split("\t")[1] for line in reviews[1:]]
    assert "label: 교통" in topics or "label: 날씨" in topics
    assert "labels: [" in kinds
    assert "label: no_relation" in lives or "label: per:place_of_residence" in lives
    assert "null_score: " in answers
    assert "choice: 그는 " in choices
    assert "entities: [" in visits
    on_made_questions = [printed for line, printed in outputs.items() if line.startswith("evaluate")]
    assert len(on_made_questions) == 2 and all("priors alone" in printed for printed in on_made_questions)
    counts = json.loads((workdir / "runs" / "apart" / "corpus" / "manifest.json").read_text(encoding="utf-8"))["counts"]
    assert counts["documents_dropped_contaminated"] == 4  # each text of the two pairs
    assert "▁손해배상청구권" in outputs['tokenize runs/terms/tokenizer "원고의 손해배상청구권은 소멸하였다"']
    assert "unknown" in (workdir / "runs" / "mine" / "tokenizer" / "report.md").read_text(encoding="utf-8")


def test_the_grid_of_the_guide_is_valid_and_its_trials_are_called_as_it_says(workdir, kobert, monkeypatch) -> None:
    monkeypatch.chdir(workdir)
    content = yaml.safe_load((workdir / "mine.yaml").read_text(encoding="utf-8"))
    content["finetune"] |= yaml.safe_load(block("yaml", "learning_rate: ["))["finetune"]
    (workdir / "grid.yaml").write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    jobs = kobert("check", "grid.yaml").out
    assert jobs.count("finetune mood/grid/") == 6 and jobs.count("finetune mood/") == 9
    assert re.search(r"`(finetune mood/grid/.*?)`", GUIDE)[1] in jobs


@pytest.mark.parametrize("folder", ["docs", "docs/ko"])
def test_the_recipe_with_an_existing_checkpoint_is_valid(folder: str, workdir, kobert, monkeypatch) -> None:
    monkeypatch.chdir(workdir)
    recipe = block("yaml", "klue/bert-base", own_data(folder))
    (workdir / "topics.yaml").write_text(recipe, encoding="utf-8")
    report = kobert("check", "topics.yaml").out
    assert "topics.yaml: valid, 7 jobs: checkpoint, features topic, finetune topic/1" in report
    assert "warning" not in report


@pytest.mark.parametrize("folder", ["docs", "docs/ko"])
def test_the_recipe_that_trains_a_model_on_made_questions_is_valid(folder, tmp_path, kobert, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = block("yaml", "checkpoint: mini-korquad", (REPO / folder / "finetuning.md").read_text(encoding="utf-8"))
    (tmp_path / "manual.yaml").write_text(recipe, encoding="utf-8")
    (tmp_path / "mydata").mkdir()
    shutil.copy(CORPORA / "documents" / "legal.txt", tmp_path / "mydata" / "manual.txt")
    assert (
        "valid, 5 jobs: checkpoint, corpus, features manual, finetune manual/1, publish manual"
        in kobert("check", "manual.yaml").out
    )
    guide = (REPO / folder / "finetuning.md").read_text(encoding="utf-8")
    (clean,) = re.findall(r"^\$ kobert run manual.yaml --until features (--set .*)$", guide, re.M)
    assert kobert("run", "manual.yaml", "--until", "checkpoint", *clean.split()).code == 0


@pytest.mark.parametrize("folder", ["docs", "docs/ko"])
def test_the_guide_names_every_reader_and_task_of_its_tables(folder: Any) -> None:
    from kobert_pipeline.config import plugins

    guide = own_data(folder)
    named = {
        family: {name for name in plugins.contract(family).names() if f"| `{name}` |" in guide}
        for family in ("readers", "tasks")
    }
    assert named["readers"], folder
    assert named["tasks"] == set(plugins.contract("tasks").names()), folder


# docs/scaling.md: what needs no cluster is run, the rest goes through the parsers of those who will run it


def parsed(arguments: list[str]) -> tuple[str, dict[str, Any]]:
    """The subcommand of a kobert command, and its parameters."""
    import typer

    from kobert_pipeline.cli import main

    command: Any = typer.main.get_command(main.app)
    return arguments[0], command.commands[arguments[0]].make_context(arguments[0], arguments[1:]).params


def after_the_launcher(words: list[str]) -> list[str]:
    """The arguments of kobert in a command of `torchrun` or `accelerate launch`, after its own were parsed."""
    from accelerate.commands.launch import launch_command_parser
    from torch.distributed.run import get_args_parser

    if words[0] == "torchrun":
        launch_options = get_args_parser().parse_args(words[1:])
    else:
        assert words[:2] == ["accelerate", "launch"]
        launch_options = launch_command_parser().parse_args(words[2:])
    assert launch_options.module
    assert launch_options.training_script == "kobert_pipeline"
    return list(launch_options.training_script_args)


def of_the_script() -> list[str]:
    """The words of the `torchrun` command of the Slurm script."""
    script = blocks("bash", SCALING)[0].replace("\\\n", " ")
    line = next(line for line in script.splitlines() if line.startswith("srun "))
    return shlex.split(line.replace("$SLURM_NNODES", "2").replace("$SLURM_JOB_ID", "7").replace("$first", "node1"))[1:]


def test_every_kobert_command_of_the_scaling_guide_is_one(workdir, kobert, monkeypatch) -> None:
    monkeypatch.chdir(workdir)
    launched = [words for words in [*commands(SCALING), of_the_script()] if words[0] not in ("kobert", "tar")]
    assert len(launched) == 5
    alone = [words[1:] for words in commands(SCALING) if words[0] == "kobert"]
    assert len(alone) > 6
    for arguments in [*alone, *map(after_the_launcher, launched)]:
        _, parameters = parsed(arguments)
        # the machine that trains has none of the data that `check` looks for
        settings = [
            word for setting in parameters["setting"] or [] if setting != "data_dir=." for word in ("--set", setting)
        ]
        assert ": valid, " in kobert("check", parameters["recipe"], *settings).out, arguments
    assert {after_the_launcher(words)[0] for words in launched} == {"pretrain", "finetune"}


@pytest.mark.parametrize("script", blocks("bash", SCALING), ids=lambda script: script.splitlines()[2][:30])
def test_the_slurm_scripts_are_scripts(script: str, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(script, encoding="utf-8")
    subprocess.run(["bash", "-n", str(tmp_path / "job.sh")], check=True)


def run_with_stand_ins(script: str, programs: dict[str, str], folder: Path) -> tuple[int, list[str]]:
    """The exit code of a script in `folder` where Slurm's commands are `programs`, lines of bash, and how they were
    called."""
    commands = folder / "commands"
    commands.mkdir(exist_ok=True)
    for name, lines in programs.items():
        log = f'echo "{name} $*" >> "{folder}/called"'
        (commands / name).write_text(f"#!/bin/bash\n{log}\n{lines}\n", encoding="utf-8")
        (commands / name).chmod(0o755)
    (folder / "called").write_text("", encoding="utf-8")
    env = os.environ | {"PATH": f"{commands}:{os.environ['PATH']}", "SLURM_JOB_ID": "7", "SLURM_NNODES": "2"}
    result = subprocess.run(["bash", "-c", script], cwd=folder, env=env, check=False, capture_output=True)
    return result.returncode, (folder / "called").read_text(encoding="utf-8").splitlines()


def test_each_job_of_the_guide_waits_for_the_one_before_it(tmp_path: Path) -> None:
    count = 'wc -l < "$(dirname "$0")/../called"'
    code, called = run_with_stand_ins(block("bash", "prepare=$(sbatch", SCALING), {"sbatch": count}, tmp_path)
    assert code == 0
    assert called == [
        "sbatch --parsable prepare.sh",
        "sbatch --parsable --dependency=afterok:1 pretrain.sh",
        "sbatch --parsable --dependency=afterok:2 finetune.sh",
        "sbatch --dependency=afterok:3 publish.sh",
    ]


def test_the_training_job_of_the_guide_queues_itself_until_it_is_finished(tmp_path: Path, monkeypatch) -> None:
    programs = {"srun": "exit 1", "scontrol": '[ "$1" = requeue ] || echo node1'}
    script = blocks("bash", SCALING)[0]
    code, called = run_with_stand_ins(script, programs, tmp_path)
    assert code == 1
    assert "--rdzv_endpoint=node1:29500" in called[1]
    assert called[2] == "scontrol requeue 7"
    monkeypatch.setenv("SLURM_RESTART_COUNT", "10")
    assert len(run_with_stand_ins(script, programs, tmp_path)[1]) == 2
    finish = "mkdir -p runs/mine/pretrain; touch runs/mine/pretrain/manifest.json"
    code, called = run_with_stand_ins(script, programs | {"srun": finish}, tmp_path)
    assert code == 0
    assert len(called) == 2


@pytest.mark.slow
def test_what_one_machine_prepares_another_trains_and_the_first_publishes(
    workdir, outputs, tmp_path, kobert_process
) -> None:
    section = SCALING[SCALING.index("## Prepare") : SCALING.index("## One GPU")]
    *before, unpack, pretrain, finetune, pack, back, publish = commands(section)
    for stage in ("pretrain", "finetune", "publish"):
        shutil.rmtree(workdir / "runs" / "mine" / stage)

    def done(words: list[str], at: Path) -> str:
        if words[0] == "tar":
            subprocess.run(words, cwd=at, check=True)
            return ""
        result = kobert_process(*words[1:], cwd=at)
        assert result.code == 0, result.err[-1000:]
        return result.err

    for words in before:
        done(words, workdir)
    shutil.copy(workdir / "prepared.tar", tmp_path)
    for words in (unpack, pretrain, finetune, pack):
        done(words, tmp_path)
    shutil.copy(tmp_path / "trained.tar", workdir)
    done(back, workdir)
    printed = done(publish, workdir)
    assert "skipped  pretrain" in printed
    assert "skipped  finetune mood/1" in printed
    assert "done     publish mood" in printed


# docs/adapting.md: its recipe on articles on law, and others, from the Wikipedia of `corpora/`

LAW = re.compile("판결|법원|원고|피고|소송|대법원")
SMALL = {"36_000": "1_600", "50_000_000": "8_000", "16_384": "1024", "held_out: 0.02": "held_out: 0.3"}


def articles_by_subject() -> tuple[list[str], list[str]]:
    """Some articles on law, where every 400th character or more begins such a word, and as many others."""
    law: list[str] = []
    others: list[str] = []
    with open_lines(REPO / "corpora" / "kowiki" / "kowiki-12m.jsonl.zst") as lines:
        for line in lines:
            text = json.loads(line)["text"]
            (law if 400 * len(LAW.findall(text)) > len(text) else others).append(line)
            if len(law) == 12:
                return law, others[:12]
    raise AssertionError("too few articles on law")


@pytest.mark.slow
def test_the_page_on_adapting_does_what_it_says(tiny, kobert, tmp_path, monkeypatch) -> None:
    guide = (REPO / "docs" / "adapting.md").read_text(encoding="utf-8")
    recipe = block("yaml", "published/mlm", guide)
    for printed, smaller in SMALL.items():
        assert printed in recipe
        recipe = recipe.replace(printed, smaller)
    (tmp_path / "law.yaml").write_text(recipe, encoding="utf-8")
    little = block("yaml", "checkpoint: mini-nsmc", guide).replace("1_000_000", "2_000").replace("4096", "512")
    (tmp_path / "little.yaml").write_text(little.replace("held_out: 0.02", "held_out: 0.3"), encoding="utf-8")
    (tmp_path / "mydata").mkdir()
    for name, rows in zip(("judgments", "general"), articles_by_subject(), strict=True):
        (tmp_path / "mydata" / f"{name}.jsonl").write_text("".join(rows), encoding="utf-8")
    shutil.copytree(tiny.run_dir / "publish" / "mlm", tmp_path / "published" / "mlm")
    monkeypatch.chdir(tmp_path)
    topics = block("yaml", "checkpoint: klue/bert-base", (REPO / "docs" / "finetuning.md").read_text(encoding="utf-8"))
    topics = re.sub("checkpoint_license.*\n", "", topics).replace("[1, 2, 3], plan: {", "[1], plan: {epochs: 1, ")
    (tmp_path / "topics.yaml").write_text(topics, encoding="utf-8")
    rows = [f"재판 {i}번을 보았다.,법\n공원 {i}곳을 걸었다.,길\n" for i in range(20)]
    (tmp_path / "mydata" / "topics.csv").write_text("text,topic\n" + "".join(rows), encoding="utf-8")
    check, run, compare, without_tokenizer, before, after, both = (kobert(*words[1:]) for words in commands(guide))
    assert (before.code, after.code) == (0, 0), before.err + after.err
    assert "| topics-before | published/mlm |" in both.out and "| topics-after | runs/law/publish/mlm |" in both.out
    assert "law.yaml: valid" in check.out and "learned anew" not in check.out
    shown = " ".join(without_tokenizer.out.split())
    assert re.search(r"perplexity per character after training general.jsonl [\d.]+, judgments.jsonl [\d.]+, M", shown)
    shown = " ".join(run.out.split())
    assert re.search(r"perplexity per character general.jsonl [\d.]+ -> [\d.]+, judgments.jsonl [\d.]+ -> ", shown)
    counts = json.loads((tmp_path / "runs" / "law" / "pretrain" / "manifest.json").read_text(encoding="utf-8"))[
        "counts"
    ]
    own = counts["held_out_by_source"]["judgments.jsonl"]
    assert own["after"] < own["before"]
    assert "| law | own pretraining from published/mlm |" in compare.out
    card = (tmp_path / "runs" / "law" / "publish" / "mlm" / "README.md").read_text(encoding="utf-8")
    assert "| held-out texts of each source, before and after | perplexity per character general.jsonl" in card
    assert "| published/mlm |  | [apache-2.0]" in card, "the licence of the base, as its card states it"


# docs/gpu.md: what is typed on a rented machine goes through the parsers


def test_every_command_of_the_gpu_guide_is_one(repo: Path) -> None:
    import typer

    lines = commands((repo / "docs" / "gpu.md").read_text(encoding="utf-8"))
    lines = [words[1:] if words[0].startswith("TORCH_INDEX_URL=") else words for words in lines]
    ours = [words for words in lines if words[0] in ("kobert", "scripts/smoke")]
    assert len(ours) > 12
    assert {words[0] for words in lines if words not in ours} == {
        "scripts/install",
        "source",
        "tmux",
        "git",
        "cd",
        "scp",
        "tar",
        "sha256sum",
        "mkdir",
        "sudo",
        "python",
        "hf",
        "scripts/half_hour",
    }
    smoke = runpy.run_path(str(repo / "scripts" / "smoke"))["app"]
    for words in ours:
        if words[0] == "kobert":
            parameters = parsed(words[1:])[1]
        else:
            parameters = typer.main.get_command(smoke).make_context("smoke", words[1:]).params
        recipe = parameters.get("recipe", "base")
        assert recipe in ("base", "small"), words
        plan(recipe, parameters.get("setting"), None, None)  # raises UserError for an option that is not one


@pytest.mark.slow
def test_the_gpu_guide_carries_a_run_there_and_back_in_parts(tiny, kobert, tmp_path, monkeypatch) -> None:
    from kobert_pipeline.pipeline import fit

    # about 25,000 tokens in the ten minutes of the guide
    speed = fit.Speed(seconds_per_token=0.02, tokens_per_step=2048, start_seconds=10.0, evaluation_seconds=5.0)
    monkeypatch.setattr(fit, "measure", lambda *_: speed)
    guide = (REPO / "docs" / "gpu.md").read_text(encoding="utf-8")
    section = guide[guide.index("## In parts") : guide.index("## If the hour was too short")]
    typed = [words for words in commands(section) if words[0] == "kobert"]
    listed = [[str(tiny.recipe) if word == "base" else word for word in words[1:]] for words in typed]
    home, away = tmp_path / "home", tmp_path / "away"
    tiny.copy_before(home / "runs" / "tiny", "pretrain")
    away.mkdir()

    def type_all(lines: list[list[str]], folder: Path) -> str:
        monkeypatch.chdir(folder)
        results = [kobert(*words) for words in lines]
        assert [result.code for result in results] == [0] * len(lines), results[-1].err
        return str(results[-1].out)

    type_all(listed[:1], home)
    (home / "to-gpu").rename(away / "to-gpu")
    type_all(listed[1:5], away)
    (away / "trained").rename(home / "trained")
    printed = type_all(listed[5:], home)
    states = {line.split("  ")[0]: line for line in printed.splitlines()}
    assert all("done" in states[job] for job in ("features nsmc", "pretrain", "finetune nsmc/1", "finetune korquad/1"))


@pytest.mark.slow
def test_the_half_hour_of_the_gpu_guide_leaves_models_and_scores(tiny, kobert, tmp_path, monkeypatch) -> None:
    guide = (REPO / "docs" / "gpu.md").read_text(encoding="utf-8")
    section = guide[guide.index("## Half an hour") : guide.index("## If something goes wrong")]
    typed = [line for line in commands(section) if line[0] in ("kobert", "scripts/half_hour")]
    *_, pack, unpack, script, back, _ = [[word.replace("small", "tiny") for word in line] for line in typed]
    tiny.copy_before(tmp_path / "runs" / "tiny", "pretrain")
    monkeypatch.chdir(tmp_path)
    assert kobert(*[str(tiny.recipe) if word == "tiny" else word for word in pack[1:]]).code == 0
    shutil.rmtree("runs")
    assert kobert(*unpack[1:]).code == 0
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(REPO)}
    subprocess.run([REPO / script[0], *script[1:], "1"], env=environment, check=True)
    parts = [json.loads(line) for line in Path("results/parts.jsonl").read_text(encoding="utf-8").splitlines()]
    codes = {part["part"]: part["exit_code"] for part in parts}
    # on a busy CPU the benchmark does not end in its time
    assert {name: code for name, code in codes.items() if name not in ("step", "pretrain", "pretrain-again")} == {
        "ceilings": 0, "profile": 0, "encoder-out": 0, "finetune": 75, "models-out": 0, "test": 0, "trained-out": 0,
    }  # fmt: skip
    with tarfile.open("results/before-test.tar") as archive:
        names = archive.getnames()
    assert "runs/tiny/finetune/nsmc/1/model/model.safetensors" in names
    assert not [name for name in names if "predictions" in name]
    shutil.rmtree("runs")
    assert kobert(*back[1:]).code == 0
    scores = json.loads(Path("runs/tiny/finetune/nsmc/1/manifest.json").read_text(encoding="utf-8"))["counts"]["test"]
    assert scores["accuracy"] > 0


def test_a_pretraining_that_fails_in_the_half_hour_is_tried_without_compilation(tmp_path: Path) -> None:
    scripts = tmp_path / "scripts"
    (scripts / "bench").mkdir(parents=True)
    shutil.copy(REPO / "scripts" / "half_hour", scripts)
    fake = '#!/bin/sh\necho "$@"\ncase "$*" in *torch_compile=false*) exit 0 ;; pretrain*) exit 1 ;; esac\n'
    for name in ("smoke", "bench/ceilings", "bench/step", "kobert"):
        (scripts / name).write_text(fake, encoding="utf-8")
        (scripts / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{scripts}:{os.environ['PATH']}"}
    command = [scripts / "half_hour", "small", tmp_path / "out", "30", "--set", "data_dir=."]
    printed = subprocess.check_output(command, env=environment, cwd=tmp_path, text=True)
    assert "pretrain: failed with exit code 1" in printed
    assert "pretrain-again: done" in printed
    again = (tmp_path / "out" / "pretrain-again.log").read_text(encoding="utf-8").split()
    assert again[:4] == ["pretrain", "small", "--set", "data_dir=."]
    # nearly all of its time is left
    assert 11 < float(again[again.index("--minutes") + 1]) <= 12
    assert "--before-test" in (tmp_path / "out" / "finetune.log").read_text(encoding="utf-8")
    assert "--before-test" not in (tmp_path / "out" / "test.log").read_text(encoding="utf-8")


# the Korean guides, and what every document points to


DOCS = REPO / "docs"
KOREAN_GUIDES = [(DOCS / path.relative_to(DOCS / "ko"), path) for path in sorted((DOCS / "ko").rglob("*.md"))]
KOREAN = [*((folder / "README.md", folder / "README.ko.md") for folder in (REPO, REPO / "models")), *KOREAN_GUIDES]
DOCUMENTS = sorted(
    [*REPO.glob("*.md"), *DOCS.rglob("*.md"), *(page for name in BUNDLED for page in (REPO / name).glob("README*.md"))]
)


def without_comments(block: str) -> str:
    """A fenced block without YAML comments and descriptions, which are translated."""
    return re.sub(r" +# .*$|^description: .*$", "", block, flags=re.M)


def fenced(path: Path) -> list[str]:
    """The fenced blocks of a document that people type or copy."""
    text = path.read_text(encoding="utf-8")
    return [without_comments(block) for block in re.findall(r"^```\w+\n.*?^```", text, re.M | re.S)]


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a document."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(("english", "korean"), KOREAN, ids=lambda path: str(path.relative_to(REPO)))
def test_a_korean_guide_shows_the_commands_and_files_of_the_english_one(english: Path, korean: Path) -> None:
    """So the tests that run or parse those of the English guide hold for the Korean one."""
    assert fenced(korean) == fenced(english)
    levels = [re.findall(r"^(#+) ", path.read_text(encoding="utf-8"), re.M) for path in (english, korean)]
    assert levels[0] == levels[1]


def test_the_guide_shows_what_the_quickstart_prints(tmp_path: Path, tiny: Any, kobert: Callable[..., Any]) -> None:
    """The rows of its recipe's jobs, under the header that a run really prints, and all that the script says."""
    (shown,) = blocks("text", (DOCS / "recipes.md").read_text(encoding="utf-8"))
    _, planned = plan("quickstart", [], tmp_path, None)
    titles = [" ".join([job.stage, *job.name.split("/")[:1]]).strip() for job in planned]
    table = shown.partition("\n\n")[0].splitlines()
    assert table[0].split() == kobert("run", tiny.recipe, "--run-dir", tiny.run_dir).out.split()[:4]
    assert [re.split(r"  +", row)[0] for row in table[1:] if not row.startswith(" ")] == titles
    assert all(re.split(r"  +", row)[1] == "done" for row in table[1:] if not row.startswith(" "))
    script = (REPO / "scripts" / "quickstart").read_text(encoding="utf-8")
    for line in re.findall(r'^echo "(.*)"$', script, re.M):
        assert line.replace("$kobert", ".venv/bin/kobert").replace('\\"', '"') in shown
    texts = re.findall(r'"([^"$]*[가-힣][^"]*)"', script.partition("predict")[2].partition("echo")[0])
    assert [f"text: {text}" for text in texts] == re.findall(r"^(text: .*?)  label: ", shown, re.M)


@pytest.mark.parametrize(("english", "korean"), KOREAN_GUIDES, ids=lambda path: path.name)
def test_the_readme_links_a_korean_guide_which_links_its_translation(english: Path, korean: Path) -> None:
    assert f"({korean.relative_to(REPO)})" in (REPO / "README.ko.md").read_text(encoding="utf-8")
    assert f"[한국어]({os.path.relpath(korean, english.parent)})" in english.read_text(encoding="utf-8")
    assert f"[English]({os.path.relpath(english, korean.parent)})" in korean.read_text(encoding="utf-8")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(REPO)))
def test_the_links_and_paths_of_a_document_exist(document: Path) -> None:
    text = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target, _, anchor in (link.partition("#") for link in re.findall(r"\]\(([^)\s]+)\)", text)):
        if target.startswith("https://"):
            continue
        path = document.parent / target if target else document
        assert path.exists(), (document, target)
        assert not anchor or anchor in anchors(path), (document, f"{target}#{anchor}")
    if "results" in document.parts:
        return  # they tell of the code that was measured, whose files may have moved since
    for name in re.findall(r"`((?:\w+/)*\w+\.(?:py|yaml))`", text):
        if Path(name).name not in USERS_OWN:
            assert list(REPO.glob(name)) or list((REPO / "kobert_pipeline").glob(f"**/{name}")), (document, name)


def test_the_page_on_the_architecture_lists_every_folder_of_the_package() -> None:
    folders = {path.parent.name for path in (REPO / "kobert_pipeline").glob("*/__init__.py")}
    picture = block("text", "kobert_pipeline/\n", (DOCS / "architecture.md").read_text(encoding="utf-8"))
    assert set(re.findall(r"^  (\w+)/ ", picture, re.M)) == folders
