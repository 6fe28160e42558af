"""BERT's MLM head, which other architectures have under the same names."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


class BertHead:
    """How an architecture calls it; a base class before `Architecture`."""

    def token_states(self, model: Any, hidden: "torch.Tensor") -> "torch.Tensor":
        """The MLM head's transform."""
        states: torch.Tensor = model.cls.predictions.transform(hidden)
        return states
