"""Splinter (Ram et al. 2021): BERT's encoder without a pooler, and a question-aware span selection layer, which stays
for fine-tuning on questions."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from kobert_pipeline.pretrain.architecture import Architecture, SpanStates
from kobert_pipeline.pretrain.bert_head import BertHead
from kobert_pipeline.tokenizer.special_tokens import MASK_ID

if TYPE_CHECKING:
    import torch

MLM_HEAD = "cls"
"""Name of the MLM head inside the model, as in BERT."""


class Splinter(BertHead, Architecture):
    """The encoder with a head that selects spans, and an MLM head that is not saved. In `transformers` it has no heads
    but the one for questions."""

    name: Literal["splinter"] = "splinter"
    heads: ClassVar[tuple[str, ...]] = ("spans",)
    unsupported_heads: ClassVar[tuple[str, ...]] = (
        "AutoModelForSequenceClassification", "AutoModelForTokenClassification", "AutoModelForMultipleChoice",
    )  # fmt: skip

    def encoder_weights(self, head: str) -> int:
        """Weights of the layers, and of the parts of the span head that every token passes."""
        return super().encoder_weights(head) + 2 * self.hidden_size**2

    def parameter_count(self, vocab_size: int, head: str) -> int:
        """The number of parameters, with the matrices through which only question tokens pass."""
        return super().parameter_count(vocab_size, head) + 4 * self.hidden_size**2

    def config(self, vocab_size: int) -> Any:
        """A SplinterConfig. Its question token is [MASK]."""
        from transformers import SplinterConfig

        return SplinterConfig(**self.sizes(vocab_size), question_token_id=MASK_ID)

    def model(self, config: Any, head: str) -> Any:
        """A SplinterForPreTraining with BERT's MLM head as its `cls`."""
        from transformers import SplinterForPreTraining
        from transformers.models.bert.modeling_bert import BertOnlyMLMHead

        model = SplinterForPreTraining(config)
        mlm_head = BertOnlyMLMHead(config).apply(model._init_weights)
        # tied as `transformers` ties them in BERT
        mlm_head.predictions.decoder.weight = model.splinter.embeddings.word_embeddings.weight
        mlm_head.predictions.bias = mlm_head.predictions.decoder.bias
        model.add_module(MLM_HEAD, mlm_head)
        return model

    def span_states(
        self, model: Any, hidden: "torch.Tensor", questions: "torch.Tensor"
    ) -> tuple[SpanStates, SpanStates]:
        """The span selection layer before its dot products."""
        head = model.splinter_qass
        return (
            SpanStates(head.start_classifier(head.query_start_transform(questions)), head.start_transform(hidden)),
            SpanStates(head.end_classifier(head.query_end_transform(questions)), head.end_transform(hidden)),
        )

    def save(self, model: Any, folder: Path) -> None:
        """Save the model without its MLM head, for which `transformers` has no class."""
        head = model._modules.pop(MLM_HEAD)
        model.save_pretrained(folder)
        model.add_module(MLM_HEAD, head)
