"""`plain_share`: a share of the training examples is encoded by the tokenizer in `plain/`, every other example as
without that option."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.options import FeaturesOptions
from kobert_pipeline.features.stage import run
from kobert_pipeline.features.task import Task
from kobert_pipeline.tokenizer.loading import load_tokenizer
from kobert_pipeline.tokenizer.plain import PLAIN

TASKS = {
    "nsmc": {"task": "nsmc", "train": "reviews_train.txt", "dev_share": 0.2, "max_length": 64},
    "korquad": {"task": {"name": "korquad", "stride": 8}, "train": "qa_train.json", "dev_share": 0.2, "max_length": 48},
}


def windows_of(features: Features) -> list[tuple[int, ...]]:
    ids = features.arrays["input_ids"]
    return [tuple(ids[start:end].tolist()) for start, end in pairwise(features.arrays["windows"])]


@pytest.mark.parametrize("name", TASKS)
def test_each_example_is_encoded_by_one_of_the_two(name: str, tiny: Any, corpora: Path, tmp_path: Path) -> None:
    tokenizer = tiny.run_dir / "tokenizer"
    task = Task.choose(TASKS[name]["task"])
    counts = run(FeaturesOptions(**TASKS[name]), tokenizer, corpora, tmp_path / "all")
    shared = run(FeaturesOptions(**TASKS[name], plain_share=0.4), tokenizer, corpora, tmp_path / "shared")
    number = shared.pop("train_examples_plain")
    assert 0.2 < number / counts["train_examples"] < 0.6
    assert shared["train_examples"] == counts["train_examples"]
    loaded = [load_tokenizer(tokenizer), load_tokenizer(tokenizer / PLAIN)]
    dev, analyzed_dev = (Features.load(tmp_path / folder / "dev") for folder in ("shared", "all"))
    assert dev.examples == analyzed_dev.examples
    # the published model reads texts by that tokenizer, so it is chosen and measured with it
    assert (
        dev.arrays["input_ids"].tolist()
        == task.featurize(dev.examples, loaded[1], TASKS[name]["max_length"])["input_ids"].tolist()
    )
    assert windows_of(dev) != windows_of(analyzed_dev)

    found, given = (Features.load(tmp_path / folder / "train") for folder in ("shared", "all"))
    assert sorted(map(json.dumps, found.examples)) == sorted(map(json.dumps, given.examples))
    analyzed = len(found.examples) - number
    parts = [(found.examples[:analyzed], loaded[0]), (found.examples[analyzed:], loaded[1])]
    expected = [task.featurize(examples, one, TASKS[name]["max_length"]) for examples, one in parts]
    ids = np.concatenate([part["input_ids"] for part in expected])
    assert found.arrays["input_ids"].tolist() == ids.tolist()
    other = task.featurize(found.examples, loaded[0], TASKS[name]["max_length"])["input_ids"]
    assert other.tolist() != ids.tolist()

    if name == "korquad":  # offsets and numbers of examples are right in both parts
        arrays = found.arrays
        answers = 0
        for window, (start, end) in enumerate(pairwise(arrays["windows"])):
            example = found.examples[arrays["example"][window]]
            first, last = arrays["start_positions"][window], arrays["end_positions"][window]
            if first:
                spans = arrays["offsets"][start:end]
                text = example["context"][spans[first][0] : spans[last][1]]
                answers += 1
                assert example["answers"][0][0].strip() in text
        assert answers >= len(found.examples) / 2


def test_a_share_of_few_examples_may_take_none(tiny: Any, corpora: Path, tmp_path: Path) -> None:
    options = {**TASKS["nsmc"], "max_train_examples": 2, "plain_share": 0.001}
    assert run(FeaturesOptions(**options), tiny.run_dir / "tokenizer", corpora, tmp_path)["train_examples_plain"] == 0
    assert len(Features.load(tmp_path / "train")) == 2


def test_a_tokenizer_without_plain_is_refused(tiny: Any, corpora: Path, tmp_path: Path) -> None:
    plain = tiny.run_dir / "tokenizer" / PLAIN  # a tokenizer like any other, which has no such folder
    with pytest.raises(UserError, match="plain_share is for tokenizers of this package"):
        run(FeaturesOptions(**TASKS["nsmc"], plain_share=0.4), plain, corpora, tmp_path)


def test_a_share_of_the_training_texts_has_no_white_space(tiny: Any, corpora: Path, tmp_path: Path) -> None:
    tokenizer, options = tiny.run_dir / "tokenizer", TASKS["nsmc"]
    run(FeaturesOptions(**options), tokenizer, corpora, tmp_path / "all")
    counts = run(FeaturesOptions(**options, unspaced_share=0.4), tokenizer, corpora, tmp_path / "shared")
    given, found = (Features.load(tmp_path / folder / "train").examples for folder in ("all", "shared"))
    number = counts["train_examples_unspaced"]
    assert 0.2 < number / len(given) < 0.6
    joined = {example["id"]: example["text"] for example in found[-number:]}
    kept = {example["id"]: example for example in found[:-number]}
    for example in given:
        text = example["text"]
        assert kept.get(example["id"], example) == example
        assert joined.get(example["id"], "".join(text.split())) == "".join(text.split())
    assert len(kept) + len(joined) == len(given)
    assert windows_of(Features.load(tmp_path / "all" / "dev")) == windows_of(Features.load(tmp_path / "shared" / "dev"))
    with pytest.raises(ValueError, match="korquad is none; leave it out"):
        FeaturesOptions(**TASKS["korquad"], unspaced_share=0.4)
