"""A trained model becomes a folder that plain `transformers` loads, with a model card, checked in a fresh process."""
