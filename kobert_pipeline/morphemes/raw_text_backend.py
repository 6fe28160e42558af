"""How the saved backend spells raw text by itself, without an analyzer: eojeols and punctuation.

Whoever takes the `tokenizers.Tokenizer` out of ours, or reads `morphemes.json` with it, spells as the folder `plain/`
does. Without this pipeline such a backend would silently find [UNK] for every text. Morphemes never go through it: they
are spelled by the model alone.
"""

from pathlib import Path

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

from .morpheme import MAX_MORPHEME_CHARACTERS, WORD_MARK

WHITE_SPACE = r"[\s\x1c-\x1f]+"
"""For the regular expressions of `tokenizers`, whose `\\s` lacks four characters that Python counts as white space."""


def add_pipeline(backend: Tokenizer) -> None:
    """Let `backend` spell raw text."""
    # after a special token a stretch of text begins anew: white space before an eojeol must stay, it becomes the mark
    backend.normalizer = normalizers.Sequence(
        [
            normalizers.NFC(),
            normalizers.Replace(Regex(rf"{WHITE_SPACE}\z"), ""),
            normalizers.Replace(Regex(WHITE_SPACE), " "),
        ]
    )
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(replacement=WORD_MARK, prepend_scheme="first"),
            pre_tokenizers.Split(Regex(rf"{WORD_MARK}?[\p{{P}}\p{{S}}&&[^{WORD_MARK}]]"), "isolated"),
            pre_tokenizers.Split(Regex(rf".{{1,{MAX_MORPHEME_CHARACTERS}}}"), "isolated"),
        ]
    )


def remove_pipeline(backend: Tokenizer) -> Tokenizer:
    """`backend`, changed to take morphemes: `backend.encode(morphemes, is_pretokenized=True)`."""
    backend.normalizer = None
    backend.pre_tokenizer = None
    return backend


def read_morpheme_backend(vocab_file: str | Path) -> Tokenizer:
    """The backend in a `morphemes.json` for morphemes. Raises ValueError for a file that holds none."""
    try:
        return remove_pipeline(Tokenizer.from_file(str(vocab_file)))
    except Exception as error:  # `tokenizers` raises nothing narrower
        raise ValueError(f"{vocab_file} is not a vocabulary ({error}); fetch or publish the folder again") from None
