"""RoBERTa's objective (Liu et al. 2019): masked language modelling over as many sentences as fit."""

from typing import TYPE_CHECKING, Any, Literal

from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.pretrain.losses import token_loss
from kobert_pipeline.pretrain.objective import MaskedObjective, SentencesObjective

if TYPE_CHECKING:
    import torch

    from kobert_pipeline.pretrain.tensor_batch import TensorBatch


class Mlm(SentencesObjective, MaskedObjective):
    """MLM over full sentences."""

    name: Literal["mlm"] = "mlm"

    @property
    def head(self) -> str:
        """A model for masked tokens."""
        return "masked"

    def loss(
        self, architecture: Architecture, model: Any, batch: "TensorBatch"
    ) -> tuple["torch.Tensor", dict[str, "torch.Tensor"]]:
        """Mean cross-entropy over masked tokens."""
        loss, _, values = token_loss(architecture, model, architecture.hidden(model, batch), batch, "mlm")
        return loss, values
