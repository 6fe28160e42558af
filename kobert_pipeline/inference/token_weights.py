"""How much each token counts in a weighted mean: as a term counts in BM25 (Robertson et al., TREC-3 1994), by document
frequencies that are learned from texts.

They have a file of their own, not one in the checkpoint's folder: a published folder is exactly the files of its
manifest, a folder of the Hub's cache belongs to the Hub, and one checkpoint may have the weights of several corpora.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from pydantic import BaseModel, NonNegativeInt, PositiveInt, ValidationError

from kobert_pipeline.errors import UserError, refuse_existing
from kobert_pipeline.files import digest, read_json_with_digest, write_json_with_digest
from kobert_pipeline.questions.bm25 import K1, B


class TokenWeights(BaseModel, frozen=True):
    """Document frequencies of a vocabulary of V tokens, and the weights that follow from them."""

    vocabulary: str
    """Digest of the vocabulary, since ids mean nothing to another tokenizer."""
    documents: PositiveInt
    """Number of texts."""
    tokens: PositiveInt
    """Tokens of all texts."""
    document_frequency: list[NonNegativeInt]
    """The number of texts that contain each id, V numbers."""

    @classmethod
    def learn(cls, texts: Iterable[Sequence[int]], tokenizer: Any) -> Self:
        """Learn from the token ids of texts."""
        # not the number of tokens, since ids may have gaps
        frequency = np.zeros(max(tokenizer.get_vocab().values()) + 1, np.int64)
        documents = tokens = 0
        for ids in texts:
            frequency[np.unique(np.array(ids, np.int64))] += 1
            documents, tokens = documents + 1, tokens + len(ids)
        return cls(
            vocabulary=digest(tokenizer.get_vocab()), documents=documents, tokens=tokens,
            document_frequency=frequency.tolist(),
        )  # fmt: skip

    @classmethod
    def load(cls, path: Path, tokenizer: Any) -> Self:
        """Read what `save` wrote. Raises UserError for another file or none, or weights of another vocabulary."""
        if not path.is_file():
            raise UserError(f"{path} is not a file; `kobert embed --learn-weights FILE` writes weights of tokens")
        try:
            weights = cls.model_validate(read_json_with_digest(path))
        except ValidationError as error:
            reason = error.errors()[0]
            raise UserError(
                f"{path} holds no weights of tokens ({'.'.join(map(str, reason['loc']))}: {reason['msg']}); "
                "`kobert embed --learn-weights FILE` writes them"
            ) from None
        if weights.vocabulary != digest(tokenizer.get_vocab()):
            raise UserError(
                f"{path} was learned with another vocabulary than that of this checkpoint; learn the weights again "
                "with --learn-weights FILE"
            )
        return weights

    def save(self, path: Path) -> None:
        """Write a JSON file. Raises UserError where the file exists."""
        refuse_existing(path, "--learn-weights")
        write_json_with_digest(path, self.model_dump())

    @cached_property
    def idf(self) -> np.ndarray:
        """The inverse document frequency of each id, (V,) and positive: nearly 0 for [CLS], which is in every text."""
        frequency = np.array(self.document_frequency)
        # with 1 added, as in Lucene: the logarithm of the quotient alone is negative for more than half of the texts
        return np.log1p((self.documents - frequency + 0.5) / (frequency + 0.5))

    def of(self, ids: Sequence[int]) -> np.ndarray:
        """The weight of each of a text's (n,) tokens; all weights of one token add up to its BM25 score."""
        _, inverse, counts = np.unique(np.array(ids, np.int64), return_inverse=True, return_counts=True)
        relative_length = len(ids) * self.documents / self.tokens
        # without the count in the numerator of BM25, of which each occurrence has its share
        return self.idf[np.array(ids)] * (K1 + 1) / (counts[inverse] + K1 * (1 - B + B * relative_length))

    def of_batch(self, texts: Sequence[Sequence[int]]) -> np.ndarray:
        """`of` each text, with 0 for padding: (B, S) float32."""
        weights = np.zeros((len(texts), max(map(len, texts))), np.float32)
        for row, ids in zip(weights, texts, strict=True):
            row[: len(ids)] = self.of(ids)
        return weights
