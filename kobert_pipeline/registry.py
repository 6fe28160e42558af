"""All families of plug-ins, found by looking: every class that names a `family`. For `kobert list` and `kobert explain`."""

import importlib

from kobert_pipeline.errors import UserError, did_you_mean
from kobert_pipeline.options import Options, Plugin

CONTRACTS = {
    "readers": "corpus.reader",
    "engines": "corpus.engine",
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
    return next(value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Plugin) and value.is_contract())


def variants(family: str) -> dict[str, type[Plugin]]:
    """The variants of a family by name."""
    found = contract(family)
    return {name: found.variant(name) for name in found.names()}


def find(name: str) -> tuple[str, type[Plugin]]:
    """The family and class of the variant called `name`."""
    everything: dict[str, tuple[str, type[Plugin]]] = {}
    for family in CONTRACTS:
        for variant, plugin in variants(family).items():
            everything[f"{family}.{variant}"] = (family, plugin)
            everything.setdefault(variant, (family, plugin))
    if name not in everything:
        raise UserError(f"there is nothing called {name!r}{did_you_mean(name, [key for key in everything if '.' not in key])}")
    return everything[name]


def describe(options: type[Options]) -> list[tuple[str, str, str, str]]:
    """(name, type, default, help) of every option."""
    rows = []
    for name, option in options.model_fields.items():
        kind = getattr(option.annotation, "__name__", str(option.annotation)).replace("typing.", "")
        default = "required" if option.is_required() else repr(option.get_default(call_default_factory=True))
        rows.append((name, kind if "[" not in str(option.annotation) else str(option.annotation), default, option.description or ""))
    return rows
