"""Raw Korean text to a published, loadable BERT, with morphemes that never lose a character. Start reading at
`pipeline.py`."""

__version__ = "0.1.0"
