"""Recurring spans and the questions made of them."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import SMALL
from synthetic_shards import Described, articles, shard_of

from kobert_pipeline.pretrain.architectures.splinter import Splinter
from kobert_pipeline.pretrain.batch import Batch
from kobert_pipeline.pretrain.loader import Loader
from kobert_pipeline.pretrain.model import LossModule
from kobert_pipeline.pretrain.objectives.mlm_rss import MlmRss
from kobert_pipeline.pretrain.packing import Packed, pack
from kobert_pipeline.pretrain.recurring_spans import clusters_in, frequent_tokens
from kobert_pipeline.pretrain.segments import Sequences
from kobert_pipeline.pretrain.tensor_batch import to_device
from kobert_pipeline.shards.format import DOCUMENT, EOJEOL, MORPHEME, PARAGRAPH, SENTENCE, Shard, Shards
from kobert_pipeline.tokenizer.special_tokens import CLS_ID, MASK_ID, SEP_ID

FREQUENT = 0.2


def shards_with_few_words(documents: list[Described], vocab_size: int, seed: int) -> Shards:
    return Shards([shard_of(documents, vocab_size, seed)])


_documents = st.lists(
    st.tuples(st.booleans(), st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=4), min_size=1, max_size=3)),
    min_size=1,
    max_size=4,
)
corpora = st.builds(shards_with_few_words, _documents, st.integers(7, 20), st.integers(0, 1000))


def packed_of(shards: Shards) -> tuple[Sequences, Packed]:
    """All sequences of shards."""
    sequences = MlmRss().sequences(shards, 40, np.random.default_rng(0))
    return sequences, pack(shards, sequences, np.arange(len(sequences)))


def plain_clusters(packed: Packed, frequent: np.ndarray, longest: int) -> list[tuple[tuple[int, ...], int]]:
    """The clusters, span by span: every run of tokens from an eojeol's start to a morpheme's end, longest first."""
    ids, total = packed.input_ids.tolist(), len(packed.input_ids)
    texts = np.cumsum(~packed.maskable).tolist()
    taken: set[int] = set()
    found = []
    for length in range(min(longest, total), 0, -1):
        spans: dict[tuple[int, ...], list[int]] = {}
        for start in range(total - length + 1):
            inside = range(start, start + length)
            whole = packed.maskable[start : start + length].all() and packed.boundaries[start] & EOJEOL
            within = not any(packed.boundaries[place] & SENTENCE for place in inside[1:])
            after = start + length
            ended = after == total or packed.boundaries[after] & MORPHEME
            if whole and within and ended and ids[after - 1] not in frequent:
                spans.setdefault((texts[start], *ids[start:after]), []).append(start)
        for _, starts in sorted(spans.items()):
            places = [start + offset for start in starts for offset in range(length)]
            if len(starts) > 1 and len(set(places)) == len(places) and not taken & set(places):
                taken |= set(places)
                found.append((tuple(starts), length))
    return found


@settings(deadline=None)
@given(corpora, st.integers(1, 6))
def test_clusters_are_those_found_span_by_span(shards: Shards, longest: int) -> None:
    _, packed = packed_of(shards)
    frequent = frequent_tokens(shards, FREQUENT)
    found = [(tuple(starts), length) for starts, length in clusters_in(packed, frequent, longest)]
    assert sorted(found) == sorted(plain_clusters(packed, frequent, longest))


def batch_of(shards: Shards, **changes: Any) -> tuple[Batch, Packed]:
    """A batch of all sequences without masked tokens, and the sequences without questions."""
    sequences, packed = packed_of(shards)
    objective = MlmRss(stop_frequency=FREQUENT, **changes)
    rng = np.random.default_rng(1)
    batch = objective.batch(shards, sequences, np.arange(len(sequences)), 200, rng)
    unmasked = batch.input_ids.copy()
    unmasked[batch.masked_positions] = batch.labels
    return replace(batch, input_ids=unmasked), packed


@settings(deadline=None)
@given(corpora, st.integers(1, 8))
def test_answers_in_place_of_their_questions_give_the_text_again(shards: Shards, most_questions: int) -> None:
    batch, packed = batch_of(shards, max_questions_per_seq=most_questions)
    restored = []
    for start, length, questions in zip(batch.starts, batch.lengths, batch.questions, strict=True):
        asked = {question: (first, last) for question, first, last in questions.tolist() if question}
        ids = batch.input_ids[start : start + length].tolist()
        assert {place for place, token in enumerate(ids) if token == MASK_ID} == set(asked)
        for place in range(length):
            first, last = asked.get(place, (place, place))
            restored += ids[first : last + 1]
            assert place not in asked or not {CLS_ID, SEP_ID, MASK_ID} & set(ids[first : last + 1])
    assert restored == packed.input_ids.tolist()


@settings(deadline=None)
@given(corpora)
def test_questions_and_answers_are_in_one_text_and_answers_are_not_masked(shards: Shards) -> None:
    batch, _ = batch_of(shards)
    text = np.cumsum(np.isin(batch.input_ids, (CLS_ID, SEP_ID)))
    asked = batch.questions[..., 0] > 0
    positions = (batch.starts[:, None, None] + batch.questions)[asked]  # (questions, 3)
    assert (text[positions] == text[positions[:, :1]]).all()
    for question, first, last in positions.tolist():
        assert not np.isin(batch.masked_positions, [question, *range(first, last + 1)]).any()
    assert batch.position_ids.tolist() == [place for length in batch.lengths for place in range(length)]
    assert len(batch.input_ids) == batch.lengths.sum() == len(batch.token_type_ids)


WORDS = shards_with_few_words(articles(10), 40, 0)
OPTIONS = SimpleNamespace(objective=MlmRss(stop_frequency=FREQUENT), max_length=40, batch_tokens=200)


def test_a_batch_with_questions_is_a_function_of_seed_and_step() -> None:
    sequential, random = Loader(WORDS, OPTIONS, 40, seed=3), Loader(WORDS, OPTIONS, 40, seed=3)
    batches = [sequential.batch(step) for step in range(2 * sequential.steps_per_epoch())]
    for step in np.random.default_rng(0).permutation(len(batches)).tolist():
        for name, array in vars(batches[step]).items():
            np.testing.assert_array_equal(array, getattr(random.batch(step), name), err_msg=name)
    # an epoch later the same text is asked other questions
    asked = [
        {tuple(question) for batch in half for question in batch.questions.reshape(-1, 3).tolist()}
        for half in (batches[: len(batches) // 2], batches[len(batches) // 2 :])
    ]
    assert asked[0] != asked[1]
    assert all(len(questions) > 20 for questions in asked)


def test_a_span_ends_before_a_particle_and_is_as_long_as_possible() -> None:
    seoul, city, is_in, korea, other = 30, 31, 6, 40, 50
    # "서울 특별시 에 ... 한국 . 서울 특별시 에 한국", where the particle is frequent
    ids = [seoul, city, is_in, other, korea, is_in, seoul, city, is_in, korea, *[is_in] * 10]
    begins = [0, 3, 4, 6, 9]
    boundaries = np.array([MORPHEME | EOJEOL * (place in begins) for place in range(len(ids))], np.uint8)
    boundaries[0] |= SENTENCE | PARAGRAPH | DOCUMENT
    shard = Shard(
        np.array(ids, np.uint16), boundaries, np.array([0, len(ids)]), np.array([True]), np.array([0], np.uint32),
        np.array(["a"]),
    )  # fmt: skip
    _, packed = packed_of(Shards([shard]))
    found = clusters_in(packed, frequent_tokens(Shards([shard]), 0.3), 10)
    # [CLS] takes the first position
    assert found == [([1, 7], 2), ([5, 10], 1)]


def test_a_model_learns_to_point_at_answers() -> None:
    """Texts with one recurring word each, among other words that do not recur: a random guess of both ends is right
    once in some 400."""
    rng = np.random.default_rng(0)
    texts = []
    for _ in range(200):
        ids = 10 + rng.permutation(60)[:20]
        ids[rng.permutation(20)[:2]] = rng.integers(80, 100)
        texts.append(ids)
    boundaries = np.full(4000, MORPHEME | EOJEOL, np.uint8)
    starts = np.arange(0, 4001, 20)
    boundaries[starts[:-1]] |= SENTENCE | PARAGRAPH | DOCUMENT
    ids = np.concatenate(texts).astype(np.uint16)
    shards = Shards([Shard(ids, boundaries, starts, np.ones(200, bool), np.zeros(200, np.uint32), np.array(["a"]))])
    objective = MlmRss(sequence_format="doc_sentences", stop_frequency=0.9)
    loader = Loader(shards, SimpleNamespace(objective=objective, max_length=32, batch_tokens=700), 100, seed=1)
    architecture = Splinter(**SMALL)
    torch.manual_seed(0)
    module = LossModule(architecture.model(architecture.config(100), "spans"), objective, architecture)
    optimizer = torch.optim.AdamW(module.parameters(), lr=5e-3)
    found = []
    for step in range(60):
        loss, values = module(to_device(loader.batch(step)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(float(values["rss_accuracy"]))
    assert np.mean(found[:3]) < 0.1
    assert np.mean(found[-5:]) > 0.5
