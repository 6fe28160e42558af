"""Text that was read in a wrong encoding."""

MOST_REPLACED = 0.005


def repaired(text: str) -> str | None:
    """`text`, or None where too much of it was lost to U+FFFD."""
    lost = text.count("\ufffd")
    return None if lost >= 3 and lost > MOST_REPLACED * len(text) else text
