"""A phase may see the documents of some sources only, and the share of masked tokens may change from step to step."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_shards import articles, corpora, documents, generators, reviews, shards_of

from kobert_pipeline.corpus.document import is_from
from kobert_pipeline.errors import UserError
from kobert_pipeline.pretrain.batch import Batch
from kobert_pipeline.pretrain.objectives.mlm_nsp import MlmNsp
from kobert_pipeline.pretrain.options import PretrainOptions
from kobert_pipeline.pretrain.phases import PhaseSchedule
from kobert_pipeline.pretrain.segments import full_sentences, plan_sequences
from kobert_pipeline.shards.format import Shards, number_sources, ranges
from kobert_pipeline.tokenizer.special_tokens import OUR_IDS

SMALL = {"name": "bert", "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2}
ARTICLES, REVIEWS = "articles.jsonl", "reviews.jsonl"


def positions(shards: Shards, source: str) -> np.ndarray:
    """The global positions of all tokens of a source, ascending."""
    chosen = [(start, end) for start, end, ordered in documents(shards) if ordered == (source == ARTICLES)]
    return np.concatenate([np.empty(0, np.int64), *(np.arange(start, end) for start, end in chosen)])


def masked_share(batch: Batch) -> float:
    """The share of the tokens of text that are predicted."""
    is_text = (batch.input_ids == OUR_IDS.mask) | ~np.isin(batch.input_ids, OUR_IDS.every)
    return len(batch.labels) / int(is_text.sum())


@settings(max_examples=100, deadline=None)
@given(corpora, st.sampled_from([ARTICLES, REVIEWS]), st.integers(16, 64), generators)
def test_sequences_hold_each_token_of_the_chosen_documents_once_and_no_other(shards, source, max_length, rng) -> None:
    chosen = shards.of_sources([source.replace("s.", "*.")])
    for sequences in (
        full_sentences(chosen, max_length, across=True),
        full_sentences(chosen, max_length, across=False),
        plan_sequences(chosen, max_length, 0.1, None, rng),
        plan_sequences(chosen, max_length, 0.1, "order", rng),
    ):
        spans = sequences.text_spans
        found = np.sort(ranges(spans.starts, spans.ends - spans.starts))
        assert np.isin(found, positions(shards, source)).all()
        assert (sequences.lengths <= max_length).all()
        if not sequences.next_sentence_label.any():  # random partners are cut to fit
            assert np.array_equal(found, positions(shards, source))


def test_phases_end_on_the_source_that_they_name() -> None:
    shards = shards_of(articles(9) + reviews(4) + articles(5, seed=1), reviews(3, seed=2))
    for shard in shards.shards:  # an id says where its token is from
        shard.ids[:] = np.where(shard.ordered.repeat(np.diff(shard.documents)), 6, 5)
    options = PretrainOptions(
        architecture=SMALL, max_length=64, batch_tokens=256, total_tokens=6000, sources=["*s.jsonl"],
        phases=[{"share": 0.4}, {"share": 0.2, "sources": [ARTICLES]}, {"share": 0.4, "sources": [REVIEWS]}],
    )  # fmt: skip
    course = PhaseSchedule(shards, options.parts(), 200, seed=1)
    seen = [set(np.concatenate([course.batch(step).labels for step in steps]).tolist()) for steps in (
        range(course.ends[0]), range(course.ends[0], course.ends[1]), range(course.ends[1], course.steps)
    )]  # fmt: skip
    assert seen == [{5, 6}, {6}, {5}]


def test_a_source_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(UserError, match=r"'novels\*'; they are from articles\.jsonl, reviews\.jsonl$"):
        shards_of(articles(2)).of_sources([ARTICLES, "novels*"])


def test_a_source_may_be_named_without_the_suffix_of_its_compression() -> None:
    assert is_from("reviews.jsonl.zst", [REVIEWS]) and is_from("reviews.jsonl.zst", ["*.zst"])
    assert not is_from("reviews.jsonl", ["reviews.jsonl.zst"]) and not is_from("reviews.jsonl.old", [REVIEWS])


def test_the_source_of_each_document_is_kept_as_a_number() -> None:
    numbers, names = number_sources(["b", "a", "b"])
    assert names[numbers].tolist() == ["b", "a", "b"] and len(names) == 2
    assert [len(array) for array in number_sources([])] == [0, 0]


def test_the_share_of_masked_tokens_falls_from_the_first_to_the_last_step() -> None:
    options = PretrainOptions(
        objective={"name": "mlm_nsp", "mlm_probability": [0.4, 0.1]},
        architecture=SMALL, max_length=64, batch_tokens=1024, total_tokens=40_000,
    )  # fmt: skip
    course = PhaseSchedule(shards_of(articles(60)), options.parts(), 200, seed=1)
    batches = [course.batch(step) for step in range(course.steps)]
    shares = [masked_share(batch) for batch in batches]
    wanted = np.linspace(0.4, 0.1, len(shares))
    assert np.polyfit(wanted, shares, 1) == pytest.approx([1, 0], abs=0.15)
    assert options.objective.predicted_share == 0.4
    assert options.objective.at(1.0) == MlmNsp(mlm_probability=0.1)
    # held-out batches have the last
    held_out = course.loaders[0].batch(0)
    assert masked_share(held_out) == pytest.approx(0.1, abs=0.03)


def test_a_name_that_no_file_of_the_corpus_has_is_refused_before_anything_runs(kobert: Any, tmp_path: Path) -> None:
    """In each option that has `sources`; the name of a file that the error lists is accepted."""
    phases = "pretrain.phases=[{share: 1, sources: [%s]}]"
    made = "features.korquad.synthesize={sources: [%s]}"
    labelled = "finetune.nsmc.distill={teachers: [ngrams], sources: [%s]}"
    for setting, option in (
        ("pretrain.sources=[%s]", "pretrain.sources"),
        (phases, "pretrain.phases.0.sources"),
        (made, "features.korquad.synthesize.sources"),
        (labelled, "finetune.nsmc.distill.sources"),
    ):
        teacher = ["publish={}", "finetune={ngrams: {features: nsmc, ngrams: {}}, nsmc: {}}"]
        settings = [*(teacher if setting == labelled else []), setting]
        settings = [part for one in settings for part in ("--set", one)]
        given = ["tiny", "--run-dir", tmp_path / "run"]
        refused = kobert("run", *given, *[one.replace("%s", "wicki*") for one in settings])
        assert f"{option} has 'wicki*', which is the name of no source of the corpus: they are " in refused.complaint
        assert not list(tmp_path.rglob("*.parquet"))
        name = refused.complaint.partition("they are ")[2].split(",")[0].split(";")[0]
        accepted = kobert("check", *given, *[one.replace("%s", name) for one in settings])
        assert accepted.code == 0, accepted.complaint
