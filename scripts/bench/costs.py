"""The cost of our own step by the size of the vocabulary or the length of sequences, for `step`."""

import statistics
from typing import Any

from stepping import Bench, Case, Ground, best_dtype


def cost(ground: Ground, case: Case) -> dict[str, float]:
    """The median seconds of our step in the best type, and what a token costs."""
    bench = Bench(ground, case)
    bench.ours(0, best_dtype())
    for step in range(case.rounds):
        bench.timed("ours", lambda step=step: bench.ours(step, best_dtype()))
    seconds = statistics.median(bench.seconds["ours"])
    return {
        "seconds": round(seconds, 3),
        "microseconds_a_token": round(1e6 * seconds / statistics.median(bench.tokens["ours"]), 1),
    }


def doubled(ground: Ground, cases: list[Case]) -> dict[str, Any]:
    """Seconds of each step with the smaller and the larger vocabulary of `cases`, taken in turns, and the ratio of the
    medians."""
    benches = [Bench(ground, case) for case in cases]
    found: dict[str, Any] = {}
    for kind in dict.fromkeys((best_dtype(), "no")):
        for bench in benches:
            bench.ours(0, kind)
        for step in range(cases[0].rounds):
            for bench in benches:
                bench.timed(kind, lambda bench=bench, step=step, kind=kind: bench.ours(step, kind))
        seconds = [[round(one, 3) for one in bench.seconds[kind]] for bench in benches]
        ratio = statistics.median(seconds[1]) / statistics.median(seconds[0])
        found[kind] = {
            "seconds_a_step": {case.vocab_size: row for case, row in zip(cases, seconds, strict=True)},
            "ratio": round(ratio, 3),
        }
    return found
