"""The interface of tasks: files -> examples -> features, and logits -> predictions -> scores. It does not depend on the
training loop or the run folder."""

import re
import unicodedata
from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import PrivateAttr

from kobert_pipeline.config.options import Plugin
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.files import read_json
from kobert_pipeline.morphemes.normalization import character_end, remove_invisible
from kobert_pipeline.tables.unreadable import Row

Example = dict[str, Any]
"""A JSON object with at least `id` and `group`; a dev split does not separate examples of one group."""
UNNAMED = re.compile(r"(?:LABEL_)?(\d{1,9})")
"""What `transformers` calls an output without a name."""
RARE = 2
"""A label of so many training examples, or fewer, may be a typing error."""


class Task(Plugin):
    """What a model is fine-tuned for. The three base classes for sequences, spans and tagging implement most of it."""

    family: ClassVar[str] = "tasks"

    auto_class: ClassVar[str]
    """The `transformers` auto class with the task's head, such as AutoModelForSequenceClassification."""
    metric: ClassVar[str]
    """The score by which models are selected on dev, see `selection_metric`; larger is better."""
    clean_training: ClassVar[bool] = False
    """Whether training examples that overlap the test set are dropped."""
    sample: ClassVar[dict[str, Any]] = {}
    """A made-up example for the model card; {} where only the user's files know what the texts are about."""
    endpoint: ClassVar[str | None] = "/v1/classify"
    """The path of `kobert serve` that gives the `results`; None where there is none."""
    inference_options: ClassVar[tuple[str, ...]] = ()
    """The options that predictions depend on; `inference_state` saves them with the model."""

    _labels_found: bool = PrivateAttr(False)
    """Whether `labels` come from the training files, not from an option; only for messages."""
    _label_of_output: list[int] | None = PrivateAttr(None)
    """The index of the label that each output of the model stands for; None: outputs are in the order of the labels."""
    _notes: list[str] = PrivateAttr(default_factory=list)
    """What was assumed of labels, since neither model nor file says it."""

    @classmethod
    def of_features(cls, folder: Path) -> "Task":
        """The task that a folder of features was made for, with its options."""
        return cls.choose(read_json(folder / "task.json")["task"])

    @abstractmethod
    def read(self, path: Path) -> list[Example]:
        """The examples of a file. Raises UserError for a file of another form."""

    @abstractmethod
    def featurize(self, examples: list[Example], tokenizer: Any, max_length: int) -> dict[str, np.ndarray]:
        """The arrays of `Features` for these examples."""

    @abstractmethod
    def targets(self, features: Features) -> dict[str, np.ndarray]:
        """The label arrays, one value per row or per token, by the names of the model's arguments in `transformers`."""

    @abstractmethod
    def predict(self, logits: dict[str, list[np.ndarray]], features: Features) -> list[Any]:
        """A prediction per example. `logits` has, for each output of the model, a list with one array per row."""

    @abstractmethod
    def score(self, predictions: list[Any], examples: list[Example]) -> dict[str, float]:
        """Scores in percent."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The fields of an example that a model reads, first the one that is given as the text; () for a task whose
        models give vectors, not predictions."""
        return ("text",)

    @property
    def noisy_inputs(self) -> tuple[str, ...]:
        """The inputs that may get noise, since the right answer stays the same or is known from the noisy text."""
        return ()

    @property
    def added_tokens(self) -> tuple[str, ...]:
        """Tokens that the tokenizer gets for this task, such as markers around entities; the model's embeddings grow by
        as many."""
        return ()

    def text_parser(self, first: Row) -> Callable[[str, Row], str]:
        """What makes a text of its cell and its row, by the first row of a table: nearly always the same text."""
        return lambda text, row: text

    def card_sample(self) -> dict[str, Any]:
        """The `sample`, in the form that the model reads."""
        return dict(self.sample)

    @property
    def takes_windows(self) -> bool:
        """Whether a text of more tokens than the model reads can be labelled by the mean of its windows."""
        return False

    @abstractmethod
    def unlabelled(self, texts: list[str]) -> Example:
        """An example without a right answer, of the texts of the `inputs` in their order. Raises UserError for another
        number of texts."""

    @abstractmethod
    def results(
        self, predictions: list[Any], logits: dict[str, list[np.ndarray]], features: Features
    ) -> list[dict[str, Any]]:
        """Each prediction as a JSON object, with its scores and what it was made for."""

    def classes(self) -> list[str]:
        """The names of the labels, where every example has one of them; none for other tasks."""
        return []

    def classification_report(self, predictions: list[Any], examples: list[Example]) -> dict[str, Any]:
        """Scores by class in percent (`classes`), and a `confusion_matrix` where every example has one class; {} for
        tasks without classes."""
        return {}

    def selection_score(self, scores: dict[str, float]) -> float:
        """The score on dev by which models are selected, from all the `scores`."""
        return scores[self.selection_metric(scores)]

    def selection_metric(self, scores: dict[str, float]) -> str:
        """The name of the score by which models are selected."""
        return self.metric

    def fit_labels(self, train: list[Path]) -> Self:
        """The task with options that depend on the training files (labels that were not given) filled in. It is saved
        with the features. Raises UserError for files of another form."""
        return self

    def with_found_labels(self, labels: set[str]) -> Self:
        """The task with the labels of the training files, sorted."""
        task = self.model_copy(update={"labels": sorted(labels)})
        task._labels_found = True
        return task

    def with_model_labels(self, labels: list[str]) -> Self:
        """The task with the labels of a model, in the order of its outputs, unless the task's options give them. Labels
        are compared without case, and LABEL_1 is the second one. Raises UserError where the labels differ."""
        expected = list(self.config().get("id2label", {}).values())  # heads that score spans or choices have no labels
        if expected == labels or len(expected) == len(labels) == 1 or not expected:
            return self
        indices = {label.casefold(): index for index, label in enumerate(expected)}
        matches = [UNNAMED.fullmatch(label) for label in labels]
        # names first: labels such as 0 and 1 are no numbers of other labels
        named = [indices.get(label.casefold(), -1) for label in labels]
        numbered = [int(match[1]) if match else index for match, index in zip(matches, named, strict=True)]
        outputs = named if sorted(named) == list(range(len(expected))) else numbered
        if sorted(outputs) != list(range(len(expected))):
            names = ",".join(f"{label}={index}" for index, label in enumerate(expected))
            way = f"say which output is which, as in --labels {names}, or " if len(expected) == len(labels) else ""
            raise UserError(
                f"the checkpoint's labels are {', '.join(labels[:9])}, those of the task {self.name} are "
                f"{', '.join(expected)}; {way}choose another --task"
            )
        if outputs != named:
            pairs = ", ".join(f"{label} for {expected[output]}" for label, output in zip(labels, outputs, strict=True))
            self.note(f"the checkpoint's labels are taken by their numbers, {pairs:.200}")
        return self.with_outputs(outputs)

    def with_names(self, names: Mapping[str, str]) -> Self:
        """The task where labels have other names, {name until now: new name}, in the options that have values for
        labels."""
        return self

    def with_outputs(self, label_of_output: list[int]) -> Self:
        """The task for a model whose outputs stand for these labels."""
        task = self.model_copy()
        task._label_of_output = None if label_of_output == list(range(len(label_of_output))) else label_of_output
        return task

    def by_label(self, logits: dict[str, list[np.ndarray]]) -> dict[str, list[np.ndarray]]:
        """The model's logits with a column for each label of the task, in their order. The probabilities of outputs
        that stand for the same label are added; a label without an output has none."""
        if self._label_of_output is None:
            return logits
        count = len(self.config()["id2label"])
        return logits | {"logits": [add_by_label(row, self._label_of_output, count) for row in logits["logits"]]}

    @property
    def uses_kiwi(self) -> bool:
        """Whether examples are read with Kiwi's tags, whatever the tokenizer."""
        return False

    @property
    def notes(self) -> list[str]:
        """What was assumed of labels, for those who read scores."""
        return list(self._notes)

    def note(self, note: str) -> None:
        """Add to the `notes`."""
        if note not in self._notes:
            self._notes.append(note)

    def allowed_hint(self) -> str:
        """Added to the error about a label that is not allowed: where the allowed labels come from, if not from the
        task or an option."""
        hint = ", those of the training files unless the option labels of the task lists all"
        return hint if self._labels_found else ""

    def refuse_inconsistent(self, examples: list[Example]) -> None:
        """Raise UserError where the examples of a split, which may come from several files, do not fit together."""

    def refuse_missing_libraries(self) -> None:
        """Raise UserError where a library that predictions need is not installed."""

    def in_training(self) -> Self:
        """The task that makes the features of the training set, without what only predictions need."""
        return self

    def of_pairs(self, pairs: list[Example]) -> list[Example]:
        """The examples of texts that belong together, each with its `negatives`, as the corpus gives them."""
        return pairs

    def refuse_in_training(self, examples: list[Example]) -> None:
        """Raise UserError for examples that are good for dev and test alone."""

    def calibrate(self, logits: dict[str, list[np.ndarray]], features: Features) -> Self:
        """The task with `inference_options` that depend on the model's logits for dev, such as a threshold, filled
        in."""
        return self

    def inference_state(self) -> dict[str, Any]:
        """The `inference_options` without defaults, to be saved in the model's config."""
        return self.model_dump(include=set(self.inference_options), exclude_defaults=True)

    def with_inference_state(self, state: dict[str, Any]) -> Self:
        """The task with the options of an `inference_state`."""
        stored = {name: state[name] for name in self.inference_options if name in state}
        return type(self).model_validate(self.model_dump() | stored)

    def label_name(self, example: Example) -> str | None:
        """The label of an example in words; None for tasks without classes."""
        return None

    def right_answer(self, example: Example) -> str:
        """What an example teaches, in words."""
        name = self.label_name(example)
        return str(example.get("label", "")) if name is None else name

    def label_counts(self, examples: list[Example]) -> dict[str, int]:
        """The number of examples (of entities, for tagging) with each label; {} for tasks without classes."""
        return {}

    def rare_labels(self, train: list[Example]) -> dict[str, int]:
        """The labels that at most `RARE` training examples have, with their number, where the labels come from the
        training files: a typing error is then a label of its own."""
        counts = self.label_counts(train) if self._labels_found else {}
        return {label: count for label, count in counts.items() if count <= RARE}

    def counts(self, features: Features) -> dict[str, Any]:
        """Counts of a split for the manifest, besides examples, windows and tokens."""
        return {}

    def truncated(self, features: Features, tokenizer: Any, max_length: int) -> list[int]:
        """The numbers of the examples that were truncated to `max_length`; none for tasks that split long texts into
        windows."""
        return []

    @property
    def paired(self) -> bool:
        """Whether the task labels pairs of texts."""
        return "text_pair" in self.inputs

    def content(self, example: Example) -> str:
        """The text that must not be in the training set if this is a test example."""
        return str(example["group"])

    def contents(self, example: Example) -> list[str]:
        """The texts none of which may be in what the corpus adds to the training set."""
        return [self.content(example)]

    def known_by(self, example: Example) -> str:
        """The text by which an example that is in two files is found; "" for one without any."""
        return str(example["group"])

    def ablate_priors(self) -> tuple[Self, Self] | None:
        """The tasks that score a network without its priors, and the priors with constant logits; None for a task whose
        predictions depend on the logits alone. Priors are options that change predictions without being learned."""
        return None

    def config(self) -> dict[str, Any]:
        """What the task adds to the model's config, such as num_labels and id2label."""
        return {}


def add_by_label(logits: np.ndarray, label_of_output: list[int], count: int) -> np.ndarray:
    """(..., outputs) logits of a softmax -> (..., count), by the label that each output stands for."""
    columns = np.full((*logits.shape[:-1], count), -np.inf, logits.dtype)
    for output, label in enumerate(label_of_output):
        # logits are logarithms of probabilities up to a constant, so this adds the probabilities
        columns[..., label] = np.logaddexp(columns[..., label], logits[..., output])
    return columns


def exactly(texts: list[str], inputs: tuple[str, ...]) -> dict[str, str]:
    """The texts by the names of the inputs. Raises UserError for another number of texts."""
    if len(texts) != len(inputs):
        whole = "\t".join(texts)
        other = ", or give the second with --pair" if inputs[1:] == ("text_pair",) else ""
        raise UserError(
            f"{' and '.join(inputs)} are separated by a tab, but {whole[:40]!r} has {len(texts)} such parts; give "
            f"{len(inputs)}{other}"
        )
    return dict(zip(inputs, texts, strict=True))


def nfc(label: str) -> str:
    """A label in NFC, without invisible characters and blanks around it: spelled otherwise, as files of a Mac spell it,
    it looks the same but would be another label."""
    return unicodedata.normalize("NFC", remove_invisible(label)).strip()


def without_leading_space(text: str, span: tuple[int, int]) -> tuple[int, int]:
    """A token's whole characters, without the white space before them, which SentencePiece and byte-level BPE count
    in."""
    start, end = span[0], character_end(text, span[1])
    while start < end and text[start].isspace():
        start += 1
    return start, end


def label_config(names: list[str]) -> dict[str, Any]:
    """Number and names of a model's labels, as its config has them."""
    return {
        "num_labels": len(names),
        "id2label": dict(enumerate(names)),
        "label2id": {name: index for index, name in enumerate(names)},
    }


def is_blank(text: str) -> bool:
    """Whether a text has no visible character."""
    return not remove_invisible(text).strip()


def refuse_blank(text: str, what: str) -> None:
    """Raise UserError for a text without any visible character: nothing can be learned from it."""
    if is_blank(text):
        raise UserError(f"{what} is empty, text was expected; add the text, or delete the row")


def refuse_rejected(cells: dict[str, Any]) -> None:
    """Raise UserError for a row of Prodigy whose label the annotator did not accept."""
    if (answer := cells.get("answer")) in ("reject", "ignore"):
        raise UserError(f"its answer is {answer!r}, so what Prodigy suggested for it is wrong; delete the row")


def refuse_empty(split: str, paths: list[Path], count: int) -> None:
    """Raise UserError where the files of a split have no example, such as files with only a header."""
    if not count:
        what = ", ".join(map(str, paths))
        raise UserError(
            f"features: the {split} split is empty: {what} holds no examples (no question, or no row below a header); "
            "add some"
        )
