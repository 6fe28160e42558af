"""The options of an analyzer. The analyzers themselves lie in `morphemes/analyzers`, one file each, since tokenizers
ship them."""

import ast
import importlib.util
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import create_model, model_validator

from kobert_pipeline.config.options import Plugin
from kobert_pipeline.corpus.open_text import open_text
from kobert_pipeline.errors import UserError, did_you_mean
from kobert_pipeline.morphemes.segmenter import Segmenter, UserWord

DECLARED = ("LIBRARY", "STYLES", "USER_WORDS")
"""What every analyzer's file says: the library to install, the styles it knows, and whether it takes user words."""


class Analyzer(Plugin):
    """Cuts texts into morphemes. Every analyzer has the same options; what one cannot do it refuses."""

    family: ClassVar[str] = "analyzers"

    style: Literal["surface", "form", "lemma", "tagged", "none"] = "surface"
    """How a morpheme is spelled: as the text does (`surface`: the raw text cut at the borders, nothing lost), as the
    analyzer restores it (`form`: 하 었 다), with predicates in dictionary form (`lemma`: 하다 었 다), as form/TAG (`tagged`),
    or eojeols uncut (`none`)."""
    user_dictionary: str | None = None
    """File below data_dir with a word a line: form, tag (default NNP) and score (default 0), tab separated; # begins a
    comment."""

    @classmethod
    def package(cls) -> str:
        """Where the analyzers lie."""
        return "kobert_pipeline.morphemes.analyzers"

    @classmethod
    def variant(cls, name: str) -> type[Self]:
        """The options with `name` fixed, described by the analyzer's own file. Raises UserError for a name without a
        file."""
        if name not in cls.names():
            raise UserError(f"there is no {name!r} among the {cls.family}{did_you_mean(name, cls.names())}")
        return _variant(cls, name)

    @model_validator(mode="after")
    def _what_the_analyzer_can(self) -> Self:
        can = _declared(self.name)
        if self.style not in can["STYLES"]:
            raise ValueError(f"{self.name} has no style '{self.style}' (allowed: {', '.join(can['STYLES'])})")
        if self.user_dictionary and not can["USER_WORDS"]:
            raise ValueError(f"{self.name} takes no user_dictionary; leave it out, or use kiwi")
        return self

    def files(self, data_dir: Path) -> list[Path]:
        """The user's files that the cuts depend on. Raises UserError for one that is missing or of another form."""
        found = [data_dir / self.user_dictionary] if self.user_dictionary else []
        for path in found:
            user_words(path)
        return found

    def segmenter(self, data_dir: Path) -> Segmenter:
        """The analyzer itself. Raises UserError where its library is missing or the user dictionary is of another
        form."""
        words = tuple(word for path in self.files(data_dir) for word in user_words(path))
        try:
            return Segmenter(self.name, self.style, words)
        except ImportError as error:
            raise UserError(f"analysis.analyzer: {error}") from None


def user_words(path: Path) -> list[UserWord]:
    """The words of a user dictionary. Raises UserError for a line of another form."""
    words = []
    with open_text(path) as file:
        for number, line in enumerate(file, 1):
            form, *rest = line.rstrip("\r\n").split("\t")
            if not form.strip() or form.startswith("#"):
                continue
            tag, score = (*rest, "NNP", "0")[:2] if len(rest) != 1 else (rest[0], "0")
            try:
                words.append((form.strip(), tag.strip(), float(score)))
            except ValueError:
                raise UserError(
                    f"{path}, line {number}: the third column is a score, a number, not {score!r}"
                ) from None
    return words


@cache
def _variant(cls: type[Analyzer], name: str) -> Any:
    fixed: Any = (Literal[name], name)
    return create_model(
        name.title(), __base__=cls, __doc__=_declared(name)["doc"], __module__=f"{cls.package()}.{name}", name=fixed
    )


@cache
def _declared(name: str) -> dict[str, Any]:
    """What an analyzer's file says of it, read without importing the library, which need not be installed where a
    recipe is checked."""
    spec = importlib.util.find_spec(f"{Analyzer.package()}.{name}")
    tree = ast.parse(Path(str(spec and spec.origin)).read_text(encoding="utf-8"))
    found: dict[str, Any] = {"doc": ast.get_docstring(tree)}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in DECLARED:
            found[node.targets[0].id] = ast.literal_eval(node.value)
    if lacking := [constant for constant in DECLARED if constant not in found]:
        raise TypeError(f"morphemes/analyzers/{name}.py does not say {', '.join(lacking)}")
    return found
