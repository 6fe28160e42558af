"""A linear classifier of short texts: logistic regression over n-grams of characters or jamo, each scaled by its
log-count ratio between the classes, as naive Bayes weighs it (Wang and Manning 2012, "Baselines and Bigrams"). It
trains in a minute or two, and it makes other errors than an encoder, so the two together teach better than either
(`finetune.NAME.distill`). With few labels it is often the better model, and can be published as one."""

import importlib.util
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from unicodedata import normalize

import numpy as np
from pydantic import Field, model_validator

from kobert_pipeline.config.options import Options
from kobert_pipeline.distributed import is_main_process
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.predicted import Predicted
from kobert_pipeline.features.rows import Logits
from kobert_pipeline.features.sequence import input_texts
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import atomic_write, read_json, write_json
from kobert_pipeline.finetune.results import PREDICTIONS, record_test, rounded_scores, split_details
from kobert_pipeline.progress import report, track
from kobert_pipeline.tokenizer.loading import backend_in
from kobert_pipeline.tokenizer.special_tokens import PAD_ID
from kobert_pipeline.training.hf_config import ConfigValues
from kobert_pipeline.training.weight_files import NGRAMS

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

VERSION = 7
"""7: how a text is spelled does not depend on the texts beside it."""
CONFIG = "config.json"
WRITES = (NGRAMS, CONFIG, PREDICTIONS)
"""Every file of a folder with such a classifier."""
CLASS_NAME, MODEL_TYPE = "NgramsForSequenceClassification", "ngrams"
"""What its config calls it; `transformers` has no such class."""
NO_ENCODER = (
    "a classifier over n-grams has labels but no vectors or attention; name the checkpoint of an encoder (a search "
    "with --by bm25 needs none)"
)
LEAST = 1e-30
"""The smallest probability whose logarithm is taken."""
HASHES = 2**22
"""N-grams are counted by their hash value modulo this."""
DRAW_SEED = 1
"""Random seed of the choice of texts, where there are too many."""
BLOCK = 10_000
"""Texts whose n-grams are in memory at once when classes are predicted."""


class Ngrams(Options):
    """Options of the classifier."""

    unit: Literal["character", "jamo"] = Field("character", exclude_if=lambda value: value == "character")
    """What n-grams are made of: characters, or jamo, the two or three letters of each Hangul syllable. Inflected and
    misspelled forms share more jamo than syllables (`됬다`, `됐다`). Texts get two to three times as long, so give
    min_n 2 and max_n 9, for example."""
    min_n: int = Field(1, ge=1)
    """Units of the shortest n-grams."""
    max_n: int = Field(5, ge=1)
    """Units of the longest n-grams."""
    # of the values tried the best beside an encoder, on NSMC's dev split (docs/results/tries.md)
    c: float = Field(0.3, gt=0)
    """Inverse strength of the L2 penalty (scikit-learn's C): lower values fit the training set less closely."""

    max_tokens: int | None = Field(None, gt=0, exclude_if=lambda value: value is None)
    """Tokens of the training texts that are read at most, drawn at random; null: all. Memory grows with them, by about
    150 bytes for each."""

    @model_validator(mode="after")
    def _order(self) -> "Ngrams":
        if self.min_n > self.max_n:
            raise ValueError(f"min_n is {self.min_n} and max_n {self.max_n}; give a max_n that is not below min_n")
        return self


BESIDE_ENCODER = Ngrams(unit="jamo", min_n=2, max_n=9, c=0.05, max_tokens=5_000_000)
"""The classifier beside an encoder, chosen on NSMC's dev split (docs/results/tries.md)."""


@dataclass(frozen=True)
class NgramClassifier:
    """`columns` (N,), the hash values of the n-grams that have a weight, in order; `weights` (binary problems, N) and
    `intercepts` (binary problems,): one problem for two classes, else one for each class against all others."""

    options: Ngrams
    columns: np.ndarray
    weights: np.ndarray
    intercepts: np.ndarray

    @classmethod
    def fit(
        cls, options: Ngrams, texts: Iterable[str], labels: np.ndarray, classes: int, seed: int
    ) -> "NgramClassifier":
        """Learn from texts and their labels (n,), which are 0 to `classes` - 1. `seed` orders scikit-learn's steps."""
        from sklearn.linear_model import LogisticRegression

        report("counting n-grams")
        counts = counted(options, texts)
        frequent = np.bincount(counts.indices, minlength=HASHES) >= 2  # n-grams in a single text are ignored
        weights, intercepts = [], []
        problems = [1] if classes == 2 else range(classes)
        for positive in track(problems, "learning n-grams", len(problems), "labels"):
            is_positive = labels == positive
            if is_positive.all() or not is_positive.any():  # nothing to tell apart, as for a label that no example has
                weights.append(np.zeros(HASHES))
                # half a text more on either side, so that the log-odds are finite
                intercepts.append(np.log(is_positive.sum() + 0.5) - np.log((~is_positive).sum() + 0.5))
                continue
            ratios = np.where(frequent, log_count_ratios(counts, is_positive), 0)
            # the dual problem has a variable per text, the primal one a variable per n-gram: far more
            model = LogisticRegression(C=options.c, solver="liblinear", dual=True, max_iter=1000, random_state=seed)
            model.fit(scaled(counts, ratios), is_positive)
            # with the ratios multiplied in, so that predictions need the plain counts only
            weights.append(model.coef_[0] * ratios)
            intercepts.append(model.intercept_[0])
        used = np.flatnonzero(np.any(weights, 0)).astype(np.int32)
        return cls(options, used, np.array(weights, np.float32)[:, used], np.array(intercepts, np.float32))

    def probabilities(self, texts: list[str]) -> np.ndarray:
        """The probability of each class for each text, (n, classes) float32."""
        from scipy.special import softmax

        blocks = (texts[start : start + BLOCK] for start in range(0, len(texts), BLOCK))
        scores = np.concatenate([self._known(counted(self.options, block)) @ self.weights.T for block in blocks])
        # the logarithms of the sigmoids, since of a long text all sigmoids may be 0
        logarithms = -np.logaddexp(0, -(scores + self.intercepts))
        if logarithms.shape[1] == 1:
            positive = np.exp(logarithms)
            return np.concatenate([1 - positive, positive], 1)
        # each sigmoid's share of their sum
        shares: np.ndarray = softmax(logarithms, axis=1)
        return shares

    def _known(self, counts: "csr_matrix") -> "csr_matrix":
        """The columns of the n-grams that have a weight, of all `HASHES`: (n, N)."""
        from scipy.sparse import csr_matrix

        places = np.minimum(np.searchsorted(self.columns, counts.indices), max(0, len(self.columns) - 1))
        known = self.columns[places] == counts.indices if len(self.columns) else np.zeros(len(places), bool)
        values = counts.data * known  # an unknown n-gram is a zero at some known one's place
        return csr_matrix((values, places, counts.indptr), (counts.shape[0], len(self.columns)))

    def save(self, folder: Path, config: dict[str, Any]) -> None:
        """Write the classifier to `folder`, and its options into the `config` of its task and tokenizer."""
        from safetensors.numpy import save_file

        tensors = {"columns": self.columns, "weights": self.weights, "intercepts": self.intercepts}
        with atomic_write(folder / NGRAMS) as part:
            save_file({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, part)
        write_json(folder / CONFIG, config | {"ngrams": self.options.dump()})

    @classmethod
    def load(cls, folder: Path) -> "NgramClassifier":
        """The classifier that `save` wrote."""
        from safetensors.numpy import load_file

        return cls(Ngrams(**read_json(folder / CONFIG)["ngrams"]), **load_file(folder / NGRAMS))


class NgramModel:
    """A classifier over n-grams in the place of an encoder: it reads the tokens of a tokenizer, with the config of its
    folder, and needs neither torch nor `transformers`."""

    head_outputs, gives_states, class_name = ("logits",), False, CLASS_NAME

    def __init__(self, classifier: NgramClassifier, config: ConfigValues, backend: Any) -> None:
        self.classifier, self.config, self.backend, self.name_or_path = classifier, config, backend, ""

    @classmethod
    def load(cls, folder: Path, backend: Any) -> "NgramModel":
        """The classifier in a folder, for texts that the tokenizer with this backend reads. Raises UserError where a
        library is missing, as on a server without those of training."""
        if importlib.util.find_spec("sklearn") is None:
            raise UserError(f"{folder} requires scikit-learn, not installed here; pip install scikit-learn")
        return cls(NgramClassifier.load(folder), ConfigValues(read_json(folder / CONFIG)), backend)

    def predict(self, task: Task, features: Features) -> Predicted:
        """The predictions for features of the task; the logits are the logarithms of probabilities."""
        texts, _ = whole_texts_of(features, self.backend, self.config.max_position_embeddings)
        outputs = task.by_label(logits(self.classifier.probabilities(texts)))
        return Predicted.of(task, features, outputs)


def logits(probabilities: np.ndarray) -> Logits:
    """The logarithms of the probabilities of the classes, (n, classes)."""
    return {"logits": list(np.log(np.maximum(probabilities, LEAST)))}


def run(options: Ngrams, test: bool, seed: int, features: Path, tokenizer: Path, out: Path) -> dict[str, Any]:
    """Train on train, evaluate on dev and, with `test`, on test, and write the classifier and the predictions for test
    to `out`. `tokenizer`: the folder of the tokenizer that made the features. Returns the counts and scores for the
    manifest."""
    if not is_main_process():
        return {}  # one process is enough
    prepared = read_json(features / "task.json")
    task, backend = Task.choose(prepared["task"]), backend_in(tokenizer)
    train, config = Features.load(features / "train"), config_of(task, prepared["max_length"], backend)
    classes = config["num_labels"]
    texts, labels = training_texts(options, train, backend, prepared["max_length"])
    classifier = NgramClassifier.fit(options, texts, labels, classes, seed)
    classifier.save(out, config)
    model = NgramModel(classifier, ConfigValues(config), backend)
    counts: dict[str, Any] = {"ngrams": len(classifier.columns)}
    counts |= {"train_examples_read": len(texts)} if len(texts) < len(train) else {}
    for split in ("dev", "test") if test else ("dev",):
        if not (features / split).is_dir():
            continue
        predicted = model.predict(task, Features.load(features / split))
        counts |= record_test(out, predicted) if split == "test" else {split: rounded_scores(predicted)}
        if split == "test" or not (features / "test").is_dir():
            counts |= split_details(predicted, split)
    return counts


def config_of(task: Task, max_length: int, backend: Any) -> dict[str, Any]:
    """The config of a classifier for a task on texts of at most `max_length` tokens of a tokenizer's backend."""
    return {
        "architectures": [CLASS_NAME], "model_type": MODEL_TYPE, "vocab_size": backend.get_vocab_size(),
        "max_position_embeddings": max_length, "pad_token_id": PAD_ID, **task.config(),
        "task_specific_params": {task.name: {"max_length": max_length} | task.inference_state()},
    }  # fmt: skip


def training_texts(options: Ngrams, train: Features, backend: Any, max_length: int) -> tuple[list[str], np.ndarray]:
    """The training texts that are read, as `whole_texts_of` gives them, and their labels (n,)."""
    texts, lengths = whole_texts_of(train, backend, max_length)
    rows = drawn_rows(lengths, options.max_tokens)
    return [texts[row] for row in rows.tolist()], np.asarray(train.arrays["labels"])[rows]


def drawn_rows(lengths: np.ndarray, max_tokens: int | None) -> np.ndarray:
    """The numbers of texts of these `lengths` (n,), drawn at random, that have `max_tokens` tokens together; all where
    it is None."""
    if max_tokens is None or lengths.sum() <= max_tokens:
        return np.arange(len(lengths))
    order = np.random.default_rng(DRAW_SEED).permutation(len(lengths))
    return np.sort(order[: max(1, int(np.searchsorted(lengths[order].cumsum(), max_tokens, side="right")))])


def whole_texts_of(features: Features, tokenizer: Any, max_length: int) -> tuple[list[str], np.ndarray]:
    """The texts as `texts_of` spells them, and their numbers of tokens (n,). Texts that were truncated to `max_length`
    for an encoder, or not encoded for one, are read whole where the features have their examples: a linear classifier
    has no longest text."""
    encoded = "windows" in features.arrays
    texts = list(texts_of(features, tokenizer)) if encoded else [""] * len(features.examples)
    lengths = np.diff(features.arrays["windows"]) if encoded else np.zeros(len(texts), np.int64)
    cut = np.flatnonzero(lengths >= max_length).tolist() if encoded else range(len(texts))
    # what was given as token ids has no text
    rows = [row for row in cut if features.examples and "text" in features.examples[row]]
    spelled = spelling(tokenizer)
    wholes, _ = input_texts([features.examples[row] for row in rows])
    for row, ids in zip(rows, encoded_whole(tokenizer, wholes), strict=True):
        texts[row], lengths[row] = "".join(spelled[ids]), len(ids)
    return texts, lengths


def encoded_whole(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    """The token ids of texts without an analyzer, special tokens, truncation or padding, whatever a tokenizer's backend
    is set to."""
    truncation, padding = tokenizer.truncation, tokenizer.padding
    tokenizer.no_truncation()
    tokenizer.no_padding()
    encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
    if truncation:
        tokenizer.enable_truncation(**truncation)
    if padding:
        tokenizer.enable_padding(**padding)
    return [encoding.ids for encoding in encodings]


def texts_of(features: Features, tokenizer: Any) -> Iterator[str]:
    """The text of each window as its tokens spell it: normalized, with the tokenizer's mark for spaces. Features and
    soft labels have no other text in common. `tokenizer`: the backend of the tokenizer that made the windows."""
    spelled, added_tokens = spelling(tokenizer), tokenizer.get_added_tokens_decoder()
    special = {id_ for id_, token in added_tokens.items() if token.special}
    for ids in ids_of_texts(features, special):
        yield "".join(spelled[ids])


def spelling(tokenizer: Any) -> np.ndarray:
    """What each token of a tokenizer's backend adds to a text: (V,) of str."""
    return _spelling(tokenizer, tokenizer.get_vocab_size())


@lru_cache(maxsize=2)
def _spelling(tokenizer: Any, size: int) -> np.ndarray:
    """`spelling`, which takes longer than the label of a short text; `size`, since tokens may be added."""
    tokens = [tokenizer.id_to_token(id_) or "" for id_ in range(size)]
    # WordPiece's mark of a token that continues a word is no part of the text
    return np.array([token.removeprefix("##") for token in tokens], object)


def ids_of_texts(features: Features, special: Collection[int]) -> Iterator[np.ndarray]:
    """The token ids of each window without the `special` ones around it, [CLS] and [SEP], which some tokenizers of
    others do not add."""
    ids = features.arrays["input_ids"]
    for start, end in pairwise(features.arrays["windows"].tolist()):
        of_text = ids[start:end]
        if len(of_text) and of_text[0] in special:
            of_text = of_text[1:]
        if len(of_text) and of_text[-1] in special:
            of_text = of_text[:-1]
        yield of_text


def counted(options: Ngrams, texts: Iterable[str]) -> "csr_matrix":
    """Which n-grams each text has: (n, HASHES) of 0 and 1, float32."""
    from sklearn.feature_extraction.text import HashingVectorizer

    # presence and not counts (binary), as in the paper; no alternating signs: the log-count ratios need counts, which
    # are not negative
    hashing = HashingVectorizer(
        analyzer="char", ngram_range=(options.min_n, options.max_n), n_features=HASHES, binary=True, norm=None,
        alternate_sign=False, lowercase=False, dtype=np.float32,
    )  # fmt: skip
    if options.unit == "jamo":
        texts = (normalize("NFD", text) for text in texts)  # each jamo of a syllable becomes a character of its own
    return hashing.transform(texts)


def log_count_ratios(counts: "csr_matrix", selected: np.ndarray) -> np.ndarray:
    """How much likelier each n-gram is in the `selected` texts, a mask (n,), than in the others: the logarithm of the
    ratio of its shares of all n-grams there, each counted once more than it occurs; (HASHES,)."""
    inside, outside = (1 + np.asarray(counts[rows].sum(0)).ravel() for rows in (selected, ~selected))
    return np.log(inside / inside.sum()) - np.log(outside / outside.sum())


def scaled(counts: "csr_matrix", ratios: np.ndarray) -> "csr_matrix":
    """Each column times its ratio, without the zeros that columns with the ratio 0 become."""
    result = counts.multiply(ratios.astype(np.float32)).tocsr()
    result.eliminate_zeros()
    return result
