"""Estimate how long the unfinished jobs of a run take, for `kobert check --time` and for the time left of `kobert run`.

The analyzer and the steps of trainings are measured on this machine (`speed`). What that does not tell comes from the
constants below, measured on a core of an AMD EPYC with Korean Wikipedia and film reviews (docs/results/terminal.md).
"""

import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from kobert_pipeline.checkpoint.source import local_folder
from kobert_pipeline.corpus.executors.local import Local
from kobert_pipeline.distributed import is_distributed
from kobert_pipeline.features.format import SPLITS
from kobert_pipeline.features.options import FeaturesOptions, train_files
from kobert_pipeline.features.span import SpanTask
from kobert_pipeline.features.tagging import TaggingTask
from kobert_pipeline.features.task import Example
from kobert_pipeline.finetune.plan import length_of
from kobert_pipeline.finetune.stage import SOFT_LABELS_FOLDER
from kobert_pipeline.pipeline.disk_space import BYTES_PER_TOKEN, unpacked_bytes, weights_of
from kobert_pipeline.pipeline.recipe import Recipe
from kobert_pipeline.pipeline.run import data_folder
from kobert_pipeline.pipeline.speed import (
    TrainingSpeed,
    characters_per_second,
    finetuning_speed,
    pretraining_speed,
    slowness,
)  # fmt: skip
from kobert_pipeline.pretrain.architecture import Architecture, switch_off_dropout
from kobert_pipeline.pretrain.stage import EVALUATIONS, FEWEST_STEPS
from kobert_pipeline.progress import current_display, report
from kobert_pipeline.runs import manifest
from kobert_pipeline.runs.runner import Job
from kobert_pipeline.tables.data_files import data_files

CHARACTER_BYTES, CHARACTERS_PER_TOKEN, SPECIAL = 2.4, 1.9, 3
"""Bytes of a character of Korean text, characters of a token, spaces included, and special tokens of a window."""
CORPUS, TOKENIZER, SHARDS = (12.0, 1.3e-6), (6.0, 2.4e-6), (0.5, 1e-6)
"""Seconds of a core to start a stage, and for each character of the corpus."""
ANALYSIS_START = 4.0
"""Seconds until the workers have their analyzers."""
FEATURES = (0.6, 0.5)
"""How long features take by the time of the analyzer alone on one core: what one core does, and what all share."""
PLAIN_FEATURES, MADE_EXAMPLES = 3e-6, 120.0
"""Seconds for a character of features without an analyzer, and for examples that are made from the corpus."""
NGRAMS, NGRAM_LABELS = 9e-6, 8e-6
"""Seconds for a character: of all splits, to train a classifier over n-grams; of the texts that one labels."""
TRAINING_START, WORD_VECTORS, CHECKPOINT, PUBLISH = 3.0, 10.0, 10.0, 30.0
"""Seconds to start a training, compute word vectors, take over a checkpoint, and export and verify a model."""
FORWARD = 1 / 3
"""The share of the forward pass in a training step: where the speed is given, and of teachers, which also compute in
bf16."""
WINDOW_STEP = 0.75
"""The share of a window that is new, where a long text has several."""
HELD_OUT_BATCHES = 16
"""Batches of each evaluation of a pretraining; fewer where fewer texts are held out."""
SAMPLE_CHARACTERS = 40_000
"""Characters of each source that the analyzer is timed on."""
LONG = 2e13
"""Floating-point operations of the trainings, two minutes of a core, from which on `kobert run` estimates its time."""


class SplitSize(NamedTuple):
    """Windows of a split, their tokens, special ones included, and the characters of the texts."""

    windows: float = 0
    tokens: float = 0
    characters: float = 0

    def times(self, share: float) -> "SplitSize":
        """The size of a share of the split."""
        return SplitSize(*(share * value for value in self))


def seconds_of_jobs(
    name: str, recipe: Recipe, planned: list[Job], tokens_per_second: float | None = None,
    num_workers: int | None = None, redo: Collection[str] = (),
) -> dict[str, float]:  # fmt: skip
    """The seconds that each job of the recipe `name` will take, by its title; 0 for a finished one that is not to
    `redo`. With `tokens_per_second` all trainings are as fast as that, and none is measured."""
    data_dir = data_folder(name, recipe.data_dir)
    durations = Durations(recipe, data_dir, planned, num_workers, tokens_per_second)
    return {job.title: 0.0 if is_done(job, redo) else round(durations.seconds(job), 1) for job in planned}


def is_done(job: Job, redo: Collection[str]) -> bool:
    """Whether a job is finished and stays so."""
    return manifest.is_finished(job.folder) and not job.is_selected_by(list(redo))


def expect(
    name: str, recipe: Recipe, planned: list[Job], chosen: list[Job], num_workers: int | None, redo: Collection[str]
) -> None:
    """Tell the display how long the `chosen` jobs will take, where trainings are among them that take minutes: then the
    measuring is a small part of the run, and what it imports is needed anyway."""
    unfinished = [job for job in chosen if not is_done(job, redo)]
    # the display shows the time left of a run only where jobs come after the current one
    if is_distributed() or len(unfinished) < 2:
        return
    # an estimate must not stop a run: what is wrong with a file, or too large for a GPU, the stage itself reports
    with suppress(Exception):
        if training_flops(recipe, planned, unfinished) < LONG:
            return
        current_display().begin("estimate", 1, 1)
        report("measuring the speed")
        seconds = seconds_of_jobs(name, recipe, planned, None, num_workers, redo)
        current_display().expect({job.title: seconds[job.title] for job in chosen})


def training_flops(recipe: Recipe, planned: list[Job], unfinished: list[Job]) -> float:
    """About how many floating-point operations the trainings among the unfinished jobs take."""
    options, labelled = recipe.pretrain, {job.name: job for job in planned if job.stage == "features"}
    if recipe.checkpoint:
        weights = weights_of(recipe.checkpoint)
    else:
        weights = options.architecture.parameter_count(recipe.tokenizer.subword.vocab_size, options.objective.head)
    tokens = 0.0
    for job in unfinished:
        tokens += options.total_tokens if job.stage == "pretrain" else 0
        name = job.name.partition("/")[0]
        if job.stage == "finetune" and not recipe.finetune[name].ngrams:
            files = labelled[recipe.finetune[name].features or name].source_files()
            tokens += sum(map(unpacked_bytes, files)) / BYTES_PER_TOKEN
    # of each weight and token: two operations in the forward pass, four in the backward pass (Kaplan et al. 2020)
    return 6 * weights * tokens


@dataclass
class Durations:
    """The estimates for a recipe; `seconds_of_jobs` has the same arguments. What is measured is measured once."""

    recipe: Recipe
    data_dir: Path
    planned: list[Job]
    num_workers: int | None = None
    tokens_per_second: float | None = None
    _sizes: dict[str, dict[str, SplitSize]] = field(default_factory=dict)
    _speeds: dict[tuple[Any, ...], TrainingSpeed] = field(default_factory=dict)

    def seconds(self, job: Job) -> float:
        """The seconds of a job from its beginning to its end."""
        match job.stage:
            case "corpus":
                return self.linear(CORPUS, self.characters, self.workers(job))
            case "analysis":
                return self.slowness * ANALYSIS_START + self.characters / self.analyzed_per_second / self.workers(job)
            case "tokenizer":
                return self.linear(TOKENIZER, self.characters) + self.tokenizer_report()
            case "shards":
                return self.linear(SHARDS, self.characters)
            case "features":
                return self.features(job.name)
            case "pretrain":
                return self.pretraining()
            case "finetune":
                return self.finetuning(*job.name.split("/", 1))
            case "publish":
                return self.publishing(job.name)
            case _:
                return self.slowness * CHECKPOINT

    def linear(self, seconds: tuple[float, float], characters: float, workers: int = 1) -> float:
        """The seconds of a stage that takes some to start, and some for each character."""
        start, per_character = seconds
        return self.slowness * (start + per_character * characters / workers)

    @cached_property
    def slowness(self) -> float:
        """By how much this machine is slower than the constants say, measured."""
        return slowness()

    def workers(self, job: Job) -> int:
        """The processes of a stage on this machine."""
        executor = self.recipe.corpus.executor if self.recipe.corpus else Local()
        if not isinstance(executor, Local):
            return os.cpu_count() or 1
        if job.stage == "corpus":
            executor = executor.for_input(self.num_workers, sum(path.stat().st_size for path in job.source_files()))
        return executor.workers or self.num_workers or os.cpu_count() or 1

    @cached_property
    def characters(self) -> float:
        """Characters of the corpus: those that are kept where it is finished, else of its files."""
        (job,) = (job for job in self.planned if job.stage == "corpus")
        if manifest.is_finished(job.folder):
            return float(manifest.read(job.folder)["counts"]["characters_kept"])
        total = 0.0
        for reader in self.recipe.corpus.sources if self.recipe.corpus else []:
            characters = sum(map(unpacked_bytes, reader.files(self.data_dir))) / CHARACTER_BYTES
            total += min(characters, reader.limit_characters or characters)
        return total

    @cached_property
    def sample(self) -> list[str]:
        """The first documents of each source of the corpus."""
        texts: list[str] = []
        for reader in self.recipe.corpus.sources if self.recipe.corpus else []:
            documents, wanted = reader.read(self.data_dir), sum(map(len, texts)) + SAMPLE_CHARACTERS
            while sum(map(len, texts)) < wanted and (document := next(documents, None)):
                texts.append(document.text)
        return texts

    @cached_property
    def analyzed_per_second(self) -> float:
        """Characters of the corpus that the analyzer takes in a second on one core, measured."""
        texts = [text[:SAMPLE_CHARACTERS] for text in self.sample]
        return characters_per_second(self.recipe.analysis.analyzer.segmenter(self.data_dir), texts)

    def tokenizer_report(self) -> float:
        """The seconds of the tokenizer's report: it and those that it is compared with tokenize some documents."""
        options = self.recipe.tokenizer
        tokenizers = 1 + len(set(filter(None, (options.base, options.report.compare_with))))
        in_sample = sum(map(len, self.sample)) / max(1, len(self.sample))
        return tokenizers * min(self.characters, options.report.documents * in_sample) / self.analyzed_per_second

    def features(self, name: str) -> float:
        """The seconds of the features `name`."""
        characters = sum(size.characters for size in self.sizes(name).values())
        making = MADE_EXAMPLES if self.recipe.features[name].needs_corpus else 0.0
        if self.recipe.checkpoint:  # it has a tokenizer of its own
            return self.linear((making, PLAIN_FEATURES), characters)
        one_core, shared = FEATURES
        alone = characters / self.analyzed_per_second
        return self.slowness * making + (one_core + shared / (os.cpu_count() or 1)) * alone

    def sizes(self, name: str) -> dict[str, SplitSize]:
        """The sizes of the splits of some features: what was counted where they are finished, else by characters."""
        if name not in self._sizes:
            (job,) = (job for job in self.planned if job.stage == "features" and job.name == name)
            is_known = manifest.is_finished(job.folder)
            self._sizes[name] = counted(job.folder) if is_known else sizes_of(self.recipe.features[name], self.data_dir)
        return self._sizes[name]

    def pretraining(self) -> float:
        """The seconds of pretraining."""
        options, speed = self.recipe.pretrain, self.pretraining_speed
        steps = sum(tokens / part.batch_tokens for tokens, part in options.parts())
        every = options.plan.evaluate_every or max(FEWEST_STEPS, steps / EVALUATIONS)
        evaluations = 2 + steps / every
        # each evaluation reads them twice: for the loss, and for the perplexity with whole words masked
        held_out = 2 * self.recipe.shards.held_out * self.characters / CHARACTERS_PER_TOKEN
        evaluated = evaluations * min(HELD_OUT_BATCHES * options.batch_tokens, held_out)
        trained = speed.token * options.total_tokens + speed.step * steps + speed.predicted_token * evaluated
        return TRAINING_START + (WORD_VECTORS if options.word_vectors else 0) + trained

    @cached_property
    def pretraining_speed(self) -> TrainingSpeed:
        """The speed of pretraining, given or measured."""
        if self.tokens_per_second:
            return given_speed(self.tokens_per_second)
        options = self.recipe.pretrain
        if self.recipe.continues:
            architecture = Architecture.of_model(self.config, str(self.recipe.checkpoint))
            options = options.model_copy(update={"architecture": architecture})
        return pretraining_speed(options, self.config)

    @cached_property
    def config(self) -> Any:
        """The config of `transformers` of the models; for a checkpoint that is not on this machine, a BERT-base's."""
        import transformers

        if self.recipe.checkpoint is None:
            return self.recipe.pretrain.architecture.config(self.recipe.tokenizer.subword.vocab_size)
        folder = local_folder(self.recipe.checkpoint)
        config = transformers.AutoConfig.from_pretrained(folder) if folder else transformers.BertConfig()
        switch_off_dropout(config)
        return config

    def finetuning(self, name: str, part: str) -> float:
        """The seconds of a part of the fine-tuning `name`: of a seed, a trial, or its soft labels."""
        options = self.recipe.finetune[name]
        sizes = self.sizes(options.features or name)
        if options.ngrams:
            return self.linear((0, NGRAMS), sum(size.characters for size in sizes.values()))
        train, dev, test = (sizes.get(split, SplitSize()) for split in SPLITS)
        length, distill = train.tokens / train.windows, options.distill
        speed = self.finetuning_speed(name)
        if distill and part == SOFT_LABELS_FOLDER:
            teachers = [self.recipe.finetune[teacher] for teacher in distill.teachers]
            # of a token, as the speed of an encoder is
            ngrams = self.linear((0, NGRAM_LABELS), CHARACTERS_PER_TOKEN)
            labelled = sum(len(tuned.seeds) * (ngrams if tuned.ngrams else FORWARD * speed.token) for tuned in teachers)
            return distill.texts * length * labelled
        plans, setting = options.plan.settings(), part.removeprefix("grid/")
        # which setting the seeds will have is not known before the trials, so the longest one counts
        plan = plans[setting] if part != setting else max(plans.values(), key=lambda plan: plan.epochs or 0)
        epochs, evaluate_every = length_of(plan, -(-int(train.windows) // plan.batch_size))
        windows = epochs * train.windows + (distill.epochs * distill.texts if distill else 0)
        steps = windows / plan.batch_size
        tested = test.tokens if options.test and part == setting else 0
        predicted = max(1, steps // evaluate_every) * dev.tokens + tested
        trained = speed.token * windows * length + speed.step * steps + speed.predicted_token * predicted
        return TRAINING_START + trained

    def publishing(self, name: str) -> float:
        """The seconds of the published model `name`: weights of fewer bits are compared with those of 32 on dev."""
        options = self.recipe.publish[name]
        tuned, start = self.recipe.finetune.get(options.source), self.slowness * PUBLISH
        if tuned is None or tuned.ngrams:
            return start
        dev = self.sizes(tuned.features or options.source).get("dev", SplitSize())
        comparisons = (options.dtype == "bfloat16") + (options.onnx in ("auto", "int8"))
        # each comparison predicts dev with both files of weights
        return start + 2 * comparisons * dev.tokens * self.finetuning_speed(options.source).predicted_token

    def finetuning_speed(self, name: str) -> TrainingSpeed:
        """The speed of a fine-tuning on windows of the mean length, given or measured; the same for others with such a
        head and about that length."""
        if self.tokens_per_second:
            return given_speed(self.tokens_per_second)
        options = self.recipe.finetune[name]
        features, train = self.recipe.features[options.features or name], self.sizes(options.features or name)["train"]
        length = round(train.tokens / train.windows)
        key = (features.task.auto_class, length.bit_length(), options.encoder, options.plan.mixed_precision)
        if key not in self._speeds:
            task = features.task.fit_labels(data_files(self.data_dir, train_files(features)))
            self._speeds[key] = finetuning_speed(options, task, features.max_length, length, self.config)
        return self._speeds[key]


def given_speed(tokens_per_second: float) -> TrainingSpeed:
    """The speed of trainings that take so many tokens in a second, optimizer included."""
    return TrainingSpeed(1 / tokens_per_second, 0.0, FORWARD / tokens_per_second)


def counted(folder: Path) -> dict[str, SplitSize]:
    """The sizes of the splits of finished features."""
    counts = manifest.read(folder)["counts"]
    tokens = {split: counts.get(f"{split}_tokens", 0) for split in SPLITS}
    return {
        split: SplitSize(counts.get(f"{split}_windows", 0), count, count * CHARACTERS_PER_TOKEN)
        for split, count in tokens.items()
    }


def sizes_of(options: FeaturesOptions, data_dir: Path) -> dict[str, SplitSize]:
    """The sizes of splits by the characters of their examples, as they are in the files."""
    files = {"train": tuple(train_files(options)), "dev": (options.dev,), "test": (options.test,)}
    sizes = {}
    for split, names in files.items():
        paths = data_files(data_dir, [name for name in names if name])
        sizes[split] = split_size(options, [example for path in paths for example in options.task.read(path)])
    made, pairs = options.synthesize, options.pairs
    synthetic = made.questions if made else pairs.number * (1 + pairs.negatives) if pairs else 0
    windows, tokens, characters = sizes["train"]
    train = SplitSize(windows + synthetic, tokens + synthetic * options.max_length, characters)
    if not options.dev:
        sizes["dev"], train = train.times(options.dev_share), train.times(1 - options.dev_share)
    share = (options.max_train_examples or train.windows) / max(1, train.windows)
    return sizes | {"train": train.times(min(1, share))}


def split_size(options: FeaturesOptions, examples: list[Example]) -> SplitSize:
    """The size of a split of these examples."""
    task, longest = options.task, options.max_length
    has_windows = isinstance(task, SpanTask | TaggingTask)
    windows = tokens = characters = 0.0
    for example in examples:
        texts = [str(example[name]) for name in task.inputs if name in example] or [task.content(example)]
        length = sum(map(len, texts))
        of_text = SPECIAL + length / CHARACTERS_PER_TOKEN
        count = -(-of_text // (WINDOW_STEP * longest)) if has_windows and of_text > longest else 1
        windows, tokens, characters = windows + count, tokens + min(of_text, count * longest), characters + length
    return SplitSize(windows, tokens, characters)
