"""A model of the run -> a checkpoint folder: export, card, training manifest, and the check in a fresh process."""

from pathlib import Path
from typing import Any

from kobert_pipeline.files import whole, write_json
from kobert_pipeline.options import Options
from kobert_pipeline.publish.model_card import Facts, model_card

VERSION = 1


class PublishOptions(Options):
    """One published checkpoint."""

    source: str = "pretrain"
    """`pretrain`, or the name of a fine-tuning (of its seeds, the best on dev)."""
    license: str = "apache-2.0"
    """Licence of the weights; the data's licences may ask for another."""
    description: str = "A Korean BERT over morphemes, pretrained from scratch."
    """First sentence of the model card."""
    plain: bool = True
    """Also publish, in the folder `plain`, the vocabulary as a tokenizer that needs no analyzer."""


def run(options: PublishOptions, facts: Facts, history: dict[str, Any], model: Path, tokenizer: Path, out: Path) -> dict[str, Any]:
    """Write the checkpoint of `model` to `out`; `history` becomes `training_manifest.json`. Raises UserError unless it verifies."""
    from kobert_pipeline.publish.export import export, export_plain
    from kobert_pipeline.publish.verify import verify

    export(model, tokenizer, out)
    if options.plain:
        export_plain(model, tokenizer, out)
    with whole(out / "README.md") as part:
        part.write_text(model_card(facts), encoding="utf-8")
    write_json(out / "training_manifest.json", history)
    return verify(out, model, facts.auto_class)
