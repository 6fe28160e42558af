"""Read a recipe: a YAML file, or the name of a shipped one, with `--set key.key=value` laid over it."""

import re
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from kobert_pipeline.errors import UserError, did_you_mean


class Loader(yaml.SafeLoader):
    """YAML 1.1 reads `1e-4` as text and forgets all but the last of two equal keys; this one reads a number, and refuses."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping whose keys differ."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.constructor.ConstructorError("", node.start_mark, f"the key {key.value!r} stands twice", key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789"))


def shipped() -> dict[str, Path]:
    """The recipes in the package, by name."""
    folder = Path(str(resources.files("kobert_pipeline") / "recipes"))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find(recipe: str) -> Path:
    """The file of a recipe. Raises UserError for a name or path that is none."""
    if recipe in shipped():
        return shipped()[recipe]
    path = Path(recipe)
    if path.suffix in (".yaml", ".yml") or "/" in recipe:
        if not path.is_file():
            raise UserError(f"recipe {recipe} does not exist; give a path to a YAML file or one of: {', '.join(shipped())}")
        return path
    raise UserError(f"there is no recipe {recipe!r}{did_you_mean(recipe, shipped())}; a path ends in .yaml")


def load(recipe: str, settings: list[str]) -> dict[str, Any]:
    """The recipe as nested dicts, with `settings` ("key.key=value", the value read as YAML) laid over it."""
    path = find(recipe)
    try:
        content = parse(path.read_text(encoding="utf-8-sig"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"recipe {path} is not YAML in UTF-8: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise UserError(f"recipe {path} must be a mapping of stages to options, not {type(content).__name__}")
    for setting in settings:
        put(content, setting)
    return content


def parse(text: str) -> Any:
    """YAML with sound floats."""
    return yaml.load(text, Loader)


def put(content: dict[str, Any], setting: str) -> None:
    """Lay one "key.key=value" over `content`."""
    key, equals, value = setting.partition("=")
    if not equals or not key:
        raise UserError(f"--set {setting!r} is not of the form key.key=value")
    *path, last = key.split(".")
    place: Any = content
    for part in path:
        place = place[_index(place, part, setting)] if isinstance(place, list) else place.setdefault(part, {})
        if place is None or not isinstance(place, (dict, list)):
            raise UserError(f"--set {setting!r}: {part!r} is a value, it has no options below it")
    try:
        parsed = parse(value)
    except yaml.YAMLError:
        parsed = value
    place[_index(place, last, setting) if isinstance(place, list) else last] = parsed


def _index(place: list[Any], part: str, setting: str) -> int:
    if not part.isdigit() or int(part) >= len(place):
        raise UserError(f"--set {setting!r}: {part!r} is no place in a list of {len(place)} (they count from 0)")
    return int(part)
