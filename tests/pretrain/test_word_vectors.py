"""Token embeddings from counts, against a count by hand and a full singular value decomposition."""

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import rows
from synthetic_shards import all_ids, articles, corpora, reviews, shards_of

from kobert_pipeline.files import read_json
from kobert_pipeline.pipeline.recipe import Recipe
from kobert_pipeline.pretrain import word_vectors
from kobert_pipeline.pretrain.options import PretrainOptions
from kobert_pipeline.pretrain.word_vectors import WordVectors, count, start_from_counts, vectors
from kobert_pipeline.shards.format import PARAGRAPH, Shards

VOCAB_SIZE = 200


def counted_by_hand(shards: Shards, window: int) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for shard in shards.shards:
        starts = [*np.flatnonzero(shard.boundaries & PARAGRAPH), len(shard.ids)]
        for first, after in pairwise(starts):
            ids = shard.ids[first:after].tolist()
            for i, one in enumerate(ids):
                for distance, other in enumerate(ids[i + 1 : i + 1 + window], 1):
                    found[one, other] += 1 / distance
                    found[other, one] += 1 / distance
    return found


@settings(deadline=None, max_examples=30)
@given(shards=corpora, window=st.integers(1, 6))
def test_tokens_of_a_paragraph_are_counted_by_their_distance(shards: Shards, window: int) -> None:
    counts, frequencies = count(shards, VOCAB_SIZE, window)
    by_hand = counted_by_hand(shards, window)
    cells = counts.tocoo()
    found = {(int(i), int(j)): value for i, j, value in zip(cells.row, cells.col, cells.data.tolist(), strict=True)}
    assert found == pytest.approx(dict(by_hand), rel=1e-5)
    assert Counter(all_ids(shards).tolist()) == {n: int(c) for n, c in enumerate(frequencies) if c}


def test_only_the_chosen_documents_are_counted_and_of_a_large_corpus_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    some, others = articles(5), reviews(9)
    both = shards_of([*some, *others], others)
    length = sum(sum(sum(paragraph) for paragraph in paragraphs) for _, paragraphs in some)
    first = both.shards[0]
    alone = Shards([replace(first, ids=first.ids[:length], boundaries=first.boundaries[:length])])
    chosen, expected = count(both.of_sources(["articles*"]), VOCAB_SIZE, 2), counted_by_hand(alone, 2)
    cells = chosen[0].tocoo()
    assert {(i, j) for i, j in zip(cells.row.tolist(), cells.col.tolist(), strict=True)} == set(expected)
    assert chosen[1].sum() == length
    # the limit is of the chosen tokens, and the size of a chunk changes nothing
    monkeypatch.setattr(word_vectors, "TOKENS_AT_ONCE", 7)
    again = count(both.of_sources(["articles*"]), VOCAB_SIZE, 2)
    assert abs(again[0] - chosen[0]).max() < 1e-5
    monkeypatch.setattr(word_vectors, "MOST_TOKENS", length // 2)
    assert count(both.of_sources(["articles*"]), VOCAB_SIZE, 2)[1].sum() == pytest.approx(length / 2, abs=1)


def test_a_vocabulary_smaller_than_the_embeddings_leaves_dimensions_empty() -> None:
    found = vectors(count(shards_of(articles(9)), VOCAB_SIZE, 2)[0][:60, :60], 64)
    assert found.shape == (60, 64) and not found[:, 60:].any() and found[:, :60].any()


def test_vectors_are_the_truncated_svd_of_positive_pointwise_mutual_information() -> None:
    counts, _ = count(shards_of(articles(30)), VOCAB_SIZE, 3)
    dense = np.asarray(counts.todense(), np.float64)
    context = dense.sum(1) ** 0.75
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.log(dense * context.sum() / np.outer(dense.sum(1), context))
    positive = np.maximum(np.nan_to_num(information, neginf=0), 0)
    left, strengths, _ = np.linalg.svd(positive)
    found = vectors(counts, 8)
    assert found.shape == (VOCAB_SIZE, 8)
    # columns are unique up to their sign, while strengths differ; a randomized decomposition comes close
    expected = left[:, :8] * np.sqrt(strengths[:8])
    for column in range(3):
        cosine = (
            found[:, column]
            @ expected[:, column]
            / (np.linalg.norm(found[:, column]) * np.linalg.norm(expected[:, column]))
        )
        assert abs(cosine) > 0.95


@pytest.mark.parametrize(("objective", "architecture"), rows())
def test_every_model_starts_with_them(objective: Any, architecture: Any) -> None:
    """Tokens that never occur keep their random embeddings; lengths stay what they were; the bias says how frequent."""
    options = PretrainOptions(objective=objective, architecture=architecture)
    torch.manual_seed(0)
    model = options.architecture.model(options.architecture.config(VOCAB_SIZE + 7), options.objective.head)
    shards = shards_of(articles(20))
    before = model.get_input_embeddings().weight.detach().clone()
    bias = options.architecture.output_layer(getattr(model, "generator", model)).bias
    counts = start_from_counts(model, shards, WordVectors())
    after = model.get_input_embeddings().weight.detach()
    seen = np.bincount(all_ids(shards), minlength=len(after))
    changed = (before != after).any(1).numpy()
    assert counts == {"tokens_started_as_word_vectors": changed.sum()}
    assert not changed[seen == 0].any() and changed[seen > 0].all()
    torch.testing.assert_close(after[changed].norm(dim=1), before.norm(dim=1).mean().expand(changed.sum()))
    assert (bias is None) == (architecture["name"] == "gpt2")
    if bias is not None:
        frequent, rare = int(seen.argmax()), int(np.argmin(seen + 1000 * (seen == 0)))
        ratio = math.log((seen[frequent] + 1) / (seen[rare] + 1))
        assert (bias[frequent] - bias[rare]).item() == pytest.approx(ratio, rel=1e-4)


def test_a_run_starts_with_them(tiny: Any, tmp_path: Path, kobert: Any) -> None:
    """Knowing how frequent tokens are, it begins far below the loss of a model that starts at random."""
    run_dir = tiny.copy(tmp_path / "runs" / "vectors", "corpus", "analysis", "tokenizer", "shards")
    given = ["--set", "pretrain.word_vectors={window: 3}", "--set", "pretrain.total_tokens=4000"]
    kobert("run", tiny.recipe, "--run-dir", run_dir, "--until", "pretrain", *given)
    counts = read_json(run_dir / "pretrain" / "manifest.json")["counts"]
    assert 0 < counts["tokens_started_as_word_vectors"] <= 1500
    before = tiny.manifests()["pretrain"]["counts"]["held_out_before"]["mlm_loss"]
    assert counts["held_out_before"]["mlm_loss"] < before - 0.5


def test_weights_of_a_checkpoint_are_not_replaced() -> None:
    with pytest.raises(ValueError, match="word_vectors would replace the embeddings of base"):
        PretrainOptions.model_validate({"base": "published", "word_vectors": {}})
    recipe = {"checkpoint": "klue/bert-base", "corpus": {"sources": [{"name": "text", "path": "a.txt"}]}}
    with pytest.raises(ValueError, match=r"there is also pretrain\.word_vectors"):
        Recipe.model_validate(recipe | {"pretrain": {"word_vectors": {}}})
