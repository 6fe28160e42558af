"""A batch is a function of (seed, epoch, step)."""

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from synthetic_shards import all_ids, articles, reviews, shard_of, shards_of

from kobert_pipeline.pretrain.batch import Batch
from kobert_pipeline.pretrain.loader import Loader
from kobert_pipeline.pretrain.objectives.mlm_nsp import MlmNsp
from kobert_pipeline.shards.format import Shards, write_shard
from kobert_pipeline.tokenizer.special_tokens import CLS_ID, IGNORE_INDEX, SEP_ID, SPECIAL_TOKENS

ARTICLES, REVIEWS = shards_of(articles(12), articles(6, seed=1)), shards_of(reviews(15))
BOTH = shards_of(articles(10), [], reviews(8))


def loader(shards: Shards = BOTH, seed: int = 3, **changes: object) -> Loader:
    options = {"objective": MlmNsp(**changes), "max_length": 40, "batch_tokens": 200}
    return Loader(shards, SimpleNamespace(**options), vocab_size=200, seed=seed)


def assert_equal(first: Batch, second: Batch) -> None:
    for name, array in vars(first).items():
        np.testing.assert_array_equal(array, getattr(second, name), err_msg=name)


def originals(batch: Batch) -> np.ndarray:
    """The tokens before masking."""
    ids = batch.input_ids.copy()
    ids[batch.masked_positions] = batch.labels
    return ids


def test_random_access_equals_sequential_reading_across_epochs() -> None:
    first, second = loader(), loader()
    steps = 3 * first.steps_per_epoch()
    batches = [first.batch(step) for step in range(steps)]
    for step in np.random.default_rng(0).permutation(steps).tolist():
        assert_equal(second.batch(step), batches[step])
    assert_equal(first.batch(0), batches[0])


def test_a_fresh_loader_begins_in_the_middle_of_a_later_epoch() -> None:
    steps = loader().steps_per_epoch() + 2
    sequential = loader()
    batches = [sequential.batch(step) for step in range(steps)]
    assert_equal(loader().batch(steps - 1), batches[-1])


def test_an_epoch_shows_every_token_but_those_cut_from_random_pairs() -> None:
    reader = loader(REVIEWS)
    seen = np.concatenate([originals(reader.batch(step)) for step in range(reader.steps_per_epoch())])
    seen = seen[(seen != CLS_ID) & (seen != SEP_ID)]
    assert sorted(seen.tolist()) == sorted(all_ids(REVIEWS).tolist())


def test_epochs_differ_in_order_and_masks() -> None:
    reader = loader()
    ends = [0, reader.steps_per_epoch()]
    first, second = (reader.batch(end) for end in ends)
    assert originals(first).tolist() != originals(second).tolist()
    once = loader(shards_of([(False, [[30]])]))
    masks = {tuple(once.batch(step).masked_positions.tolist()) for step in range(6)}
    assert len(masks) > 1


def test_seeds_differ() -> None:
    assert originals(loader(seed=1).batch(0)).tolist() != originals(loader(seed=2).batch(0)).tolist()


def test_tokens_until_equals_the_sum_of_the_batches_lengths() -> None:
    for epochs, shards in product([0.4, 1, 2.5], [ARTICLES, REVIEWS, BOTH]):
        reader = loader(shards)
        steps = max(1, int(epochs * reader.steps_per_epoch()))
        assert reader.tokens_until(steps) == sum(int(reader.batch(step).lengths.sum()) for step in range(steps)), (
            shards,
            epochs,
        )


def test_no_batch_is_larger_than_batch_tokens() -> None:
    for shards in [ARTICLES, REVIEWS, BOTH]:
        reader = loader(shards)
        assert all(len(reader.batch(step).input_ids) <= 200 for step in range(2 * reader.steps_per_epoch())), shards


def test_steps_for_comes_to_the_budget_within_a_step() -> None:
    reader = loader(ARTICLES)
    budget = 10_000
    assert abs(reader.tokens_until(reader.steps_for(budget)) - budget) <= 0.05 * budget
    assert reader.steps_for(1) == 1


@pytest.mark.parametrize("rate", [0.15, 0.4])
def test_the_share_of_masked_tokens_is_the_rate_and_no_special_token_is_masked(rate: Any) -> None:
    reader = loader(mlm_probability=rate)
    batches = [reader.batch(step) for step in range(4 * reader.steps_per_epoch())]
    labels = np.concatenate([batch.labels for batch in batches])
    maskable = sum(int((originals(batch) >= len(SPECIAL_TOKENS)).sum()) for batch in batches)
    assert len(labels) / maskable == pytest.approx(rate, rel=0.03), rate
    assert labels.min() >= len(SPECIAL_TOKENS), rate


def test_labels_of_pairs_belong_to_the_sequences_of_the_batch() -> None:
    reader = loader(BOTH)
    for step in range(reader.steps_per_epoch()):
        batch = reader.batch(step)
        second = np.add.reduceat(batch.token_type_ids, batch.starts) > 0
        assert (batch.input_ids[batch.starts] == CLS_ID).all()
        assert (second | (batch.next_sentence_label == IGNORE_INDEX)).all()


def test_shards_on_disk_give_the_same_batches_as_in_memory(tmp_path) -> None:
    parts = [articles(10), [], reviews(8)]
    for number, part in enumerate(parts):
        write_shard(tmp_path, f"train-{number:05d}", shard_of(part, seed=number))
    on_disk = loader(Shards.open(tmp_path, "train"))
    for step in range(on_disk.steps_per_epoch()):
        assert_equal(on_disk.batch(step), loader(BOTH).batch(step))


class SlowLoader(Loader):
    """Plans an epoch slowly, so that threads meet there."""

    def _epoch(self, epoch: int):
        self.planned = [*getattr(self, "planned", []), epoch]
        time.sleep(0.01)
        return super()._epoch(epoch)


def slow_and_plain() -> tuple[SlowLoader, Loader, int]:
    """Two loaders of the same batches, and the steps of about eight epochs."""
    options = SimpleNamespace(objective=MlmNsp(), max_length=40, batch_tokens=200)
    slow, plain = (kind(shards_of(articles(2)), options, vocab_size=200, seed=3) for kind in (SlowLoader, Loader))
    return slow, plain, 8 * plain.steps_per_epoch()


def test_threads_that_meet_at_the_end_of_an_epoch_make_the_same_batches() -> None:
    shared, alone, steps = slow_and_plain()
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(shared.batch, range(steps)))
    for step, batch in enumerate(found):
        assert_equal(batch, alone.batch(step))


def test_threads_plan_an_epoch_together_once() -> None:
    """The plan of a billion tokens takes gigabytes."""
    shared, alone, steps = slow_and_plain()
    with ThreadPoolExecutor(4) as threads:
        for batch in threads.map(shared.batch, [steps] * 8):
            assert_equal(batch, alone.batch(steps))
    assert shared.planned == list(range(len(shared.epoch_ends)))


def test_after_all_steps_counting_their_tokens_plans_nothing_again() -> None:
    slow, plain, steps = slow_and_plain()
    seen = [int(slow.batch(step).lengths.sum()) for step in range(steps)]
    planned = list(slow.planned)
    assert len(planned) > 3
    assert slow.tokens_until(steps) == sum(seen) == plain.tokens_until(steps)
    assert slow.planned == planned == list(range(len(planned)))
