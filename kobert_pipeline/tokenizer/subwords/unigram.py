"""The unigram language model (Kudo 2018): the most probable segmentation, learned by pruning a large vocabulary.

Adjacent characters of a morpheme that are not in the vocabulary become one [UNK]; the rest is encoded as usual.
Training uses SentencePiece on one thread, because the trainer of `tokenizers` gives different scores each time.
"""

import io
import re
from collections import Counter
from typing import Literal

from tokenizers import Tokenizer, models

from kobert_pipeline.tokenizer.special_tokens import UNK
from kobert_pipeline.tokenizer.subword import Lines, Subword, lines_within_alphabet

RESERVED = "\0▅"
"""Characters (U+0000 and U+2585) that SentencePiece uses itself and cannot learn."""


class Unigram(Subword):
    """Unigram: pieces have probabilities."""

    name: Literal["unigram"] = "unigram"

    def train(self, lines: Lines, alphabet: list[str], special_tokens: list[str]) -> Tokenizer:
        """Train with SentencePiece on the morphemes and their counts."""
        learnable = [character for character in alphabet if character not in RESERVED]
        words = (word for line in lines_within_alphabet(lines, learnable) for word in line.split(" "))
        counts = Counter(word for word in words if word)
        # a morpheme that contains the text of a special token would teach pieces that equal it
        special = re.compile("|".join(map(re.escape, special_tokens)))
        counts = Counter({word: count for word, count in counts.items() if not special.search(word)})
        size = self.vocab_size - len(special_tokens)
        learned = self.learn(counts, size) if counts else []
        # the alphabet is kept whatever its scores, and longer pieces fill the rest, the most probable first
        longer = [piece for piece, _ in learned if len(piece) > 1]
        selected = {*alphabet, *longer[: size - len(alphabet)]}
        # the order of this dict is that of the ids: special tokens come first
        scores = dict.fromkeys(special_tokens, 0.0) | {piece: score for piece, score in learned if piece in selected}
        # characters that SentencePiece could not learn get the lowest score
        lowest = min(scores.values())
        scores |= {character: lowest for character in alphabet if character not in scores}
        backend = Tokenizer(models.Unigram(list(scores.items()), unk_id=special_tokens.index(UNK)))
        backend.add_special_tokens(special_tokens)
        return backend

    def learn(self, counts: Counter[str], size: int) -> list[tuple[str, float]]:
        """At most `size` pieces with their scores (log probabilities), the best first; no special tokens."""
        import sentencepiece

        trained = io.BytesIO()
        sentencepiece.SentencePieceTrainer.Train(
            # sorted, so that the order of the documents plays no part
            sentence_iterator=(f"{word}\t{count}" for word, count in sorted(counts.items())),
            input_format="tsv",
            model_writer=trained,
            model_type="unigram",
            vocab_size=size + 1,  # SentencePiece counts its own unknown token, which is left out below
            hard_vocab_limit=False,  # a small corpus has fewer pieces; the stage reports how many
            character_coverage=1.0,
            # everything that changes or splits text is off: the analyzer has done it
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
