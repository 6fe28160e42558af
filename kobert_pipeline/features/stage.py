"""Task files + tokenizer -> the features of train, dev and test sets.

One process reads the files, makes examples from the corpus and splits them; then they are encoded part by part, where
an executor runs the parts. Finished parts are kept when the stage is resumed.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from kobert_pipeline.corpus.cleaning import clean
from kobert_pipeline.corpus.decontaminate import EvaluationTexts, remove_whitespace
from kobert_pipeline.corpus.executor import TASK_LOGS, Executor
from kobert_pipeline.corpus.executors.local import HERE, SMALL
from kobert_pipeline.corpus.phases import chunk_by_size
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import EXAMPLES, SPLITS, Features, concatenate
from kobert_pipeline.features.in_parts import featurize_in_parts
from kobert_pipeline.features.options import FeaturesOptions
from kobert_pipeline.features.splits import DEV_ADVICE, prepare, split_by_group
from kobert_pipeline.features.task import Example
from kobert_pipeline.files import (
    atomic_write,
    finish_part,
    finished_part,
    json_text,
    parse_json,
    read_json,
    remove_tree,
    write_json,
)
from kobert_pipeline.morphemes.analyzer_loader import analyzer
from kobert_pipeline.morphemes.settings import VOCABULARY_FILE
from kobert_pipeline.progress import report
from kobert_pipeline.questions.corpus_pairs import make_pairs
from kobert_pipeline.questions.generate import generate_questions
from kobert_pipeline.tokenizer.loading import has_morphemes
from kobert_pipeline.tokenizer.plain import PLAIN, own_tokenizer

VERSION = 8
"""8: where there is a dev set, no document of the corpus is left out of the `pairs` for train; their negatives are also
found by pairs of characters."""
WORK = "work"
"""Folder of the encoded parts; removed at the end, not part of the result."""
WORK_FILES = (f"{WORK}/*.npz",)
UNSPACED = "unspaced"
"""What draws the examples of the `unspaced_share`."""
WRITES = (
    "task.json",
    *(f"{split}/{kind}" for split in SPLITS for kind in ("*.npy", EXAMPLES)),
    *WORK_FILES,
    f"{TASK_LOGS}/**",
)
"""Patterns of every file that the stage writes to its folder."""
PART_CHARACTERS = 4_000_000
"""Characters of the examples of a part, in JSON. With an analyzer one core encodes them in about a minute."""


def run(
    options: FeaturesOptions,
    tokenizer: Path,
    data_dir: Path,
    out: Path,
    corpus: Path | None = None,
    num_workers: int | None = None,
    executor: Executor = HERE,
) -> dict[str, Any]:
    """Write `train/`, `dev/` and `test/` to `out`; return the counts. `corpus` is the folder of the documents, for
    options that need it. Many examples are encoded in `num_workers` processes or where another `executor` runs them."""
    options, splits, counts = read_examples(options, data_dir, corpus)
    published = own_tokenizer(tokenizer, options.plain_share)
    parts = list[Part]()
    for name, examples in splits.items():
        groups = [(examples, published)]
        if name == "train" and options.plain_share:
            analyzed, others = split_by_group(examples, PLAIN, options.plain_share)
            groups = [(analyzed, tokenizer), (others, published)]
            splits[name], counts["train_examples_plain"] = [*analyzed, *others], len(others)
        Features({}, splits[name]).save(out / name)  # each task reads its examples there
        parts += parts_of(name, groups)
    encode = EncodePart(options, parts, out)
    size = sum((out / name / EXAMPLES).stat().st_size for name in splits)
    # below that, queueing or starting processes takes longer than the work
    where = executor.for_input(num_workers, size) if size >= SMALL else HERE
    where.run_parts(encode, [len(part) for part in parts], out, "encoding", "examples")
    try:
        for name, examples in splits.items():
            report(f"saving and counting {name}")
            features = encode.features(name, examples)
            features.save(out / name)
            of_split = counts_of(options, features, encode.tokenizers[published], name)
            counts |= {f"{name}_{key}": value for key, value in of_split.items()}
    except UserError:  # the texts do not fit the tokenizer; with another one no part is the same
        remove_tree(out, WRITES)
        raise
    write_settings(options, encode.tokenizers[published], out)
    remove_tree(out, WORK_FILES)
    return counts


def analyzer_versions(options: FeaturesOptions, tokenizer: Path) -> dict[str, str]:
    """For the record, the versions of the analyzers that the features depend on: the tokenizer's, and Kiwi where
    questions are made or the task needs it. Raises UserError for one that is not installed."""
    settings = read_json(tokenizer / "tokenizer_config.json") if (tokenizer / VOCABULARY_FILE).is_file() else {}
    names = {"kiwi"} if options.makes_questions or options.task.uses_kiwi else set[str]()
    if has_morphemes(settings.get("analyzer", ""), settings.get("style", "")):
        names.add(settings["analyzer"])
    try:
        return {"analyzer": ", ".join(analyzer(name).version() for name in sorted(names))} if names else {}
    except ImportError as error:
        raise UserError(f"features: they need an analyzer: {error}") from None


def write_settings(options: FeaturesOptions, tokenizer: Any, out: Path) -> None:
    """Write task.json, what fine-tuning has to know. Both tokenizers of a `plain_share` have one vocabulary."""
    shares = ("plain_share", "unspaced_share")
    settings: dict[str, Any] = {name: share for name in shares if (share := getattr(options, name))}
    settings |= {"vocab_size": len(tokenizer)} if options.task.added_tokens else {}
    write_json(out / "task.json", {"task": options.task.dump(), "max_length": options.max_length, **settings})


def read_examples(
    options: FeaturesOptions, data_dir: Path, corpus: Path | None
) -> tuple[FeaturesOptions, dict[str, list[Example]], dict[str, Any]]:
    """The options with the labels of the training files, which task.json passes on to fine-tuning, the examples of each
    split, those of the corpus included, and counts."""
    report("reading")
    options, splits, read = prepare(options, data_dir)
    counts: dict[str, Any] = dict(read)
    of_files = {name: len(examples) for name, examples in splits.items()}
    if corpus:
        splits = add_from_corpus(options, splits, corpus)
        synthetic = {name: len(examples) - of_files[name] for name, examples in splits.items()}
        counts |= {"train_examples_synthetic": synthetic["train"], "synthetic_made": sum(synthetic.values())}
        if synthetic["dev"]:
            counts["dev_examples_synthetic"] = synthetic["dev"]
    if options.unspaced_share:
        splits["train"], counts["train_examples_unspaced"] = remove_spaces(options, splits["train"])
    return options, splits, counts


def remove_spaces(options: FeaturesOptions, examples: list[Example]) -> tuple[list[Example], int]:
    """The examples, those of the `unspaced_share` without white space in their texts, and how many these are."""
    spaced, others = split_by_group(examples, UNSPACED, options.unspaced_share)
    fields = options.task.noisy_inputs
    unspaced = [
        example | {name: remove_whitespace(example[name]) for name in fields if name in example} for example in others
    ]
    return spaced + unspaced, len(unspaced)


def counts_of(options: FeaturesOptions, features: Features, tokenizer: Any, split: str) -> dict[str, Any]:
    """The counts of a split. Raises UserError where the tokenizer knows less than half of its words."""
    from kobert_pipeline.tokenizer.unknown import SAMPLE, count_unknown, judge_rate, rate, unknown_words

    task, examples, ids = options.task, features.examples, features.arrays["input_ids"]
    unknown_rate = rate(*count_unknown(ids, tokenizer))
    texts = (task.content(example) for example in examples[:SAMPLE])
    words = partial(unknown_words, texts, tokenizer)
    judge_rate(f"features: the {split} split", unknown_rate, tokenizer.backend_tokenizer, words)
    counts: dict[str, Any] = {
        "examples": len(examples),
        "windows": len(features),
        "tokens": len(ids),
        "unknown_rate": unknown_rate,
    }
    if labels := task.label_counts(examples):
        counts["labels"] = labels
    return counts | {"truncated": len(task.truncated(features, tokenizer, options.max_length))} | task.counts(features)


def add_from_corpus(
    options: FeaturesOptions, splits: dict[str, list[Example]], corpus: Path
) -> dict[str, list[Example]]:
    """The splits with what is made from the documents in the folder `corpus`. Raises UserError where nothing can be."""
    evaluated = [*splits["dev"], *splits.get("test", [])]
    # cleaned as the corpus is, so that equal texts are equal
    contents = {clean(text) for example in evaluated for text in options.task.contents(example)}
    evaluation_texts = EvaluationTexts(contents)
    generated, dev = list[Example](), splits["dev"]
    if options.synthesize:
        generated = generate_questions(options.synthesize, corpus, evaluation_texts)
        if not dev:
            generated, dev = split_by_group(generated, str(options.dev_seed), options.dev_share)
    if options.pairs:
        dev_share = 0 if dev else options.dev_share
        pairs = make_pairs(options.pairs, corpus, evaluation_texts, dev_share, options.dev_seed)
        generated, dev_pairs = map(options.task.of_pairs, pairs)
        dev = dev or dev_pairs
    train = [*generated, *splits["train"]]
    if not train or not dev:
        advice = f"{'raise pairs.number, ' * bool(options.pairs)}{DEV_ADVICE.format(options.dev_share)}"
        raise UserError(
            f"features: of {len(train) + len(dev):,} {'pairs' if options.pairs else 'questions'} made from the corpus "
            f"{len(train):,} are for train and {len(dev):,} for dev, but both need one; {advice}"
        )
    options.task.refuse_inconsistent(train)
    return splits | {"train": train, "dev": dev}


@dataclass(frozen=True)
class Part:
    """The examples `start` to `stop` of a split, which the tokenizer in a folder encodes."""

    split: str
    start: int
    stop: int
    tokenizer: Path

    def __len__(self) -> int:
        """The number of examples."""
        return self.stop - self.start


def parts_of(split: str, groups: list[tuple[list[Example], Path]]) -> list[Part]:
    """The parts of a split: of each group of its examples, one after the other, with the folder of the tokenizer."""
    # `start` is not reset: a part is a range of lines of the split's file, where one group follows the other
    parts, start = list[Part](), 0
    for examples, tokenizer in groups:
        for chunk in chunk_by_size(examples, lambda example: len(json_text(example)), PART_CHARACTERS):
            parts.append(Part(split, start, start + len(chunk), tokenizer))
            start += len(chunk)
    return parts


@dataclass(frozen=True)
class EncodePart:
    """Encodes one part of the examples in `out`, on any machine."""

    options: FeaturesOptions
    parts: list[Part]
    out: Path

    @cached_property  # not read before a process has its own copy, so that no tokenizer is pickled
    def tokenizers(self) -> dict[Path, Any]:
        """The tokenizers by their folders."""
        from kobert_pipeline.tokenizer.loading import add_tokens, load_tokenizer

        added = self.options.task.added_tokens
        return {folder: add_tokens(load_tokenizer(folder), added) for folder in {part.tokenizer for part in self.parts}}

    def __call__(self, data: Any, rank: int, tasks: int) -> None:
        """Write the arrays of the part of this number, unless it is finished."""
        path, part = self.path(rank), self.parts[rank]
        if finished_part(path) is not None:
            return
        done, total = sum(map(len, self.parts[:rank])), sum(map(len, self.parts))

        def encoded(count: int) -> None:
            report("encoding", done + count, total, "examples")

        task = self.options.task.in_training() if part.split == "train" else self.options.task
        with (self.out / part.split / EXAMPLES).open(encoding="utf-8") as lines:
            examples = [parse_json(line) for line in islice(lines, part.start, part.stop)]
        tokenizer = self.tokenizers[part.tokenizer]
        arrays: Any = featurize_in_parts(task, examples, tokenizer, self.options.max_length, encoded)
        with atomic_write(path) as unfinished, unfinished.open("wb") as file:
            # a file, since to a path without .npz, as the unfinished one is, NumPy appends it
            np.savez(file, **arrays)
        finish_part(path, {})

    def path(self, rank: int) -> Path:
        """The file with the arrays of a part."""
        return self.out / WORK / f"{rank:05d}.npz"

    def features(self, split: str, examples: list[Example]) -> Features:
        """The features of a split, of all its parts."""
        ranks = [rank for rank, part in enumerate(self.parts) if part.split == split]
        arrays = [dict(np.load(self.path(rank))) for rank in ranks]
        return Features(concatenate(arrays, [len(self.parts[rank]) for rank in ranks]), examples)
