"""Bundled data featurized over eojeols (without an analyzer), and a tiny pretrained folder."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from kobert_pipeline.analysis import stage as analysis
from kobert_pipeline.corpus import stage as corpus
from kobert_pipeline.features import stage as features
from kobert_pipeline.features.options import FeaturesOptions
from kobert_pipeline.pretrain.architectures.bert import Bert
from kobert_pipeline.tokenizer import stage as tokenizer

CORPORA = Path(__file__).parents[2] / "kobert_pipeline" / "pipeline" / "recipes" / "tiny"
VOCAB_SIZE = 1500
PREPARED = {
    "nsmc": {
        "task": "nsmc",
        "train": "reviews_train.txt",
        "test": "reviews_test.txt",
        "dev_share": 0.2,
        "max_length": 32,
    },
    "korquad": {"task": "korquad", "train": "qa_train.json", "test": "qa_dev.json", "dev_share": 0.2, "max_length": 96},
}


def prepare(folder: Path) -> None:
    """The stages up to features."""
    corpus.run(corpus.CorpusOptions(sources=[{"name": "text", "path": "documents/*.txt"}]), CORPORA, folder / "corpus")
    eojeols = analysis.AnalysisOptions(analyzer={"name": "whitespace", "style": "none"})
    analysis.run(eojeols, folder / "corpus", folder, folder / "analysis", num_workers=1)
    options = tokenizer.TokenizerOptions(subword={"name": "wordpiece", "vocab_size": VOCAB_SIZE})
    tokenizer.run(options, folder / "analysis", folder, folder / "tokenizer")
    for name, task in PREPARED.items():
        features.run(FeaturesOptions(**task), folder / "tokenizer", CORPORA, folder / "features" / name)


@pytest.fixture(scope="session")
def prepared(made_once: Callable[..., Path]) -> Path:
    """A folder of features per task."""
    return made_once("prepared", prepare) / "features"


@pytest.fixture(scope="session")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of one layer and width 32 with random weights, saved as the pretrain stage saves it."""
    torch.manual_seed(0)
    sizes = Bert(num_hidden_layers=1, hidden_size=32, num_attention_heads=2, max_position_embeddings=96)
    folder = tmp_path_factory.mktemp("pretrained") / "model"
    sizes.model(sizes.config(VOCAB_SIZE), "pretraining").save_pretrained(folder)
    return folder
