"""Every objective on every architecture that fits it, as small as possible, and its batches of numbers."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from synthetic_shards import articles, reviews, shards_of

from kobert_pipeline.config import plugins
from kobert_pipeline.pretrain.loader import Loader
from kobert_pipeline.pretrain.model import LossModule
from kobert_pipeline.pretrain.objective import Objective
from kobert_pipeline.pretrain.objectives import rtd
from kobert_pipeline.pretrain.options import PretrainOptions

VOCAB_SIZE = 200
SMALL = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "max_position_embeddings": 64}
OBJECTIVES: dict[str, Any] = {
    "mlm_nsp": "mlm_nsp",
    "mlm_sop": "mlm_sop",
    "rtd": "rtd",
    "clm": "clm",
    **{
        f"mlm {sequence_format}": {"name": "mlm", "sequence_format": sequence_format}
        for sequence_format in ("full_sentences", "doc_sentences")
    },
}


def rows() -> Iterator[Any]:
    for given in OBJECTIVES.values():
        for name in plugins.contract("architectures").names():
            plugin = plugins.contract("architectures").variant(name)
            if Objective.choose(given).head in plugin.heads:
                more = {"local_attention": 8} if name == "modernbert" else {}
                yield given, {"name": name, **SMALL, **more}


def prepared(objective: Any, architecture: Any) -> tuple[LossModule, Loader]:
    options = PretrainOptions(objective=objective, architecture=architecture, max_length=48, batch_tokens=400)
    torch.manual_seed(0)
    model = options.architecture.model(options.architecture.config(VOCAB_SIZE), options.objective.head)
    for parameter in model.parameters():  # biases begin at zero, and what is zero shows no mistake
        torch.nn.init.normal_(parameter, std=0.1)
    return LossModule(model, options.objective, options.architecture), Loader(
        shards_of(articles(8), reviews(3)), options, VOCAB_SIZE, seed=1
    )


def sample_the_likeliest(monkeypatch: pytest.MonkeyPatch) -> None:
    """ELECTRA's generator draws a random number for each token to predict at once, so a batch in other tokens gets
    other samples. Where it takes the likeliest token instead, everything else of the loss can be compared number by
    number."""
    monkeypatch.setattr(rtd, "sample", lambda logits: logits.argmax(-1))


def gradients(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The gradients summed by the backward passes so far, by name; those of the module are cleared."""
    found = {name: parameter.grad for name, parameter in module.named_parameters() if parameter.grad is not None}
    module.zero_grad(set_to_none=True)
    return found


def assert_same(
    ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor], rtol: float = 1e-4, atol: float = 1e-6
) -> None:
    """Equal names, and values that differ by rounding only."""
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        torch.testing.assert_close(
            ours[name], value, rtol=rtol, atol=atol, equal_nan=True, msg=lambda message, name=name: f"{name}: {message}"
        )
