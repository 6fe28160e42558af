"""Byte-pair encoding over characters (Sennrich et al. 2016): a morpheme is encoded by replaying the merges of training.

A character that is not in the vocabulary becomes one [UNK]; the rest of its morpheme is encoded as usual.
"""

from typing import Literal

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from kobert_pipeline.tokenizer.special_tokens import UNK
from kobert_pipeline.tokenizer.subword import Lines, Subword, lines_within_alphabet


class Bpe(Subword):
    """BPE: pieces come from merges, which encoding replays."""

    name: Literal["bpe"] = "bpe"

    def train(self, lines: Lines, alphabet: list[str], special_tokens: list[str]) -> Tokenizer:
        """Train with the trainer of `tokenizers`."""
        # white space separates morphemes in `lines`, so nothing is merged across two of them
        backend = Tokenizer(models.BPE(unk_token=UNK))
        backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        # the alphabet is given in full, so the trainer neither adds characters nor drops any
        trainer = trainers.BpeTrainer(
            vocab_size=self.vocab_size,
            min_frequency=2,
            special_tokens=special_tokens,
            initial_alphabet=alphabet,
            limit_alphabet=len(alphabet),
            show_progress=False,
        )
        backend.train_from_iterator(lines_within_alphabet(lines, alphabet), trainer)
        return backend
