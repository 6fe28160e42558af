"""What a published encoder makes of a text, by transformers alone."""

from pathlib import Path

import torch
import transformers

from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer


def plain_states(folder: Path, text: str) -> torch.Tensor:
    """The last hidden states of all tokens of one text, special ones included: (S, H)."""
    tokenizer = MorphemeTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        return model(**tokenizer(text, truncation=True, return_tensors="pt")).last_hidden_state[0]
