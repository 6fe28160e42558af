"""Examples of a task -> arrays, some at a time, because the Python objects that a tokenizer gives for a text take many
times the memory of the arrays made from them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kobert_pipeline.features.format import concatenate
from kobert_pipeline.features.task import Example, Task

EXAMPLES_AT_ONCE = 500


def featurize_in_parts(
    task: Task,
    examples: list[Example],
    tokenizer: Any,
    max_length: int,
    done: Callable[[int], None] = lambda count: None,
) -> dict[str, np.ndarray]:
    """The arrays that `task.featurize` makes of all examples; at least one is needed. `done` is called with the
    number of examples so far. Raises UserError where they do not fit together."""
    task.refuse_inconsistent(examples)  # all of them, since the examples of a single part may fit together
    parts, sizes = [], list[int]()
    for start in range(0, len(examples), EXAMPLES_AT_ONCE):
        some = examples[start : start + EXAMPLES_AT_ONCE]
        parts.append(task.featurize(some, tokenizer, max_length))
        sizes.append(len(some))
        done(sum(sizes))
    return concatenate(parts, sizes)
