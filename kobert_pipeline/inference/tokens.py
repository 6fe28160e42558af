"""What a tokenizer makes of texts, as JSON values."""

from typing import Any

from kobert_pipeline.morphemes.normalization import replace_surrogates


def token_rows(tokenizer: Any, texts: list[str]) -> list[dict[str, Any]]:
    """The `tokens` of each text, their `input_ids`, and their places in its characters (`offset_mapping`), special
    tokens included. Nothing is truncated."""
    encoded = tokenizer([replace_surrogates(text) for text in texts], return_offsets_mapping=True, verbose=False)
    return [
        {"text": text, "tokens": encoded.tokens(row), "input_ids": encoded["input_ids"][row]}
        | {"offset_mapping": encoded["offset_mapping"][row]}
        for row, text in enumerate(texts)
    ]
