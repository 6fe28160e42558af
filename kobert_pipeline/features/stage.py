"""Task files + tokenizer -> the features of train, dev and test sets."""

from functools import partial
from pathlib import Path
from typing import Any

from kobert_pipeline.corpus.decontaminate import EvaluationTexts
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import SPLITS, Features, concatenate
from kobert_pipeline.features.in_parts import featurize_in_parts
from kobert_pipeline.features.options import FeaturesOptions
from kobert_pipeline.features.splits import dev_share_advice, prepare, split_by_group, split_off_dev
from kobert_pipeline.features.task import Example
from kobert_pipeline.files import write_json
from kobert_pipeline.progress import report
from kobert_pipeline.questions.corpus_pairs import make_pairs
from kobert_pipeline.questions.generate import generate_questions
from kobert_pipeline.tokenizer.plain import PLAIN, own_tokenizer

VERSION = 5
"""5: with `plain_share`, dev and test are tokenized without the analyzer, as the published model does."""
WRITES = (
    "task.json",
    *(f"{split}/{kind}" for split in SPLITS for kind in ("*.npy", "examples.jsonl")),
)
"""Patterns of every file that the stage writes to its folder."""


def run(
    options: FeaturesOptions, tokenizer: Path, data_dir: Path, out: Path, corpus: Path | None = None
) -> dict[str, Any]:
    """Write `train/`, `dev/` and `test/` to `out`; return the counts. `corpus` is the folder of the documents, for
    options that need it."""
    from kobert_pipeline.tokenizer.loading import add_tokens, load_tokenizer

    report("reading")
    # with the labels of the training files filled in, which task.json then passes on to fine-tuning
    options, splits, read = prepare(options, data_dir)
    counts: dict[str, Any] = dict(read)
    of_files = {name: len(examples) for name, examples in splits.items()}
    if corpus:
        splits = add_from_corpus(options, splits, corpus)
        synthetic = {name: len(examples) - of_files[name] for name, examples in splits.items()}
        counts |= {"train_examples_synthetic": synthetic["train"], "synthetic_made": sum(synthetic.values())}
        if synthetic["dev"]:
            counts["dev_examples_synthetic"] = synthetic["dev"]
    # the same folder twice without a `plain_share`, which is then loaded once
    folders = dict.fromkeys((tokenizer, own_tokenizer(tokenizer, options.plain_share)))
    tokenizers = [add_tokens(load_tokenizer(folder), options.task.added_tokens) for folder in folders]
    loaded, published = tokenizers[0], tokenizers[-1]
    for name, examples in splits.items():
        parts = [(examples, published)]
        if name == "train" and options.plain_share:
            analyzed, others = split_by_group(examples, PLAIN, options.plain_share)
            parts = [(analyzed, loaded), (others, published)]
            counts["train_examples_plain"] = len(others)
        features = featurize(options, parts, name)
        report(f"saving and counting {name}")
        features.save(out / name)
        counts |= {f"{name}_{key}": value for key, value in counts_of(options, features, published, name).items()}
    settings: dict[str, Any] = {"plain_share": options.plain_share} if options.plain_share else {}
    settings |= {"vocab_size": len(loaded)} if options.task.added_tokens else {}
    write_json(out / "task.json", {"task": options.task.dump(), "max_length": options.max_length, **settings})
    return counts


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
    return counts | {"truncated": task.truncated(features, tokenizer, options.max_length)} | task.counts(features)


def add_from_corpus(
    options: FeaturesOptions, splits: dict[str, list[Example]], corpus: Path
) -> dict[str, list[Example]]:
    """The splits with what is made from the documents in the folder `corpus`. Raises UserError where nothing can be."""
    evaluated = [*splits["dev"], *splits.get("test", [])]
    evaluation_texts = EvaluationTexts({text for example in evaluated for text in options.task.contents(example)})
    generated, dev = list[Example](), splits["dev"]
    if options.synthesize:
        generated = generate_questions(options.synthesize, corpus, evaluation_texts)
        if not dev:
            generated, dev = split_off_dev(options, generated)
    if options.pairs:
        generated, dev_pairs = make_pairs(options.pairs, corpus, evaluation_texts, options.dev_share, options.dev_seed)
        dev = dev or dev_pairs
    train = [*generated, *splits["train"]]
    if not train or not dev:
        # dev takes whole questions by their hash, but pairs by the hash of their documents
        advice = "raise dev_share" if options.pairs else dev_share_advice(options, [*train, *dev])
        raise UserError(
            f"features: of {len(train) + len(dev):,} {'pairs' if options.pairs else 'questions'} made from the corpus "
            f"{len(train):,} are for train and {len(dev):,} for dev, but both need one; {advice}, name a dev file or "
            "add texts"
        )
    options.task.refuse_inconsistent(train)
    return splits | {"train": train, "dev": dev}


Parts = list[tuple[list[Example], Any]]
"""Examples with the tokenizer that encodes them."""


def featurize(options: FeaturesOptions, parts: Parts, split: str) -> Features:
    """The features of a split."""
    arrays, sizes, all_examples = [], list[int](), [example for examples, _ in parts for example in examples]
    task = options.task.in_training() if split == "train" else options.task

    def encoded(count: int) -> None:
        report(f"encoding {split}", sum(sizes) + count, len(all_examples), "examples")

    encoded(0)
    for examples, tokenizer in (part for part in parts if part[0]):  # a small share may take no example
        arrays.append(featurize_in_parts(task, examples, tokenizer, options.max_length, encoded))
        sizes.append(len(examples))
    return Features(concatenate(arrays, sizes), all_examples)
