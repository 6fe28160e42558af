"""The one exception for the user's mistakes. `kobert` prints it as one line and exits 2; everything else is ours and exits 1."""

import difflib
import errno
import os
from collections.abc import Iterable


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
    close = difflib.get_close_matches(given, names, n=1, cutoff=0.6)
    guess = f" - did you mean '{close[0]}'?" if close else ""
    return f"{guess} (allowed: {', '.join(names) or 'nothing'})"


NO_ROOM = {
    errno.ENOSPC: "no space is left on the disk",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "a file grew beyond its limit",
}
NOT_ALLOWED = {errno.EROFS, errno.EACCES, errno.EPERM}


def os_error(error: BaseException) -> str | None:
    """One sentence for a full disk or a place that may not be read or written, also when a library wrapped the error; None for others."""
    number, where = getattr(error, "errno", None), getattr(error, "filename", None)
    place = f" ({where})" if where else ""
    if number in NO_ROOM or "No space left on device" in str(error):
        return f"{NO_ROOM.get(number or errno.ENOSPC)}{place}; free some or choose another --run-dir, then run the same command again"
    if number in NOT_ALLOWED:
        reason = os.strerror(number or 0)
        return f"no permission to read or write {where or 'a file'}: {reason}; permit it, or name another place (that of a run: --run-dir)"
    return None
