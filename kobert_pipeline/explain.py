"""`kobert explain`: the options of a stage or a variant with their help, and an architecture's parameters by part."""

from typing import Any

from kobert_pipeline import registry
from kobert_pipeline.errors import UserError
from kobert_pipeline.options import Options
from kobert_pipeline.pipeline import STAGES, Recipe
from kobert_pipeline.pretrain.architecture import Architecture


def explanation(name: str) -> dict[str, Any]:
    """Title, text, options and parameters. Raises UserError for an unknown name."""
    if name in STAGES:
        options = _stage_options(name)
        return {"title": f"stage {name}", "about": _about(options), "options": registry.describe(options), "parameters": {}}
    family, plugin = registry.find(name)
    parameters: dict[str, int] = {}
    if issubclass(plugin, Architecture):
        parameters = plugin.model_validate({"name": plugin.model_fields["name"].default}).parameters(vocab_size=32_000)
    title = f"{plugin.model_fields['name'].default} ({family})"
    return {"title": title, "about": _about(plugin), "options": registry.describe(plugin), "parameters": parameters}


def _stage_options(stage: str) -> type[Options]:
    annotation = Recipe.model_fields[stage].annotation
    found = [kind for kind in (annotation, *getattr(annotation, "__args__", ())) if isinstance(kind, type) and issubclass(kind, Options)]
    if not found:
        raise UserError(f"stage {stage} has no options")
    return found[0]


def _about(options: type[Options]) -> str:
    return (options.__doc__ or "").strip()
