"""The share of tokens that stand for what a vocabulary lacks ([UNK]), and why it is high. A model cannot tell one such
token from another, so it learns little from texts that are full of them, and nothing else in a run would show it."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from kobert_pipeline.errors import UserError
from kobert_pipeline.progress import current_display

HIGH, TOO_HIGH = 0.05, 0.5
"""Unknown rates above which a warning names the likely cause, and nothing is made."""
SAMPLE = 200
"""Texts in which unknown words are looked for."""
WORDS_SHOWN = 5
WORD_MARK = "\u2581"
"""SentencePiece's mark of a word's first token."""
JAMO, HANGUL = re.compile("[\u1100-\u11ff]"), re.compile("[\u1100-\u11ff\uac00-\ud7a3]")
SYLLABLES = re.compile("[\uac00-\ud7a3]+")
FEWEST = 10
"""Words of a vocabulary by which it is judged whether they are found."""
FEW = 0.01
"""A share of tokens that says nothing of a vocabulary; a multilingual BERT's has 3 % with Hangul."""


def unknown_token_id(tokenizer: Any) -> int | None:
    """The id of a loaded tokenizer's unknown token; None where it has none of its own, as those over bytes, which know
    every character."""
    others = (getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "cls", "sep", "pad", "mask"))
    unknown = tokenizer.unk_token_id
    return None if unknown is None or unknown in set(others) else int(unknown)


def count_unknown(ids: np.ndarray, tokenizer: Any) -> tuple[int, int]:
    """How many of the ids of tokens are unknown, and how many are no other special token."""
    unknown = unknown_token_id(tokenizer)
    others = [id_ for id_ in tokenizer.all_special_ids if id_ != unknown]
    return int((ids == unknown).sum()) if unknown is not None else 0, int((~np.isin(ids, others)).sum())


def rate(count: int, total: int, digits: int = 6) -> float:
    """A rounded quotient, such as the unknown rate; 0 of nothing at all."""
    return round(count / max(total, 1), digits)


def refuse_misread_vocabulary(folder: Path, tokenizer: Any) -> None:
    """Raise UserError where a loaded tokenizer does not know the Korean words that are in its own vocabulary, so that a
    model would answer, without a warning, about texts that it does not see."""
    unknown = unknown_token_id(tokenizer)
    # sorted, since `get_vocab` has another order in every process, and the same words are to be tried
    vocabulary = sorted(tokenizer.get_vocab())
    marked = [token.removeprefix(WORD_MARK) for token in vocabulary if token.startswith(WORD_MARK)]
    words = [word for word in marked or vocabulary if SYLLABLES.fullmatch(word)]
    words = words[:: len(words) // SAMPLE + 1]
    if unknown is None or len(words) < FEWEST:
        return
    ids = tokenizer(words, add_special_tokens=False, verbose=False)["input_ids"]
    lost = [word for word, of_word in zip(words, ids, strict=True) if unknown in of_word]
    if len(lost) > TOO_HIGH * len(words) or is_sentencepiece(tokenizer.backend_tokenizer):
        raise UserError(
            f"{folder}: its tokenizer does not find many words of its own vocabulary: "
            f"{likely_cause(tokenizer.backend_tokenizer)}"
        )


def judge_rate(where: str, share: float, backend: Tokenizer, words: Callable[[], list[str]] = list) -> None:
    """Warn where the unknown rate `share` of the texts `where` is high. `words` gives some of the unknown words. Raises
    UserError where most tokens are unknown."""
    if share <= HIGH:
        return
    shown = ", ".join(words())
    message = (
        f"{where}: {share:.0%} of the tokens are unknown to the tokenizer{f' (such as {shown})' if shown else ''}: "
        f"{likely_cause(backend)}"
    )
    if share > TOO_HIGH:
        raise UserError(message)
    current_display().say(f"warning  {message}")


def is_sentencepiece(backend: Tokenizer) -> bool:
    """Whether a tokenizer of WordPiece has a vocabulary of SentencePiece."""
    vocabulary = backend.get_vocab()
    with_mark = sum(token.startswith(WORD_MARK) for token in vocabulary)
    words = backend.pre_tokenizer.pre_tokenize_str("한글") if backend.pre_tokenizer else []
    # our own vocabularies of WordPiece have the mark too, and so have the words that are looked up in them
    is_foreign = with_mark > FEW * len(vocabulary) and any(WORD_MARK not in word for word, _ in words)
    return type(backend.model).__name__ == "WordPiece" and is_foreign


def likely_cause(backend: Tokenizer) -> str:
    """Why a tokenizer knows little of Korean texts, and what to do."""
    vocabulary = backend.get_vocab()
    with_hangul = sum(HANGUL.search(token) is not None for token in vocabulary)
    if is_sentencepiece(backend):
        return (
            f"its vocab.txt is a SentencePiece vocabulary (tokens begin with {WORD_MARK}), which WordPiece cannot "
            "read; give a checkpoint with its SentencePiece model (spiece.model, tokenizer.model) or a tokenizer.json "
            "made from it"
        )
    if with_hangul <= FEW * len(vocabulary):
        return (
            f"{with_hangul:,} of its {len(vocabulary):,} tokens have Hangul, so it was made for another language; "
            "choose one that was made for Korean"
        )
    if JAMO.search(backend.normalizer.normalize_str("한글") if backend.normalizer else ""):
        # other normalizers do so whatever the settings are, as the one that XLNetTokenizer makes
        if type(backend.normalizer).__name__ != "BertNormalizer":
            return (
                "it decomposes Hangul before it looks words up; give a checkpoint with a tokenizer.json that does not"
            )
        return (
            "it decomposes Hangul before it looks words up, as BertTokenizer does by default; write "
            '{"do_lower_case": false, "strip_accents": false} to tokenizer_config.json in a copy of the checkpoint'
        )
    return (
        "its vocabulary was made from texts of another kind, or is too small; choose another checkpoint, or make a "
        "tokenizer from texts such as these"
    )


def unknown_words(texts: Iterable[str], tokenizer: Any) -> list[str]:
    """Some of what a loaded tokenizer does not know in texts."""
    unknown, words = unknown_token_id(tokenizer), dict[str, None]()
    for text in texts:
        encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        for id_, (start, end) in zip(encoded["input_ids"], encoded["offset_mapping"], strict=True):
            if id_ == unknown:
                words[text[start:end].strip()[:20]] = None
        if len(words) >= WORDS_SHOWN:
            break
    return list(words)[:WORDS_SHOWN]
