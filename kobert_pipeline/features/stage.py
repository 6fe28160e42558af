"""Task files + tokenizer -> featurized train, dev and test sets."""

import hashlib
from pathlib import Path
from typing import Any

from pydantic import Field

from kobert_pipeline.config.options import Options, Seed
from kobert_pipeline.corpus.decontaminate import EvaluationTexts
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.task import Example, Task, refuse_empty
from kobert_pipeline.files import write_json

VERSION = 2
WRITES = (
    "task.json",
    *(f"{split}/{kind}" for split in ("train", "dev", "test") for kind in ("*.npy", "examples.jsonl")),
)
"""Patterns of every file that the stage writes to its folder."""


class FeaturesOptions(Options):
    """One task's data."""

    task: Task
    """What the data is for."""
    train: str | list[str]
    """Training files below data_dir."""
    dev: str | None = None
    """Development file; default: cut from train."""
    test: str | None = None
    """Test file, for the final figure only."""
    dev_share: float = Field(0.05, gt=0, lt=0.5)
    """Share of train cut off as dev when there is no dev file; whole groups (equal texts, one context) go to one
    side."""
    dev_seed: Seed = 1
    """Another number, another cut."""
    max_length: int = Field(128, ge=16)
    """Tokens in a window, special tokens included."""
    license: str | None = Field(None, exclude=True)
    """Licence of the training files, for the model cards; changes nothing of the features."""


def train_files(options: FeaturesOptions) -> list[str]:
    """The names of the training files."""
    return [options.train] if isinstance(options.train, str) else list(options.train)


def raw_files(options: FeaturesOptions, data_dir: Path) -> list[Path]:
    """The files that the stage reads."""
    paths = [data_dir / name for name in (*train_files(options), options.dev, options.test) if name]
    for path in paths:
        if not path.is_file():
            raise UserError(f"{path} does not exist; check the path in the recipe and data_dir (now {data_dir})")
    return paths


def run(options: FeaturesOptions, tokenizer: Path, data_dir: Path, out: Path) -> dict[str, Any]:
    """Write `train/`, `dev/` and `test/` to `out`."""
    from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer

    options, splits, counts = prepare(options, data_dir)
    loaded = MorphemeTokenizer.from_pretrained(tokenizer)
    for name, examples in splits.items():
        features = Features(options.task.featurize(examples, loaded, options.max_length), examples)
        features.save(out / name)
        sizes = {"examples": len(examples), "windows": len(features), "tokens": len(features.arrays["input_ids"])}
        sizes["truncated"] = options.task.truncated(features, loaded, options.max_length)
        counts |= {f"{name}_{key}": value for key, value in (sizes | options.task.counts(features)).items()}
    write_json(out / "task.json", {"task": options.task.dump(), "max_length": options.max_length})
    return counts


def prepare(
    options: FeaturesOptions, data_dir: Path
) -> tuple[FeaturesOptions, dict[str, list[Example]], dict[str, int]]:
    """What is made of the task files before a tokenizer is needed: the options with what the task learns from its
    training files, the splits and their counts. Everything that is wrong with a task file is refused here, so `kobert
    check` calls it too."""
    paths = [data_dir / name for name in train_files(options)]
    options = options.model_copy(update={"task": options.task.fit_labels(paths)})
    splits, counts = split(options, data_dir)
    for examples in splits.values():
        options.task.refuse_inconsistent(examples)
    return options, splits, counts


def split(options: FeaturesOptions, data_dir: Path) -> tuple[dict[str, list[Example]], dict[str, int]]:
    """The examples of each split, and how many training examples were dropped, or stand in the test set too."""
    task = options.task
    names = train_files(options)
    train = [example for name in names for example in task.read(data_dir / name)]
    refuse_empty("train", [data_dir / name for name in names], len(train))
    splits: dict[str, list[Example]] = {}
    for name, file in (("test", options.test), ("dev", options.dev)):
        if file:
            splits[name] = task.read(data_dir / file)
            refuse_empty(name, [data_dir / file], len(splits[name]))
    counts = {"train_examples_read": len(train)}
    if task.clean_training and options.test:
        held = EvaluationTexts({task.content(example) for example in splits["test"]})
        clear = {text: not held.overlaps(text) for text in {task.content(example) for example in train}}
        train = [example for example in train if clear[task.content(example)]]
        counts["train_examples_contaminated"] = counts["train_examples_read"] - len(train)
    elif options.test:
        counts["train_examples_in_test"] = count_in_test(options, train, splits["test"])
    if not options.dev:
        cut = [is_dev(example["group"], options) for example in train]
        splits["dev"] = [example for example, held_out in zip(train, cut, strict=True) if held_out]
        train = [example for example, held_out in zip(train, cut, strict=True) if not held_out]
    splits["train"] = [example for example in train if example["group"]]
    for name, examples in splits.items():
        if not examples:
            dropped = counts.get("train_examples_contaminated", 0)
            raise UserError(
                f"features: the {name} split of {', '.join(names)} ({task.name}) is empty: "
                f"{counts['train_examples_read']} examples were "
                f"read, {dropped} dropped because their texts stand in the test set, and dev_share is "
                f"{options.dev_share}; check these"
            )
    return splits, counts


def count_in_test(options: FeaturesOptions, train: list[Example], test: list[Example]) -> int:
    """How many training examples have a text, white space left out, that stands in the test set too. Official sets
    share some short ones, so nothing is dropped. Raises UserError where more than half of the test examples stand in
    train: one file was taken for both."""
    texts, held = ({example["group"] for example in examples} - {""} for examples in (train, test))
    known = sum(example["group"] in texts for example in test)
    if 2 * known > len(test):
        raise UserError(
            f"features: {known:,} of the {len(test):,} examples of the test file {options.test} stand in what is "
            "learned from "
            f"({', '.join(train_files(options))}); a score on them says nothing, so give a test file with other texts, "
            "or leave test out"
        )
    return sum(example["group"] in held for example in train)


def is_dev(group: str, options: FeaturesOptions) -> bool:
    """A fixed choice by the group's text and the seed."""
    digest = hashlib.blake2b(f"{options.dev_seed}\n{group}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") < options.dev_share * 2**64
