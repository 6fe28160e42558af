"""All families of plug-ins, found by looking: every class that names a `family`. For `kobert list` and `kobert
explain`."""

import importlib
import re
from typing import Any, get_args

from kobert_pipeline.config.options import Options, Plugin
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
"""Where each family's contract lies. The variants themselves are listed nowhere."""


def contract(family: str) -> type[Plugin]:
    """The contract class of a family. Raises UserError for an unknown one."""
    if family not in CONTRACTS:
        raise UserError(f"there is no family {family!r}{did_you_mean(family, CONTRACTS)}")
    module = importlib.import_module(f"kobert_pipeline.{CONTRACTS[family]}")
    plugins = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Plugin)]
    return next(plugin for plugin in plugins if plugin.is_contract() and plugin.family == family)


def variants(family: str) -> dict[str, type[Plugin]]:
    """The variants of a family by name."""
    found = contract(family)
    return {name: found.variant(name) for name in found.names()}


def find(name: str) -> list[tuple[str, type[Plugin]]]:
    """Family and class of every variant called `name` (or `family.name`); nothing where there is none."""
    family, _, variant = name.rpartition(".")
    return [
        (one, variants(one)[variant]) for one in CONTRACTS if family in ("", one) and variant in contract(one).names()
    ]


def names() -> list[str]:
    """Every variant's name."""
    return [name for family in CONTRACTS for name in contract(family).names()]


def describe(options: type[Options], prefix: str = "") -> list[tuple[str, str, str, str]]:
    """(name, type, default, help) of every option, those of option groups behind their group."""
    rows = []
    for name, option in options.model_fields.items():
        inner = option_classes(option.annotation)
        plugin = next((kind for kind in inner if issubclass(kind, Plugin)), None)
        group = next((kind for kind in inner if issubclass(kind, Options)), None) if plugin is None else None
        default = "required" if option.is_required() else _default_text(option.get_default(call_default_factory=True))
        kind = f"one of {', '.join(plugin.names())}" if plugin else "group" if group else _type_text(option.annotation)
        kind = (
            f"{_type_text(option.annotation).partition('[')[0]} of {kind}"
            if inner and "[" in _type_text(option.annotation)
            else kind
        )
        rows.append((f"{prefix}{name}", kind, default, option.description or ""))
        if group:
            rows += describe(group, f"{prefix}{name}.")
    return rows


def option_classes(annotation: Any) -> list[type[Options]]:
    """The option classes inside a type annotation."""
    if isinstance(annotation, type) and issubclass(annotation, Options):
        return [annotation]
    return [found for part in get_args(annotation) for found in option_classes(part)]


def _type_text(annotation: Any) -> str:
    name = str(annotation) if get_args(annotation) else getattr(annotation, "__name__", str(annotation))
    return re.sub(r"\b(?:[a-z_]+\.)+", "", name)


def _default_text(default: Any) -> str:
    if isinstance(default, Plugin):
        return default.name
    return "" if isinstance(default, Options) else repr(default)
