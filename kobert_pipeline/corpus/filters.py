"""Reasons not to learn from a document. A filter says None (keep) or the reason, which is counted in the manifest."""

from pydantic import Field

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.options import Options

HANGUL = (("\uac00", "\ud7a3"), ("\u3131", "\u318e"), ("\u1100", "\u11ff"))


class FilterOptions(Options):
    """Thresholds of the document filters."""

    min_characters: int = Field(10, ge=0)
    """Shorter documents are dropped as `short`."""
    min_hangul: float = Field(0.2, ge=0, le=1)
    """Share of letters that must be Hangul, else `not_korean`."""


def reason_to_drop(document: Document, options: FilterOptions) -> str | None:
    """Why `document` is dropped, or None."""
    if len(document.text) < options.min_characters:
        return "short"
    if hangul_share(document.text) < options.min_hangul:
        return "not_korean"
    return None


def hangul_share(text: str) -> float:
    """Hangul syllables and jamo among the letters of `text`; 0 where there is no letter."""
    letters = sum(character.isalpha() for character in text)
    hangul = sum(any(first <= character <= last for first, last in HANGUL) for character in text)
    return hangul / letters if letters else 0.0
