"""A real tokenizer, trained once on the bundled corpora."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kobert_pipeline.analysis import stage as analysis
from kobert_pipeline.corpus import stage as corpus
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer
from kobert_pipeline.tokenizer import stage as tokenizer

CORPORA = Path(__file__).parents[2] / "kobert_pipeline" / "pipeline" / "recipes" / "tiny"


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of the bundled corpora."""
    return CORPORA


def make(folder: Path) -> None:
    """The stages up to the tokenizer."""
    corpus.run(corpus.CorpusOptions(sources=[{"name": "text", "path": "documents/*.txt"}]), CORPORA, folder / "corpus")
    analysis.run(analysis.AnalysisOptions(), folder / "corpus", folder, folder / "analysis", num_workers=1)
    options = tokenizer.TokenizerOptions(subword={"name": "wordpiece", "vocab_size": 2000})
    tokenizer.run(options, folder / "analysis", folder, folder / "tokenizer")


@pytest.fixture(scope="session")
def morpheme_tokenizer_folder(made_once: Callable[..., Path]) -> Path:
    """2,000 tokens over Kiwi's morphemes."""
    return made_once("morphemes", make) / "tokenizer"


@pytest.fixture(scope="session")
def morpheme_tokenizer(morpheme_tokenizer_folder: Path) -> MorphemeTokenizer:
    """The tokenizer itself."""
    return MorphemeTokenizer.from_pretrained(morpheme_tokenizer_folder)
