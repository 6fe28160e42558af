"""The one exception for the user's mistakes. `kobert` prints it as one line and exits 2; everything else is ours and
exits 1."""

import difflib
import errno
import os
import resource
from collections.abc import Iterable

MAX_NAMES, MAX_NAME_LENGTH = 100, 80
"""A sentence names no more, and no longer ones: they may come from a hostile file."""


class UserError(Exception):
    """One sentence: what happened, where, what was allowed, what to do next."""


class NotFinished(UserError):
    """A stage has no manifest yet."""


class Stale(UserError):
    """A stage was made from other options or inputs than the recipe's."""


class Damaged(UserError):
    """A file is missing or differs from what our record of it says."""


class NotOurs(UserError):
    """A folder holds what no record of ours proves to be ours, so nothing in it is touched."""


def did_you_mean(given: str, allowed: Iterable[str]) -> str:
    """ " did you mean 'x'?" where something is close, and always what was allowed."""
    names = sorted(allowed)
    close = difflib.get_close_matches(given[:MAX_NAME_LENGTH], names, n=1, cutoff=0.6)
    guess = f" - did you mean '{close[0]}'?" if close else ""
    shown = ", ".join(name[:MAX_NAME_LENGTH] for name in names[:MAX_NAMES])
    more = f" and {len(names) - MAX_NAMES:,} more" if len(names) > MAX_NAMES else ""
    return f"{guess} (allowed: {shown or 'nothing'}{more})"


NO_SPACE = {
    errno.ENOSPC: "no space is left on the disk",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "a file grew beyond its limit",
}
NOT_ALLOWED = {errno.EROFS, errno.EACCES, errno.EPERM}
TOO_MANY_OPEN_FILES = {errno.EMFILE, errno.ENFILE}
BAD_PATH = {errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EIO, errno.ESTALE, errno.EINVAL}
"""What a path cannot be, or a device cannot do, whoever asks."""


def os_error(error: BaseException) -> str | None:
    """One sentence for what the system lacks, or for a place that may not be read or written, also when a library
    wrapped the error; None for others."""
    where = getattr(error, "filename", None)
    number = getattr(error, "errno", None) or _errno_in(str(error))
    place = f" ({where})" if where else ""
    if number in NO_SPACE:
        return f"{NO_SPACE[number]}{place}; free some or choose another --run-dir, then run the same command again"
    if number in TOO_MANY_OPEN_FILES:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return f"too many files are open{place}: this system lets a process open {most}; raise `ulimit -n`, then run the same command again"
    if number == errno.ENOMEM or isinstance(error, MemoryError):
        return "there is not enough memory; free some, or lower --num-workers, then run the same command again"
    if number in NOT_ALLOWED:
        reason = os.strerror(number or 0)
        return f"no permission to read or write {where or 'a file'}: {reason}; permit it, or name another place (that of a run: --run-dir)"
    if number in BAD_PATH and where:
        return f"{where!s:.200} cannot be read or written: {os.strerror(number or 0)}; name another place (that of a run: --run-dir)"
    return None


def _errno_in(message: str) -> int | None:
    """The number of the system's error that a library (safetensors, tokenizers) only tells in words."""
    return next((number for number in (*NO_SPACE, *TOO_MANY_OPEN_FILES, errno.ENOMEM) if os.strerror(number) in message), None)
