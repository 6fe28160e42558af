"""Noise of spacing: Korean is written with spaces between eojeols, and written in haste without them, or with too
many."""

from random import Random

from kobert_pipeline.evaluation.edited_text import EditedText


def removed(text: str, rate: float, rng: Random) -> EditedText:
    """All white space is gone, whatever the rate."""
    return EditedText.of(("" if character.isspace() else character, "") for character in text)


def dropped(text: str, rate: float, rng: Random) -> EditedText:
    """Each white space character is gone with probability `rate`."""
    return EditedText.of(("" if character.isspace() and rng.random() < rate else character, "") for character in text)


def inserted(text: str, rate: float, rng: Random) -> EditedText:
    """Between each two letters or digits a space is put with probability `rate`."""
    parts = []
    for character, following in zip(text, f"{text[1:]} ", strict=False):
        parted = separable(character) and separable(following) and rng.random() < rate
        parts.append((character, " " if parted else ""))
    return EditedText.of(parts)


def separable(character: str) -> bool:
    """Whether `character` is a letter or digit that stands for itself: no conjoining jamo, no mark that belongs to the
    one before it."""
    return character.isalnum() and not "\u1100" <= character <= "\u11ff"
