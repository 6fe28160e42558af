"""Predicting reads a text as fine-tuning and its test did; the oracle is the task itself, on the logits of the same random model."""

from pathlib import Path
from typing import Any

import pytest
import torch

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.task import Task
from kobert_pipeline.finetune.model import logits
from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.use.load import load_tokenizer
from kobert_pipeline.use.predict import answer, classify, predict
from kobert_pipeline.use.tagging import tag

CONTEXTS = [" ".join(f"등대는 {n}9{k}3년에 처음 불을 밝혔다. 민수가 {k}번 부산에 갔다." for k in range(6)) for n in range(8)]
QUESTION = "등대는 언제 처음 불을 밝혔는가?"


def random_model(head: str, architecture: str, tokenizer: Any, labels: dict[str, Any] | None = None, **noted: Any) -> Any:
    """A model with large random weights, so that each piece counts."""
    import transformers

    torch.manual_seed(0)
    sizes = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "max_position_embeddings": 64}
    config = Architecture.choose({"name": architecture, **sizes}).config(len(tokenizer))
    config.initializer_range, config.task_specific_params = 1.0, noted
    for name, value in (labels or {}).items():
        setattr(config, name, value)
    return getattr(transformers, head).from_config(config).eval()


@pytest.fixture
def tokenizer(tiny: Any) -> Any:
    """That of a run, which knows no length."""
    return load_tokenizer(tiny.run_dir / "tokenizer")


OPTIONS: list[tuple[str, dict[str, int]]] = [
    ("bert", {}), ("gpt2", {}), ("bert", {"stride": 8}), ("bert", {"max_answer_pieces": 5}), ("bert", {"max_question_pieces": 3}),
]  # fmt: skip


@pytest.mark.parametrize(("architecture", "options"), OPTIONS)
def test_answers_are_those_of_the_task(architecture: str, options: dict[str, int], tokenizer: Any) -> None:
    task = Task.choose({"name": "korquad"} | options)
    assert task.noted() == options
    model = random_model("AutoModelForQuestionAnswering", architecture, tokenizer, korquad={"max_length": 64} | task.noted())
    examples = [{"id": "", "group": text, "question": QUESTION, "context": text, "answers": []} for text in CONTEXTS]
    features = Features(task.featurize(examples, tokenizer, 64), examples)
    expected = task.predict(logits(model, features, 4, "cpu"), features)
    assert [answer(model, tokenizer, QUESTION, text)["answer"] for text in CONTEXTS] == expected


def test_a_model_without_segments_is_given_none(tokenizer: Any) -> None:
    tokenizer.model_max_length = 64
    model = random_model("AutoModelForSequenceClassification", "gpt2", tokenizer)
    inputs = tokenizer(QUESTION, return_tensors="pt")
    with torch.no_grad():
        wanted = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits[0].softmax(-1).tolist()
    found = classify(model, tokenizer, [QUESTION])[0]["scores"]
    assert list(found.values()) == pytest.approx(wanted, abs=1e-4)


def test_entities_are_those_of_the_task(tokenizer: Any) -> None:
    task: Any = Task.choose({"name": "tagging", "labels": ["A", "B"], "stride": 4})
    model = random_model("AutoModelForTokenClassification", "bert", tokenizer, task.config(), tagging={"max_length": 64} | task.noted())
    examples = [{"id": "", "group": text, "text": text, "entities": []} for text in CONTEXTS]
    features = Features(task.featurize(examples, tokenizer, 64), examples)
    expected = task.predict(logits(model, features, 4, "cpu"), features)
    found = tag(model, tokenizer, CONTEXTS, 64)
    assert [[[one["start"], one["end"], one["label"]] for one in row["entities"]] for row in found] == expected


@pytest.mark.parametrize("names", [["O"], ["A", "O"], ["B-A", "I-A"], ["O", "B-A", "I-A", "B-A", "I-A"]])
def test_other_labels_are_refused(names: list[str], tokenizer: Any) -> None:
    labels = {"num_labels": len(names), "id2label": dict(enumerate(names))}
    with pytest.raises(UserError, match="O, B-X, I-X, B-Y, I-Y and so on were expected"):
        tag(random_model("AutoModelForTokenClassification", "bert", tokenizer, labels), tokenizer, ["나"], 64)


def test_a_run_s_tokenizer_fits_its_model_and_cuts_at_its_positions(tokenizer: Any, tiny: Any, tmp_path: Path) -> None:
    random_model("AutoModelForMaskedLM", "bert", tokenizer).save_pretrained(tmp_path / "model")
    with pytest.raises(UserError, match=r"lies beyond the model's 64 pieces"):
        predict(tmp_path / "model", ["가나 다라 " * 100 + "[MASK]"], tokenizer_folder=tiny.run_dir / "tokenizer")
    random_model("AutoModelForMaskedLM", "bert", range(500)).save_pretrained(tmp_path / "other")
    with pytest.raises(UserError, match=r"pieces and the model in .*other 500; name the tokenizer of"):
        predict(tmp_path / "other", ["[MASK]"], tokenizer_folder=tiny.run_dir / "tokenizer")
