"""What the config of an existing model says of it before its weights are read: its architecture, with which a recipe
must agree, and which heads it lacks."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kobert_pipeline.checkpoint.source import CONFIG, small_files
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json
from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.training.hf_config import with_model_type

MAX_VOCAB_SIZE = 10**8
"""A larger vocab_size in a config is an error; the largest vocabularies have a few hundred thousand tokens."""
MLM_HEAD, PAIR_HEAD, CAUSAL_HEAD = "MLM head", "head for sequence pairs", "language modelling head"
# the first end that fits counts, so "ElectraForPreTraining" is before the shorter end of its name
HEADS = {
    "ElectraForPreTraining": (), "ForPreTraining": (MLM_HEAD, PAIR_HEAD), "ForMaskedLM": (MLM_HEAD,),
    "LMHeadModel": (CAUSAL_HEAD,),
}  # fmt: skip
"""{end of the name of a model class of `transformers`: its heads for text}. ELECTRA's is a discriminator, which
predicts no tokens."""
NEEDED = {"masked": (MLM_HEAD,), "pretraining": (MLM_HEAD, PAIR_HEAD), "causal": (CAUSAL_HEAD,)}
"""{kind of model that an objective needs: its heads}."""


def read_config(folder: Path) -> Any:
    """The config in the folder of a base, as `transformers` has it. Raises UserError for a damaged one."""
    from transformers import AutoConfig

    path = folder / CONFIG
    values = with_model_type(read_json(path), path)
    rows = values.get("vocab_size")
    if isinstance(rows, bool) or not isinstance(rows, int) or not 0 < rows < MAX_VOCAB_SIZE:
        raise UserError(
            f"pretrain.base: {path} is not the config of a model (vocab_size is {rows!r:.60}); give another folder"
        )
    # only for its error: what `transformers` can load may still be of a type that is not ours
    Architecture.name_of(values["model_type"], f"base {folder}")
    try:
        return AutoConfig.for_model(**values)
    except Exception as error:  # transformers raises many types for values that make no sense
        raise UserError(
            f"pretrain.base: {path} is not the config of a model ({' '.join(str(error).split()):.300}); give another "
            "folder"
        ) from None


def architecture_of(base: str, stated: Any) -> Any:
    """The architecture of the model `base`, in place of what a recipe has `stated` about it (None, a name or options);
    that itself where the model is not on this machine. Raises UserError, with all differences, where they disagree."""
    folder = small_files(base)
    if folder is None or not (folder / CONFIG).is_file():
        return stated
    if isinstance(stated, Architecture):
        stated = stated.model_dump(exclude_unset=True)
    stated = dict(stated) if isinstance(stated, Mapping) else {"name": stated} if stated else {}
    config = read_config(folder)
    architecture = Architecture.of_model(config, f"base {base}")
    known = {"name": architecture.name} | architecture.options_of(config)
    # an option that no config has, such as ELECTRA's generator_share, is the recipe's
    more = {option: value for option, value in stated.items() if option not in known}
    if stated.get("name", architecture.name) == architecture.name:
        Architecture.choose({"name": architecture.name} | stated)  # raises for what are none of its options
        architecture = Architecture.of_model(config, f"base {base}", **more)
    else:
        # of another family, which does not have these options: with None each of them is listed as a difference
        known |= dict.fromkeys(more)
    differences = [
        f"{option} {value!r} (the base has {'none' if known[option] is None else repr(known[option])})"
        for option, value in stated.items()
        if option in known and value is not None and value != known[option]
    ]
    if differences:
        raise UserError(
            f"pretrain.architecture is not that of pretrain.base {base}: {', '.join(differences)}; leave "
            "pretrain.architecture out, since a base brings its own"
        )
    return architecture


def lacking_heads(config: Mapping[str, Any], kind: str) -> list[str]:
    """The heads that a model of the `kind` needs, and that the class which a config names does not have; none where it
    names no class."""
    class_name = str((config.get("architectures") or [""])[0])
    heads = next((heads for end, heads in HEADS.items() if class_name.endswith(end)), ())
    return [head for head in NEEDED[kind] if class_name and head not in heads]


def new_head_of(model: str, kind: str) -> str | None:
    """A sentence where pretraining from `model` needs a head that it lacks, with the name of the model of the same run
    that has it; None where it has it, or is not on this machine."""
    folder = small_files(model)
    if folder is None or not (folder / CONFIG).is_file():
        return None
    config = read_json(folder / CONFIG)
    if not (heads := lacking_heads(config, kind)):
        return None
    better = pretrained_model(folder, kind) or "a model with the heads of its pretraining is a better start"
    return (
        f"{model} is a {config['architectures'][0]} without {' and '.join(heads)}, which would be learned anew, from "
        f"about the loss of a uniform guess; {better}"
    )


def pretrained_model(folder: Path, kind: str) -> str:
    """What to give in place of a published model that lacks a head: the one of the same run that has it; "" where the
    run is not here."""
    # absolute, since the parents of a relative path end at "."
    run_dir = folder.absolute().parent.parent
    if folder.absolute().parent.name != "publish" or not (run_dir / "pretrain" / "model" / CONFIG).is_file():
        return ""
    shown = folder.parent.parent
    for path in sorted(run_dir.glob(f"publish/*/{CONFIG}")):
        if not lacking_heads(read_json(path), kind):
            return f"start from {shown / 'publish' / path.parent.name}, the pretrained model of the same run"
    return (
        f"{shown} has the pretrained model: add `publish: {{mlm: {{source: pretrain}}}}` to its recipe, run it, and "
        f"start from {shown / 'publish' / 'mlm'}"
    )
