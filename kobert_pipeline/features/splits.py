"""Task files -> the examples of train, dev and test, without examples that would make a score mean nothing."""

from pathlib import Path

import numpy as np

from kobert_pipeline.corpus.cleaning import clean
from kobert_pipeline.corpus.decontaminate import EvaluationTexts, remove_whitespace
from kobert_pipeline.corpus.document import in_split
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import SPLITS
from kobert_pipeline.features.options import FeaturesOptions, named_files, train_files
from kobert_pipeline.features.sequence import SequenceTask
from kobert_pipeline.features.task import RARE, Example, Task, refuse_empty
from kobert_pipeline.progress import current_display
from kobert_pipeline.tables.data_files import data_file, data_files

DRAW_SEED = 1
"""Random seed of the choice of `max_train_examples`."""
RARE_SHOWN = 10
"""Rare labels that are named."""
CHARACTERS_PER_TOKEN = 2
"""Of Korean texts, rounded up: reviews have 1.9 with a vocabulary of 32,000."""
MUCH_TRUNCATED = 0.05
"""The share of texts above which `kobert check` says that they will be truncated."""
FEW_TO_CORRECT, WORTH_SAYING = 10_000, 0.01
"""Contradicting texts are named with at most so many training examples, or from this share on: people correct their
own, and the manifest counts those that large published sets have."""
LABELS_SHOWN = 20
SPLIT_NAMES = {"train": "training", "dev": "dev"}
DEV_ADVICE = "raise dev_share (now {:g}), choose another dev_seed, name a dev file, or add examples"
"""What helps where train or dev has no example."""
SHOWN = 3
"""Texts with contradicting labels that are named."""


def raw_files(options: FeaturesOptions, data_dir: Path) -> list[Path]:
    """The files that the stage reads. Raises MissingFiles for those that do not exist."""
    return data_files(data_dir, named_files(options))


def prepare(
    options: FeaturesOptions, data_dir: Path
) -> tuple[FeaturesOptions, dict[str, list[Example]], dict[str, int]]:
    """Read the task files: the options with labels from the training files, the examples of each split, and counts.
    Says which of these labels are rare, and where dev is far larger than asked for. Raises UserError for
    anything wrong with a file. Requires no tokenizer, so `kobert check` calls it too."""
    paths = data_files(data_dir, train_files(options))
    options = options.model_copy(update={"task": options.task.fit_labels(paths)})
    splits, counts = split(options, data_dir)
    options.task.refuse_in_training(splits["train"])
    for examples in splits.values():
        options.task.refuse_inconsistent(examples)
    for name, examples in splits.items():
        if contradicting := contradictions(options.task, examples):
            counts[f"{name}_texts_contradicting"] = len(contradicting)
            if len(splits["train"]) > FEW_TO_CORRECT and len(contradicting) < WORTH_SAYING * len(examples):
                continue
            shown = "; ".join(f"{text:.40} ({', '.join(labels[:4])})" for text, labels in contradicting[:SHOWN])
            current_display().say(
                f"note     texts of {name} with more than one label: {len(contradicting):,}; a model cannot be right "
                f"about all of their rows; correct them, or choose a task that reads what tells them apart: {shown}"
            )
    if options.train and not options.dev:
        share = len(splits["dev"]) / counts["train_examples_read"]
        if share > 2 * options.dev_share:
            current_display().say(
                f"note     dev has {share:.0%} of the examples, although dev_share is {options.dev_share:g}, since "
                "equal texts, and questions on one context, stay together; name a dev file, or choose another dev_seed"
            )
    for note in label_notes(options.task, splits["train"]):
        current_display().say(f"note     {note}")
    return options, splits, counts


def label_notes(task: Task, train: list[Example]) -> list[str]:
    """What was assumed of the labels, and which of them are rare in the training examples."""
    notes = task.notes
    if rare := task.rare_labels(train):
        shown = ", ".join(f"{label} ({count or 'only in dev'})" for label, count in list(rare.items())[:RARE_SHOWN])
        notes.append(f"only {RARE} training examples or fewer have these labels, check them for typing errors: {shown}")
    return notes


def describe(name: str, options: FeaturesOptions, data_dir: Path) -> list[str]:
    """For `kobert check`: what the files of the features `name` were read as, with one example, which shows columns,
    tags or offsets that were taken for others. Raises UserError as `prepare` does."""
    options, splits, _ = prepare(options, data_dir)
    task, train = options.task, splits["train"]
    if not train:  # all examples will come from the corpus
        return []
    example = next(filter(task.right_answer, train), train[0])
    texts = [example[field] for field in task.inputs] or [task.content(example)]
    shown = " | ".join(f"{' '.join(str(text).split()):.60}" for text in texts)
    sizes = ", ".join(f"{len(splits[split]):,} in {split}" for split in SPLITS if split in splits)
    labels = list(task.label_counts([]))
    listed = f" (labels: {', '.join(labels[:LABELS_SHOWN])}{', ...' * (len(labels) > LABELS_SHOWN)})" if labels else ""
    answer = task.right_answer(example)
    return [
        f"features.{name} is read as {task.name}{listed}: {sizes}, for example: {shown}{' -> ' * bool(answer)}{answer}",
        *truncated_later(name, task, train, options.max_length),
    ]


def truncated_later(name: str, task: Task, examples: list[Example], max_length: int) -> list[str]:
    """A sentence where many of the examples are longer than `max_length` tokens, by their characters, since there may
    be no tokenizer yet; tasks that read long texts in windows have none."""
    if not isinstance(task, SequenceTask):
        return []
    most = max_length * CHARACTERS_PER_TOKEN
    windows = task.windows(examples)
    share = sum(len(window["text"] + window.get("text_pair", "")) > most for window in windows) / len(windows)
    if share <= MUCH_TRUNCATED:
        return []
    return [
        f"features.{name}: about {share:.0%} of the texts of train have more than max_length ({max_length}) tokens, "
        f"some {most:,} characters, and an encoder reads their beginning alone; a larger max_length lets it read more, "
        "up to the most that the model reads"
    ]


def contradictions(task: Task, examples: list[Example]) -> list[tuple[str, list[str]]]:
    """The texts, or pairs, that have more than one label, with these labels; none for tasks without classes."""
    labels_of: dict[str, set[str]] = {}
    for example in examples:
        label = task.label_name(example)
        if label is not None and example["group"]:  # NSMC's empty texts are of both kinds
            labels_of.setdefault("\t".join(example[name] for name in task.inputs), set()).add(label)
    return [(text, sorted(labels)) for text, labels in labels_of.items() if len(labels) > 1]


def split(options: FeaturesOptions, data_dir: Path) -> tuple[dict[str, list[Example]], dict[str, int]]:
    """The examples of each split, and counts: training examples that were read, dropped, or are also in the test
    set."""
    task = options.task
    paths = data_files(data_dir, names := train_files(options))
    if twice := [name for name, path in zip(names, paths, strict=True) if paths.count(path) > 1]:
        raise UserError(f"features: {' and '.join(twice)} are one training file; name it once")
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
    train = count_shared(options, train, splits, counts)
    if not options.dev:
        train, splits["dev"] = split_by_group(train, str(options.dev_seed), options.dev_share)
    # after dev was split off, so that dev is the same for every `max_train_examples`
    splits["train"] = draw(drop_empty(train, counts), options.max_train_examples)
    for name, examples in splits.items():  # without files, all examples will come from the corpus
        if names and not examples:
            dropped = counts.get("train_examples_contaminated", 0)
            raise UserError(
                f"features: the {name} split of {', '.join(names)} ({task.name}) is empty: "
                f"{counts['train_examples_read']} examples were read, {dropped} dropped because their texts are in "
                f"the test set; {DEV_ADVICE.format(options.dev_share)}"
            )
    return splits, counts


def split_by_group(examples: list[Example], key: str, share: float) -> tuple[list[Example], list[Example]]:
    """The examples outside and inside a share, which is another one for every `key`: equal texts, and questions on one
    context, are on the same side."""
    # a key for each use: with dev's, the examples with the lowest hashes would all be in dev already
    is_inside = [in_split(f"{key}\n{example['group']}", share) for example in examples]
    outside = [example for example, inside in zip(examples, is_inside, strict=True) if not inside]
    return outside, [example for example, inside in zip(examples, is_inside, strict=True) if inside]


def drop_empty(train: list[Example], counts: dict[str, int]) -> list[Example]:
    """The training examples without the empty ones of NSMC and PAWS-X, from which nothing can be learned; their number
    is added to `counts`. Other tasks do not read any."""
    with_text = [example for example in train if example["group"]]
    if len(with_text) < len(train):
        counts["train_examples_without_text"] = len(train) - len(with_text)
    return with_text


def draw(examples: list[Example], count: int | None) -> list[Example]:
    """`count` of the examples, in their order; all for None, or if there are fewer."""
    if count is None:
        return examples
    # the first of one permutation, so that a smaller draw is part of a larger one
    drawn = np.random.Generator(np.random.Philox(key=DRAW_SEED)).permutation(len(examples))[:count]
    return [examples[i] for i in np.sort(drawn)]


def count_shared(
    options: FeaturesOptions, train: list[Example], splits: dict[str, list[Example]], counts: dict[str, int]
) -> list[Example]:
    """The training examples, for tasks with `clean_training` without those whose text is in the test set. How many go,
    or are in more than one split, is added to `counts`. Raises UserError where one file is given for two splits."""
    if options.task.clean_training and options.test:
        train = without_test_texts(options.task, train, splits["test"])
        counts["train_examples_contaminated"] = counts["train_examples_read"] - len(train)
    elif options.test:
        counts["train_examples_in_test"] = count_known(options, ("train", train), ("test", splits["test"]))
    if options.dev:
        counts["train_examples_in_dev"] = count_known(options, ("train", train), ("dev", splits["dev"]))
    if options.dev and options.test:
        counts["dev_examples_in_test"] = count_known(options, ("dev", splits["dev"]), ("test", splits["test"]))
    return train


def without_test_texts(task: Task, train: list[Example], test: list[Example]) -> list[Example]:
    """The training examples that share no text with the test set."""
    whole = {remove_whitespace(clean(task.content(example))) for example in test}
    test_texts = EvaluationTexts(whole)
    # once per text, since many questions share a context
    texts = {text: remove_whitespace(clean(text)) for text in {task.content(example) for example in train}}
    # equal texts too short to be found inside others are found as a whole
    clear = {text: compact not in whole and not test_texts.overlaps(compact) for text, compact in texts.items()}
    return [example for example in train if clear[task.content(example)]]


def count_known(options: FeaturesOptions, first: tuple[str, list[Example]], second: tuple[str, list[Example]]) -> int:
    """The number of examples of the `first` split, given with its name, whose text is also in the `second`. Raises
    UserError where more than half of the second's are in the first, as when one file is given for both."""
    # only counted, not dropped, since official training and test sets share some short texts
    # without the empty group: empty texts are no evidence that two files overlap
    texts, others = ([options.task.known_by(example) for example in examples] for _, examples in (first, second))
    in_first, in_second = set(texts) - {""}, set(others) - {""}
    known = sum(text in in_first for text in others)
    if 2 * known > len(others):
        files = {"train": ", ".join(train_files(options)), "dev": options.dev, "test": options.test}
        name = second[0]
        raise UserError(
            f"features: {known:,} of the {len(others):,} examples of the {name} file {files[name]} are in the "
            f"{SPLIT_NAMES[first[0]]} data ({files[first[0]]}), so scores on them mean nothing; give a {name} file "
            f"with other texts, or leave {name} out"
        )
    return sum(text in in_second for text in texts)
