"""Python's cycle collector, left out while a batch is made.

A batch is hundreds of thousands of small tuples and no cycle. The collector would go through everything that lives,
torch and transformers included, again and again because of them: an eighth of the time of a large batch.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_disabled() -> Iterator[None]:
    """No cycles are looked for inside. Where somebody else paused the collector it stays paused behind."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
