"""The stage publish: write a model of the run as a checkpoint folder with a model card and a training manifest, and
check it in a fresh process."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from kobert_pipeline.checkpoint.source import TOKENIZER_FILES
from kobert_pipeline.config.options import Options
from kobert_pipeline.files import atomic_write, write_json
from kobert_pipeline.finetune import with_ngrams
from kobert_pipeline.morphemes import ANALYZERS, tokenizer_files
from kobert_pipeline.progress import report
from kobert_pipeline.publish.card_facts import CardFacts, Compare, WeightFile
from kobert_pipeline.publish.licences import LICENSE_FILE
from kobert_pipeline.publish.model_card import model_card
from kobert_pipeline.tokenizer.plain import PLAIN, PLAIN_FILES
from kobert_pipeline.training.weight_files import NGRAMS, ONNX_INT8, WEIGHTS

VERSION = 3
"""3: where the model was trained for it, the tokenizer that needs no analyzer is the folder's own."""
WRITES = (
    *tokenizer_files(), *(f"{folder}/{name}" for folder in ANALYZERS for name in (*tokenizer_files(), LICENSE_FILE)),
    "tokenizer.json", "config.json", "model.safetensors", NGRAMS, *with_ngrams.WRITES, "README.md", LICENSE_FILE,
    "training_manifest.json", *PLAIN_FILES, "modules.json", "1_Pooling/config.json",
    "config_sentence_transformers.json", "sentence_bert_config.json", "onnx/model.onnx", "onnx/model.onnx.data",
    "onnx/model_quantized.onnx",
)  # fmt: skip
"""Patterns of every file that the stage may write to its folder."""
FOREIGN_WRITES = (*WRITES, *TOKENIZER_FILES)
"""Patterns of the files for a model that was fine-tuned from a checkpoint with another tokenizer."""


class PublishOptions(Options):
    """One published checkpoint."""

    source: str = "pretrain"
    """`pretrain`, or the name of a fine-tuning; of its seeds, the one with the best dev score is published."""
    license: str = "apache-2.0"
    """Licence of the weights. Refused where the licence of a training file forbids it."""
    permission: str | None = None
    """Why the weights may be published although the licence of a training file forbids it or is not known; quoted in
    the card."""
    description: str | None = None
    """First sentence of the model card; by default that it is a Korean model over morphemes, and what it was trained
    from."""
    author: str | None = Field(None, exclude_if=lambda value: value is None)
    """Who publishes the model, for the card and how to cite it."""
    selection: str | None = Field(None, exclude_if=lambda value: value is None)
    """How the values of the recipe's options were chosen, and what had been seen of the evaluation sets by then; quoted
    in the card, since no manifest can know it."""
    consulted: dict[str, str] = Field({}, exclude_if=lambda value: not value)
    """{data set: licence} of data on which values were chosen, besides the files of the recipe; listed in the card."""
    # in the fingerprint only where it has an effect, so that models published before it existed stay valid
    dtype: Literal["float32", "bfloat16"] = Field("float32", exclude_if=lambda value: value == "float32")
    """How the weights are stored. `bfloat16` halves the file; the model computes in float32 all the same, and the card
    says how far the rounded weights are from the exact ones."""
    onnx: Literal["auto", False, True, "int8"] = "auto"
    """Also write `onnx/model.onnx` and check that it gives the same outputs. `int8`: also write it quantized,
    `onnx/model_quantized.onnx`; the card says how far that is from torch. `auto` is `int8` where the model can be
    exported."""


def refuse_missing_libraries(options: PublishOptions) -> None:
    """Raise UserError unless the libraries that the options require are installed."""
    from kobert_pipeline.publish import onnx_file

    if options.onnx not in ("auto", False):
        onnx_file.refuse_missing_libraries()


def run(
    options: PublishOptions,
    facts: CardFacts,
    history: dict[str, Any],
    model: Path,
    tokenizer: Path,
    out: Path,
    rounding_cost: Compare | None = None,
) -> dict[str, Any]:
    """Write the checkpoint of `model` to `out`; `history` becomes `training_manifest.json`. `rounding_cost` is needed
    for weights of fewer bits than training saved. Returns the stage's counts. Raises UserError unless an encoder's
    folder gives the same outputs in a fresh process."""
    from kobert_pipeline.publish import ngrams
    from kobert_pipeline.publish.export import export, write_sentence_transformers_files
    from kobert_pipeline.publish.onnx_file import store_in_bfloat16, write_onnx
    from kobert_pipeline.publish.verify import SAMPLES, verify

    if rounding_cost and (model / NGRAMS).is_file():
        return ngrams.run(facts, history, model, tokenizer, out, rounding_cost)
    refuse_missing_libraries(options)
    report("exporting")
    export(model, tokenizer, out, options.dtype, facts.plain_is_own)
    if facts.gives_vectors:
        write_sentence_transformers_files(out)
    report("exporting to ONNX" if options.onnx else "exporting")
    counts = write_onnx(out, facts.auto_class, SAMPLES, required=options.onnx != "auto") if options.onnx else {}
    # the card states how far the ONNX files are from torch, so it is written after them
    card = replace(facts, plain=(out / PLAIN).is_dir(), onnx_difference=counts.get("onnx_max_difference"))
    if rounding_cost:
        to_int8 = options.onnx in ("auto", "int8") and bool(counts)
        costs = _rounding_costs(options.dtype, to_int8, model, out, rounding_cost)
        card, counts = replace(card, **costs), counts | {name: asdict(cost) for name, cost in costs.items()}
    if options.dtype == "bfloat16" and "onnx_texts" in counts:  # not before: int8 is made from float32
        store_in_bfloat16(out)
    with atomic_write(out / "README.md") as part:
        part.write_text(model_card(card), encoding="utf-8")
    write_json(out / "training_manifest.json", history)
    report("loading in a fresh process")
    counts |= {"noise": facts.noise} if facts.noise else {}
    return verify(out, model, facts.auto_class, options.dtype) | counts


def _rounding_costs(dtype: str, to_int8: bool, model: Path, out: Path, compare: Compare) -> dict[str, Any]:
    """What each form of fewer bits in `out` costs, by its name in the facts of the card; the int8 file is written
    first."""
    from kobert_pipeline.publish.onnx_file import write_int8

    costs = {}
    if dtype == "bfloat16":
        report("comparing bfloat16 with float32")
        costs["bfloat16_cost"] = compare(WeightFile(model, WEIGHTS), WeightFile(out, WEIGHTS))
    if to_int8:
        report("quantizing to int8")
        write_int8(out)
        report("comparing int8 with torch")
        costs["int8_cost"] = compare(WeightFile(out, WEIGHTS), WeightFile(out, ONNX_INT8))
    return costs
