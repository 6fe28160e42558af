"""The command's exit codes.

- 0: success.
- 1: a bug in kobert; Python prints the traceback.
- 2: the user's mistake, with one sentence on standard error.
- 75: a training that stopped early on request (SIGTERM, Ctrl-C or a time limit) after writing a checkpoint, or any
  other stage that SIGTERM or --minutes stopped.
- 130: Ctrl-C interrupted anything else, or a second one a training.
- 141: the reader of the output has gone (`| head`), as if SIGPIPE had killed the command.

In distributed training rank 0 prints the sentence, and every rank exits with rank 0's code.
"""

import io
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import typer

from kobert_pipeline.distributed import MainProcessExited, channel, is_distributed, is_main_process
from kobert_pipeline.errors import Postponed, UserError, os_error

STOPPED, INTERRUPTED, PIPE_BROKEN = 75, 130, 141
MAX_MESSAGE_LENGTH = 580
"""Characters of an error message; a longer one is shortened in the middle."""
MAIN_EXIT_TIMEOUT = timedelta(seconds=10)
"""How long a failed rank waits to hear that rank 0 exits too; after that it prints its own error."""

MAX_MINUTES = 525_600
"""The longest time limit: a year."""

_sigterm_received = threading.Event()
_time_is_up = threading.Event()


def interrupt_on_sigterm() -> None:
    """Handle SIGTERM like Ctrl-C from now on, so that the command exits cleanly and says that it can be resumed.

    Does nothing in distributed training or outside the main thread.
    """
    _sigterm_received.clear()
    # The launcher sends SIGTERM to all ranks as soon as one has exited; only the main thread may set signal handlers.
    if is_distributed() or threading.current_thread() is not threading.main_thread():
        return

    def interrupt(signal_number: int, frame: object) -> None:
        _sigterm_received.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


@contextmanager
def stop_after(minutes: float | None) -> Iterator[None]:
    """Within this context the process sends itself SIGTERM after so many minutes, and so stops as it would at the end
    of a job's time; None: never. Raises UserError for a number that is no time."""
    _time_is_up.clear()
    if minutes is None:
        yield
        return
    if not 0 < minutes <= MAX_MINUTES:  # nor NaN
        raise UserError(f"--minutes {minutes:g} is not a time limit; give a number above 0 and up to {MAX_MINUTES:,}")

    def stop() -> None:
        _time_is_up.set()
        os.kill(os.getpid(), signal.SIGTERM)

    timer = threading.Timer(60 * minutes, stop)
    timer.daemon = True  # a command that ends earlier does not wait for it
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def restore_sigterm() -> None:
    """Restore the default handler of SIGTERM, if `interrupt_on_sigterm` replaced it."""
    # by its name, since each call of `interrupt_on_sigterm` makes a new function; trainings set other handlers
    if getattr(signal.getsignal(signal.SIGTERM), "__name__", "") == "interrupt":
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def run_app(app: typer.Typer) -> None:
    """Run `app`, and exit with the matching exit code unless it succeeds."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        # UTF-8 cannot encode a lone surrogate, and an ASCII locale cannot encode Korean: print escapes, don't crash
        sys.stdout.reconfigure(errors="backslashreplace")
    was_discarded = _output_is_discarded()
    try:
        try:
            _run(app)
        finally:
            # Flush here, where a closed pipe is handled; Python's own flush at exit would print a traceback.
            sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as error:
        # click and rich turn a broken pipe, any one, into a SystemExit
        broken = error.__context__ if isinstance(error, SystemExit) else error
        if not isinstance(broken, BrokenPipeError):
            raise
        # rich, which notices it first, points standard output to /dev/null
        if not (_reader_has_gone() or (_output_is_discarded() and not was_discarded)):
            raise broken from None
        # Point both streams at /dev/null: what is still buffered must not raise again while Python shuts down.
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        sys.exit(PIPE_BROKEN)
    finally:
        restore_sigterm()


def _run(app: typer.Typer) -> None:
    try:
        status = app(standalone_mode=False)
    except typer.Exit as stop:
        sys.exit(stop.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        status = INTERRUPTED
    except Exception as error:
        sys.exit(_report(error))
    if status == INTERRUPTED:  # typer turns Ctrl-C into a return value
        _exit_all_ranks(INTERRUPTED)
        status, event = (STOPPED, "terminated") if _sigterm_received.is_set() else (INTERRUPTED, "interrupted")
        event = "time is up" if _time_is_up.is_set() else event
        print(f"kobert: {event}; finished work is kept, and the same command resumes", file=sys.stderr)
    if status:
        sys.exit(status)


def _output_is_discarded() -> bool:
    """Whether standard output is /dev/null."""
    return os.path.samestat(os.fstat(1), Path(os.devnull).stat())


def _reader_has_gone() -> bool:
    """Whether nobody can read standard output or error any more."""
    poll = select.poll()
    for stream in (1, 2):
        # POLLERR is reported without being asked for: of a pipe, that its reading end is closed
        poll.register(stream, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _report(error: Exception) -> int:
    """Print the message of an error and return the exit code. Raises the error again if it is a bug of kobert."""
    if isinstance(error, MainProcessExited):
        return error.exit_code
    # by name: typer raises the class of its private copy of click
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error)
        return 0
    exit_code, message = _classify(error)
    # before anything is printed: a rank that receives rank 0's exit code leaves from here
    _exit_all_ranks(exit_code)
    if message is None:
        raise error
    line = " ".join(message.split())
    # A long message quotes a long value in its middle; what happened is at its start, and what to do at its end.
    if len(line) > MAX_MESSAGE_LENGTH:
        line = f"{line[: MAX_MESSAGE_LENGTH // 2]} ... {line[-MAX_MESSAGE_LENGTH // 3 :]}"
    print(f"kobert: {line}", file=sys.stderr)
    return exit_code


def _classify(error: Exception) -> tuple[int, str | None]:
    """The exit code, and the message to print; None for a bug of kobert."""
    if type(error).__name__ == "Stopped":  # compared by name: importing the class would import torch
        return STOPPED, str(error)
    if isinstance(error, Postponed):
        return STOPPED, str(error)
    if isinstance(error, UserError):
        return 2, str(error)
    if hasattr(error, "format_message"):  # click's errors about the command line
        return 2, _usage(error)
    message = os_error(error)
    return (1 if message is None else 2), message


def _exit_all_ranks(exit_code: int) -> None:
    """In distributed training: rank 0 sends its exit code to the other ranks, and a rank that receives one exits with
    it."""
    if not is_distributed():
        return
    with suppress(Exception):  # if the ranks are not connected, each prints its own message
        if is_main_process():
            channel().exit(exit_code)
        elif (code := channel().exit_code_of_main(MAIN_EXIT_TIMEOUT)) is not None:
            # SystemExit is not an Exception, so it is not suppressed
            sys.exit(code)


def _usage(error: Any) -> str:
    """click's error about the command line, with a hint where to read more."""
    command = getattr(getattr(error, "ctx", None), "command_path", None) or "kobert"
    parameters = getattr(getattr(getattr(error, "ctx", None), "command", None), "params", [])
    takes_texts = any(parameter.nargs == -1 and parameter.param_type_name == "argument" for parameter in parameters)
    unknown = takes_texts and "No such option" in error.format_message()
    hint = "; put -- before a text that starts with a dash" if unknown else ""
    if "extra argument" in error.format_message() and "--redo" in sys.argv:
        hint = "; here --redo takes no name, as it does in kobert run RECIPE --redo STAGE/NAME"
    return f"{error.format_message()}{hint} (see {command} --help)"
