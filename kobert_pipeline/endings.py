"""How the command ends: 0; 2 with one sentence on stderr for the user's mistake; 1 with a traceback for ours; 75 when a training stopped
early on request (SIGTERM, Ctrl-C or its time), with a checkpoint; 130 when anything else was interrupted."""

import sys
from typing import Any

import typer

from kobert_pipeline.errors import UserError, os_error

STOPPED, INTERRUPTED = 75, 130


def end(app: typer.Typer) -> None:
    """Run `app`; exit with the status that fits unless all is well."""
    try:
        status = app(standalone_mode=False)
    except typer.Exit as stop:
        sys.exit(stop.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        status = INTERRUPTED
    except Exception as error:
        sys.exit(_told(error))
    if status == INTERRUPTED:  # typer gives Ctrl-C back as a status
        print("kobert: interrupted; what was finished stays, the same command goes on", file=sys.stderr)
    if status:
        sys.exit(status)


def _told(error: Exception) -> int:
    """Print what is to be said of the error; the exit status. Raises it again when it is ours."""
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error)
        return 0
    if type(error).__name__ == "Stopped":
        print(f"kobert: {error}", file=sys.stderr)
        return STOPPED
    if isinstance(error, UserError):
        sentence: str | None = str(error)
    elif hasattr(error, "format_message"):  # click's complaints about the command line
        sentence = _usage(error)
    else:
        sentence = os_error(error)
    if sentence is None:
        raise error
    print(f"kobert: {' '.join(sentence.split())}", file=sys.stderr)
    return 2


def _usage(error: Any) -> str:
    """click's complaint about the command line, and where to read more."""
    command = getattr(getattr(error, "ctx", None), "command_path", None) or "kobert"
    dash = "; put -- before a text that begins with a dash" if "No such option" in error.format_message() else ""
    return f"{error.format_message()}{dash} (see {command} --help)"
