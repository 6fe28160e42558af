# SPDX-License-Identifier: Apache-2.0
"""The normalizer and pre-tokenizer with which the saved backend handles raw text without an analyzer.

Whoever takes the `tokenizers.Tokenizer` out of a `MorphemeTokenizer`, or reads `morphemes.json` with `tokenizers`, gets
the ids of the folder `plain/`. Without this pipeline such a backend would silently give [UNK] for every text. Morphemes
never pass through it: they go to the subword model directly.
"""

from pathlib import Path

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

from .morpheme import MAX_MORPHEME_CHARACTERS, WORD_MARK
from .normalization import INVISIBLE, JOINER

# each of these means the same in Rust (Oniguruma) and in JavaScript
WHITE_SPACE = "[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"
"""The characters that `str.isspace` counts, written out, since `\\s` is different in the two."""
WORD = f"{WORD_MARK}?[^{WORD_MARK}]+|{WORD_MARK}"
"""What `Metaspace` of `tokenizers` splits into; that of transformers.js does not split, so this is applied after it."""
PUNCTUATION = rf"{WORD_MARK}?(?!{WORD_MARK})[\p{{P}}\p{{S}}]"
"""A punctuation mark or symbol with the word mark before it. JavaScript has no `[a&&[^b]]`, hence the lookahead."""
INVISIBLE_START = rf"(?<![\s\S])(?:{INVISIBLE}|\u200d)+(?!{INVISIBLE}|\u200d|{WORD_MARK})"
"""Invisible characters at the start of a text, unless the word mark itself is next."""


def add_pipeline(backend: Tokenizer) -> None:
    """Let `backend` split raw text into eojeols and punctuation."""
    backend.normalizer = normalizers.Sequence(
        [
            # at the start of a text they become white space, not nothing: Metaspace marks a first word only where
            # nothing was removed before it (and none that begins with the mark itself)
            normalizers.Replace(Regex(INVISIBLE_START), " "),
            normalizers.Replace(Regex(INVISIBLE), ""),
            normalizers.Replace(Regex(JOINER), ""),
            normalizers.NFC(),
            # only trailing white space is removed: after a special token a new stretch of text starts, and white space
            # before its first eojeol must stay, since it becomes the word mark
            normalizers.Replace(Regex(rf"{WHITE_SPACE}\z"), ""),
            normalizers.Replace(Regex(WHITE_SPACE), " "),
        ]
    )
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(replacement=WORD_MARK, prepend_scheme="first"),
            pre_tokenizers.Split(Regex(WORD), "isolated"),
            pre_tokenizers.Split(Regex(PUNCTUATION), "isolated"),
            pre_tokenizers.Split(Regex(rf".{{1,{MAX_MORPHEME_CHARACTERS}}}"), "isolated"),
        ]
    )


def remove_pipeline(backend: Tokenizer) -> Tokenizer:
    """`backend`, changed to take morphemes: `backend.encode(morphemes, is_pretokenized=True)`."""
    backend.normalizer = None
    backend.pre_tokenizer = None
    return backend


def backend_json(backend: Tokenizer) -> str:
    """`backend` as JSON, without truncation and padding that a call may have set on it."""
    plain = Tokenizer.from_str(backend.to_str())
    plain.no_truncation()
    plain.no_padding()
    return plain.to_str()


def read_morpheme_backend(vocab_file: str | Path) -> Tokenizer:
    """The backend in a `morphemes.json`, ready for morphemes. Raises ValueError for a file without a vocabulary."""
    try:
        return remove_pipeline(Tokenizer.from_file(str(vocab_file)))
    except Exception as error:  # `tokenizers` raises nothing narrower
        raise ValueError(f"{vocab_file} is not a vocabulary ({error}); fetch or publish the folder again") from None
