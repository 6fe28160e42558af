"""The word tokenizer that datatrove's MinHash uses here: words are eojeols, split at white space."""

# datatrove's own Korean tokenizer requires an old version of Kiwi.
# A module of its own, because the base class must be imported with datatrove, which the options do without, and worker
# processes unpickle the class by this name.

from datatrove.utils.word_tokenizers import WordTokenizer


class Eojeols(WordTokenizer):  # type: ignore[misc]
    """Splits at white space. MinHash calls `word_tokenize` only; the base class requires two more."""

    def word_tokenize(self, text: str) -> list[str]:
        """The eojeols of `text`."""
        return text.split()

    sent_tokenize = span_tokenize = word_tokenize
