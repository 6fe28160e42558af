"""A labelled file in, examples out: whatever the task and the format, each row is an example or is refused by its
place."""

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kobert_pipeline.errors import UserError, UserErrors
from kobert_pipeline.features.task import Task
from kobert_pipeline.tables.unreadable import LISTED

CONTEXT = "등대는 1903년에 처음 불을 밝혔다."
SPAN = {"question": "언제?", "context": CONTEXT, "answers": {"text": ["1903년"], "answer_start": [4]}}
RELATION = {"subject": "민수", "object": "부산", "label": "가"}
ENTITY = {"start": 0, "end": 2, "label": "PS"}
TASKS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "classification": (
        {"name": "classification", "labels": ["가", "나"]},
        {"text": "글", "label": "가"},
        {"label": "다"},
    ),
    "acceptability": ("acceptability", {"sentence": "글", "label": 1}, {"label": 7}),
    "pair": ("pair", {"sentence1": "글", "sentence2": "말", "label": 1}, {"label": 7}),
    "rerank": ("rerank", {"query": "글", "passage": "말", "label": 1}, {"label": 7}),
    "nli": ("nli", {"premise": "글", "hypothesis": "말", "gold_label": "neutral"}, {"gold_label": "-"}),
    "sts": ("sts", {"sentence1": "글", "sentence2": "말", "score": 3.5}, {"score": 9.0}),
    "regression": ("regression", {"text": "글", "score": 3.5}, {"text": ""}),
    "multilabel": (
        {"name": "multilabel", "labels": ["가", "나"]},
        {"text": "글", "labels": ["가"]},
        {"labels": ["다"]},
    ),
    "re": ({"name": "re", "labels": ["가", "나"]}, {"sentence": "민수는 부산에 산다", **RELATION}, {"subject": "영희"}),
    "choice": ("choice", {"premise": "글", "choices": ["가", "나"], "label": 1}, {"label": 2}),
    "contrastive": ("contrastive", {"text": "글", "text_pair": "말"}, {"text_pair": ""}),
    "span": ("span", SPAN, {"context": "등대는 오래되었다."}),
    "mrc": ("mrc", SPAN, {"question": ""}),
    "korquad": ("korquad", SPAN, {"answers": {"text": ["1904년"], "answer_start": [4]}}),
    "tagging": ("tagging", {"text": "민수는 갔다", "entities": [ENTITY]}, {"entities": [ENTITY | {"end": 99}]}),
    "ner": ("ner", {"tokens": ["민수는", "갔다"], "ner_tags": ["B-PS", "O"]}, {"ner_tags": ["B-PS"]}),
}
"""The task, a good row, and what makes it a bad one."""


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([list(rows[0]), *(list(row.values()) for row in rows)])
    else:
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        is_list = path.suffix == ".json"
        path.write_text("[" + ",\n".join(lines) + "]" if is_list else "\n\n".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".parquet"])
@pytest.mark.parametrize("name", TASKS)
@settings(max_examples=15, deadline=None)
@given(good=st.lists(st.booleans(), min_size=1, max_size=LISTED).filter(any))
def test_every_row_is_an_example_or_refused_by_its_place(
    tmp_path_factory: pytest.TempPathFactory, name: str, suffix: str, good: list[bool]
) -> None:
    options, row, flaw = TASKS[name]
    rows = [row | {"id": f"q{n}"} | ({} if is_good else flaw) for n, is_good in enumerate(good)]
    path = write(tmp_path_factory.getbasetemp() / f"rows{suffix}", rows)
    if all(good):
        assert [example["id"] for example in Task.choose(options).read(path)] == [f"q{n}" for n in range(len(good))]
        return
    with pytest.raises(UserError) as refused:
        Task.choose(options).read(path)
    error = refused.value
    sentences = error.sentences if isinstance(error, UserErrors) else [str(error)]
    unit, first = {".jsonl": ("line", 0), ".csv": ("line", 2), ".json": ("entry", 1), ".parquet": ("row", 1)}[suffix]
    places = [2 * n + 1 if suffix == ".jsonl" else n + first for n, is_good in enumerate(good) if not is_good]
    assert [sentence.split(": ")[0] for sentence in sentences] == [f"{path}, {unit} {place}" for place in places]
