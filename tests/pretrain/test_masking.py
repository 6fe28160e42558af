"""Which tokens are predicted, and what replaces them."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kobert_pipeline.pretrain.masking import choose, replace, unit_starts
from kobert_pipeline.shards.format import EOJEOL, MORPHEME, SENTENCE
from kobert_pipeline.tokenizer.special_tokens import MASK_ID, SPECIAL_TOKENS


def units(begins: np.ndarray, maskable: np.ndarray) -> list[list[int]]:
    """The units by the plain definition: runs of maskable positions, a new one wherever a unit begins."""
    found: list[list[int]] = []
    for place in range(len(begins)):
        if not maskable[place]:
            continue
        if begins[place] or place == 0 or not maskable[place - 1]:
            found.append([])
        found[-1].append(place)
    return found


@st.composite
def layouts(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """`begins` and `maskable`, where a unit begins after every position that is not maskable."""
    maskable = np.array(draw(st.lists(st.booleans() | st.just(True), min_size=1, max_size=60)), bool)
    begins = np.array(draw(st.lists(st.booleans(), min_size=len(maskable), max_size=len(maskable))), bool)
    begins[1:] |= ~maskable[:-1]
    return begins, maskable


rates = st.floats(0.01, 0.99)
seeds = st.integers(0, 2**32)


@given(layouts(), rates, seeds)
def test_choose_takes_whole_units_in_ascending_order_and_nothing_unmaskable(
    layout: tuple, rate: float, seed: int
) -> None:
    begins, maskable = layout
    chosen = choose(begins, maskable, rate, np.random.default_rng(seed)).tolist()
    assert chosen == sorted(set(chosen))
    taken = set(chosen)
    for unit in units(begins, maskable):
        assert taken.issuperset(unit) or taken.isdisjoint(unit)
    assert taken <= set(np.flatnonzero(maskable).tolist())


@given(layouts(), rates, seeds)
def test_choose_misses_the_rate_by_less_than_one_unit(layout: tuple, rate: float, seed: int) -> None:
    begins, maskable = layout
    chosen = choose(begins, maskable, rate, np.random.default_rng(seed))
    longest = max(map(len, units(begins, maskable)), default=1)
    assert abs(len(chosen) - rate * maskable.sum()) < longest + 1e-9


@given(layouts(), rates, seeds)
def test_choose_is_a_function_of_its_generator(layout: tuple, rate: float, seed: int) -> None:
    first, second = (choose(*layout, rate, np.random.default_rng(seed)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def lengths_to_begins(lengths: list[int]) -> np.ndarray:
    begins = np.zeros(sum(lengths), bool)
    begins[np.cumsum([0, *lengths[:-1]])] = True
    return begins


def test_the_expected_share_is_the_rate_for_units_of_very_different_lengths() -> None:
    for lengths, rate in product(
        [[1] * 7, [1, 2, 3, 30], [1] * 20 + [40], [5, 50, 1, 1, 17] * 3], [0.05, 0.15, 0.4, 0.9]
    ):
        begins, draws = lengths_to_begins(lengths), 3000
        maskable = np.ones(len(begins), bool)
        rng = np.random.default_rng(7)
        counts = np.array([len(choose(begins, maskable, rate, rng)) for _ in range(draws)])
        assert abs(counts.mean() - rate * len(begins)) <= 5 * counts.std() / draws**0.5 + 1e-9, (rate, lengths)


def test_long_and_short_units_are_chosen_about_equally_often() -> None:
    lengths = [1, 1, 1, 1, 1, 10] * 40
    begins, draws, rate = lengths_to_begins(lengths), 400, 0.15
    rng = np.random.default_rng(3)
    hits = np.zeros(len(begins))
    for _ in range(draws):
        hits[choose(begins, np.ones(len(begins), bool), rate, rng)] += 1
    of_long = np.repeat(np.array(lengths) == 10, lengths)
    assert hits[of_long].mean() / draws == pytest.approx(rate, rel=0.1)
    assert hits[~of_long].mean() / draws == pytest.approx(rate, rel=0.1)


def test_no_unit_reaches_over_a_special_token() -> None:
    # [CLS] a [SEP] [CLS] b [SEP], where b continues in the middle of a morpheme: half of two units is one, never none
    # or both
    begins = np.array([1, 1, 1, 1, 0, 1], bool)
    maskable = np.array([0, 1, 0, 0, 1, 0], bool)
    rng = np.random.default_rng(0)
    assert {len(choose(begins, maskable, 0.5, rng)) for _ in range(50)} == {1}


def test_nothing_is_chosen_where_nothing_is_maskable() -> None:
    assert len(choose(np.ones(4, bool), np.zeros(4, bool), 0.5, np.random.default_rng(0))) == 0


@pytest.mark.parametrize(
    ("unit", "expected"), [("token", [1, 1, 1, 1, 1]), ("morpheme", [1, 0, 1, 0, 1]), ("eojeol", [1, 0, 0, 0, 1])]
)
def test_units_begin_at_their_border_bits(unit: Any, expected: Any) -> None:
    boundaries = np.array([MORPHEME | EOJEOL | SENTENCE, 0, MORPHEME, 0, MORPHEME | EOJEOL], np.uint8)
    assert unit_starts(boundaries, unit).tolist() == [bool(flag) for flag in expected], (unit, expected)


def test_replace_puts_80_10_10_within_binomial_bounds() -> None:
    count, vocab_size, original = 100_000, 30_000, 7
    ids = np.full(count, original)
    masked = replace(ids, np.arange(count), vocab_size, np.random.default_rng(1))
    shares = {"mask": (masked == MASK_ID).mean(), "same": (masked == original).mean()}
    shares["random"] = 1 - shares["mask"] - shares["same"]
    for name, expected in {"mask": 0.8, "same": 0.1, "random": 0.1}.items():
        bound = 5 * (expected * (1 - expected) / count) ** 0.5 + 1 / vocab_size
        assert abs(shares[name] - expected) < bound, name


def test_random_tokens_are_every_token_but_the_special_tokens() -> None:
    count, vocab_size, original = 20_000, 12, 100
    masked = replace(np.full(count, original), np.arange(count), vocab_size, np.random.default_rng(2))
    random = masked[(masked != MASK_ID) & (masked != original)]
    found, counts = np.unique(random, return_counts=True)
    assert found.tolist() == list(range(len(SPECIAL_TOKENS), vocab_size))
    expected = len(random) / len(found)
    assert (np.abs(counts - expected) < 5 * expected**0.5).all()


@given(st.lists(st.integers(5, 50), min_size=1, max_size=80), st.data(), seeds)
def test_replace_touches_no_other_position_and_not_its_argument(ids: list[int], data: st.DataObject, seed: int) -> None:
    given_ids = np.array(ids)
    positions = np.array(sorted(data.draw(st.sets(st.integers(0, len(ids) - 1)))), np.int64)
    masked, again = (replace(given_ids, positions, 50, np.random.default_rng(seed)) for _ in range(2))
    np.testing.assert_array_equal(masked, again)
    assert given_ids.tolist() == ids
    others = np.setdiff1d(np.arange(len(ids)), positions)
    np.testing.assert_array_equal(masked[others], given_ids[others])
    assert (masked >= MASK_ID).all()


def test_a_rate_of_one_chooses_every_token_that_may_be_chosen() -> None:
    maskable = np.array([False, True, True, False, True])
    assert choose(maskable, maskable, 1.0, np.random.default_rng(0)).tolist() == [1, 2, 4]
