"""Token types that say where the words of a question are, against the definition written out token by token."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kobert_pipeline.questions.exact_match import LEVELS, NEAR, match_types

tokens = st.lists(st.integers(10, 40), min_size=0, max_size=90)


def by_definition(question: list[int], context: list[int]) -> list[int]:
    """The types of the context's tokens."""
    counts = Counter(context)
    sums = [
        sum(1 / counts[token] for token in set(question) & set(context[max(0, index - NEAR) : index + NEAR + 1]))
        for index in range(len(context))
    ]
    largest = max(sums, default=0)
    # a share that is a hair below a boundary because the sums are rounded is on it
    levels = [min(int(weight / largest * LEVELS + 1e-9), LEVELS - 1) if largest else 0 for weight in sums]
    return [1 + level + LEVELS * (token in question) for level, token in zip(levels, context, strict=True)]


@given(tokens, tokens)
def test_types_are_those_of_the_definition(question: list[int], context: list[int]) -> None:
    ids = [2, *question, 3, *context, 3]
    sides = [None, *(0 for _ in question), None, *(1 for _ in context), None]
    types = match_types(ids, sides).tolist()
    assert types[: len(question) + 2] == [0] * (len(question) + 2)
    assert types[-1] == 0
    assert types[len(question) + 2 : -1] == by_definition(question, context)
