"""What a tokenizer makes of texts, as JSON values."""

from typing import Any

from kobert_pipeline.features.task import without_leading_space
from kobert_pipeline.morphemes.normalization import replace_surrogates


def token_rows(tokenizer: Any, texts: list[str]) -> list[dict[str, Any]]:
    """The `tokens` of each text, their `input_ids`, and their places in its characters (`offset_mapping`), special
    tokens included. A place does not begin with white space, whatever the tokenizer counts as part of a token. Nothing
    is truncated."""
    encoded = tokenizer([replace_surrogates(text) for text in texts], return_offsets_mapping=True, verbose=False)
    return [
        {"text": text, "tokens": encoded.tokens(row), "input_ids": encoded["input_ids"][row]}
        | {"offset_mapping": [_without_space(text, *span) for span in encoded["offset_mapping"][row]]}
        for row, text in enumerate(texts)
    ]


def _without_space(text: str, start: int, end: int) -> tuple[int, int]:
    """A span without the white space that it begins with; as it is where it has nothing else."""
    # a tokenizer without an analyzer has the space in its token, as in ▁방, one with an analyzer does not
    first, last = without_leading_space(text, (start, end))
    return (first if first < last else start), last
