"""WordPiece (Schuster & Nakajima 2012; as BERT uses it: longest match first).

Pieces inside a morpheme carry no `##`: the word mark says already where an eojeol begins, and joining pieces gives the
text back.
"""

from typing import ClassVar, Literal

from pydantic import Field
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from kobert_pipeline.tokenizer.special_tokens import UNK
from kobert_pipeline.tokenizer.subword import Lines, Subword, spelled_by


class WordPiece(Subword):
    """Merges learned like BPE, spelled by the longest match."""

    name: Literal["wordpiece"] = "wordpiece"
    grows: ClassVar[bool] = True
    min_frequency: int = Field(2, ge=0)
    """A pair seen less often is not merged."""

    def train(self, lines: Lines, alphabet: list[str], special_tokens: list[str]) -> Tokenizer:
        """Train on the morphemes."""
        backend = Tokenizer(models.WordPiece(unk_token=UNK, continuing_subword_prefix="", max_input_chars_per_word=200))
        backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        trainer = trainers.WordPieceTrainer(
            vocab_size=self.vocab_size,
            min_frequency=self.min_frequency,
            special_tokens=special_tokens,
            continuing_subword_prefix="",
            initial_alphabet=alphabet,
            limit_alphabet=len(alphabet),
            show_progress=False,
        )
        backend.train_from_iterator(spelled_by(lines, alphabet), trainer)
        return backend
