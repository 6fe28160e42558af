"""How the command ends: 0; 2 with one sentence on stderr for the user's mistake; 1 with a traceback for ours; 75 when a training stopped
early on request (SIGTERM, Ctrl-C or its time), with a checkpoint, or any stage by SIGTERM; 130 when anything else was interrupted by
Ctrl-C; 141 when whoever read the output had enough (`| head`), as if SIGPIPE had ended it.

Of several processes that train together the first says it, and all end with its status.
"""

import io
import os
import select
import sys
from contextlib import suppress
from typing import Any

import typer

from kobert_pipeline.errors import UserError, os_error
from kobert_pipeline.processes import Ended, leads, leave_sigterm, several, terminated

STOPPED, INTERRUPTED, PIPE_BROKEN = 75, 130, 141
LONGEST_SENTENCE = 580
"""Characters."""
PATIENCE = 10.0
"""Seconds that a process waits to hear that the first one ended too, before it speaks for itself."""


def end(app: typer.Typer) -> None:
    """Run `app`; exit with the status that fits unless all is well."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # half a character has no bytes in UTF-8, Korean has none in ASCII
    try:
        try:
            _run(app)
        finally:
            sys.stdout.flush()  # else Python does, as it ends, and complains
    except (BrokenPipeError, SystemExit) as error:
        if not _nobody_reads(error):
            raise
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        sys.exit(PIPE_BROKEN)
    finally:
        leave_sigterm()


def _run(app: typer.Typer) -> None:
    try:
        status = app(standalone_mode=False)
    except typer.Exit as stop:
        sys.exit(stop.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        status = INTERRUPTED
    except Exception as error:
        sys.exit(_told(error))
    if status == INTERRUPTED:  # typer gives Ctrl-C back as a status
        _end_together(INTERRUPTED)
        status, what = (STOPPED, "terminated") if terminated() else (INTERRUPTED, "interrupted")
        print(f"kobert: {what}; what was finished stays, the same command resumes", file=sys.stderr)
    if status:
        sys.exit(status)


def _nobody_reads(error: BaseException) -> bool:
    """Whether an error (click and rich make a SystemExit of it) came from writing output that nobody reads any more, and not from another
    pipe."""
    if not isinstance(error, BrokenPipeError):
        return isinstance(error.__context__, BrokenPipeError)
    poll = select.poll()
    for stream in (1, 2):
        poll.register(stream, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _told(error: Exception) -> int:
    """Print what is to be said of the error; the exit status. Raises it again when it is ours."""
    if isinstance(error, Ended):
        return error.status
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error)
        return 0
    status, sentence = _judged(error)
    _end_together(status)
    if sentence is None:
        raise error
    words = " ".join(sentence.split())
    if len(words) > LONGEST_SENTENCE:  # it quotes something endless, in its middle
        words = f"{words[: LONGEST_SENTENCE // 2]} ... {words[-LONGEST_SENTENCE // 3 :]}"
    print(f"kobert: {words}", file=sys.stderr)
    return status


def _judged(error: Exception) -> tuple[int, str | None]:
    """The exit status, and the sentence to be said unless the error is ours."""
    if type(error).__name__ == "Stopped":
        return STOPPED, str(error)
    if isinstance(error, UserError):
        return 2, str(error)
    if hasattr(error, "format_message"):  # click's complaints about the command line
        return 2, _usage(error)
    sentence = os_error(error)
    return (1 if sentence is None else 2), sentence


def _end_together(status: int) -> None:
    """Of several processes: the first tells the others that it ends; the others, if it does, end here as it did."""
    if not several():
        return
    with suppress(Exception):  # where no launcher connected them, each speaks for itself
        from kobert_pipeline.training.team import team

        if leads():
            team().end(status)
        elif (ended := team().ended(PATIENCE)) is not None:
            sys.exit(ended)


def _usage(error: Any) -> str:
    """click's complaint about the command line, and where to read more."""
    command = getattr(getattr(error, "ctx", None), "command_path", None) or "kobert"
    dash = "; put -- before a text that begins with a dash" if "No such option" in error.format_message() else ""
    return f"{error.format_message()}{dash} (see {command} --help)"
