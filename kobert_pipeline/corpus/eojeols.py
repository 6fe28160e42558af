"""Words for datatrove's MinHash: eojeols. Its own Korean tokenizer wants an old version of Kiwi."""

from datatrove.utils.word_tokenizers import WordTokenizer


class Eojeols(WordTokenizer):  # type: ignore[misc]
    """Cuts at white space."""

    def word_tokenize(self, text: str) -> list[str]:
        """The eojeols of `text`."""
        return text.split()

    def sent_tokenize(self, text: str) -> list[str]:
        """Its lines."""
        return text.splitlines()

    def span_tokenize(self, text: str) -> list[tuple[int, int]]:
        """Where its lines lie."""
        spans, start = [], 0
        for line in text.splitlines(keepends=True):
            spans.append((start, start + len(line)))
            start += len(line)
        return spans
