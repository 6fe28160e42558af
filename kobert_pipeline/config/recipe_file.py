"""Read a recipe: a YAML file, given by its path or by the name of a shipped one, with `--set key.key=value` applied."""

import json
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from kobert_pipeline.errors import UserError, did_you_mean

UNWRITABLE = re.compile("[\x00\ud800-\udfff]")
"""Null bytes, which no file name may contain, and lone surrogates, which UTF-8 cannot encode."""
MAX_CHARACTERS, MAX_VALUES = 100_000, 20_000
"""Limits of a recipe: characters of its file, and values in it."""
INTEGER_LIMIT = 2**63
"""Integers must be smaller, since they end in 64-bit arithmetic."""


class Loader(yaml.SafeLoader):
    """YAML 1.1 for recipes: reads `1e-4` as a number, which PyYAML reads as text, and refuses a repeated key, where
    PyYAML would silently keep the last value."""

    def get_single_data(self) -> Any:
        """The value of the document. Raises YAMLError for too many values, and for a repeated key."""
        node = self.get_single_node()
        if node is None:
            return None
        # before anything is built: a few lines of nested aliases (an "alias bomb") can stand for billions of values
        _count_values(node, {})
        return self.construct_document(node)


def _count_values(node: yaml.Node, known: dict[yaml.Node, int]) -> int:
    """How many values a node holds, where an aliased value counts once per alias; `known` holds the counts so far.

    Raises YAMLError where they are more than `MAX_VALUES`, where a node contains itself, and for a repeated key: PyYAML
    merges the keys of `<<` into the nodes while it builds values, so a key is the user's own only before that.
    """
    if node in known:
        if known[node] == 0:
            raise yaml.YAMLError("an alias is inside the value that it repeats")
        return known[node]
    known[node] = 0  # still being counted
    children = node.value if isinstance(node, yaml.SequenceNode) else ()
    if isinstance(node, yaml.MappingNode):
        children = [child for pair in node.value for child in pair]
        seen = set[str]()
        for key in children[::2]:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.constructor.ConstructorError(
                    "", node.start_mark, f"the key {key.value!r} appears twice", key.start_mark
                )
            seen.add(str(key.value))
    known[node] = 1 + sum(_count_values(child, known) for child in children)
    if known[node] > MAX_VALUES:
        raise yaml.YAMLError(f"it holds more than {MAX_VALUES:,} values, counting those that aliases repeat")
    return known[node]


# a number of YAML 1.1 has a dot and a sign after the e (1.0e-4), so PyYAML alone reads 1e-4 and 1e6 as text
# its last argument: with which characters such a number begins, by which PyYAML finds the resolver
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def shipped() -> dict[str, Path]:
    """The recipes in the package, by name."""
    folder = Path(str(resources.files("kobert_pipeline") / "pipeline" / "recipes"))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find(recipe: str) -> Path:
    """The file of a recipe. Raises UserError for an unknown name or a path that does not exist."""
    if recipe in shipped():
        return shipped()[recipe]
    path = Path(recipe)
    if path.suffix in (".yaml", ".yml") or "/" in recipe:
        if path.is_dir():
            raise UserError(
                f"{recipe} is a folder; give the recipe's name or YAML file, and the folder of a run with --run-dir"
            )
        if not path.is_file():
            raise UserError(
                f"recipe {recipe} does not exist; give a path to a YAML file or one of: {', '.join(shipped())}"
            )
        return path
    raise UserError(f"there is no recipe {recipe!r}{did_you_mean(recipe, shipped())}; a path ends in .yaml")


def load(recipe: str, settings: list[str]) -> dict[str, Any]:
    """The recipe as nested dicts, with `settings` ("key.key=value", the value read as YAML) applied in order. Raises
    UserError."""
    path = find(recipe)
    try:
        with path.open(encoding="utf-8-sig") as file:
            content = parse(file.read(MAX_CHARACTERS + 1))  # one character too many shows a long file
    except UnicodeDecodeError as error:
        raise UserError(f"recipe {path} is not in UTF-8: {_problem(error)}; save it as UTF-8") from None
    except yaml.YAMLError as error:
        raise UserError(f"recipe {path} is not YAML: {_problem(error)}") from None
    if content is None:
        raise UserError(f"recipe {path} is empty; it must be a mapping of stages to options")
    if not isinstance(content, dict):
        raise UserError(f"recipe {path} must be a mapping of stages to options, not {type(content).__name__}")
    if path == shipped().get(recipe) and "data_dir" in content:
        content["data_dir"] = str(path.parent / content["data_dir"])  # a folder of the package
    content = unshared(content)
    for setting in settings:
        apply_setting(content, setting)
    return content


def unshared(value: Any) -> Any:
    """A copy of a YAML value in which nothing is shared, unlike where it has anchors: a setting changes one place."""
    if isinstance(value, dict):
        return {key: unshared(item) for key, item in value.items()}
    return [unshared(item) for item in value] if isinstance(value, list) else value


def to_yaml(content: dict[str, Any]) -> str:
    """The text of a recipe that `load` reads as `content`."""
    return yaml.safe_dump(content, allow_unicode=True, sort_keys=False)


def parse(text: str) -> Any:
    """The value of a YAML text. Raises YAMLError for text that is not YAML, and for values that no option accepts."""
    if len(text) > MAX_CHARACTERS:
        raise yaml.YAMLError(f"it has more than {MAX_CHARACTERS:,} characters")
    try:
        value = yaml.load(text, Loader)
    except RecursionError:
        raise yaml.YAMLError("its lists or mappings are nested too deep") from None
    # PyYAML's constructors let Python's own errors through, such as the errors about !!int abc and 2020-13-45
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise yaml.YAMLError(
            f"a value in it is not of the type that it names or looks like ({error}); put text in quotes"
        ) from None
    _refuse_unusable(value)
    return value


def _problem(error: Exception) -> str:
    """What is wrong with a YAML text and where, on one line."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return f"{' '.join(str(error).split()):.400}"
    problem = error.problem or ""
    for symbol, meaning in {"'<stream end>'": "the end of the file", "'<block end>'": "the end of the block"}.items():
        problem = problem.replace(symbol, meaning)
    mark, began = error.problem_mark, error.context_mark
    within = f" ({error.context} that begins in line {began.line + 1})" if error.context and began else ""
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}{within}"


def _refuse_unusable(value: Any) -> None:
    """Raise YAMLError where `value` contains a character that cannot be written to a file, or too large an integer."""
    if isinstance(value, dict):
        for pair in value.items():
            _refuse_unusable(list(pair))
    elif isinstance(value, (list, tuple)):
        for item in value:
            _refuse_unusable(item)
    elif isinstance(value, str) and UNWRITABLE.search(value):
        raise yaml.YAMLError(f"{value!r:.60} holds a null byte or half a character")
    elif isinstance(value, int) and abs(value) >= INTEGER_LIMIT:
        raise yaml.YAMLError(f"an integer in it is too large, {INTEGER_LIMIT - 1:,} is the largest")


def as_set_options(settings: Mapping[str, Any] | None) -> list[str]:
    """Settings as the command line spells them after --set."""
    # JSON is YAML in which a text in quotes stays text, also 1e4 or no
    return [f"{key}={json.dumps(value, ensure_ascii=False, default=str)}" for key, value in (settings or {}).items()]


def apply_setting(content: dict[str, Any], setting: str) -> None:
    """Set one "key.key=value" in `content`; a number as a key is an index of a list. Raises UserError."""
    key, equals, value = setting.partition("=")
    if not equals or not key:
        raise UserError(f"--set {setting!r} is not of the form key.key=value")
    *path, last = key.split(".")
    node: Any = content
    for part in path:
        node = node[_index(node, part, setting)] if isinstance(node, list) else node.setdefault(part, {})
        if not isinstance(node, (dict, list)):
            raise UserError(f"--set {setting!r}: {part!r} is a value, it has no options below it")
    if UNWRITABLE.search(setting):
        raise UserError(f"--set {setting!r:.80} holds a null byte or bytes that are not UTF-8")
    try:
        parsed = parse(value)
    except yaml.YAMLError:
        parsed = value  # what is not YAML, such as `[MASK`, is plain text
    node[_index(node, last, setting) if isinstance(node, list) else last] = parsed


def _index(items: list[Any], part: str, setting: str) -> int:
    # the length first: int() raises for more than 4,300 digits
    if not part.isdecimal() or len(part) > 9 or int(part) >= len(items):
        raise UserError(f"--set {setting!r}: {part!r} is not an index of a list of {len(items)} (indices start from 0)")
    return int(part)
