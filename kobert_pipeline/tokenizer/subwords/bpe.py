"""Byte-pair encoding over characters (Sennrich et al. 2016): the merges of training are replayed. A character without a
piece is [UNK] alone, not with its morpheme."""

from typing import Literal

from pydantic import Field
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from kobert_pipeline.tokenizer.special_tokens import UNK
from kobert_pipeline.tokenizer.subword import Lines, Subword, spelled_by


class Bpe(Subword):
    """Merges learned and replayed."""

    name: Literal["bpe"] = "bpe"
    min_frequency: int = Field(2, ge=0)
    """A pair seen less often is not merged."""

    def train(self, lines: Lines, alphabet: list[str], special_tokens: list[str]) -> Tokenizer:
        """Train on the morphemes."""
        backend = Tokenizer(models.BPE(unk_token=UNK))
        backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        trainer = trainers.BpeTrainer(
            vocab_size=self.vocab_size,
            min_frequency=self.min_frequency,
            special_tokens=special_tokens,
            initial_alphabet=alphabet,
            limit_alphabet=len(alphabet),
            show_progress=False,
        )
        backend.train_from_iterator(spelled_by(lines, alphabet), trainer)
        return backend
