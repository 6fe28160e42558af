"""A checkpoint with its task, and the one way from texts to predictions.

Features are made by the code of the stage `features`, and predictions by that of a fine-tuning's test, or where there
is no torch by what equals it, so a text has one prediction whoever asks: the command line, Python, the server, or an
evaluation. Longer texts are truncated as in training, or labelled by the mean of their windows; answers and entities
are searched for in the whole text, in windows.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kobert_pipeline.checkpoint.source import load_errors
from kobert_pipeline.config import recipe_file
from kobert_pipeline.errors import UserError, did_you_mean
from kobert_pipeline.features.format import Features, features_of_ids
from kobert_pipeline.features.in_parts import featurize_in_parts
from kobert_pipeline.features.predicted import Predicted
from kobert_pipeline.features.task import Example, Task, is_blank
from kobert_pipeline.finetune.inference_state import inference_length
from kobert_pipeline.finetune.ngrams import NgramModel
from kobert_pipeline.finetune.onnx_model import OnnxModel
from kobert_pipeline.finetune.with_ngrams import WithNgrams
from kobert_pipeline.inference.loading import TORCH, load
from kobert_pipeline.inference.task_of_checkpoint import choose_task, for_model, task_by_head, task_options
from kobert_pipeline.inference.windows import TRUNCATE, mean_by_text, splits, windows_of


@dataclass(frozen=True)
class Checkpoint:
    """A model with its tokenizer and the task that it was fine-tuned on."""

    folder: Path
    """Where it is from; in messages, and for the task's options in its training manifest."""
    model: Any
    tokenizer: Any
    chosen_task: dict[str, Any] | None = None
    """The options of the task; None: the options that the checkpoint names, or a task for its head."""
    label_names: Mapping[str, int | str] | None = None
    """{name: the number of an output, or its name in the config}; None: the names in the config."""
    long: str = TRUNCATE
    """What `predict_examples` does with single texts of more tokens than the model reads: `truncate` or `windows`."""
    counted: Counter[str] | None = None
    """Where given, `results` counts the `texts` here, and those that were `truncated`."""
    backend: str = TORCH
    """What computes the model, one of `loading.FILES`."""

    @classmethod
    def load(cls, folder: str | Path, tokenizer: str | Path | None = None, backend: str = TORCH) -> "Checkpoint":
        """Load a checkpoint as `loading.load` does. Raises UserError for what does not load."""
        loaded = load(folder, tokenizer, backend, needs="gives_labels")
        return cls(loaded.folder, loaded.model, loaded.tokenizer, backend=loaded.backend)

    def for_task(
        self,
        name: str | None = None,
        settings: list[str] | None = None,
        labels: Mapping[str, int | str] | None = None,
        long: str = TRUNCATE,
    ) -> "Checkpoint":
        """The checkpoint with the task `name` (default: the one that the checkpoint names), with `settings` (KEY=VALUE)
        in place of its options, and with other names for its `labels`; `long` as in the field of that name. Raises
        UserError where neither names a task, and for windows that it does not take."""
        # a copy, since settings are applied in place and `named_task` is cached
        task = deepcopy(self.named_task)
        if name is not None and task.get("name") != name:
            # how files are read means nothing to another task, but predictions depend on these
            shared = Task.variant(name).inference_options if name in Task.names() else ()
            task = {"name": name} | {option: task[option] for option in shared if option in task}
        if not task:
            raise UserError(
                f"{self.folder} does not say which task it was fine-tuned on; name it with "
                f"--task{did_you_mean('', Task.names())}"
            )
        for setting in settings or []:
            recipe_file.apply_setting(task, setting)
        chosen = replace(self, chosen_task=task, label_names=labels, long=long)
        chosen.refuse_windows(long)
        return chosen

    @cached_property
    def named_task(self) -> dict[str, Any]:
        """The options of the task that the checkpoint names, {} where it names none."""
        return task_options(self.folder, self.model.config.to_dict())

    @cached_property
    def task(self) -> Task:
        """The task, with the labels of the model. Raises UserError where there is none, where model and task do not
        fit, or where the task needs a library that is not installed."""
        chosen = self.chosen_task or self.named_task or task_by_head(self.folder, self.model)
        task = for_model(choose_task(chosen), self.model, self.label_names)
        task.refuse_missing_libraries()
        return task

    @cached_property
    def takes_pairs(self) -> bool:
        """Whether it labels pairs of texts, or may: of a classifier that names no task only its user knows."""
        if self.fills_masks or self.chosen_task or self.named_task:
            return not self.fills_masks and self.task.paired
        return "text_pair" in type(self.task).model_fields

    @cached_property
    def max_length(self) -> int:
        """Tokens of a text or window: as in fine-tuning, so that texts are read as in training."""
        return min(inference_length(self.model.config.to_dict()), int(self.tokenizer.model_max_length))

    @property
    def reads_whole(self) -> bool:
        """Whether it reads texts however long they are, as n-grams do."""
        return isinstance(self.model, NgramModel)

    @cached_property
    def fills_masks(self) -> bool:
        """Whether it names no task and predicts tokens."""
        from kobert_pipeline.inference.fill_mask import fills_masks

        return not self.chosen_task and not self.named_task and fills_masks(self.model)

    def predict(
        self,
        texts: str | Sequence[str],
        question: str | Sequence[str] | None = None,
        pair: str | None = None,
        top_k: int = 5,
        long: str = "truncate",
    ) -> Any:
        """One result per text, with the keys that the task gives; for a single text its result alone.

        Args:
            texts: a text or several; with tabs between a text and its pair (unless `pair` is given) or its choices.
            question: the question that is answered from each text; of a list of questions all are, text by text, and
                the results of a single text are a list, too.
            pair: the second text of each pair, where the checkpoint labels pairs.
            top_k: the number of tokens for each [MASK].
            long: `truncate` or `windows`: what is done with a text of more tokens than the model reads.

        Raises UserError where the input does not fit the task.
        """
        rows, questions = text_list(texts), question_list(question)
        self.refuse_unused(questions[0], pair, long)
        if self.fills_masks:
            results = self.fill_masks(rows, [top_k] * len(rows))
        else:
            examples = [self.example(text, one_question, pair) for text in rows for one_question in questions]
            results = self.results(examples, long)
        return results[0] if isinstance(texts, str) and (question is None or isinstance(question, str)) else results

    def refuse_unused(self, question: str | None, pair: str | None, long: str) -> None:
        """Raise UserError for a task without predictions, and for a question, a second text or windows that would be
        ignored."""
        inputs: tuple[str, ...] = ("text",) if self.fills_masks else self.task.inputs
        if not inputs:
            raise UserError(f"{self.folder} gives vectors, not labels; use kobert embed or kobert similar")
        if pair is not None and not self.takes_pairs:
            raise UserError(f"{self.folder} does not compare texts; leave --pair out")
        if question is not None and "question" not in inputs:
            raise UserError(f"{self.folder} does not answer questions; leave --question out")
        self.refuse_windows(long, pair)

    def refuse_windows(self, long: str, pair: str | None = None) -> None:
        """Raise UserError where windows would be ignored, for all but single texts with labels."""
        if splits(long) and (self.fills_masks or pair is not None or not self.task.takes_windows):
            raise UserError(
                f"{self.folder} does not read single texts, which alone are split into windows; leave --long out"
            )

    def example(self, text: str, question: str | None, pair: str | None) -> Example:
        """A text, with what belongs to it or after tabs, as an example of the task. Raises UserError where something is
        missing."""
        inputs, others = self.task.inputs, [other for other in (question, pair) if other is not None]
        if "question" in inputs and question is None:
            raise UserError(f"{self.folder} answers questions; give one with --question")
        if pair is not None and "text_pair" not in inputs:
            # a classifier that names no task may label pairs, and its task knows no second text
            return self.task.unlabelled([text]) | {"text_pair": pair}
        is_whole = len(inputs) == 1 + len(others)
        return self.task.unlabelled([text, *others] if is_whole else text.split("\t"))

    def predict_examples(self, examples: list[Example]) -> Predicted:
        """The predictions for examples of the task, with logits and scores."""
        return self._predict_long(examples, self.long)

    def _predict_long(self, examples: list[Example], long: str) -> Predicted:
        """`predict_examples` with another way of reading long texts; where a task takes no windows, they are always
        truncated, and n-grams always read them whole."""
        is_single = self.task.takes_windows and "text_pair" not in examples[0]
        if splits(long) and is_single and not self.reads_whole:
            return self._predict_windows(examples)
        arrays = featurize_in_parts(self.task, examples, self.tokenizer, self.max_length)
        return self._predict(Features(arrays, examples))

    def truncated(self, predicted: Predicted) -> list[int]:
        """The numbers of the predicted examples that have more tokens than were read."""
        if "windows" not in predicted.features.arrays or self.reads_whole:
            return []
        return self.task.truncated(predicted.features, self.tokenizer, self.max_length)

    @cached_property
    def added_ngrams(self) -> WithNgrams | None:
        """The classifier over n-grams that is a part of the model, if any. Raises UserError where it does not load."""
        with load_errors(self.folder):
            return WithNgrams.load(self.folder, getattr(self.tokenizer, "backend_tokenizer", None))

    def _predict(self, features: Features) -> Predicted:
        """The predictions for features of the task, by the model's backend."""
        predicted = self._predict_by_model(features)
        return self.added_ngrams.add_to(predicted) if self.added_ngrams else predicted

    def _predict_by_model(self, features: Features) -> Predicted:
        """The predictions without n-grams that are added."""
        if isinstance(self.model, (OnnxModel, NgramModel)):
            return self.model.predict(self.task, features)
        from kobert_pipeline.finetune.model import predict
        from kobert_pipeline.training.device import device

        return predict(self.model.to(device()), self.task, features, device())

    def results(self, examples: list[Example], long: str = "truncate") -> list[dict[str, Any]]:
        """The result of each example, as JSON values, with `truncated` where a text was read in part, and without a
        label where one is blank; where a task takes no windows, texts are always truncated."""
        # groups may mix the order of the examples, so results are kept by index
        results: dict[int, dict[str, Any]] = {}
        for group in by_form(examples):
            predicted = self._predict_long([examples[index] for index in group], long)
            results |= dict(zip(group, predicted.results, strict=True))
            truncated = self.truncated(predicted)
            for index in truncated:
                results[group[index]]["truncated"] = True
            if self.counted is not None:
                self.counted.update(texts=len(group), truncated=len(truncated))
        return [without_label(results[index]) for index in range(len(examples))]

    def results_of_ids(self, rows: list[list[int]]) -> list[dict[str, Any]]:
        """`results`, without texts, of single texts that are given as the ids of their tokens, special tokens
        included."""
        return self._predict(features_of_ids(rows)).results

    def _predict_windows(self, examples: list[Example]) -> Predicted:
        """The predictions by the mean of the logits of all windows of each text, weighted by their tokens; n-grams read
        it whole."""
        ids, text_of = windows_of(self.tokenizer, [example["text"] for example in examples], self.max_length)
        of_windows = self._predict_by_model(features_of_ids(ids))
        logits = {"logits": list(mean_by_text(np.stack(of_windows.logits["logits"]), ids, text_of))}
        predicted = Predicted.of(self.task, Features({}, examples), logits)
        return self.added_ngrams.add_to(predicted) if self.added_ngrams else predicted

    def fill_masks(self, texts: list[str], top_ks: Sequence[int]) -> list[dict[str, Any]]:
        """The `top_ks[i]` likeliest tokens for each [MASK] of text i."""
        from kobert_pipeline.inference.fill_mask import fill_masks

        return fill_masks(self.model, self.tokenizer, texts, top_ks)

    def embed(
        self,
        texts: str | Sequence[str],
        pooling: str | None = None,
        layers: Sequence[int] = (-1,),
        weights: str | Path | None = None,
        long: str = "truncate",
    ) -> np.ndarray:
        """The vectors of texts, (n, d) float32; of a single text its vector alone, (d,).

        Args:
            texts: a text or several; each is truncated where `predict` truncates it.
            pooling: `cls`, `mean`, `max`, `first-last` or `weighted`; default: the one that the model was trained with,
                or `mean`.
            layers: whose states are concatenated: 0 for the embeddings, 1 for the first layer, -1 for the last.
            weights: the file of token weights that `kobert embed --learn-weights` wrote, for `weighted`.
            long: `truncate` or `windows`, whose vectors are averaged.

        Raises UserError for an argument that does not fit the model, and for what is no text.
        """
        from kobert_pipeline.inference.embed import Embedder

        rows = text_list(texts)
        vectors = Embedder(self.model, self.tokenizer, pooling, layers, weights, long, self.folder).embed(rows)
        return vectors[0] if isinstance(texts, str) else vectors

    def evaluate(
        self,
        file: str | Path,
        noise: list[str] | None = None,
        errors: bool = False,
        limit: int | None = None,
        task: str | None = None,
        settings: Mapping[str, Any] | None = None,
        labels: Mapping[str, int | str] | None = None,
        long: str = TRUNCATE,
    ) -> dict[str, Any]:
        """The scores on a labelled file: as it is, by type of text, and under noise, with an analysis of errors.

        Args:
            file: a labelled file in the format of the checkpoint's task.
            noise: types of noise as `kobert evaluate --noise` takes them: `all`, `spaces-dropped=0.25,0.5`.
            errors: whether the wrong answers of a question task are classified.
            limit: the number of examples; default: all.
            task: the task, if the checkpoint does not name it.
            settings: options of the task, `{"label": "score"}`.
            labels: what the file calls the outputs of the checkpoint, by their numbers, `{"negative": 0}`, or names.
            long: `truncate` or `windows`: what is done with a text of more tokens than the model reads.

        Raises UserError for a file or an argument that does not fit the task.
        """
        from kobert_pipeline.evaluation.evaluate import evaluate
        from kobert_pipeline.evaluation.noise import conditions

        checkpoint = self.for_task(task, recipe_file.as_set_options(settings), labels, long)
        return evaluate(checkpoint, Path(file), conditions(noise or [], 1), [], errors, limit, report=lambda line: None)


def text_list(texts: Any, name: str = "texts") -> list[str]:
    """A text or several as a list; `name` is that of the argument. Raises UserError for what is no text, such as the
    NaN of an empty cell."""
    if not isinstance(texts, Iterable):
        raise UserError(f"{name} is {texts!r:.60}; give a text, or a list of texts")
    rows = [texts] if isinstance(texts, str) else list(texts)
    for index, row in enumerate(rows):
        if not isinstance(row, str):
            raise UserError(f"{name}[{index}] is {row!r:.60}, which is not a text; leave it out, or give a text for it")
    return rows


def without_label(result: dict[str, Any]) -> dict[str, Any]:
    """The result of a text, with None for its label and scores where it or its pair is blank: what the model gives for
    an empty cell or line would be counted as a label."""
    if not any(is_blank(result[field]) for field in ("text", "text_pair") if field in result):
        return result
    return {name: None if name in ("label", "labels", "score", "scores") else value for name, value in result.items()}


def question_list(question: str | Sequence[str] | None) -> Sequence[str | None]:
    """The questions to answer from each text, [None] for none. Raises UserError for an empty list."""
    if question is None:
        return [None]
    questions = text_list(question, "question")
    if not questions:
        raise UserError("question is an empty list; give a question, or several")
    return questions


def by_form(examples: list[Example]) -> list[list[int]]:
    """The indices of the examples, grouped by what the tokenizer reads together: by their number of choices, since a
    batch is (B, choices, S), without padding of choices, and texts apart from pairs. Most tasks have one group."""
    groups: dict[tuple[int, bool], list[int]] = {}
    for index, example in enumerate(examples):
        groups.setdefault((len(example.get("choices", ())), "text_pair" in example), []).append(index)
    return list(groups.values())
