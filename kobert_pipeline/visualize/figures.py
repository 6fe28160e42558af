"""Figures of matplotlib in new PNG and SVG files, in fonts that have their characters."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import atomic_write, refuse_unwritable

SUFFIXES = (".png", ".svg")
KOREAN_FONTS = (
    "notosanscjk",
    "notosanskr",
    "nanum",
    "malgun",
    "applesdgothic",
    "applegothic",
    "notoserifcjk",
    "unfonts",
)
"""Beginnings of the file names of fonts with Hangul, without punctuation: they are tried before all others."""
INCHES_PER_ROW, MIN_INCHES, MAX_INCHES, DPI = 0.26, 5.0, 30.0, 150


@contextmanager
def new_figure(
    path: Path, texts: Iterable[str], rows: int = 0, size: tuple[float, float] | None = None
) -> Iterator[Any]:
    """Yield a figure, which is written to the new file `path` when the block ends: square, large enough for `rows` rows
    of labels, or of a `size` in inches.

    Raises UserError where the file exists, or, for a PNG, where no installed font has a character of `texts`. An SVG
    holds its texts as texts, which the viewer draws in fonts of its own.
    """
    import matplotlib
    from matplotlib.figure import Figure

    refuse_unwritable(path, "--out", SUFFIXES)
    kind = path.suffix.removeprefix(".")
    families = fonts_for(texts) if kind == "png" else ["sans-serif"]
    side = min(max(MIN_INCHES, rows * INCHES_PER_ROW + 2), MAX_INCHES)
    # without salt, ids in an SVG would differ from one time to the next
    svg = {"svg.fonttype": "none", "svg.hashsalt": "kobert"}
    settings: Any = {"font.family": families, "text.parse_math": False, "axes.unicode_minus": False, **svg}
    # of a PNG nothing is missing, and the font that measures the texts of an SVG may lack Hangul
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        # without pyplot, which keeps every figure; the legend of curves is "outside" only in a constrained layout
        figure = Figure(figsize=size or (side, side), layout="constrained")
        yield figure
        with atomic_write(path) as part:
            # the same figure gives the same bytes
            metadata = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
            figure.savefig(part, format=kind, dpi=DPI, metadata=metadata)


def fonts_for(texts: Iterable[str]) -> list[str]:
    """Families of installed fonts that together have every character of `texts`. Raises UserError where there are
    none."""
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    missing = {character for text in texts for character in text if character.isprintable()}
    families = list[str]()
    for path in _candidates(font_manager):
        if families and not missing:
            break
        try:
            font = FT2Font(path)
        except (RuntimeError, OSError):  # not every file of a font folder is a font that FreeType reads
            continue
        has = {character for character in missing if font.get_char_index(ord(character))}
        if has or not families:  # matplotlib's own font draws numbers
            font_manager.fontManager.addfont(path)
            families.append(font.family_name)
            missing -= has
    if missing:
        raise UserError(
            f"no installed font has {min(missing)!r} (U+{ord(min(missing)):04X}); install one, such as the package "
            "fonts-noto-cjk or fonts-nanum, or choose another suffix for --out, whose fonts are those of the viewer"
        )
    return families


def _candidates(font_manager: Any) -> Iterator[str]:
    """The paths of fonts: matplotlib's own, then Korean ones, then all others."""

    def others_last(path: str) -> tuple[bool, str]:
        name = "".join(character for character in Path(path).stem.lower() if character.isalnum())
        return not name.startswith(KOREAN_FONTS), path

    yield font_manager.findfont("DejaVu Sans")
    yield from sorted(font_manager.findSystemFonts(), key=others_last)
