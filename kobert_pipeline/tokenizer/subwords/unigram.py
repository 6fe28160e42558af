"""The unigram language model (Kudo 2018): the most probable segmentation, learned by pruning a large vocabulary.
Characters without a piece that stand side by side in a morpheme are one [UNK], and the rest of the morpheme is spelled.

Trained by SentencePiece on one thread, because the trainer of `tokenizers` gives other scores each time it is run.
"""

import io
import re
from collections import Counter
from typing import Literal

from pydantic import Field
from tokenizers import Tokenizer, models

from kobert_pipeline.tokenizer.special_tokens import UNK
from kobert_pipeline.tokenizer.subword import Lines, Subword, spelled_by

RESERVED = "\0▅"
"""Characters (U+0000 and U+2585) that SentencePiece uses itself and cannot learn."""


class Unigram(Subword):
    """Pieces with probabilities."""

    name: Literal["unigram"] = "unigram"
    max_piece_length: int = Field(16, ge=1)
    """Characters of the longest piece."""
    shrinking_factor: float = Field(0.75, gt=0, lt=1)
    """Share of the pieces that a round of pruning keeps."""

    def train(self, lines: Lines, alphabet: list[str], special_tokens: list[str]) -> Tokenizer:
        """Train on the morphemes and their counts, less those that hold a special token. A character that was not
        learned with them gets the lowest score."""
        learnable = [character for character in alphabet if character not in RESERVED]
        counts = Counter(piece for line in spelled_by(lines, learnable) for piece in line.split(" ") if piece)
        special = re.compile("|".join(map(re.escape, special_tokens)))
        counts = Counter({piece: count for piece, count in counts.items() if not special.search(piece)})
        wanted = self.vocab_size - len(special_tokens)
        learned = self.learn(counts, wanted) if counts else []
        longer = [piece for piece, _ in learned if len(piece) > 1]
        kept = {*alphabet, *longer[: wanted - len(alphabet)]}
        scores = dict.fromkeys(special_tokens, 0.0) | {piece: score for piece, score in learned if piece in kept}
        lowest = min(scores.values())
        scores |= {character: lowest for character in alphabet if character not in scores}
        backend = Tokenizer(models.Unigram(list(scores.items()), unk_id=special_tokens.index(UNK)))
        backend.add_special_tokens(special_tokens)
        return backend

    def learn(self, counts: Counter[str], size: int) -> list[tuple[str, float]]:
        """At most `size` pieces by SentencePiece with their scores, the best first; no special tokens."""
        import sentencepiece

        trained = io.BytesIO()
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=(f"{piece}\t{count}" for piece, count in sorted(counts.items())),
            input_format="tsv",
            model_writer=trained,
            model_type="unigram",
            vocab_size=size + 1,  # its own token for the unknown is left out below
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
            unk_piece=UNK,
            bos_id=-1,
            eos_id=-1,
            num_threads=1,
            minloglevel=2,
        )
        model = sentencepiece.SentencePieceProcessor(model_proto=trained.getvalue())
        return [(model.id_to_piece(i), model.get_score(i)) for i in range(len(model)) if not model.is_unknown(i)]
