"""One tiny run of the whole pipeline, created once per session by the real command; tests copy stage folders from
it."""

import contextlib
import fcntl
import functools
import io
import json
import os
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# before anything imports torch: the tiny models are fastest on one thread, and no test may ask the network
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.pop("COLUMNS", None)  # xdist's workers have it, and tables would be fitted to it
os.environ.pop("KOBERT_DATA", None)  # tests name their data themselves

import pytest
import yaml
from hypothesis import settings
from loguru._better_exceptions import ExceptionFormatter

settings.register_profile("quick", max_examples=30, deadline=None)
settings.load_profile("quick")  # --hypothesis-profile=default draws a hundred

# which a hundred loggers of each small corpus would find anew, in most of the stage's time
ExceptionFormatter._get_lib_dirs = staticmethod(functools.cache(ExceptionFormatter._get_lib_dirs))

REPO = Path(__file__).resolve().parents[1]
CORPORA = REPO / "kobert_pipeline" / "pipeline" / "recipes" / "tiny"
STAGES = ("corpus", "analysis", "tokenizer", "shards", "features", "pretrain", "finetune", "publish")


@dataclass(frozen=True)
class Result:
    """What a command left: exit status, standard output, standard error."""

    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The one sentence of a user's mistake, all that stderr may hold besides progress; fails the test when it is
        anything else."""
        assert self.code == 2, f"exit status {self.code}, not 2\n{self.err}"
        lines = self.err.strip().splitlines()
        assert "Traceback" not in self.err
        assert lines[-1].startswith("kobert: ")
        assert sum(line.startswith("kobert: ") for line in lines) == 1
        assert len(lines[-1]) < 600, f"a sentence, not a dump: {lines[-1]}"
        return lines[-1]

    @property
    def json(self) -> Any:
        """The object that --json printed; fails the test unless the command succeeded."""
        assert self.code == 0, self.err
        return json.loads(self.out)


@dataclass(frozen=True)
class Tiny:
    """The tiny recipe and its finished run."""

    recipe: Path
    run_dir: Path

    def copy(self, run_dir: Path, *stages: str) -> Path:
        """A run folder with copies of these stages (default: all)."""
        run_dir.mkdir(parents=True, exist_ok=True)
        for stage in stages or STAGES:
            shutil.copytree(self.run_dir / stage, run_dir / stage)
        return run_dir

    def copy_before(self, run_dir: Path, stage: str) -> Path:
        """A run folder with copies of everything that comes before `stage`."""
        before = STAGES[: STAGES.index(stage)]
        return self.copy(run_dir, *before) if before else run_dir

    def manifests(self, run_dir: Path | None = None) -> dict[str, dict[str, Any]]:
        """{folder below the run: manifest} of every finished folder."""
        at = run_dir or self.run_dir
        return {
            str(path.parent.relative_to(at)): json.loads(path.read_text()) for path in sorted(at.rglob("manifest.json"))
        }


@pytest.fixture(scope="session")
def repo() -> Path:
    return REPO


@pytest.fixture(scope="session")
def corpora() -> Path:
    return CORPORA


@pytest.fixture
def data_copy(tmp_path: Path) -> Path:
    """A copy of the bundled corpora that a test may change."""
    return Path(shutil.copytree(CORPORA, tmp_path / "data"))


def tiny_recipe() -> dict[str, Any]:
    """The shipped recipe tiny with smaller numbers, several parts, frequent checkpoints, and the pretrained model
    published too."""
    from kobert_pipeline.config import recipe_file

    content = recipe_file.load("tiny", [])
    content["data_dir"] = str(CORPORA)
    content["corpus"]["part_characters"] = 30_000
    content["tokenizer"]["subword"]["vocab_size"] = 1500
    content["pretrain"]["architecture"] |= {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2}
    content["pretrain"] |= {"total_tokens": 60_000, "batch_tokens": 2048}
    content["pretrain"]["plan"]["checkpoint_every"] = 5
    for tuned in content["finetune"].values():
        tuned["plan"] |= {"epochs": 1, "checkpoint_every": 3}
    content["publish"]["mlm"] = {"source": "pretrain", "onnx": False}
    return content


@contextlib.contextmanager
def checked_here() -> Iterator[None]:
    """Let `publish` load a folder for its check in this process, since a fresh one takes seconds."""
    from kobert_pipeline.publish import verify

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            verify,
            "outputs_in_fresh_process",
            lambda folder, tokenizers, auto: verify.outputs_here(tokenizers, folder, auto),
        )
        yield


class InThisProcess:
    """What stands for `Workers` of the stage analysis: the analyzer of this process, which is loaded already."""

    def __init__(self, segmenter: Any, num_workers: int, timeout: float) -> None:
        self.segment = segmenter.segment

    def __enter__(self) -> "InThisProcess":
        return self

    def __exit__(self, *exception: object) -> None:
        pass


@contextlib.contextmanager
def analysed_here() -> Iterator[None]:
    """Let the stage analysis find the morphemes in this process, since each worker loads the analyzer for seconds."""
    from kobert_pipeline.analysis import stage

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "Workers", InThisProcess)
        yield


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], None]], Path]:
    """`made_once(name, make)`: a folder that `make(folder)` fills. The first of xdist's workers that asks for it makes
    it, and each has a copy of its own."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    @functools.cache
    def once(name: str, make: Callable[[Path], None]) -> Path:
        made, done = shared / "once" / name, shared / "once" / f"{name}.done"
        made.parent.mkdir(exist_ok=True)
        with made.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(made, ignore_errors=True)  # what a worker left whose making failed
                made.mkdir()
                make(made)
                done.touch()
        return Path(shutil.copytree(made, tmp_path_factory.mktemp("session") / name))

    return once


@pytest.fixture(scope="session")
def tiny(kobert: Callable[..., Result], made_once: Callable[..., Path]) -> Tiny:
    """The tiny run, by `kobert run` inside this process. Its folder is read only by agreement: copy, then change."""

    def make(place: Path) -> None:
        recipe = yaml.safe_dump(tiny_recipe(), allow_unicode=True, sort_keys=False)
        (place / "tiny.yaml").write_text(recipe, encoding="utf-8")
        result = kobert("run", place / "tiny.yaml", "--run-dir", place / "runs" / "tiny", "--num-workers", 1)
        assert result.code == 0, result.err

    place = made_once("tiny", make)
    return Tiny(place / "tiny.yaml", place / "runs" / "tiny")


@pytest.fixture
def beside_encoder(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with the published encoder as `mlm`."""
    (tmp_path / "mlm").symlink_to(tiny.run_dir / "publish" / "mlm")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def with_onnx(tiny: Tiny, kobert: Callable[..., Result], made_once: Callable[..., Path]) -> Path:
    """The folders `mood` (of `nsmc`) and `encoder`, published with ONNX files in float32 and in int8. Read only."""

    def make(place: Path) -> None:
        run_dir = tiny.copy_before(place / "runs" / "tiny", "publish")
        setting = "publish={mood: {source: nsmc, onnx: int8}, encoder: {onnx: int8}}"
        result = kobert("publish", tiny.recipe, "--run-dir", run_dir, "--set", setting)
        assert result.code == 0, result.err

    return made_once("onnx", make) / "runs" / "tiny" / "publish"


@pytest.fixture(scope="session")
def without_kiwi(tiny: Tiny, kobert: Callable[..., Result], made_once: Callable[..., Path]) -> Path:
    """The tiny run's classifier of reviews, trained with a share of its examples tokenized without Kiwi, and so
    published with that tokenizer as the folder's own. Read only."""

    def make(place: Path) -> None:
        run_dir = tiny.copy_before(place / "runs" / "tiny", "publish")  # of which what does not change is skipped
        settings = ("--set", "features.nsmc.plain_share=0.4", "--set", "publish={nsmc: {source: nsmc}}")
        result = kobert("run", tiny.recipe, "--run-dir", run_dir, *settings, "--redo-changed")
        assert result.code == 0, result.err

    return made_once("without-kiwi", make) / "runs" / "tiny" / "publish" / "nsmc"


@pytest.fixture(scope="session")
def light(with_onnx: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """{name: a folder with an ONNX file and the tokenizer that needs no analyzer, and all other weights}"""
    folders = {}
    for name in ("mood", "encoder"):
        folders[name] = tmp_path_factory.mktemp("light") / name
        shutil.copytree(with_onnx / name, folders[name], ignore=shutil.ignore_patterns("*.py", "manifest.json"))
        (folders[name] / "morphemes.json").unlink()
        for path in (with_onnx / name / "plain").iterdir():
            shutil.copy(path, folders[name])
    return folders


def command(*arguments: str) -> list[str]:
    """The argument list of a `kobert` process."""
    return [sys.executable, "-m", "kobert_pipeline", *arguments]


@pytest.fixture(scope="session")
def kobert() -> Callable[..., Result]:
    """`kobert(*arguments)` inside this process, through the same `main` (an uncaught exception is status 1 and a
    traceback). What it analyses and publishes is analysed and checked here too (`analysed_here`, `checked_here`), and
    the parser of the command line is built once."""

    import typer

    # for commands alone: a test that parses arguments by itself would leave its options in the parser
    parser = functools.cache(typer.main.get_command)

    def call(*arguments: object) -> Result:
        from kobert_pipeline.cli import main

        out, err, before = io.StringIO(), io.StringIO(), sys.argv
        sys.argv = ["kobert", *map(str, arguments)]
        code = 0
        try:
            with contextlib.ExitStack() as replaced, pytest.MonkeyPatch.context() as patch:
                patch.setattr(typer.main, "get_command", parser)
                if arguments[:1] in (("run",), ("analysis",)):
                    replaced.enter_context(analysed_here())
                if arguments[:1] in (("run",), ("publish",)):
                    replaced.enter_context(checked_here())
                replaced.enter_context(contextlib.redirect_stdout(out))
                replaced.enter_context(contextlib.redirect_stderr(err))
                try:
                    main.main()
                except SystemExit as stop:
                    code = int(stop.code or 0)
                except Exception:
                    code = 1
                    traceback.print_exc()
        finally:
            sys.argv = before
        return Result(code, out.getvalue(), err.getvalue())

    return call


@pytest.fixture(scope="session")
def kobert_process() -> Callable[..., Result]:
    """`kobert(*arguments)` in a separate process."""

    def call(*arguments: object, **options: Any) -> Result:
        result = subprocess.run(command(*map(str, arguments)), capture_output=True, text=True, check=False, **options)
        return Result(result.returncode, result.stdout, result.stderr)

    return call


@pytest.fixture
def start_kobert() -> Any:
    """Start a `kobert` process and return the Popen; what still runs at the end of the test is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command(*map(str, arguments)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


@pytest.fixture
def wait_for_step() -> Callable[[Path, int], None]:
    """`wait_for_step(folder, step)` returns once the training in a folder has logged a step; the test fails after two
    minutes."""

    def wait(folder: Path, step: int) -> None:
        log, until = folder / "logs" / "log.jsonl", time.monotonic() + 120
        while not (log.is_file() and f'"step": {step},' in log.read_text(encoding="utf-8")):
            assert time.monotonic() < until, f"{log} has no step {step}"
            time.sleep(0.01)

    return wait


@pytest.fixture(scope="session")
def fresh() -> Callable[..., Result]:
    """`fresh(code, *arguments)`: Python code in a separate process, standard input empty."""

    def call(code: str, *arguments: object, **options: Any) -> Result:
        argv = [sys.executable, "-c", code, *map(str, arguments)]
        result = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, **options)
        return Result(result.returncode, result.stdout, result.stderr)

    return call


@pytest.fixture
def bf16_on_any_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute bf16 where a plan asks for it, also on a CPU without instructions for it, which is slow."""
    import torch

    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
