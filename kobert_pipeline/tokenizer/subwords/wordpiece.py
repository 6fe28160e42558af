"""WordPiece (Schuster & Nakajima 2012; as in BERT: longest match first).

Pieces inside a morpheme have no prefix `##`: the word mark already shows where an eojeol starts, and joining pieces
gives the text back.
"""

from typing import ClassVar, Literal

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from kobert_pipeline.tokenizer.special_tokens import UNK
from kobert_pipeline.tokenizer.subword import Lines, Subword, lines_within_alphabet


class WordPiece(Subword):
    """WordPiece: pieces come from merges as in BPE, and encoding takes the longest match."""

    name: Literal["wordpiece"] = "wordpiece"
    grows: ClassVar[bool] = True

    def train(self, lines: Lines, alphabet: list[str], special_tokens: list[str]) -> Tokenizer:
        """Train with the trainer of `tokenizers`."""
        # 200: no morpheme is that long (MAX_MORPHEME_CHARACTERS), so none is [UNK] for its length
        backend = Tokenizer(models.WordPiece(unk_token=UNK, continuing_subword_prefix="", max_input_chars_per_word=200))
        backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        trainer = trainers.WordPieceTrainer(
            vocab_size=self.vocab_size,
            min_frequency=2,
            special_tokens=special_tokens,
            continuing_subword_prefix="",
            initial_alphabet=alphabet,
            limit_alphabet=len(alphabet),
            show_progress=False,
        )
        backend.train_from_iterator(lines_within_alphabet(lines, alphabet), trainer)
        return backend
