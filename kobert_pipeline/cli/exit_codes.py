"""The command's exit codes.

0    all is well 1    a bug of ours, with a traceback 2    the user's mistake, with one sentence on stderr 75   a
training stopped early on request (SIGTERM, Ctrl-C or its time) and left a checkpoint, or SIGTERM stopped any other
stage 130  Ctrl-C interrupted anything else 141  nobody reads the output any more (`| head`), as if SIGPIPE had ended
the command

In distributed training rank 0 prints the sentence, and every rank exits with its code.
"""

import io
import os
import select
import signal
import sys
import threading
from contextlib import suppress
from datetime import timedelta
from typing import Any

import typer

from kobert_pipeline.distributed import MainProcessExited, channel, is_distributed, is_main_process
from kobert_pipeline.errors import UserError, os_error

STOPPED, INTERRUPTED, PIPE_BROKEN = 75, 130, 141
MAX_MESSAGE_LENGTH = 580
"""Characters."""
MAIN_EXIT_TIMEOUT = timedelta(seconds=10)
"""How long a rank that failed waits to learn that rank 0 exits too, before it prints its own sentence."""

_terminated: list[int] = []


def sigterm_received() -> bool:
    """Whether SIGTERM reached this process after `interrupt_on_sigterm`."""
    return bool(_terminated)


def interrupt_on_sigterm() -> None:
    """From now on SIGTERM interrupts this process as Ctrl-C does, so that it exits in good order and says that its work
    can be resumed. Not in distributed training, where the launcher sends SIGTERM to every rank as soon as one has
    ended, nor outside the main thread."""
    _terminated.clear()
    if is_distributed() or threading.current_thread() is not threading.main_thread():
        return

    def interrupt(number: int, frame: object) -> None:
        _terminated.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


def restore_sigterm() -> None:
    """Give SIGTERM its usual meaning again, if `interrupt_on_sigterm` took it."""
    if getattr(signal.getsignal(signal.SIGTERM), "__name__", "") == "interrupt":
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def run_app(app: typer.Typer) -> None:
    """Run `app`; exit with the status that fits unless all is well."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(
            errors="backslashreplace"
        )  # half a character has no bytes in UTF-8, Korean has none in ASCII
    try:
        try:
            _run(app)
        finally:
            sys.stdout.flush()  # else Python does, as it ends, and complains
    except (BrokenPipeError, SystemExit) as error:
        if not _is_closed_output(error):
            raise
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
    if status == INTERRUPTED:  # typer gives Ctrl-C back as a status
        _exit_all_ranks(INTERRUPTED)
        status, what = (STOPPED, "terminated") if sigterm_received() else (INTERRUPTED, "interrupted")
        print(f"kobert: {what}; what was finished stays, the same command resumes", file=sys.stderr)
    if status:
        sys.exit(status)


def _is_closed_output(error: BaseException) -> bool:
    """Whether an error (click and rich make a SystemExit of it) came from writing output that nobody reads any more,
    and not from another pipe."""
    if not isinstance(error, BrokenPipeError):
        return isinstance(error.__context__, BrokenPipeError)
    poll = select.poll()
    for stream in (1, 2):
        poll.register(stream, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _report(error: Exception) -> int:
    """Print what is to be said of the error; the exit status. Raises it again when it is ours."""
    if isinstance(error, MainProcessExited):
        return error.exit_code
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error)
        return 0
    status, sentence = _classify(error)
    _exit_all_ranks(status)
    if sentence is None:
        raise error
    words = " ".join(sentence.split())
    if len(words) > MAX_MESSAGE_LENGTH:  # it quotes something endless, in its middle
        words = f"{words[: MAX_MESSAGE_LENGTH // 2]} ... {words[-MAX_MESSAGE_LENGTH // 3 :]}"
    print(f"kobert: {words}", file=sys.stderr)
    return status


def _classify(error: Exception) -> tuple[int, str | None]:
    """The exit status, and the sentence to be said unless the error is ours."""
    if type(error).__name__ == "Stopped":
        return STOPPED, str(error)
    if isinstance(error, UserError):
        return 2, str(error)
    if hasattr(error, "format_message"):  # click's complaints about the command line
        return 2, _usage(error)
    sentence = os_error(error)
    return (1 if sentence is None else 2), sentence


def _exit_all_ranks(exit_code: int) -> None:
    """In distributed training: rank 0 tells the other ranks that it exits; they, if it does, exit here with its
    code."""
    if not is_distributed():
        return
    with suppress(Exception):  # where no launcher connected the ranks, each prints its own sentence
        if is_main_process():
            channel().exit(exit_code)
        elif (code := channel().exit_code_of_main(MAIN_EXIT_TIMEOUT)) is not None:
            sys.exit(code)


def _usage(error: Any) -> str:
    """click's complaint about the command line, and where to read more."""
    command = getattr(getattr(error, "ctx", None), "command_path", None) or "kobert"
    dash = "; put -- before a text that begins with a dash" if "No such option" in error.format_message() else ""
    return f"{error.format_message()}{dash} (see {command} --help)"
