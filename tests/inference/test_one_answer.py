"""A text has the same prediction in the test of a fine-tuning, in `kobert predict` with the published and with the
unpublished model, and in `kobert evaluate`: a thousand texts for every task, some longer than `max_length`."""

import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import kobert_pipeline as kobert
from kobert_pipeline.analysis import stage as analysis
from kobert_pipeline.corpus import stage as corpus
from kobert_pipeline.evaluation.evaluate import evaluate
from kobert_pipeline.features import stage as features
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.options import FeaturesOptions
from kobert_pipeline.features.predicted import Predicted
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import read_json, read_json_lines
from kobert_pipeline.finetune import stage as finetune
from kobert_pipeline.inference.checkpoint import Checkpoint
from kobert_pipeline.inference.loading import load_model, load_tokenizer
from kobert_pipeline.pretrain.architectures.bert import Bert
from kobert_pipeline.publish.export import export
from kobert_pipeline.tokenizer import stage as tokenizer

TEXTS, MAX_LENGTH = 400, 24
QUESTION = "어디에서 살았나?"
# contrastive models give vectors, which `kobert embed` has
TASKS: dict[str, Any] = {name: {"name": name} for name in Task.names() if name != "contrastive"} | {
    "classification of pairs": {"name": "classification", "text_pair": "text_pair"},
}
FAST = ("nsmc", "korquad", "mrc", "ner", "sts", "choice")
"""One task of each kind; the others are slow."""
LABELS = {
    "nli": ["entailment", "neutral", "contradiction"],
    "classification": ["글", "말", "소리"],
    "sts": [0.5, 4, 2.5],
    "regression": [0.5, 4, 2.5],
    "multilabel": [["글"], ["말", "글"], ["소리"]],
    "re": ["no_relation", "per:alternate_names"],
}


def texts_of(words: list[str], seed: int, count: int) -> list[str]:
    """Texts of 1 to 25 words, most of them short; the first are odd."""
    rng = random.Random(seed)
    odd = [f"{seed} 😀 1+1", f"{seed}\u1100\u1161 \u1102\u1161", f"{seed}뷁 ㅋㅋㅋ"]
    return [*odd, *(" ".join(rng.choices(words, k=1 + int(25 * rng.random() ** 6))) for _ in range(count - len(odd)))]


def content(name: str, texts: list[str], others: list[str]) -> tuple[str, str]:
    """The suffix and the content of a file of the task with these texts. Every third question has no answer where the
    task allows that."""
    labels = LABELS.get(name, [0, 1])
    if name == "nsmc":
        return ".txt", "id\tdocument\tlabel\n" + "".join(f"{i}\t{text}\t{i % 2}\n" for i, text in enumerate(texts))
    if name == "ner":
        sentences = ([f"{word}\t{'B-X' if i == 0 else 'O'}" for i, word in enumerate(text.split())] for text in texts)
        return ".tsv", "\n".join("\n".join(lines) + "\n" for lines in sentences)
    if name in ("korquad", "mrc"):
        questions = [
            {
                "context": text,
                "qas": [
                    {
                        "id": str(i),
                        "question": QUESTION,
                        **({"answers": []} if name == "mrc" and i % 3 == 0 else answer_in(text)),
                    }
                ],
            }
            for i, text in enumerate(texts)
        ]
        return ".json", json.dumps({"data": [{"title": "", "paragraphs": questions}]})
    rows = []
    for i, (text, other) in enumerate(zip(texts, others, strict=True)):
        row: dict[str, Any] = {"text": text, "text_pair": other, "label": labels[i % len(labels)]}
        if name in ("nli", "pair", "sts"):
            row = {
                "sentence1": text,
                "sentence2": other,
                {"nli": "gold_label", "sts": "score"}.get(name, "label"): row["label"],
            }
        elif name == "re":
            row = {"sentence": f"[SUBJ]갑[/SUBJ] [OBJ]을[/OBJ] {text}", "label": row["label"]}
        elif name == "rerank":
            row = {"query": text, "passage": other, "label": row["label"]}
        elif name == "acceptability":
            row = {"sentence": text, "label": i % 2}
        elif name == "choice":
            row |= {"choices": [other, "다른 것", "또 다른 것"]}
        elif name == "tagging":
            row = {"text": text, "entities": [{"start": 0, "end": len(text.split()[0]), "label": "X"}]}
        elif name == "span":
            row = {"question": QUESTION, "context": text, **({"answers": []} if i % 3 == 0 else answer_in(text))}
        rows.append(row)
    return ".jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def answer_in(text: str) -> dict[str, Any]:
    word = text.split()[-1]
    return {"answers": [{"text": word, "answer_start": len(text) - len(word)}]}


@pytest.fixture(scope="module")
def base(corpora: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a `tokenizer` over eojeols, which costs little, and a `model` with large random weights, so that
    every token changes the outputs."""
    folder = tmp_path_factory.mktemp("base")
    corpus.run(corpus.CorpusOptions(sources=[{"name": "text", "path": "documents/*.txt"}]), corpora, folder / "corpus")
    eojeols = analysis.AnalysisOptions(analyzer={"name": "whitespace", "style": "none"})
    analysis.run(eojeols, folder / "corpus", folder, folder / "analysis", num_workers=1)
    options = tokenizer.TokenizerOptions(subword={"name": "wordpiece", "vocab_size": 1500})
    tokenizer.run(options, folder / "analysis", folder, folder / "tokenizer")
    sizes = Bert(num_hidden_layers=1, hidden_size=32, num_attention_heads=2, max_position_embeddings=96)
    config = sizes.config(1500)
    config.initializer_range = 0.5
    torch.manual_seed(0)
    sizes.model(config, "pretraining").save_pretrained(folder / "model")
    return folder


@pytest.fixture(scope="module")
def tuned(base: Path, corpora: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`tuned(name)`: a folder with features of the task, a model fine-tuned on them for a step, and the published
    checkpoint."""
    reviews = [line.split("\t")[1] for line in (corpora / "reviews_train.txt").read_text(encoding="utf-8").splitlines()]
    words = sorted({word for review in reviews for word in review.split()})

    @cache
    def made(name: str) -> Path:
        folder, task = tmp_path_factory.mktemp("task"), TASKS[name]
        for seed, (split, count) in enumerate({"train": 32, "dev": 64, "test": TEXTS}.items()):
            ending, file = content(task["name"], texts_of(words, seed, count), texts_of(words, seed + 9, count))
            (folder / f"{split}{ending}").write_text(file, encoding="utf-8")
        files = {split: f"{split}{ending}" for split in ("train", "dev", "test")}
        options = FeaturesOptions(task=task, **files, max_length=MAX_LENGTH)
        features.run(options, base / "tokenizer", folder, folder / "features")
        tuning = finetune.FinetuneOptions(plan={"epochs": 1, "batch_size": 64, "learning_rate": 1e-4})
        counts = finetune.run(tuning, 1, folder / "features", base / "model", folder / "tuned")
        (folder / "counts.json").write_text(json.dumps(counts), encoding="utf-8")
        export(folder / "tuned" / "model", base / "tokenizer", folder / "published")
        return folder

    return made


def prediction_of(task: Task, row: dict[str, Any]) -> Any:
    """The task's prediction in a row of `kobert predict`; a score to the decimals that it shows."""
    if "answer" in row:
        return row["answer"]
    if "entities" in row:
        return [[one["start"], one["end"], one["label"]] for one in row["entities"]]
    if "choice" in row:
        return row["number"]
    if "labels" in row:
        return [task.config()["label2id"][label] for label in row["labels"]]
    return row["score"] if "score" in row else list(task.config()["label2id"]).index(row["label"])


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in TASKS])
def test_every_way_gives_the_same_answers(
    name: str, tuned: Callable[[str], Path], base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tuned(name)
    test = Features.load(folder / "features" / "test")
    windows = test.lengths == MAX_LENGTH
    assert len(test.examples) == TEXTS and 0.09 * TEXTS < windows.sum() < len(windows), (
        "some are longer than max_length, and some are not"
    )
    expected = [row["prediction"] for row in read_json_lines(folder / "tuned" / "predictions.jsonl")]
    assert len({json.dumps(one) for one in expected}) > 1, "the same prediction for all texts would prove nothing"

    checkpoint = Checkpoint.load(folder / "published")
    predict_examples, predicted = Checkpoint.predict_examples, list[Predicted]()

    def watched(*given: Any) -> Predicted:
        predicted.append(predict_examples(*given))
        return predicted[-1]

    monkeypatch.setattr(Checkpoint, "predict_examples", watched)
    scores = evaluate(checkpoint, next(folder.glob("test.*")), [], [], False, report=lambda _: None)["clean"]["scores"]
    assert predicted[0].predictions == expected
    assert scores == pytest.approx(read_json(folder / "counts.json")["test"], abs=0.006)

    texts = [str(one.get("context", one.get("text"))) for one in test.examples]
    others = [[*one.get("choices", ()), *([one["text_pair"]] if "text_pair" in one else ())] for one in test.examples]
    given = ["\t".join([text, *more]) for text, more in zip(texts, others, strict=True)]
    question = QUESTION if "question" in test.examples[0] else None
    published = kobert.load(folder / "published").predict(given, question)
    assert published == kobert.load(folder / "tuned" / "model", base / "tokenizer").predict(given, question)
    assert [prediction_of(checkpoint.task, row) for row in published] == (
        [round(one, 4) for one in expected] if name in ("sts", "regression") else expected
    )
    if name in ("mrc", "span"):
        assert "" in expected and "null_score" in published[0]


def test_the_pipeline_of_transformers_truncates_where_fine_tuning_did(tuned: Callable[[str], Path]) -> None:
    from transformers import pipeline

    folder = tuned("nsmc") / "published"
    texts = [example["text"] for example in Task.choose("nsmc").read(folder.parent / "test.txt")]
    classify = pipeline("text-classification", model=load_model(folder), tokenizer=load_tokenizer(folder))
    theirs = classify(texts, truncation=True, batch_size=64)
    assert read_json(folder / "tokenizer_config.json")["model_max_length"] == MAX_LENGTH
    for one, other in zip(kobert.load(folder).predict(texts), theirs, strict=True):
        assert one["scores"][other["label"]] == pytest.approx(other["score"], abs=2e-4)
        assert one["label"] == other["label"] or other["score"] == pytest.approx(0.5, abs=1e-5)
