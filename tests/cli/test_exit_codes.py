"""The exit code and the message of each way in which a command can end, in real processes."""

import io
import os
import re
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest
import typer

from kobert_pipeline.cli.exit_codes import run_app

PROGRAM = """
import os, signal, subprocess, sys, time, typer
from kobert_pipeline.cli.exit_codes import interrupt_on_sigterm, run_app, stop_after
from kobert_pipeline.distributed import MainProcessExited
from kobert_pipeline.errors import UserError

class Stopped(Exception):
    "Named as that of the training loop."

def command() -> None:
    interrupt_on_sigterm()
{}

# a shell without job control starts what it runs in the background with Ctrl-C ignored
signal.signal(signal.SIGINT, signal.default_int_handler)
app = typer.Typer()
app.command()(command)
run_app(app)
"""
ENDS = {
    "pass": (0, ""),
    "raise typer.Exit(3)": (3, ""),
    "raise UserError('recipe\\nx is wrong')": (2, "kobert: recipe x is wrong\n"),
    "raise UserError('start ' + 'x' * 2000 + ' end')": (2, r"kobert: start x+ \.\.\. x+ end\n"),
    "raise Stopped('stopped after step 3')": (75, "kobert: stopped after step 3\n"),
    "os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)": (75, "kobert: terminated; .* the same command resumes\n"),
    "os.kill(os.getpid(), signal.SIGINT); time.sleep(60)": (130, "kobert: interrupted; .* the same command resumes\n"),
    "with stop_after(0.0001): time.sleep(60)": (75, "kobert: time is up; .* the same command resumes\n"),
    # the timer has a second, so that even on a busy machine it does not run out before it is cancelled
    "with stop_after(1 / 60): pass\ntime.sleep(1.5)": (0, ""),
    "stop_after(float('nan')).__enter__()": (2, "kobert: --minutes nan is not a time limit; .*\n"),
    "raise ZeroDivisionError": (1, r"(?s).*Traceback .*ZeroDivisionError\n"),
    "[print('line') for _ in range(100_000)]": (141, ""),
    # the pipe of a worker that died is not standard output
    "r, w = os.pipe(); os.close(r); os.write(w, b'x')": (1, r"(?s).*Traceback .*BrokenPipeError: .*\n"),
    "raise MainProcessExited(7)": (7, ""),
}
"""{body of a command: its exit code, and a pattern of the whole of standard error}."""


def start(body: str, reads: bool = True, stdout: int = subprocess.PIPE, **environment: str) -> subprocess.Popen[str]:
    """A process whose command does `body`; unless the test `reads` it, nobody reads its output."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(textwrap.indent(body, "    "))],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )
    if not reads:
        assert process.stdout
        process.stdout.close()
    return process


def test_every_way_to_end_has_its_exit_code_and_message() -> None:
    started = {body: start(body, reads="print" not in body) for body in ENDS}
    for body, (code, pattern) in ENDS.items():
        process = started[body]
        assert process.stderr
        said = process.stderr.read()
        assert (process.wait(60), bool(re.fullmatch(pattern, said))) == (code, True), (body, said)


def test_a_broken_pipe_elsewhere_is_an_error_though_the_output_is_discarded() -> None:
    (body,) = (body for body in ENDS if "os.pipe" in body)
    process = start(body, stdout=subprocess.DEVNULL)
    assert "BrokenPipeError" in process.communicate(timeout=60)[1]
    assert process.returncode == 1


def test_every_rank_exits_with_the_code_of_rank_0_which_alone_prints() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ranks = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    main = start("raise UserError('the recipe is wrong')", **ranks, RANK="0")
    other = start("raise ZeroDivisionError", **ranks, RANK="1")
    assert main.communicate(timeout=120)[1] == "kobert: the recipe is wrong\n"
    assert other.communicate(timeout=120)[1] == ""
    assert (main.returncode, other.returncode) == (2, 2)


def run_here(body: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a command that does `body` in this process."""
    app = typer.Typer()
    app.command()(body)
    monkeypatch.setattr(sys, "argv", ["kobert"])
    run_app(app)


def test_a_command_that_aborts_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def body() -> None:
        raise typer.Abort  # as where a question finds the end of standard input

    with pytest.raises(SystemExit) as stop:
        run_here(body, monkeypatch)
    assert stop.value.code == 130
    assert "the same command resumes" in capsys.readouterr().err


def test_what_the_terminal_cannot_encode_is_printed_as_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii", errors="strict"))
    run_here(lambda: print("a한\ud800"), monkeypatch)
    assert written.getvalue() == b"a\\ud55c\\ud800\n"
