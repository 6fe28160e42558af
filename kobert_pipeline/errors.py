"""The one exception for the user's mistakes. `kobert` prints it as one line and exits 2; everything else is ours and exits 1."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """One sentence: what happened, where, what was allowed, what to do next."""


def did_you_mean(given: str, allowed: Iterable[str]) -> str:
    """ " did you mean 'x'?" where something is close, and always what was allowed."""
    names = sorted(allowed)
    close = difflib.get_close_matches(given, names, n=1, cutoff=0.6)
    guess = f" - did you mean '{close[0]}'?" if close else ""
    return f"{guess} (allowed: {', '.join(names) or 'nothing'})"
