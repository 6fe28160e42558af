"""The tokenizer of the tests of the rooms before."""

import sys
from pathlib import Path

import pytest

from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "morphemes"))

from front_end import FrontEnd, front_end, loaded  # noqa: F401

CORPORA = Path(__file__).parents[2] / "kobert_pipeline" / "pipeline" / "recipes" / "tiny"


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of the bundled corpora."""
    return CORPORA


@pytest.fixture(scope="session")
def morpheme_tokenizer_folder(front_end: FrontEnd) -> Path:  # noqa: F811
    """3,000 tokens over Kiwi's morphemes."""
    return front_end.tokenizer


@pytest.fixture(scope="session")
def morpheme_tokenizer(morpheme_tokenizer_folder: Path) -> MorphemeTokenizer:
    """The tokenizer itself."""
    return loaded(morpheme_tokenizer_folder)
