"""`sentence-transformers` loads a published encoder, and its vectors are the mean of the last hidden states."""

import json
from pathlib import Path

import numpy as np
from plain_states import plain_states

import kobert_pipeline as kobert
from kobert_pipeline.publish.export import SENTENCE_TRANSFORMERS_MODULES
from kobert_pipeline.publish.verify import SAMPLES

TEXTS = [*SAMPLES, "글", " ".join(SAMPLES * 30)]


def mean_states(folder: Path, text: str) -> np.ndarray:
    """The mean over all tokens of one text, special ones included, by hand."""
    return plain_states(folder, text).mean(0).numpy()


def test_vectors_of_a_padded_batch_are_the_means_of_the_states(tiny) -> None:
    import sentence_transformers

    folder = tiny.run_dir / "publish" / "mlm"
    encoder = sentence_transformers.SentenceTransformer(str(folder), trust_remote_code=True, device="cpu")
    found = encoder.encode(TEXTS)
    assert type(encoder.tokenizer).__name__ == "MorphemeTokenizer"
    assert encoder.max_seq_length == 256
    np.testing.assert_allclose(found, np.stack([mean_states(folder, text) for text in TEXTS]), atol=1e-6)
    np.testing.assert_allclose(found, kobert.load(folder).embed(TEXTS), atol=1e-6)


def test_only_a_pretrained_encoder_has_the_files(tiny) -> None:
    names = {"modules.json", "config_sentence_transformers.json", "sentence_bert_config.json", "1_Pooling/config.json"}
    for kind in ("mlm", "nsmc", "korquad"):
        files = json.loads((tiny.run_dir / "publish" / kind / "manifest.json").read_text())["files"]
        assert names & set(files) == (names if kind == "mlm" else set())
    pooling = json.loads(
        (tiny.run_dir / "publish" / "mlm" / SENTENCE_TRANSFORMERS_MODULES[1]["path"] / "config.json").read_text()
    )
    assert pooling.pop("word_embedding_dimension") == 32
    # text-embeddings-inference 1.9 demands the first two
    flags = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
    assert pooling == {f"pooling_mode_{flag}": flag == "mean_tokens" for flag in flags}
