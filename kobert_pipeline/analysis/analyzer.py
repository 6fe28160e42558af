"""The options of an analyzer. The analyzers themselves are in `morphemes/analyzers`, one file each, because saved
tokenizers contain a copy."""

import ast
import importlib.util
from functools import cache, partial
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar, Literal, Self
from unicodedata import normalize

from pydantic import create_model, model_validator

from kobert_pipeline.analysis.compounds import find_compounds
from kobert_pipeline.config.options import Plugin
from kobert_pipeline.errors import UserError, did_you_mean
from kobert_pipeline.morphemes.normalization import remove_invisible
from kobert_pipeline.morphemes.segmenter import Segmenter, UserWord
from kobert_pipeline.tables.columns import number_of
from kobert_pipeline.tables.data_files import data_file
from kobert_pipeline.tables.rows import read_lines
from kobert_pipeline.tables.unreadable import Row, readable, tried

DECLARED = ("LIBRARY", "STYLES", "USER_TAGS")
"""Constants of every analyzer's file: the library to install, its styles, and the tags that user words may have."""
USER_TAG, USER_SCORE = "NNG", 12.0
"""Tag and score of a user's word for which the user dictionary gives none. With this score 94 to 99 % of a court's
terms were one morpheme wherever they stood, with 0 78 to 84 %, and other morphemes hardly changed more often
(docs/results/front-end)."""


class Analyzer(Plugin):
    """Splits texts into morphemes. Every analyzer has the same options and refuses values that it does not support."""

    family: ClassVar[str] = "analyzers"

    style: Literal["surface", "form", "lemma", "tagged", "none"] = "surface"
    """How a morpheme is spelled: as in the text (`surface`: the raw text split at morpheme boundaries, nothing lost),
    as the analyzer restores it (`form`: 하 었 다), with predicates in dictionary form (`lemma`: 하다 었 다), as
    form/TAG (`tagged`), or whole eojeols (`none`)."""
    user_dictionary: str | None = None
    """File below data_dir with one word per line: form, tag (default NNG) and score (default 12: one morpheme nearly
    wherever it stands; less makes it likelier to be split), separated by tabs or spaces; a line that starts with # is a
    comment."""

    @classmethod
    def package(cls) -> str:
        """The package that holds the analyzers."""
        return "kobert_pipeline.morphemes.analyzers"

    @classmethod
    def variant(cls, name: str) -> type[Self]:
        """The options class with `name` fixed and the docstring of the analyzer's own file. Raises UserError for an
        unknown name."""
        if name not in cls.names():
            raise UserError(f"there is no {name!r} among the {cls.family}{did_you_mean(name, cls.names())}")
        return _variant(cls, name)

    @model_validator(mode="after")
    def _is_supported(self) -> Self:
        declared = _declared(self.name)
        if self.style not in declared["STYLES"]:
            raise ValueError(f"{self.name} has no style '{self.style}' (allowed: {', '.join(declared['STYLES'])})")
        if self.user_dictionary and not declared["USER_TAGS"]:
            raise ValueError(f"{self.name} takes no user_dictionary; remove it, or use kiwi")
        return self

    def files(self, data_dir: Path) -> list[Path]:
        """The user's files that the segmentation depends on. Raises UserError for one that is missing or malformed."""
        self.user_words(data_dir)
        return [data_file(data_dir, self.user_dictionary)] if self.user_dictionary else []

    def user_words(self, data_dir: Path) -> list[UserWord]:
        """The words of the user dictionary, if there is one. Raises UserError for lines that hold no word, and names
        them."""
        if not self.user_dictionary:
            return []
        parse = partial(_user_word, tags=_declared(self.name)["USER_TAGS"])
        lines = read_lines(data_file(data_dir, self.user_dictionary))
        return [word for word in readable(tried(lines, lambda first: parse)) if word]

    def taken_for(self, data_dir: Path) -> list[str]:
        """What the user dictionary is read as, for `kobert check`; [] without words."""
        words = self.user_words(data_dir)
        read = f"{self.user_dictionary} is read as a user dictionary, words: {len(words):,}, for example: "
        return [f"{read}{form} (tag {tag}, score {score:g})" for form, tag, score in words[:1]]

    def segmenter(self, data_dir: Path) -> Segmenter:
        """The segmenter with these options. Raises UserError where the analyzer's library is missing or the user
        dictionary is malformed."""
        words = tuple(self.user_words(data_dir))
        try:
            compounds = find_compounds(words) if words else ()  # of the analyzers only Kiwi takes words
            return Segmenter(self.name, self.style, words + compounds)
        except ImportError as error:
            raise UserError(f"analysis.analyzer: {error}") from None


def _user_word(row: Row, tags: tuple[str, ...]) -> UserWord | None:
    """The word in a line; None for a comment or a blank line. Raises UserError for columns that are not a form, one of
    the `tags` and a score."""
    # as analyzers see texts: a form that was copied from a web page may have invisible characters
    form, *columns = normalize("NFC", remove_invisible(row.cells["line"])).split() or ["#"]
    if form.startswith("#"):
        return None
    _, comma, after = form.partition(",")
    if comma and after.split(",")[0].upper() in ("", *tags):  # a table that was saved with commas: 구상금,NNG,3
        raise UserError(f"{form!r} has its tag after a comma; put a tab or a space between them")
    tag, score, *more = [*columns, *(USER_TAG, str(USER_SCORE))[len(columns) :]]
    expected = "a line is a form without white space, a tag and a score"
    if tag not in tags:
        # the second half of 채무 불이행 is no misspelt tag
        remedy = did_you_mean(tag, tags) if tag.isascii() else f", such as {USER_TAG}; join the parts of a word"
        raise UserError(f"{expected}, and {tag!r} is no tag{remedy}")
    if more:
        raise UserError(f"{expected}, and this line has {len(columns) + 1} columns")
    if not isfinite(number_of(score)):
        raise UserError(f"the third column is a score, so it must be a number, not {score!r}")
    return form, tag, float(score)


# one class per name, since pydantic never takes options of two classes for equal
@cache
def _variant(cls: type[Analyzer], name: str) -> Any:
    fixed: Any = (Literal[name], name)
    return create_model(
        name.title(), __base__=cls, __doc__=_declared(name)["doc"], __module__=f"{cls.package()}.{name}", name=fixed
    )


@cache
def _declared(name: str) -> dict[str, Any]:
    """The docstring and `DECLARED` constants of an analyzer's file."""
    # parsed, not imported: its library need not be installed where a recipe is checked or a model is trained
    spec = importlib.util.find_spec(f"{Analyzer.package()}.{name}")
    tree = ast.parse(Path(str(spec and spec.origin)).read_text(encoding="utf-8"))
    declared: dict[str, Any] = {"doc": ast.get_docstring(tree)}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in DECLARED:
            declared[node.targets[0].id] = ast.literal_eval(node.value)
    if missing := [constant for constant in DECLARED if constant not in declared]:
        raise TypeError(f"morphemes/analyzers/{name}.py does not define {', '.join(missing)}")
    return declared
