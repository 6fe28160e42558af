"""All families of plug-ins, for `kobert list` and `kobert explain`."""

import ast
import importlib
import re
from contextlib import suppress
from functools import cache
from inspect import cleandoc, getsource
from itertools import pairwise
from textwrap import dedent
from typing import Any, get_args

from kobert_pipeline.config.options import Options, Plugin, option_classes
from kobert_pipeline.errors import UserError, did_you_mean

CONTRACTS = {
    "readers": "corpus.reader",
    "executors": "corpus.executor",
    "analyzers": "analysis.analyzer",
    "subwords": "tokenizer.subword",
    "tasks": "features.task",
    "objectives": "pretrain.objective",
    "architectures": "pretrain.architecture",
}
"""The module of each family's contract class. Variants are not listed: each is a file in the family's folder."""


def contract(family: str) -> type[Plugin]:
    """The contract class of a family. Raises UserError for an unknown one."""
    if family not in CONTRACTS:
        raise UserError(
            f"{family!r} is neither recipes nor a kind of plug-in{did_you_mean(family, ['recipes', *CONTRACTS])}"
        )
    module = importlib.import_module(f"kobert_pipeline.{CONTRACTS[family]}")
    # a contract's module may also import contracts of other families
    plugins = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Plugin)]
    return next(plugin for plugin in plugins if plugin.is_contract() and plugin.family == family)


def variants(family: str) -> dict[str, type[Plugin]]:
    """The variants of a family by name."""
    plugin = contract(family)
    return {name: plugin.variant(name) for name in plugin.names()}


def find(name: str) -> list[tuple[str, type[Plugin]]]:
    """Family and class of every variant called `name` (or `family.name`); several families may have one."""
    chosen, _, variant = name.rpartition(".")
    families = [chosen] if chosen else CONTRACTS
    return [
        (family, variants(family)[variant])
        for family in families
        if family in CONTRACTS and variant in contract(family).names()
    ]


def names() -> list[str]:
    """The names of all variants of all families."""
    return [name for family in CONTRACTS for name in contract(family).names()]


def describe(options: type[Options], prefix: str = "") -> list[tuple[str, str, str, str]]:
    """(name, type, default, help) of every option; the options of a group follow their group."""
    rows, texts = [], docstrings(options)
    for name, option in options.model_fields.items():
        inner = option_classes(option.annotation)
        # a plug-in's own options depend on the variant, so only the names of the variants are shown
        plugin = next((kind for kind in inner if issubclass(kind, Plugin)), None)
        group = next((kind for kind in inner if issubclass(kind, Options)), None) if plugin is None else None
        default = "required" if option.is_required() else _default_text(option.get_default(call_default_factory=True))
        kind = _kind_text(option.annotation, plugin, group)
        rows.append((f"{prefix}{name}", kind, default, texts.get(name, "")))
        if group:
            rows += describe(group, f"{prefix}{name}.")
    return rows


@cache
def docstrings(options: type[Options]) -> dict[str, str]:
    """The texts after the options of a class and of those that it inherits from, by their names."""
    texts: dict[str, str] = {}
    # reversed, so that a class replaces a text that it inherits
    for base in reversed(options.__bases__):
        texts |= docstrings(base) if issubclass(base, Options) else {}
    with suppress(OSError, TypeError):  # variants have no source of their own
        (definition,) = ast.parse(dedent(getsource(options))).body
        for option, text in pairwise(getattr(definition, "body", ())):
            match option, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(docstring))):
                    texts[name] = cleandoc(docstring)
    return texts


def _kind_text(annotation: Any, plugin: type[Plugin] | None, group: type[Options] | None) -> str:
    """What an option holds: a type, `group`, `one of` a family's variants, or a `list of` or `dict of` these."""
    text = _type_text(annotation)
    if plugin:
        kind = f"one of {', '.join(plugin.names())}"
    elif group:
        kind = "group"
    else:
        return text
    return f"{text.partition('[')[0]} of {kind}" if "[" in text else kind


def _type_text(annotation: Any) -> str:
    name = str(annotation) if get_args(annotation) else getattr(annotation, "__name__", str(annotation))
    return re.sub(r"\b(?:[a-z_]+\.)+", "", name)  # without module paths


def _default_text(default: Any) -> str:
    if isinstance(default, Plugin):
        return default.name
    return "" if isinstance(default, Options) else repr(default)
