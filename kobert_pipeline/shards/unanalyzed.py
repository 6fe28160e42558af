"""Documents -> a shard, with any fast tokenizer and no analyzer.

Words come from the tokenizer's own pre-tokenization (`word_ids`), eojeols are separated by white space, and a sentence
ends with its line, or with an eojeol that ends in a full stop, a question mark or an exclamation mark.
"""

import re
from typing import Any

import numpy as np

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.shards.format import DOCUMENT, EOJEOL, MORPHEME, PARAGRAPH, SENTENCE, Shard, shard_of

EOJEOL_SPAN = re.compile(r"\S+")
SENTENCE_END = re.compile(r"[.!?…。]['\"”’)\]]*\Z")


def make_shard(backend: Any, documents: list[Document]) -> Shard:
    """The shard of `documents`. `backend` is a `tokenizers.Tokenizer` that neither truncates nor pads."""
    # paragraphs without an order are texts of their own, so that none begins with the line break before it
    texts = [[row.text] if row.ordered else row.text.split("\n") for row in documents]
    encodings = iter(backend.encode_batch([text for parts in texts for text in parts], add_special_tokens=False))
    ids, boundaries = list[list[int]](), list[np.ndarray]()
    for parts in texts:
        encoded = [(text, next(encodings)) for text in parts]
        ids.append([id_ for _, encoding in encoded for id_ in encoding.ids])
        bits = np.concatenate([boundaries_of(text, encoding) for text, encoding in encoded])
        bits[:1] |= DOCUMENT
        boundaries.append(bits)
    return shard_of(documents, ids, boundaries, backend.get_vocab_size())


def boundaries_of(text: str, encoding: Any) -> np.ndarray:
    """The boundary bits of each token of a text, (N,) uint8. White space belongs to the eojeol after it."""
    eojeols = list(EOJEOL_SPAN.finditer(text))
    if not eojeols or not len(encoding.ids):
        return np.zeros(len(encoding.ids), np.uint8)
    # (E,) per eojeol: the paragraph and the sentence that it is in
    line_breaks = np.array([match.start() for match in re.finditer("\n", text)], np.int64)
    paragraph = np.searchsorted(line_breaks, [match.start() for match in eojeols])
    ends = np.array([SENTENCE_END.search(match[0]) is not None for match in eojeols])
    sentence = np.cumsum((np.diff(paragraph, prepend=-1) != 0) | np.append(True, ends[:-1]))
    # (N,) per token: the eojeol of its last character; a token may be white space, or empty (a lone word mark)
    starts, stops = np.array(encoding.offsets, np.int64).T
    last = np.maximum(stops - 1, starts)
    # clipped, since white space after the last eojeol belongs to that one
    eojeol = np.searchsorted([match.end() for match in eojeols], last, side="right").clip(max=len(eojeols) - 1)
    words = np.array(encoding.word_ids, np.int64)
    bits = np.zeros(len(words), np.uint8)
    units = (
        (MORPHEME, words),
        # MORPHEME too, since a pre-tokenizer need not split at white space (Metaspace with split=False)
        (MORPHEME | EOJEOL, eojeol),
        (SENTENCE, sentence[eojeol]),
        (PARAGRAPH, paragraph[eojeol]),
    )
    for bit, unit in units:
        bits[np.diff(unit, prepend=-1) != 0] |= bit
    return bits
