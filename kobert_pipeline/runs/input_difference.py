"""How the recorded inputs of a stage differ from the present ones, in words."""

import re
from collections import defaultdict
from collections.abc import Mapping


def input_difference(before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """The first input that was added, removed or changed, or None where the inputs are equal. Both are hashes by the
    name of the input."""
    if before == now:
        return None
    old, new = _by_name(before), _by_name(now)
    for name in sorted(old.keys() | new.keys()):
        hashes_before, hashes_now = sorted(old[name]), sorted(new[name])
        if hashes_before != hashes_now:
            grown = len(hashes_now) - len(hashes_before)
            happened = "has changed" if grown == 0 else "was added" if grown > 0 else "was removed"
            return f"its input {name} {happened}"
    return "its input files are in another order"


def _by_name(inputs: Mapping[str, str]) -> defaultdict[str, list[str]]:
    """{name: hashes}, without the numbers of files: they are there because folders may have files of the same name, and
    a file that is added or removed changes the numbers of all that come after it."""
    hashes = defaultdict(list)
    for label, value in inputs.items():
        hashes[re.sub(r"^file [0-9]+ ", "", label)].append(value)
    return hashes
