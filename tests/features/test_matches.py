"""Token types that say where the words of a question are, against the definition written out token by token."""

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kobert_pipeline.features.format import Features
from kobert_pipeline.features.matches import LEVELS, NEAR, TYPES, match_types
from kobert_pipeline.features.task import Task
from kobert_pipeline.tokenizer.special_tokens import SEP_ID

tokens = st.lists(st.integers(10, 40), min_size=0, max_size=90)


def by_definition(question: list[int], context: list[int]) -> list[int]:
    """The types of the context's tokens."""
    often = Counter(context)
    sums = [
        sum(1 / often[word] for word in set(question) & set(context[max(0, place - NEAR) : place + NEAR + 1]))
        for place in range(len(context))
    ]
    most = max(sums, default=0)
    # a share that is a hair below a border because the sums are rounded is on it
    levels = [min(int(one / most * LEVELS + 1e-9), LEVELS - 1) if most else 0 for one in sums]
    return [1 + level + LEVELS * (word in question) for level, word in zip(levels, context, strict=True)]


@given(tokens, tokens)
def test_types_are_those_of_the_definition(question: list[int], context: list[int]) -> None:
    ids = [2, *question, 3, *context, 3]
    sides = [None, *(0 for _ in question), None, *(1 for _ in context), None]
    types = match_types(ids, sides).tolist()
    assert types[: len(question) + 2] == [0] * (len(question) + 2)
    assert types[-1] == 0
    assert types[len(question) + 2 : -1] == by_definition(question, context)


def test_features_have_them_in_every_window(morpheme_tokenizer: Any) -> None:
    context = "등대는 1903년에 처음 불을 밝혔다. " + "민수가 세 번 부산에 갔다. " * 30
    example = {"id": "1", "group": "", "question": "등대는 언제 처음 불을 밝혔는가?", "context": context, "answers": []}
    tasks = [Task.choose({"name": "korquad", "mark_matches": given}) for given in (False, True)]
    plain, marked = (Features(task.featurize([example], morpheme_tokenizer, 64), [example]) for task in tasks)
    assert len(plain) == len(marked) > 2
    np.testing.assert_array_equal(plain.arrays["input_ids"], marked.arrays["input_ids"])
    for number, (first, after) in enumerate(pairwise(marked.arrays["windows"])):
        ids = marked.arrays["input_ids"][first:after].tolist()
        types, segments = (one.arrays["token_type_ids"][first:after] for one in (marked, plain))
        question, rest = ids[1 : ids.index(SEP_ID)], ids[ids.index(SEP_ID) + 1 : -1]
        assert types[segments == 1][:-1].tolist() == by_definition(question, rest)
        assert not types[segments == 0].any() and types[-1] == 0
        assert number or types.max() == TYPES - 1
