"""The first batch of a compiled training: its time limit, and compiled code that a later training starts with."""

import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import pytest
import torch
from test_loop import Regression, batch_at, plan
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import counters
from torch._inductor.utils import fresh_cache

from kobert_pipeline.progress import Display, shown_on
from kobert_pipeline.training.compilation import _time_limit, compile_in_place, load_compiled_code
from kobert_pipeline.training.loop import train
from kobert_pipeline.training.plan import COMPILED_CODE

COMPILED = partial(plan, torch_compile=True, use_regional_compilation=True, log_every=1)


class Lines(Display):
    """Keeps the lines that stay on the screen."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


class Noisy(Regression):
    """With random numbers, as dropout draws them."""

    def forward(self, batch: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        return super().forward(batch + torch.randn_like(batch))


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    torch.compiler.reset()
    counters.clear()


def compile_with(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    monkeypatch.setattr(torch.nn.Module, "compile", partialmethod(torch.nn.Module.compile, backend=backend))


def trained(folder: Path, settings: Any) -> tuple[torch.Tensor, list[str]]:
    """The weights after five steps, and the lines that were shown."""
    torch.manual_seed(0)
    module = Noisy()
    with shown_on(shown := Lines()):
        train(module, batch_at, settings, 5, folder)
    return module.weight.detach(), shown.lines


def test_the_batch_that_is_compiled_for_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_with(monkeypatch, "eager")
    plain, _ = trained(tmp_path / "plain", plan())
    compiled, lines = trained(tmp_path / "compiled", COMPILED())
    assert torch.equal(compiled, plain) and not lines
    assert counters["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize("timeout", [None, 100])
def test_in_another_thread_and_without_a_time_limit_a_training_is_the_same(
    timeout: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Python allows no handlers of signals."""
    compile_with(monkeypatch, "eager")
    plain, _ = trained(tmp_path / "plain", plan())
    with ThreadPoolExecutor(1) as pool:
        compiled, lines = pool.submit(trained, tmp_path / "compiled", COMPILED(compile_timeout=timeout)).result(60)
    assert torch.equal(compiled, plain) and not lines
    assert counters["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize(("variable", "threads"), [(None, 1), ("3", 7)])
def test_kernels_are_compiled_in_one_thread_unless_the_user_says_otherwise(
    variable: str | None, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable:
        monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", variable)
    else:
        monkeypatch.delenv("TORCHINDUCTOR_COMPILE_THREADS", raising=False)
    with torch._inductor.config.patch(compile_threads=7):
        compile_in_place(Regression(), regional=True)
        assert torch._inductor.config.compile_threads == threads


def sleeps(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    """A backend that is never done."""
    time.sleep(60)


def is_late(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    """One in which the time is over."""
    signal.raise_signal(signal.SIGALRM)


@pytest.mark.parametrize(
    ("backend", "seconds"),
    [
        (sleeps, 2),
        # the backward pass is compiled when the forward pass is over
        (aot_autograd(fw_compiler=lambda graph, _: graph, bw_compiler=is_late), 100),
    ],
)
def test_after_the_time_limit_the_training_goes_on_uncompiled(
    backend: Any, seconds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_with(monkeypatch, backend)
    plain, _ = trained(tmp_path / "plain", plan())
    started = time.monotonic()
    compiled, lines = trained(tmp_path / "compiled", COMPILED(compile_timeout=seconds))
    assert time.monotonic() - started < 50
    assert torch.equal(compiled, plain)
    assert lines == [
        f"note     not compiled within {seconds} seconds (compile_timeout), so the training goes on without "
        "compilation, which is slower"
    ]


def test_a_time_limit_that_is_not_reached_raises_nothing_later() -> None:
    with _time_limit(0.1):
        pass
    time.sleep(0.2)


@pytest.mark.slow
def test_a_training_starts_with_the_code_of_an_earlier_one(tmp_path: Path) -> None:
    with fresh_cache():
        weights, _ = trained(tmp_path / "first", COMPILED())
    assert counters["inductor"]["fxgraph_cache_miss"] > 0
    torch.compiler.reset()
    counters.clear()
    code = tmp_path / "second" / COMPILED_CODE
    code.parent.mkdir(parents=True)
    (tmp_path / "first" / COMPILED_CODE).rename(code)
    with fresh_cache():
        again, lines = trained(tmp_path / "second", COMPILED())
    assert torch.equal(again, weights) and not lines
    assert not counters["inductor"]["fxgraph_cache_miss"] and counters["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize(
    ("change", "different"),
    [
        (lambda header, code: (header | {"torch": "2.0", "device": "TPU"}, code), "torch and device"),
        (lambda header, code: (header, code[:-1]), "sha256"),
        (lambda header, code: ([], code), "header"),
    ],
)
def test_code_for_other_software_and_damaged_code_are_not_used(
    change: Any, different: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = list[bytes]()
    monkeypatch.setattr(torch.compiler, "load_cache_artifacts", loaded.append)
    monkeypatch.setattr(torch.compiler, "save_cache_artifacts", lambda: (b"some\ncode", None))
    compile_with(monkeypatch, "eager")
    trained(tmp_path, COMPILED())
    load_compiled_code(code := tmp_path / COMPILED_CODE)
    assert loaded == [b"some\ncode"]
    line, _, artifacts = code.read_bytes().partition(b"\n")
    header, artifacts = change(json.loads(line), artifacts)
    code.write_bytes(json.dumps(header).encode() + b"\n" + artifacts)
    with shown_on(shown := Lines()):
        load_compiled_code(code)
    assert len(loaded) == 1
    assert shown.lines == [f"note     {code} is not used: its {different} differ, so all is compiled"]
