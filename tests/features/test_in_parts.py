"""The arrays of some examples at a time, joined, are those of all at once; the stage keeps the parts that it has
encoded."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kobert_pipeline.errors import UserError
from kobert_pipeline.features import in_parts, stage
from kobert_pipeline.features.in_parts import featurize_in_parts
from kobert_pipeline.features.options import FeaturesOptions
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import files_below
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer

TEXT = "김민수는 2019년에 부산에서 배를 탔다. "
PRIORS = {"phrase": 4, "type": 8, "overlap": 12}
TASKS: dict[str, tuple[dict[str, Any], Callable[[int], dict[str, Any]]]] = {
    "nsmc": ({}, lambda n: {"text": TEXT * n, "label": n % 2}),
    "korquad": (
        {"stride": 8, "whole_words": True, "answer_priors": PRIORS, "exact_match_feature": True, "pos_feature": True},
        lambda n: {"question": "배를 탄 해는 언제인가?", "context": TEXT * n, "answers": [["부산", 11]]},
    ),
    "choice": ({}, lambda n: {"text": TEXT, "choices": ["좋다" * n, "나쁘다"], "label": n % 2}),
    "contrastive": ({}, lambda n: {"text": TEXT * n, "text_pair": TEXT, "negatives": ["비가 왔다."]}),
    "tagging": ({"labels": ["PER"]}, lambda n: {"text": TEXT * n, "entities": [(0, 3, "PER")]}),
}


@pytest.mark.parametrize("name", TASKS)
def test_parts_joined_are_the_whole(
    name: str, morpheme_tokenizer: MorphemeTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, make = TASKS[name]
    task: Any = Task.choose({"name": name, **options})
    examples = [{"id": str(n), "group": "", **make(n)} for n in (3, 1, 7, 2, 5)]
    monkeypatch.setattr(in_parts, "EXAMPLES_AT_ONCE", 2)
    done: list[int] = []
    found = featurize_in_parts(task, examples, morpheme_tokenizer, 48, done.append)
    expected = task.featurize(examples, morpheme_tokenizer, 48)
    assert done == [2, 4, 5]
    assert {key: (array.dtype, array.tolist()) for key, array in found.items()} == {
        key: (array.dtype, array.tolist()) for key, array in expected.items()
    }


def test_examples_of_different_parts_must_fit_together(
    morpheme_tokenizer: MorphemeTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_parts, "EXAMPLES_AT_ONCE", 2)
    examples = [
        {"id": "", "group": "", "text": "좋다", "text_pair": "좋았다", "negatives": ["비가 왔다."] * count}
        for count in (1, 1, 2, 2, 0, 0)
    ]
    with pytest.raises(UserError, match="examples have 2 and 3 and 4 texts"):
        featurize_in_parts(Task.choose("contrastive"), examples, morpheme_tokenizer, 48)


MADE = {"task": "nsmc", "train": "reviews_train.txt", "test": "reviews_test.txt", "max_length": 64, "plain_share": 0.3}


def content(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in files_below(folder)}


def test_an_interrupted_stage_encodes_only_the_missing_parts(
    morpheme_tokenizer_folder: Path, corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = partial(stage.run, FeaturesOptions(**MADE), morpheme_tokenizer_folder, corpora)
    whole = make(tmp_path / "whole")
    monkeypatch.setattr(stage, "PART_CHARACTERS", 3_000)
    encode, encoded = stage.featurize_in_parts, list[str]()

    def stopped(task: Task, examples: list[Any], *others: Any) -> Any:
        if len(encoded) == 3:
            raise KeyboardInterrupt
        encoded.append(examples[0]["id"])
        return encode(task, examples, *others)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(stage, "featurize_in_parts", stopped)
        make(tmp_path / "stopped")
    before = list(encoded)
    encoded.clear()

    def counted(task: Task, examples: list[Any], *others: Any) -> Any:
        encoded.append(examples[0]["id"])
        return encode(task, examples, *others)

    monkeypatch.setattr(stage, "featurize_in_parts", counted)
    assert make(tmp_path / "stopped") == whole
    assert encoded
    assert not {*before} & {*encoded}
    assert content(tmp_path / "stopped") == content(tmp_path / "whole")


def test_texts_that_do_not_fit_the_tokenizer_leave_nothing_to_resume(
    morpheme_tokenizer_folder: Path, corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any) -> Any:
        raise UserError("unknown")

    monkeypatch.setattr(stage, "counts_of", refuse)
    with pytest.raises(UserError, match="unknown"):
        stage.run(FeaturesOptions(**MADE), morpheme_tokenizer_folder, corpora, tmp_path)
    assert not list(files_below(tmp_path))
