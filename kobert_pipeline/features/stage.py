"""Task files + tokenizer -> the features of train, dev and test sets."""

from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from kobert_pipeline.config.options import Options, Seed
from kobert_pipeline.corpus.data_files import data_file, data_files
from kobert_pipeline.corpus.decontaminate import EvaluationTexts
from kobert_pipeline.errors import UserError
from kobert_pipeline.features import corpus_pairs, synthesize
from kobert_pipeline.features.corpus_pairs import CorpusPairs
from kobert_pipeline.features.format import SPLITS, Features, concatenate
from kobert_pipeline.features.synthesize import Synthesis
from kobert_pipeline.features.task import RARE, Example, Task, refuse_empty
from kobert_pipeline.files import in_split, write_json
from kobert_pipeline.progress import current_display, report
from kobert_pipeline.tokenizer.plain import PLAIN

VERSION = 3
WRITES = (
    "task.json",
    *(f"{split}/{kind}" for split in SPLITS for kind in ("*.npy", "examples.jsonl")),
)
"""Patterns of every file that the stage writes to its folder."""

DRAW_SEED = 1
"""Random seed of the choice of `max_train_examples`."""
RARE_SHOWN = 10
"""Rare labels that are named."""
EXAMPLES_AT_ONCE = 2000
"""Examples that are encoded before the progress is reported again."""


class FeaturesOptions(Options):
    """The data of one task."""

    task: Task
    """The task, which says how files are read."""
    train: str | list[str] = []
    """Training files below data_dir; none only where `synthesize` or `pairs` makes the training set."""
    dev: str | None = None
    """Development file; default: a part of train."""
    test: str | None = None
    """Test file, used only for the final scores."""
    dev_share: float = Field(0.05, gt=0, lt=0.5)
    """Share of train that becomes dev where there is no dev file; groups (equal texts, or one context) are not
    split."""
    dev_seed: Seed = 1
    """Seed of the split into train and dev."""
    max_train_examples: int | None = Field(None, gt=0, exclude_if=lambda value: value is None)
    """Train on so many examples only, drawn at random from all that are not dev: how much does labelling more bring? A
    smaller draw is part of a larger one; null: all."""
    max_length: int = Field(128, ge=16)
    """Tokens in a window, special tokens included."""
    plain_share: float = Field(0, ge=0, lt=1, exclude_if=lambda value: not value)
    """Share of the training examples that the tokenizer in `plain/` encodes, so that the model serves without an
    analyzer, too; of texts with soft labels the same share. 0: none."""
    synthesize: Synthesis | None = Field(None, exclude_if=lambda value: value is None)
    """Also train on questions that are made from the corpus by rules, for tasks that answer questions; where there are
    no training files, dev is taken from them, too. null: on those of the training files alone."""
    pairs: CorpusPairs | None = Field(None, exclude_if=lambda value: value is None)
    """Also train on pairs of texts from the corpus, for the task contrastive; where there are no training files, dev is
    taken from the corpus, too. null: on the training files alone."""
    license: str | dict[str, str] | None = Field(None, exclude=True)
    """Licence of the files, for the model cards: one for all, or one for each file. Does not affect the features."""

    @model_validator(mode="after")
    def _has_train(self) -> "FeaturesOptions":
        if not self.train and not self.needs_corpus:
            raise ValueError("train names no file; name one or several")
        return self

    @model_validator(mode="after")
    def _licenses_its_files(self) -> "FeaturesOptions":
        files = named_files(self)
        # a mistyped path would leave its file without a licence, of which only the card would tell
        if isinstance(self.license, dict) and (others := [name for name in self.license if name not in files]):
            raise ValueError(f"license names {others[0]}, but the files are {', '.join(files)}; give each its licence")
        return self

    @property
    def needs_corpus(self) -> bool:
        """Whether examples are made from the corpus."""
        return bool(self.synthesize or self.pairs)

    def license_of(self, name: str) -> str | None:
        """The licence of one of the files; None if it is not stated."""
        return self.license.get(name) if isinstance(self.license, dict) else self.license


def train_files(options: FeaturesOptions) -> list[str]:
    """The names of the training files."""
    return [options.train] if isinstance(options.train, str) else list(options.train)


def named_files(options: FeaturesOptions) -> list[str]:
    """The names of all files: those of train, then dev and test."""
    return [name for name in (*train_files(options), options.dev, options.test) if name]


def raw_files(options: FeaturesOptions, data_dir: Path) -> list[Path]:
    """The files that the stage reads. Raises MissingFiles for those that do not exist."""
    return data_files(data_dir, named_files(options))


def run(
    options: FeaturesOptions, tokenizer: Path, data_dir: Path, out: Path, corpus: Path | None = None
) -> dict[str, Any]:
    """Write `train/`, `dev/` and `test/` to `out`; return the counts. `corpus` is the folder of the documents, for
    options that need it."""
    from kobert_pipeline.tokenizer.loading import load_tokenizer

    report("reading")
    # with the labels of the training files filled in, which task.json then passes on to fine-tuning
    options, splits, read = prepare(options, data_dir)
    counts: dict[str, Any] = dict(read)
    trained = len(splits["train"])
    if corpus:
        splits = add_from_corpus(options, splits, corpus)
        counts["train_examples_synthetic"] = len(splits["train"]) - trained
    loaded = load_tokenizer(tokenizer)
    for name, examples in splits.items():
        parts = [(examples, loaded)]
        if name == "train" and options.plain_share:
            parts = with_plain(options, examples, loaded, tokenizer)
            counts["train_examples_plain"] = len(parts[-1][0])
        features = featurize(options, parts, name)
        features.save(out / name)
        sizes = {"examples": len(examples), "windows": len(features), "tokens": len(features.arrays["input_ids"])}
        if labels := options.task.label_counts(examples):
            counts[f"{name}_labels"] = labels
        sizes["truncated"] = options.task.truncated(features, loaded, options.max_length)
        counts |= {f"{name}_{key}": value for key, value in (sizes | options.task.counts(features)).items()}
    settings = {"plain_share": options.plain_share} if options.plain_share else {}
    write_json(out / "task.json", {"task": options.task.dump(), "max_length": options.max_length, **settings})
    return counts


def add_from_corpus(
    options: FeaturesOptions, splits: dict[str, list[Example]], corpus: Path
) -> dict[str, list[Example]]:
    """The splits with what is made from the documents in the folder `corpus`. Raises UserError where nothing can be."""
    evaluated = [*splits["dev"], *splits.get("test", [])]
    known = EvaluationTexts({text for example in evaluated for text in options.task.contents(example)})
    made, dev = list[Example](), splits["dev"]
    if options.synthesize:
        made = synthesize.run(options.synthesize, corpus, known)
        if not dev:
            made, dev = split_off_dev(options, made)
    if options.pairs:
        made, from_corpus = corpus_pairs.run(options.pairs, corpus, known, options.dev_share, options.dev_seed)
        dev = dev or from_corpus
    if not dev or not (made or splits["train"]):
        option = "pairs.number" if options.pairs else "synthesize.questions"
        raise UserError(
            f"features: too little was made from the corpus for train and dev; raise {option} or dev_share, or name a "
            "dev file"
        )
    train = [*made, *splits["train"]]
    options.task.refuse_inconsistent(train)
    return splits | {"train": train, "dev": dev}


Parts = list[tuple[list[Example], Any]]
"""Examples with the tokenizer that encodes them."""


def with_plain(options: FeaturesOptions, examples: list[Example], tokenizer: Any, folder: Path) -> Parts:
    """The examples in two parts: those for `tokenizer`, and then the `plain_share` for the one in `plain/` of its
    folder. Raises UserError where there is no such folder."""
    from kobert_pipeline.tokenizer.loading import load_tokenizer

    if not (folder / PLAIN).is_dir():
        raise UserError(
            "features: plain_share is for tokenizers of this package, which have a folder plain; leave it out"
        )
    analyzed, others = split_by_group(examples, PLAIN, options.plain_share)
    return [(analyzed, tokenizer), (others, load_tokenizer(folder / PLAIN))]


def featurize(options: FeaturesOptions, parts: Parts, split: str) -> Features:
    """The features of a split, made from some examples at a time."""
    arrays, sizes, all_examples = [], list[int](), [example for examples, _ in parts for example in examples]
    task = options.task.in_training() if split == "train" else options.task
    for examples, tokenizer in parts:
        for start in range(0, len(examples), EXAMPLES_AT_ONCE):
            report(f"encoding {split}", sum(sizes), len(all_examples), "examples")
            some = examples[start : start + EXAMPLES_AT_ONCE]
            arrays.append(task.featurize(some, tokenizer, options.max_length))
            sizes.append(len(some))
    report(f"encoding {split}", len(all_examples), len(all_examples), "examples")
    return Features(concatenate(arrays, sizes), all_examples)


def prepare(
    options: FeaturesOptions, data_dir: Path
) -> tuple[FeaturesOptions, dict[str, list[Example]], dict[str, int]]:
    """Read the task files: the options with labels from the training files, the examples of each split, and counts.
    Says which of these labels are rare. Raises UserError for anything wrong with a file. Requires no tokenizer, so
    `kobert check` calls it too."""
    paths = data_files(data_dir, train_files(options))
    options = options.model_copy(update={"task": options.task.fit_labels(paths)})
    splits, counts = split(options, data_dir)
    options.task.refuse_in_training(splits["train"])
    for examples in splits.values():
        options.task.refuse_inconsistent(examples)
    if rare := options.task.rare_labels(splits["train"]):
        shown = ", ".join(f"{label} ({count})" for label, count in list(rare.items())[:RARE_SHOWN])
        current_display().say(
            f"note     only {RARE} training examples or fewer have these labels, check them for typing errors: {shown}"
        )
    return options, splits, counts


def split(options: FeaturesOptions, data_dir: Path) -> tuple[dict[str, list[Example]], dict[str, int]]:
    """The examples of each split, and counts: training examples that were read, dropped, or are also in the test
    set."""
    task = options.task
    paths = data_files(data_dir, names := train_files(options))
    train = [example for path in paths for example in task.read(path)]
    # emptiness is checked twice: here the files, at the end what the filters left
    if names:
        refuse_empty("train", paths, len(train))
    splits: dict[str, list[Example]] = {}
    for name, file in (("test", options.test), ("dev", options.dev)):
        if file:
            path = data_file(data_dir, file)
            splits[name] = task.read(path)
            refuse_empty(name, [path], len(splits[name]))
    counts = {"train_examples_read": len(train)}
    if task.clean_training and options.test:
        test_texts = EvaluationTexts({task.content(example) for example in splits["test"]})
        # once per text, since many questions share a context
        clear = {text: not test_texts.overlaps(text) for text in {task.content(example) for example in train}}
        train = [example for example in train if clear[task.content(example)]]
        counts["train_examples_contaminated"] = counts["train_examples_read"] - len(train)
    elif options.test:
        counts["train_examples_in_test"] = count_in_test(options, train, splits["test"])
    if not options.dev:
        train, splits["dev"] = split_off_dev(options, train)
    splits["train"] = draw(drop_empty(train, counts), options.max_train_examples)
    for name, examples in splits.items():  # without files, all examples will come from the corpus
        if names and not examples:
            dropped = counts.get("train_examples_contaminated", 0)
            raise UserError(
                f"features: the {name} split of {', '.join(names)} ({task.name}) is empty: "
                f"{counts['train_examples_read']} examples were read, {dropped} dropped because their texts are in "
                f"the test set, and dev_share is {options.dev_share}; check these"
            )
    return splits, counts


def split_off_dev(options: FeaturesOptions, examples: list[Example]) -> tuple[list[Example], list[Example]]:
    """Examples for train and for dev."""
    return split_by_group(examples, str(options.dev_seed), options.dev_share)


def split_by_group(examples: list[Example], key: str, share: float) -> tuple[list[Example], list[Example]]:
    """The examples outside and inside a share, which is another one for every `key`."""
    # by the group, so that equal texts, and questions on one context, are on the same side
    is_inside = [in_split(f"{key}\n{example['group']}", share) for example in examples]
    outside = [example for example, inside in zip(examples, is_inside, strict=True) if not inside]
    return outside, [example for example, inside in zip(examples, is_inside, strict=True) if inside]


def drop_empty(train: list[Example], counts: dict[str, int]) -> list[Example]:
    """The training examples without the empty ones of NSMC and PAWS-X, of which nothing can be learned; their number is
    added to `counts`. Other tasks do not read any."""
    with_text = [example for example in train if example["group"]]
    if len(with_text) < len(train):
        counts["train_examples_without_text"] = len(train) - len(with_text)
    return with_text


def draw(examples: list[Example], count: int | None) -> list[Example]:
    """`count` of the examples, in their order; all for None, or if there are fewer."""
    if count is None:
        return examples
    drawn = np.random.Generator(np.random.Philox(key=DRAW_SEED)).permutation(len(examples))[:count]
    return [examples[i] for i in np.sort(drawn)]


def count_in_test(options: FeaturesOptions, train: list[Example], test: list[Example]) -> int:
    """The number of training examples whose text, without white space, is also in the test set. Raises UserError where
    more than half of the test examples are in train, as when one file is given for both."""
    # only counted, not dropped, since official training and test sets share some short texts
    # without the empty group: empty texts are no evidence that two files overlap
    of_train, of_test = ([options.task.known_by(example) for example in examples] for examples in (train, test))
    train_texts, test_texts = set(of_train) - {""}, set(of_test) - {""}
    known = sum(text in train_texts for text in of_test)
    if 2 * known > len(test):
        raise UserError(
            f"features: {known:,} of the {len(test):,} examples of the test file {options.test} are in the training "
            f"data ({', '.join(train_files(options))}), so scores on them mean nothing; give a test file with other "
            "texts, or leave test out"
        )
    return sum(text in test_texts for text in of_train)
