"""Distillation (Hinton et al. 2015): fine-tuned models, the teachers, give unlabelled texts of the corpus their
probabilities as soft labels, and another model learns these and then perhaps the labelled examples. A student no
smaller than its teachers is self-training (Xie et al. 2020)."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field
from tokenizers import Tokenizer

from kobert_pipeline.config.options import Options
from kobert_pipeline.distributed import is_main_process
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import SPLITS, Features, features_of_ids
from kobert_pipeline.features.in_parts import featurize_in_parts
from kobert_pipeline.features.rows import refuse_not_finite
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import read_json, write_array
from kobert_pipeline.finetune import ngrams
from kobert_pipeline.finetune.with_ngrams import WithNgrams, mixed
from kobert_pipeline.progress import report
from kobert_pipeline.shards.format import PARAGRAPH, Shards
from kobert_pipeline.tokenizer.loading import load_tokenizer, vocabulary_in
from kobert_pipeline.tokenizer.plain import PLAIN
from kobert_pipeline.tokenizer.special_tokens import SpecialIds
from kobert_pipeline.training.weight_files import NGRAMS

VERSION = 4
"""4: labelled texts are found in the corpus whatever share of them is tokenized or spaced in another way."""
SOFT_LABELS = "soft_labels"
"""The array of the teachers' mean probabilities, (n, classes) float32."""
ARRAYS = ("windows", "input_ids", "token_type_ids", SOFT_LABELS)
WRITES = tuple(f"{name}.npy" for name in ARRAYS)
"""Every file of a folder of soft labels."""
# not the run's: the seeds of a fine-tuning share one folder of soft labels
DRAW_SEED = 1
"""Random seed of the choice of texts."""
UNSPACED_SEED = 2
"""Random seed of the choice of those that lose their white space."""
NO_SPACE = dict.fromkeys(map(ord, "▁Ġ"))
"""Leaves out the marks that tokenizers put in the place of a space."""
LABELLING_BATCH_SIZE = 128
"""Texts per batch when teachers label."""


class SoftLabels(NamedTuple):
    """The texts that teachers have labelled, and how many epochs they are learned for."""

    texts: Features
    epochs: int


class Distillation(Options):
    """How a fine-tuning learns from the soft labels of other models."""

    teachers: tuple[str, ...] = Field(min_length=1)
    """Names of earlier fine-tunings on the same features. The probabilities of each teacher's seeds are averaged, and
    then the averages of all teachers."""
    sources: tuple[str, ...] = ()
    """Names of the sources whose paragraphs are labelled, such as [raw_reviews.jsonl]; none: all of the corpus."""
    texts: int = Field(250_000, gt=0)
    """Number of different paragraphs, drawn at random; all there are if there are fewer. Texts of the labelled sets are
    left out: their labels are known, and a student that has learned what its teachers say of dev could not be judged
    on it."""
    epochs: int = Field(1, gt=0)
    """Passes over them, before the `plan.epochs` over the training set; the learning-rate schedule covers both."""


def run(
    options: Distillation,
    features: Path,
    shards: Path,
    tokenizer: Path,
    teachers: list[list[Path]],
    bf16: bool,
    out: Path,
) -> dict[str, Any]:
    """Draw paragraphs from the training shards and write them to `out` with the mean probabilities of the `teachers`,
    each a list of the folders of its seeds. The `plain_share` of the features is encoded without the analyzer, and
    the `unspaced_share` without white space, after the teachers have read both with them. With `bf16` encoders compute
    in bf16. Returns counts."""
    if not is_main_process():
        return {}  # rank 0 alone writes
    backend, special = vocabulary_in(tokenizer)
    chosen = Shards.open(shards, "train", special).of_sources(options.sources)
    settings, (known, spelled) = read_json(features / "task.json"), texts_of_splits(features, tokenizer)
    unlabelled = draw_paragraphs(chosen, options.texts, settings["max_length"], known, spelled)
    if not len(unlabelled):
        where = f" of {', '.join(options.sources)}" if options.sources else ""
        raise UserError(
            f"finetune: distill finds no text to label in the corpus{where} that is not also in train, dev or test; "
            "add some"
        )
    labels = mean_probabilities(unlabelled, teachers, backend, bf16)
    unlabelled = encode_for_student(unlabelled, settings, tokenizer, backend, special)
    for name, array in {**unlabelled.arrays, SOFT_LABELS: labels}.items():
        write_array(out / f"{name}.npy", array)
    return {
        "texts": len(unlabelled),
        "tokens": len(unlabelled.arrays["input_ids"]),
        "teachers": sum(map(len, teachers)),
        "mean_confidence": round(float(labels.max(1).mean()), 4),
    }


def load(folder: Path, options: Distillation) -> SoftLabels:
    """What `run` wrote to `folder`."""
    texts = Features({name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in ARRAYS}, [])
    return SoftLabels(texts, options.epochs)


def texts_of_splits(features: Path, tokenizer: Path) -> tuple[set[str], np.ndarray]:
    """The texts of train, dev and test as spelled by the tokens that they have in the shards, which the tokenizer in
    the folder `tokenizer` made, and what each of its tokens adds to a text, (V,)."""
    settings, (backend, special_ids) = read_json(features / "task.json"), vocabulary_in(tokenizer)
    spelled, special = ngrams.spelling(backend), set(special_ids.every)
    if settings.get("unspaced_share"):  # a part of train has lost its white space, and is found without it
        spelled = np.array([token.translate(NO_SPACE) for token in spelled], object)
    # other tokens may spell a text in another way: around an unknown character, or where it is truncated
    differ = settings.get("plain_share") or settings.get("unspaced_share")
    task, loaded = Task.of_features(features), load_tokenizer(tokenizer) if differ else None
    texts = set[str]()
    for folder in filter(Path.is_dir, (features / split for split in SPLITS)):
        split = Features.load(folder)
        if loaded is not None:
            report(f"finding the texts of {folder.name}")
            split = Features(featurize_in_parts(task, split.examples, loaded, settings["max_length"]), [])
        texts |= {"".join(spelled[ids]) for ids in ngrams.ids_of_texts(split, special)}
    return texts, spelled


def draw_paragraphs(shards: Shards, count: int, max_length: int, known: set[str], spelled: np.ndarray) -> Features:
    """`count` different paragraphs of the chosen documents in the order of the shards, each as [CLS] text [SEP] of at
    most `max_length` tokens. Texts in `known` are left out; `spelled` (V,) is what each token adds to a text
    (`texts_of_splits` gives both)."""
    starts, lengths = paragraphs(shards)
    lengths = np.minimum(lengths, max_length - 2)
    order = np.random.default_rng(DRAW_SEED).permutation(len(starts))
    seen = set(known)
    drawn: dict[int, list[int]] = {}
    # in blocks, because most paragraphs of a large corpus are never drawn
    for begin in range(0, len(order), 10_000):
        if len(drawn) == count:
            break
        rows = order[begin : begin + 10_000]
        ids = shards.gather(starts[rows], lengths[rows])[0]
        for row, tokens in zip(rows.tolist(), np.split(ids, np.cumsum(lengths[rows])[:-1]), strict=True):
            text = "".join(spelled[tokens])
            if len(drawn) < count and text not in seen:
                seen.add(text)
                drawn[row] = tokens.tolist()
    return features_of_ids([[shards.special.cls, *drawn[row], shards.special.sep] for row in sorted(drawn)])


def encode_for_student(
    texts: Features, settings: dict[str, Any], tokenizer: Path, backend: Tokenizer, special: SpecialIds
) -> Features:
    """The texts as a student reads them, by the `settings` of its features: some of them without the analyzer, and some
    without white space. `backend` and `special` are those of the tokenizer in the folder `tokenizer`."""
    plain_share, unspaced_share = settings.get("plain_share", 0), settings.get("unspaced_share", 0)
    if not (plain_share or unspaced_share):
        return texts
    file = tokenizer / PLAIN / "tokenizer.json"
    # other projects' tokenizers have no analyzer, so that there is nothing to leave out
    plain = Tokenizer.from_file(str(file)) if file.is_file() else backend
    rows = [ids.tolist() for ids in ngrams.ids_of_texts(texts, special.every)]
    # a text with an unknown token keeps its tokens, since they do not spell it
    spelled = np.array([set(special.every).isdisjoint(row) for row in rows], bool)
    plainly = spelled & (np.random.default_rng(DRAW_SEED).random(len(rows)) < plain_share)
    unspaced = spelled & (np.random.default_rng(UNSPACED_SEED).random(len(rows)) < unspaced_share)
    for drawn, encode in (
        (plainly, lambda batch: [encoding.ids for encoding in plain.encode_batch(batch, add_special_tokens=False)]),
        # texts drawn for both have lost their white space in the first round; the analyzer takes seconds to load, and
        # the others do not need it again
        (unspaced & ~plainly, lambda batch: load_tokenizer(tokenizer)(batch, add_special_tokens=False)["input_ids"]),
    ):
        indices = np.flatnonzero(drawn).tolist()
        spellings = (plain.decode(rows[row]) for row in indices)
        batch = ["".join(text.split()) if unspaced[row] else text for row, text in zip(indices, spellings, strict=True)]
        for row, ids in zip(indices, encode(batch) if batch else [], strict=True):
            rows[row] = ids[: settings["max_length"] - 2]
    return features_of_ids([[special.cls, *row, special.sep] for row in rows])


def paragraphs(shards: Shards) -> tuple[np.ndarray, np.ndarray]:
    """The global position of the first token of each paragraph of a chosen document, and the paragraph's number of
    tokens: (P,) each."""
    parts: list[np.ndarray] = [np.empty((2, 0), np.int64)]
    for offset, shard in shards:
        starts = np.flatnonzero(shard.boundaries & PARAGRAPH)
        lengths = np.diff(starts, append=len(shard.ids))
        if shard.chosen is not None:
            of_chosen = shard.chosen[np.searchsorted(shard.documents, starts, side="right") - 1]
            starts, lengths = starts[of_chosen], lengths[of_chosen]
        parts.append(np.stack([offset + starts, lengths]))
    starts, lengths = np.concatenate(parts, 1)
    return starts, lengths


def mean_probabilities(unlabelled: Features, teachers: list[list[Path]], tokenizer: Any, bf16: bool) -> np.ndarray:
    """The mean over the teachers of the mean over each one's seeds, for each text, (n, classes) float32. `tokenizer`:
    the backend of the tokenizer of the texts."""
    total: Any = 0.0
    for folders in teachers:
        for folder in folders:
            probabilities = teacher_probabilities(unlabelled, folder, tokenizer, bf16)
            total += probabilities.astype(np.float64) / len(folders)
    return (total / len(teachers)).astype(np.float32)


def teacher_probabilities(unlabelled: Features, folder: Path, tokenizer: Any, bf16: bool) -> np.ndarray:
    """The probabilities that a classifier over n-grams, an encoder, or an encoder with n-grams in `folder` gives each
    text, (n, classes)."""
    if not (folder / NGRAMS).is_file():
        of_encoder = encoder_probabilities(unlabelled, folder, bf16)
        added = WithNgrams.load(folder, tokenizer)
        if added is None:
            return of_encoder
        of_ngrams = added.ngrams.classifier.probabilities(list(ngrams.texts_of(unlabelled, tokenizer)))
        return np.exp(np.stack(mixed(ngrams.logits(of_encoder), ngrams.logits(of_ngrams), added.weights)["logits"]))
    report(f"labelling by {folder.parent.name}/{folder.name}")
    return ngrams.NgramClassifier.load(folder).probabilities(list(ngrams.texts_of(unlabelled, tokenizer)))


def encoder_probabilities(unlabelled: Features, folder: Path, bf16: bool) -> np.ndarray:
    """The probabilities that the model in `folder` gives each text, (n, classes)."""
    # torch only from here on: `kobert check` reads the options above without it
    import torch

    from kobert_pipeline.finetune.model import load as load_model
    from kobert_pipeline.finetune.model import logits
    from kobert_pipeline.training.device import device, has_fast_bf16

    model = load_model(folder).to(device())
    activity = f"labelling by {folder.parent.parent.name}/{folder.parent.name}"  # of TEACHER/SEED/model
    outputs = logits(model, unlabelled, LABELLING_BATCH_SIZE, device(), bf16 and has_fast_bf16(), activity)
    refuse_not_finite(model.name_or_path, outputs)
    return torch.from_numpy(np.stack(outputs["logits"])).double().softmax(1).numpy()
