"""What `kobert explain` shows: the help of a stage, option group, variant, family or recipe, and the parameter counts
of an architecture."""

import difflib
from collections import defaultdict
from typing import Any

from kobert_pipeline.config import plugins, recipe_file
from kobert_pipeline.config.options import Options, Plugin, option_classes
from kobert_pipeline.errors import MAX_NAME_LENGTH, UserError, did_you_mean
from kobert_pipeline.pipeline.recipe import Recipe
from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.runs.runner import STAGES

Rows = list[tuple[str, str, str, str]]


def explanation(name: str) -> dict[str, Any]:
    """Title, text, options and parameters. Raises UserError for an unknown name."""
    if name.partition(".")[0] in STAGES:
        return _stage(name)
    if name in recipe_file.shipped():
        text = recipe_file.shipped()[name].read_text(encoding="utf-8").strip()
        return _answer(f"recipe {name}", text + _others(name, plugins.find(name)), [])
    if name in plugins.CONTRACTS:
        rows = [(key, "", "", (plugin.__doc__ or "").strip()) for key, plugin in plugins.variants(name).items()]
        return _answer(f"{name}: a kind of plug-in", _about(plugins.contract(name)), rows)
    matches = plugins.find(name)
    if name == "recipe":
        return _answer("recipe: its sections and options", _about(Recipe), list(recipe_options().values()))
    if not matches:
        options, of_recipe = places_of_options(), recipe_options()
        places = options.get(name, [])
        if name in of_recipe and not places:
            return _answer(f"option {name} of a recipe", of_recipe[name][3], [of_recipe[name]])
        if len(places) == 1:
            return explanation(places[0])
        if places:
            raise UserError(f"{name!r} is an option in several places; explain one of them: {', '.join(places)}")
        names = {*STAGES, *of_recipe, *recipe_file.shipped(), *plugins.names()}
        close = difflib.get_close_matches(name[:MAX_NAME_LENGTH], options, n=1, cutoff=0.75)
        if close and not difflib.get_close_matches(name[:MAX_NAME_LENGTH], names, n=1, cutoff=0.75):
            raise UserError(f"there is nothing called {name!r} - did you mean the option '{close[0]}'?")
        raise UserError(f"there is nothing called {name!r}{did_you_mean(name, names)}")
    family, plugin = matches[0]
    title = f"{plugin.model_fields['name'].default} ({family})"
    return _answer(title, _about(plugin) + _others(name, matches[1:]), plugins.describe(plugin), _parameters(plugin))


def recipe_options() -> dict[str, tuple[str, str, str, str]]:
    """The row of each section and option of a recipe, by its name."""
    return {row[0]: row for row in plugins.describe(Recipe) if row[0] in Recipe.model_fields}


def places_of_options() -> dict[str, list[str]]:
    """What `explanation` takes to explain each option, by its last word: its full names in a stage, and the variants
    that have it."""
    places = defaultdict[str, list[str]](list)
    for stage in STAGES:
        options = _options(Recipe.model_fields[stage].annotation)
        for name, *_ in plugins.describe(options) if options else []:
            places[name.rpartition(".")[2]].append(f"{stage}.{name}")
    for family in plugins.CONTRACTS:
        for variant, plugin in plugins.variants(family).items():
            for name in plugin.model_fields:
                places[name].append(f"{family}.{variant}")
    return places


def _others(name: str, matches: list[tuple[str, type[Plugin]]]) -> str:
    """Sentences about other things of the same name."""
    return "".join(f"\n\nThere is also {family}.{name}: kobert explain {family}.{name}" for family, _ in matches)


def _stage(path: str) -> dict[str, Any]:
    """A stage, or an option or group in it: `pretrain.plan.learning_rate`."""
    stage, *keys = path.split(".")
    here, options = stage, _options(Recipe.model_fields[stage].annotation)
    if options is None and not keys:  # the options of the stage checkpoint have no section of their own
        rows = [row for option, row in recipe_options().items() if option.startswith(stage)]
        return _answer(f"stage {stage}", plugins.docstrings(Recipe).get(stage, ""), rows)
    for key in keys:
        if options is None or key not in options.model_fields:
            raise UserError(f"{here} has no option {key!r}{did_you_mean(key, options.model_fields if options else [])}")
        here, row = f"{here}.{key}", next(row for row in plugins.describe(options) if row[0] == key)
        options = _options(options.model_fields[key].annotation)
    if options is None:  # a plain value such as a number: its own row is all there is to show
        return _answer(here, row[3], [row])
    if issubclass(options, Plugin):
        variants = [(key, "", "", _about(variant)) for key, variant in plugins.variants(options.family).items()]
        return _answer(f"{here}: one of the {options.family}", _about(options), variants)
    return _answer(f"stage {stage}" if here == stage else here, _about(options), plugins.describe(options))


def _options(annotation: Any) -> type[Options] | None:
    return next(iter(option_classes(annotation)), None)


def _parameters(plugin: type[Plugin]) -> dict[str, int]:
    if not issubclass(plugin, Architecture):
        return {}
    # the default options and the tokenizer's default vocabulary size, so that architectures can be compared
    return plugin.model_validate({"name": plugin.model_fields["name"].default}).parameters(vocab_size=32_000)


def _answer(title: str, about: str, options: Rows, parameters: dict[str, int] | None = None) -> dict[str, Any]:
    return {"title": title, "about": about, "options": options, "parameters": parameters or {}}


def _about(options: type[Options]) -> str:
    return (options.__doc__ or "").strip()
