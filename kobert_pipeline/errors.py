"""The exception for the user's mistakes: `kobert` prints it as one line and exits with 2.

Any other exception is a bug of kobert, which exits with 1 and a traceback.
"""

import difflib
import errno
import os
import resource
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

MAX_NAMES, MAX_NAME_LENGTH = 100, 80
"""Limits of the names that a message lists, and of their characters: they may come from a hostile file."""


class UserError(Exception):
    """A mistake of the user. The message is one sentence: what happened, where, what is allowed, what to do."""


class UserErrors(UserError):
    """More than one mistake: `sentences` has one for each, the message is the first and `more` on the others."""

    def __init__(self, sentences: list[str], more: str) -> None:
        self.sentences, self.more = sentences, more
        super().__init__(sentences[0] + more)

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        # an exception is pickled by its message alone, from which a worker's error could not be built again
        return type(self), (self.sentences, self.more)


class NotFinished(UserError):
    """A stage has no manifest yet."""


class Stale(UserError):
    """A stage was created with other options or inputs than the recipe's."""


class Damaged(UserError):
    """A file is missing, or differs from its record."""


class NotOurs(UserError):
    """A folder contains files that kobert did not write, so nothing in it is changed or deleted."""


def refuse_unknown(option: str, value: str, allowed: Collection[str]) -> None:
    """Raise UserError for a value that an option does not have."""
    if value not in allowed:
        raise UserError(f"{option} {value!r:.40}{did_you_mean(value, allowed)}")


class Postponed(Exception):
    """A job did all but its last part, as it was asked to; the same command without that option does the rest."""


def refuse_existing(path: Path, option: str) -> None:
    """Raise UserError for a path that exists, be it a broken link: nothing is overwritten. `option`: what gave it."""
    if os.path.lexists(path):
        raise UserError(f"{option} {path} exists already and is not overwritten; choose another name")


def did_you_mean(unknown: str, allowed: Iterable[str], what: str = "allowed") -> str:
    """The end of an error message about an unknown name: the nearest allowed name, if one is close, and all of them.
    `what` they are: allowed, in alphabetical order, or found in a file, in its order."""
    names = list(filter(None, allowed))
    if what != "found":  # what was found stands in the order of its file
        names.sort()
    # only the beginning of the unknown name is compared: difflib takes quadratic time
    close = difflib.get_close_matches(unknown[:MAX_NAME_LENGTH], names, n=1, cutoff=0.6)
    # lr for learning_rate
    close = close or [name for name in names if "_" in name and initials(name) == unknown]
    guess = f" - did you mean '{close[0]}'?" if close else ""
    shown = list_first([name[:MAX_NAME_LENGTH] for name in names], MAX_NAMES)
    return f"{guess} ({what}: {shown or 'nothing'})"


def list_first(names: list[str], count: int) -> str:
    """The first `count` names, and how many more there are."""
    return ", ".join(names[:count]) + (f" and {len(names) - count:,} more" if len(names) > count else "")


def initials(name: str) -> str:
    """The first letters of the words of a name: lr of learning_rate."""
    return "".join(word[:1] for word in name.split("_"))


NO_SPACE = {
    errno.ENOSPC: "no space is left on the disk",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "a file grew beyond its limit",
}
NOT_ALLOWED = {errno.EROFS, errno.EACCES, errno.EPERM}
TOO_MANY_OPEN_FILES = {errno.EMFILE, errno.ENFILE}
BAD_PATH = {
    errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.EIO, errno.ESTALE, errno.EINVAL,
}  # fmt: skip
"""Errors of the path or of the device, which no permission would change."""


def os_error(error: BaseException) -> str | None:
    """The message for an error that the user can fix: no space, no memory, too many open files, or a path that cannot
    be read or written. None for other errors, which are bugs."""
    path = getattr(error, "filename", None)
    # libraries written in Rust wrap a system error in an exception of their own, without its number
    code = getattr(error, "errno", None) or _errno_in(str(error))
    where = f" ({path})" if path else ""
    if code in NO_SPACE:
        return f"{NO_SPACE[code]}{where}; free some or choose another --run-dir, then run the same command again"
    if code in TOO_MANY_OPEN_FILES:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return (
            f"too many files are open{where}: this system lets a process open {limit}; raise `ulimit -n`, then run the "
            "same command again"
        )
    if code == errno.ENOMEM or isinstance(error, MemoryError):
        return "there is not enough memory; free some, or lower --num-workers, then run the same command again"
    if code in NOT_ALLOWED:
        return (
            f"no permission to read or write {path or 'a file'}: {os.strerror(code or 0)}; change the permissions, "
            "or choose another path (for a run: --run-dir)"
        )
    if code in BAD_PATH and path:
        return (
            f"{path!s:.200} cannot be read or written: {os.strerror(code or 0)}; choose another path (for a run: "
            "--run-dir)"
        )
    return None


def _errno_in(message: str) -> int | None:
    """The number of a system error that a library (safetensors, tokenizers) reports only as text."""
    return next(
        (code for code in (*NO_SPACE, *TOO_MANY_OPEN_FILES, errno.ENOMEM) if os.strerror(code) in message), None
    )
