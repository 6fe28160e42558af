"""Splinter's objective (Ram et al. 2021), recurring span selection, together with masked language modelling: a token
asks where else in the text the span is that it replaces.

The paper trains large encoders that have learned from MLM before. Small ones from scratch have not, so they learn both
at once.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.pretrain.batch import Batch
from kobert_pipeline.pretrain.losses import span_loss, token_loss
from kobert_pipeline.pretrain.objective import MaskedObjective
from kobert_pipeline.pretrain.packing import pack
from kobert_pipeline.pretrain.recurring_spans import ask, clusters_in, frequent_tokens
from kobert_pipeline.pretrain.segments import Sequences, full_sentences
from kobert_pipeline.shards.format import Shards

if TYPE_CHECKING:
    import torch

    from kobert_pipeline.pretrain.tensor_batch import TensorBatch


class MlmRss(MaskedObjective):
    """MLM + RSS (recurring span selection), which prepares a model for questions about a text."""

    name: Literal["mlm_rss"] = "mlm_rss"

    sequence_format: Literal["full_sentences", "doc_sentences"] = "full_sentences"
    """As in the objective mlm: as many sentences as fit, across documents or of one document. Spans recur within a
    document, in unordered documents within a paragraph."""
    # as in the paper
    max_span_length: int = Field(10, gt=0)
    """Largest number of tokens in a recurring span."""
    max_questions_per_seq: int = Field(8, gt=0)
    """Largest number of question tokens in a sequence; the paper has 30 in 512 tokens."""
    stop_frequency: float = Field(5e-4, gt=0, le=1)
    """A token that makes up more than this share of the corpus, such as a particle, does not end a span."""

    @property
    def head(self) -> str:
        """A model for masked tokens, with a head that selects spans."""
        return "spans"

    def sequences(self, shards: Shards, max_length: int, rng: np.random.Generator) -> Sequences:
        """As many sentences as fit."""
        return full_sentences(shards, max_length, across=self.sequence_format == "full_sentences")

    def batch(
        self, shards: Shards, sequences: Sequences, rows: np.ndarray, vocab_size: int, rng: np.random.Generator
    ) -> Batch:
        """The sequences packed, with question tokens in place of recurring spans, and a share of the tokens that are
        neither questions nor answers masked."""
        packed = pack(shards, sequences, rows)
        clusters = clusters_in(packed, frequent_tokens(shards, self.stop_frequency), self.max_span_length)
        # [MASK] is the question token: our vocabularies have no [QUESTION], and in both roles the token asks what
        # stands in its place; the loss knows which one is a question
        asked = ask(packed, clusters, self.max_questions_per_seq, shards.special.mask, rng)
        batch = self.masked_batch(asked.packed, sequences.next_sentence_label[rows], vocab_size, shards.special, rng)
        return replace(batch, questions=asked.questions)

    def loss(
        self, architecture: Architecture, model: Any, batch: "TensorBatch"
    ) -> tuple["torch.Tensor", dict[str, "torch.Tensor"]]:
        """Mean cross-entropy over masked tokens, plus the mean over the starts and ends of answers."""
        hidden = architecture.hidden(model, batch)
        mlm_loss, _, values = token_loss(architecture, model, hidden, batch, "mlm")
        rss_loss, values_of_spans = span_loss(architecture, model, hidden, batch, "rss")
        return mlm_loss + rss_loss, values | values_of_spans
