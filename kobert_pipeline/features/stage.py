"""Task files + tokenizer -> featurized train, dev and test sets."""

import hashlib
from pathlib import Path
from typing import Any

from pydantic import Field

from kobert_pipeline.corpus.decontaminate import Evaluation
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.task import Example, Task
from kobert_pipeline.files import write_json
from kobert_pipeline.options import Options

VERSION = 2


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
    """Share of train cut off as dev when there is no dev file; whole groups (equal texts, one context) go to one side."""
    dev_seed: int = 1
    """Another number, another cut."""
    max_length: int = Field(128, ge=16)
    """Pieces in a window, special tokens included."""
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

    options = options.model_copy(update={"task": options.task.fitted([data_dir / name for name in train_files(options)])})
    splits, counts = split(options, data_dir)
    loaded = MorphemeTokenizer.from_pretrained(tokenizer)
    for name, examples in splits.items():
        features = Features(options.task.featurize(examples, loaded, options.max_length), examples)
        features.save(out / name)
        sizes = {"examples": len(examples), "windows": len(features), "pieces": len(features.arrays["input_ids"])}
        counts |= {f"{name}_{key}": value for key, value in (sizes | options.task.counts(features)).items()}
    write_json(out / "task.json", {"task": options.task.dump(), "max_length": options.max_length})
    return counts


def split(options: FeaturesOptions, data_dir: Path) -> tuple[dict[str, list[Example]], dict[str, int]]:
    """The examples of each split, and how many training examples were dropped."""
    task = options.task
    names = train_files(options)
    train = [example for name in names for example in task.read(data_dir / name)]
    splits: dict[str, list[Example]] = {}
    if options.test:
        splits["test"] = task.read(data_dir / options.test)
    counts = {"train_examples_read": len(train)}
    if task.clean_training and options.test:
        held = Evaluation({task.content(example) for example in splits["test"]})
        clear = {text: not held.holds(text) for text in {task.content(example) for example in train}}
        train = [example for example in train if clear[task.content(example)]]
        counts["train_examples_contaminated"] = counts["train_examples_read"] - len(train)
    if options.dev:
        splits["dev"] = task.read(data_dir / options.dev)
    else:
        splits["dev"] = [example for example in train if is_dev(example["group"], options)]
        train = [example for example in train if not is_dev(example["group"], options)]
    splits["train"] = [example for example in train if example["group"]]
    for name, examples in splits.items():
        if not examples:
            dropped = counts.get("train_examples_contaminated", 0)
            raise UserError(
                f"features: the {name} split of {', '.join(names)} ({task.name}) is empty: {counts['train_examples_read']} examples were "
                f"read, {dropped} dropped because their texts stand in the test set, and dev_share is {options.dev_share}; check these"
            )
    return splits, counts


def is_dev(group: str, options: FeaturesOptions) -> bool:
    """A fixed choice by the group's text and the seed."""
    digest = hashlib.blake2b(f"{options.dev_seed}\n{group}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") < options.dev_share * 2**64
