"""Embed texts with a checkpoint: one vector per text, or one per token.

Every checkpoint can embed: its encoder is the model below its head. Texts are read up to the checkpoint's `max_length`,
as `kobert predict` reads them; the rest is truncated and counted. Batches hold texts of similar length.
"""

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kobert_pipeline.checkpoint.source import TOKENIZER_FILES
from kobert_pipeline.errors import UserError, did_you_mean
from kobert_pipeline.features.format import features_of_ids
from kobert_pipeline.features.rows import by_tokens, refuse_not_finite
from kobert_pipeline.files import digest, sha256
from kobert_pipeline.inference.encoders import POOLINGS, encoder_of
from kobert_pipeline.inference.loading import AUTO, FILES, TORCH, load
from kobert_pipeline.inference.sentence_encoder import stored_pooling
from kobert_pipeline.inference.token_weights import TokenWeights
from kobert_pipeline.inference.vector_files import Columns, write_vectors
from kobert_pipeline.inference.windows import mean_by_text, splits, windows_of
from kobert_pipeline.morphemes.normalization import character_end, replace_surrogates
from kobert_pipeline.morphemes.segmenter import batches_of
from kobert_pipeline.tokenizer.tagged_morphemes import morphemes_of_tokens, with_tags
from kobert_pipeline.training.hf_config import refuse_causal_cls
from kobert_pipeline.training.weight_files import weight_files

BATCH_TOKENS = 8192
"""Tokens per batch, with padding. The hidden states of all layers are in memory at once: 330 MB for BERT-base."""
LAST = (-1,)
"""The layers that are embedded by default: the last one alone."""
CHUNK_TEXTS, CHUNK_TEXTS_OF_TOKENS = 1024, 128
"""Texts per part of a file, fewer where every token has a vector. Batches are sorted by length within a chunk."""
CHUNK_CHARACTERS = 50_000
"""Characters after which a part ends earlier: long texts take minutes, progress is shown and resumed by parts."""


class Embedder:
    """A model and its tokenizer, ready to embed.

    Args:
        pooling: one of `POOLINGS`; None: the one that the model was trained with, or `mean`.
        layers: whose states are concatenated: 0 for the embeddings, 1 to n for the layers, -1 for the last.
        weights: the file of token weights, for the pooling `weighted`.
        long: what is done with texts of more than `max_length` tokens, one of `windows.LONG`.
        folder: the checkpoint's, which may name the pooling.

    `truncated` counts the texts so far that had more than `max_length` tokens; `files` are the checkpoint's, where
    `load` has read them. Raises UserError for arguments that do not fit the model or each other.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        pooling: str | None = None,
        layers: Sequence[int] = LAST,
        weights: str | Path | None = None,
        long: str = "truncate",
        folder: Path | None = None,
    ) -> None:
        self.encoder, self.tokenizer, self.windows = encoder_of(model), tokenizer, splits(long)
        self.max_length = tokenizer.model_max_length
        pooling = pooling or stored_pooling(model.config.to_dict(), folder)
        self.pooling, self.layers = pooling, tuple(layers)
        refuse_unfit(pooling, self.layers, self.encoder.num_hidden_layers)
        if (pooling == "weighted") != (weights is not None):
            raise UserError(
                "the pooling weighted, and no other, needs weights of tokens: learn them from texts with "
                "--learn-weights FILE, then give --pooling weighted --weights FILE"
            )
        if not self.encoder.has_all_layers and (pooling == "first-last" or self.layers != LAST):
            raise UserError("layers before the last are not in an ONNX file; give --backend torch")
        refuse_causal_cls(self.encoder.is_causal, pooling)
        self.weights = TokenWeights.load(Path(weights), tokenizer) if weights is not None else None
        self.truncated = 0
        self.files: list[Path] = []

    @classmethod
    def load(
        cls,
        folder: str | Path,
        tokenizer: str | Path | None = None,
        pooling: str | None = None,
        layers: Sequence[int] = LAST,
        weights: str | Path | None = None,
        long: str = "truncate",
        backend: str = TORCH,
    ) -> "Embedder":
        """Load a checkpoint, as `kobert predict` does; `auto` is torch where layers before the last are read."""
        if backend == AUTO and (tuple(layers) != LAST or pooling == "first-last"):
            backend = TORCH
        loaded = load(folder, tokenizer, backend, needs="gives_states")
        embedder = cls(loaded.model, loaded.tokenizer, pooling, layers, weights, long, loaded.folder)
        folders = dict.fromkeys((loaded.folder, loaded.tokenizer_folder))
        torch = loaded.backend == TORCH
        model_files = weight_files(loaded.folder) if torch else [FILES[loaded.backend]]
        names = ("config.json", *model_files, *TOKENIZER_FILES)
        paths = [parent / name for parent in folders for name in names]
        embedder.files = [path for path in paths if path.is_file()]
        return embedder

    def reading(self, long: str) -> "Embedder":
        """The same embedder, with another way of reading long texts; what it truncates is counted apart."""
        other = copy(self)
        other.windows, other.truncated = splits(long), 0
        return other

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """The vectors of texts, (n, d) float32. A text without tokens, where the tokenizer adds none of its own, gets
        zeros."""
        return self.embed_counted(texts)[0]

    def embed_counted(self, texts: Sequence[str]) -> tuple[np.ndarray, list[int]]:
        """The vectors of texts, and how many tokens were read of each; tokens that windows share are read twice."""
        if not self.windows:
            ids = self.token_ids(texts)
            return self.embed_ids(ids), [len(row) for row in ids]
        ids, text_of = windows_of(self.tokenizer, texts, self.max_length)
        counts = np.bincount(text_of, [len(row) for row in ids], minlength=len(texts)).astype(int).tolist()
        return mean_by_text(self.embed_ids(ids), ids, text_of), counts

    def embed_ids(self, ids: list[list[int]]) -> np.ndarray:
        """The vectors of texts that are given as the ids of their tokens, special tokens included; none has more than
        `max_length`."""
        vectors = np.zeros((len(ids), self.width), np.float32)
        features = features_of_ids(ids)
        for rows in by_tokens(features.lengths, BATCH_TOKENS, self.encoder.max_padding):
            weights = None if self.weights is None else self.weights.of_batch([ids[row] for row in rows])
            vectors[rows] = self.encoder.vectors(features, rows, self.pooling, self.layers, weights)
        self._refuse_not_finite(vectors)
        return vectors

    def embed_tokens(self, texts: Sequence[str], first: int = 0) -> Columns:
        """The vector of every token, with the number of its text (`index`, counted from `first`), the `token`, its
        `start` and `end` in the characters of the text, and these as `text`; for our own tokenizers also `morpheme` and
        `tag`."""
        encoded = self._encode(texts, self._tagging_tokenizer, return_offsets_mapping=True)
        ids = encoded["input_ids"]
        offsets = [
            [(start, character_end(text, end)) for start, end in of_text]
            for text, of_text in zip(texts, encoded["offset_mapping"], strict=True)
        ]
        states_of, features = [np.zeros((0, self.width), np.float32)] * len(texts), features_of_ids(ids)
        for rows in by_tokens(features.lengths, BATCH_TOKENS, self.encoder.max_padding):
            states = self.encoder.states(features, rows, self.pooling, self.layers)
            for row, values in zip(rows, states, strict=True):
                states_of[row] = values[: len(ids[row])]
        spans = [(start, end) for of_text in offsets for start, end in of_text]
        index = [text_index for text_index, of_text in enumerate(ids) for _ in of_text]
        columns: Columns = {
            "index": [first + text_index for text_index in index],
            "token": self.tokenizer.convert_ids_to_tokens([id_ for of_text in ids for id_ in of_text]),
            "start": [start for start, _ in spans],
            "end": [end for _, end in spans],
            "text": [texts[text_index][start:end] for text_index, (start, end) in zip(index, spans, strict=True)],
            **morphemes_of_tokens(self._tagging_tokenizer, texts, ids, offsets),
            "embedding": np.concatenate(states_of),
        }
        self._refuse_not_finite(columns["embedding"])
        return columns

    def columns(self, texts: list[str], first: int, tokens: bool) -> Columns:
        """The columns of a file: of all `tokens`, or each `text` with its vector."""
        return self.embed_tokens(texts, first) if tokens else {"text": texts, "embedding": self.embed(texts)}

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text's tokens, truncated, special tokens included."""
        ids: list[list[int]] = self._encode(texts, self.tokenizer)["input_ids"]
        return ids

    @property
    def width(self) -> int:
        """The dimensions of a vector."""
        return int(self.encoder.hidden_size * len(self.layers))

    @cached_property
    def _tagging_tokenizer(self) -> Any:
        """The tokenizer whose single analysis also gives tags."""
        return with_tags(self.tokenizer)

    def _encode(self, texts: Sequence[str], tokenizer: Any, **more: Any) -> Any:
        """The texts in tokens of `tokenizer`, truncated; counts what is truncated."""
        texts = [replace_surrogates(text) for text in texts]
        encoded = tokenizer(texts, truncation=True, max_length=self.max_length, **more)
        # only full texts may have been truncated, so only they are encoded again, with room for one token more
        full = [text for text, ids in zip(texts, encoded["input_ids"], strict=True) if len(ids) == self.max_length]
        if full:
            longer = self.tokenizer(full, truncation=True, max_length=self.max_length + 1)["input_ids"]
            self.truncated += sum(len(ids) > self.max_length for ids in longer)
        return encoded

    def _refuse_not_finite(self, vectors: np.ndarray) -> None:
        refuse_not_finite(self.encoder.name, {"embedding": [vectors]}, "vectors")


def write_embeddings(
    out: Path,
    embedder: Embedder,
    texts: Iterable[str],
    tokens: bool,
    total: int | None,
    parts_in: Path | None = None,
) -> None:
    """Write the vectors of texts, `total` in number (None: nobody knows), to the new file `out`; of all their tokens
    with `tokens`. A run that was interrupted resumes from its parts, which are in `parts_in` (None: beside `out`);
    `embedder.truncated` then counts its texts, too."""
    chunks = chunked(texts, CHUNK_TEXTS_OF_TOKENS if tokens else CHUNK_TEXTS)
    record = {
        "checkpoint": [sha256(path) for path in embedder.files], "max_length": embedder.max_length,
        "pooling": embedder.pooling, "layers": embedder.layers, "tokens": tokens, "windows": embedder.windows,
        "weights": digest(embedder.weights.model_dump()) if embedder.weights else None,
    }  # fmt: skip

    def embed(chunk: list[str], first: int) -> tuple[Columns, dict[str, int]]:
        before = embedder.truncated
        columns = embedder.columns(chunk, first, tokens)
        return columns, {"truncated": embedder.truncated - before}

    embedder.truncated = write_vectors(out, record, chunks, embed, total, parts_in).get("truncated", 0)


def chunked(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    """The texts in lists of at most `size`, which end earlier after about `CHUNK_CHARACTERS`."""
    for batch in batches_of(texts, CHUNK_CHARACTERS):
        yield from (batch[start : start + size] for start in range(0, len(batch), size))


def refuse_unfit(pooling: str, layers: tuple[int, ...], count: int) -> None:
    """Raise UserError for a pooling that does not exist, or layers that a model of `count` layers does not have."""
    if pooling not in POOLINGS:
        raise UserError(f"there is no pooling {pooling!r:.40}{did_you_mean(pooling, POOLINGS)}")
    if pooling == "first-last" and layers != LAST:
        raise UserError("the pooling first-last averages the first and the last layer; leave --layers out")
    if not layers:
        raise UserError("no layer is named; name one or several, such as -1 for the last")
    if unknown := [layer for layer in layers if not -count - 1 <= layer <= count]:
        raise UserError(
            f"there is no layer {unknown[0]}: the model has 0, the embeddings, and 1 to {count}; counted from the last "
            f"these are -1 to {-count - 1}"
        )
