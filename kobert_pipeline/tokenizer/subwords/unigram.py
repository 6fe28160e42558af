"""The unigram language model (Kudo 2018): the most probable segmentation, learned by pruning a large vocabulary. A character without a
piece is [UNK] alone.

Trained by SentencePiece on one thread, because the trainer of `tokenizers` gives other scores each time it is run.
"""

import io
from collections import Counter
from typing import Literal

from pydantic import Field
from tokenizers import Tokenizer, models

from kobert_pipeline.errors import UserError
from kobert_pipeline.tokenizer.special_tokens import UNK
from kobert_pipeline.tokenizer.subword import Lines, Subword, spelled_by


class Unigram(Subword):
    """Pieces with probabilities."""

    name: Literal["unigram"] = "unigram"
    max_piece_length: int = Field(16, ge=1)
    """Characters of the longest piece."""
    shrinking_factor: float = Field(0.75, gt=0, lt=1)
    """Share of the pieces that a round of pruning keeps."""

    def train(self, lines: Lines, alphabet: list[str], special_tokens: list[str]) -> Tokenizer:
        """Train on the morphemes and their counts."""
        import sentencepiece

        counts = Counter(piece for line in spelled_by(lines, alphabet) for piece in line.split(" ") if piece)
        wanted = self.vocab_size - len(special_tokens)
        if wanted <= len(alphabet):
            raise UserError(
                f"tokenizer.subword.vocab_size is {self.vocab_size}, which leaves no room beside {len(alphabet)} characters and "
                f"{len(special_tokens)} special tokens; raise it, or lower tokenizer.limit_alphabet"
            )
        trained = io.BytesIO()
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=(f"{piece}\t{count}" for piece, count in sorted(counts.items())),
            input_format="tsv",
            model_writer=trained,
            model_type="unigram",
            vocab_size=wanted + 1,  # its own <unk> is left out below
            hard_vocab_limit=False,
            character_coverage=1.0,
            max_sentencepiece_length=self.max_piece_length,
            shrinking_factor=self.shrinking_factor,
            normalization_rule_name="identity",
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            split_by_whitespace=False,
            split_by_unicode_script=False,
            split_by_number=False,
            bos_id=-1,
            eos_id=-1,
            num_threads=1,
            minloglevel=2,
        )
        model = sentencepiece.SentencePieceProcessor(model_proto=trained.getvalue())
        learned = [(model.id_to_piece(i), model.get_score(i)) for i in range(len(model)) if not model.is_unknown(i)]
        vocabulary = [(token, 0.0) for token in special_tokens] + learned
        backend = Tokenizer(models.Unigram(vocabulary, unk_id=special_tokens.index(UNK)))
        backend.add_special_tokens(special_tokens)
        return backend
