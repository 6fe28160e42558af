"""Phases follow one another, each with its own batches; without phases the schedule is that of the loader."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from synthetic_shards import articles, shards_of

from kobert_pipeline.pretrain.loader import Loader
from kobert_pipeline.pretrain.options import PretrainOptions
from kobert_pipeline.pretrain.phases import PhaseSchedule

SMALL = {
    "name": "bert",
    "num_hidden_layers": 1,
    "hidden_size": 32,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
}


def options(**changes) -> PretrainOptions:
    return PretrainOptions(architecture=SMALL, max_length=32, batch_tokens=256, total_tokens=6000, **changes)


def course_of(shards, chosen: PretrainOptions) -> PhaseSchedule:
    return PhaseSchedule(shards, chosen.parts(), 200, chosen.plan.seed)


def test_without_phases_the_course_is_the_loader() -> None:
    shards = shards_of(articles(20))
    course, loader = course_of(shards, options()), Loader(shards, options(), 200, seed=1)
    assert course.steps == loader.steps_for(6000)
    assert course.tokens() == loader.tokens_until(course.steps)
    for step in range(course.steps):
        assert np.array_equal(course.batch(step).input_ids, loader.batch(step).input_ids)


def test_each_phase_has_its_length_its_batch_and_its_share() -> None:
    phases = [
        {"share": 0.5, "max_length": 24, "batch_tokens": 128},
        {"share": 0.25, "batch_tokens": 512},
        {"share": 0.25, "max_length": 64},
    ]
    course = course_of(shards_of(articles(40)), options(phases=phases))
    batches = [course.batch(step) for step in range(course.steps)]
    parts = [batches[begin:end] for begin, end in zip([0, *course.ends], course.ends, strict=False)]
    assert [
        max(int(batch.lengths.max()) for batch in part) <= length
        for part, length in zip(parts, (24, 32, 64), strict=True)
    ] == [True] * 3
    assert max(int(batch.lengths.max()) for batch in parts[2]) > 32
    assert (
        max(len(batch.input_ids) for batch in parts[0]) <= 128 < max(len(batch.input_ids) for batch in parts[1]) <= 512
    )
    seen = [sum(len(batch.input_ids) for batch in part) for part in parts]
    assert [one / 6000 for one in seen] == pytest.approx([0.5, 0.25, 0.25], abs=0.06)
    assert course.tokens() == sum(seen)


def test_a_batch_is_a_function_of_the_step_alone() -> None:
    phases = [{"share": 0.5}, {"share": 0.5, "max_length": 64}]
    forwards, backwards = (course_of(shards_of(articles(20)), options(phases=phases)) for _ in range(2))
    for step in reversed(range(forwards.steps)):
        backwards.batch(step)
    for step in range(forwards.steps):
        assert np.array_equal(forwards.batch(step).input_ids, backwards.batch(step).input_ids)


def test_equal_phases_draw_other_numbers() -> None:
    course = course_of(shards_of(articles(20)), options(phases=[{"share": 0.5}, {"share": 0.5}]))
    assert not np.array_equal(course.batch(0).input_ids, course.batch(course.ends[0]).input_ids)


@pytest.mark.parametrize(
    ("phases", "said"),
    [
        ([{"share": 0.5}], "add up to 0.5"),
        ([{"share": 0.5}, {"share": 0.5, "max_length": 65}], "max_length 65"),
        ([{"share": 1, "batch_tokens": 64, "max_length": 64}, {"share": 0.2}], "add up to 1.2"),
        ([{"share": 0.5}, {"share": 0.5, "max_length": 40, "batch_tokens": 64}], None),
    ],
)
def test_phases_that_do_not_fit_are_refused(phases, said) -> None:
    if said is None:
        assert len(options(phases=phases).phases) == 2
        return
    with pytest.raises(ValueError, match=said):
        options(phases=phases).refuse_beyond_positions()


def test_the_length_of_the_evaluations_is_checked_where_no_phase_uses_it() -> None:
    short = options(phases=[{"share": 1, "max_length": 40}]).model_copy(update={"max_length": 128})
    with pytest.raises(ValueError, match="max_length 128 is beyond"):
        short.refuse_beyond_positions()


@pytest.mark.parametrize("threads", [1, 4])
def test_the_parts_of_a_step_are_cut_from_one_batch_made_once(threads, monkeypatch) -> None:
    course, made = course_of(shards_of(articles(20)), options()), Counter()
    plain = Loader.batch
    monkeypatch.setattr(
        Loader, "batch", lambda self, step, progress: (made.update([step]), plain(self, step, progress))[1]
    )
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda step: [(course.batch(step), time.sleep(0.001)) for _ in range(6)], range(course.steps)))
    assert made == Counter(range(course.steps))
