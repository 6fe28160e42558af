"""From raw Korean text to a published BERT model over morphemes, with a tokenizer that never loses a character.

Start reading at `pipeline/stages.py`.
"""

__version__ = "0.1.0"
