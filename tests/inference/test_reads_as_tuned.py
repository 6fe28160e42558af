"""Predicting reads a text by the options in the model's config, compared with the task itself on the logits of the same
random model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import kobert_pipeline as kobert
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.task import Task
from kobert_pipeline.finetune.inference_state import fine_tuned_for, inference_length
from kobert_pipeline.finetune.model import logits
from kobert_pipeline.inference.loading import load_tokenizer
from kobert_pipeline.pretrain.architecture import Architecture

CONTEXTS = [
    " ".join(f"등대는 {n}9{k}3년에 처음 불을 밝혔다. 민수가 {k}번 부산에 갔다." for k in range(6)) for n in range(8)
]
QUESTION = "등대는 언제 처음 불을 밝혔는가?"


@pytest.fixture
def tokenizer(tiny: Any) -> Any:
    """The tokenizer of a run, which has no maximum length."""
    return load_tokenizer(tiny.run_dir / "tokenizer")


@pytest.fixture
def saved(tokenizer: Any, tmp_path: Path) -> Callable[..., tuple[Any, Path]]:
    """A model with large random weights, so that every token changes the outputs, and its folder."""
    import transformers

    def made(head: str, architecture: str, vocab_size: int | None = None, **config: Any) -> tuple[Any, Path]:
        torch.manual_seed(0)
        sizes = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "max_position_embeddings": 64}
        known = Architecture.choose({"name": architecture, **sizes}).config(vocab_size or len(tokenizer))
        for name, value in ({"initializer_range": 1.0} | config).items():
            setattr(known, name, value)
        model = getattr(transformers, head).from_config(known).eval()
        folder = tmp_path / f"{head}-{architecture}-{len(list(tmp_path.iterdir()))}"
        model.save_pretrained(folder)
        return model, folder

    return made


@pytest.mark.parametrize(
    ("architecture", "options"),
    [
        ("bert", {}), ("gpt2", {}), ("bert", {"stride": 8}), ("bert", {"max_answer_tokens": 5}),
        ("bert", {"max_question_tokens": 3}), ("roformer", {}), ("bert", {"question_token": True}),
        ("bert", {"exact_match_feature": True}), ("bert", {"exact_match_feature": True, "pos_feature": True}),
        ("bert", {"whole_words": True}),
        ("bert", {"answer_priors": {"phrase": 2}}), ("bert", {"answer_priors": {"type": 4}}),
        ("bert", {"answer_priors": {"overlap": 3}, "stride": 8}),
    ],
)  # fmt: skip
def test_answers_are_those_of_the_task(
    architecture: str, options: dict[str, Any], saved: Callable, tokenizer: Any, tiny: Any
) -> None:
    examples = [{"id": "", "group": text, "question": QUESTION, "context": text, "answers": []} for text in CONTEXTS]
    task = Task.choose({"name": "korquad"} | options)
    assert task.inference_state() == options
    assert Task.choose("korquad").with_inference_state(options | {"max_length": 48}) == task
    state = {"korquad": {"max_length": 48} | options}
    types = {"type_vocab_size": task.type_count} if task.type_count else {}
    model, folder = saved("AutoModelForQuestionAnswering", architecture, task_specific_params=state, **types)
    features = Features(task.featurize(examples, tokenizer, 48), examples)
    expected = task.predict(logits(model, features, 64, "cpu"), features)
    rows = kobert.load(folder, tiny.run_dir / "tokenizer").predict(CONTEXTS, QUESTION)
    assert [row["answer"] for row in rows] == expected


def test_entities_are_those_of_the_task(saved: Callable, tokenizer: Any, tiny: Any) -> None:
    task: Any = Task.choose({"name": "tagging", "labels": ["A", "B"], "stride": 4})
    state = {"tagging": {"max_length": 48} | task.inference_state()}
    model, folder = saved("AutoModelForTokenClassification", "bert", task_specific_params=state, **task.config())
    examples = [{"id": "", "group": text, "text": text, "entities": []} for text in CONTEXTS]
    features = Features(task.featurize(examples, tokenizer, 48), examples)
    expected = task.predict(logits(model, features, 64, "cpu"), features)
    found = kobert.load(folder, tiny.run_dir / "tokenizer").predict(CONTEXTS)
    assert [[[one["start"], one["end"], one["label"]] for one in row["entities"]] for row in found] == expected


def test_a_model_that_names_no_task_does_what_its_head_can(saved: Callable, tokenizer: Any, tiny: Any) -> None:
    """It reads as many tokens as it has positions; a model without segments gets no `token_type_ids`."""
    model, folder = saved("AutoModelForSequenceClassification", "gpt2")
    text = " ".join(CONTEXTS[:1] * 9)
    inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=64)
    with torch.no_grad():
        scores = (
            model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits[0].softmax(-1).tolist()
        )
    [found] = kobert.load(folder, tiny.run_dir / "tokenizer").predict([text])
    assert list(found["scores"].values()) == pytest.approx(scores, abs=1e-4)
    _, folder = saved("AutoModelForSequenceClassification", "bert", num_labels=1, problem_type="regression")
    [found] = kobert.load(folder, tiny.run_dir / "tokenizer").predict([text])
    assert set(found) - {"truncated"} == {"text", "score"}, "one output is a number"


NSMC = {"nsmc": {"max_length": 16}}


@pytest.mark.parametrize(
    ("params", "named", "task"),
    [
        (NSMC, "BertForSequenceClassification", "nsmc"), (NSMC, "FeatureBasedClassifier", "nsmc"),
        (NSMC, "BertForMaskedLM", None), (NSMC, "BertForTokenClassification", None), (NSMC, "BertModel", None),
        (NSMC, "GPT2LMHeadModel", None), (NSMC, "RoFormerForSequenceClassification", "nsmc"),
        ({"contrastive": {"max_length": 16}}, "RoFormerModel", "contrastive"),
        ({"text-generation": {"max_length": 16}}, "GPT2ForSequenceClassification", None),
        ({"text-generation": {"max_length": 50}} | NSMC, "GPT2ForSequenceClassification", "nsmc"),
        ("nsmc", "BertForSequenceClassification", None), ({"nsmc": 5}, "BertForSequenceClassification", "nsmc"),
    ],
)  # fmt: skip
def test_what_is_stored_for_another_task_or_another_head_is_not_read(params: Any, named: str, task: str | None) -> None:
    config = {"task_specific_params": params, "architectures": [named], "max_position_embeddings": 64}
    assert fine_tuned_for(config)[0] == task
    is_stored = task is not None and params != {"nsmc": 5}
    assert inference_length(config) == (16 if is_stored else 64)


def test_a_model_with_another_head_than_its_stored_task_uses_its_head(saved: Callable, tiny: Any) -> None:
    _, folder = saved("AutoModelForMaskedLM", "bert", task_specific_params=NSMC, problem_type="regression")
    [found] = kobert.load(folder, tiny.run_dir / "tokenizer").predict(["대한민국의 [MASK]는 서울이다."], top_k=2)
    assert [len(guesses) for guesses in found["masks"]] == [2]


@pytest.mark.parametrize("names", (["O"], ["B-A", "I-A"]))
def test_other_labels_are_refused(names: Any, saved: Callable, tiny: Any) -> None:
    labels = {"num_labels": len(names), "id2label": dict(enumerate(names))}
    _, folder = saved("AutoModelForTokenClassification", "bert", **labels)
    with pytest.raises(UserError, match="O and some of B-X, I-X, X-B, X-I or X were expected"):
        kobert.load(folder, tiny.run_dir / "tokenizer").predict(["나"])


def test_a_run_s_tokenizer_fits_its_model_and_truncates_at_its_positions(saved: Callable, tiny: Any) -> None:
    _, folder = saved("AutoModelForMaskedLM", "bert")
    with pytest.raises(UserError, match=r"is beyond the model's 64 tokens"):
        kobert.load(folder, tiny.run_dir / "tokenizer").predict(["가나 다라 " * 100 + "[MASK]"])
    _, folder = saved("AutoModelForMaskedLM", "bert", 500)
    with pytest.raises(UserError, match=r"tokens and the model in .* 500; name the tokenizer of its run"):
        kobert.load(folder, tiny.run_dir / "tokenizer").predict(["[MASK]"])


def test_an_electra_generator_fills_masks_and_a_discriminator_does_not(saved: Callable, tiny: Any) -> None:
    _, generator = saved("AutoModelForMaskedLM", "electra")
    [found] = kobert.load(generator, tiny.run_dir / "tokenizer").predict(["대한민국의 [MASK]는 서울이다."], top_k=3)
    assert [len(guesses) for guesses in found["masks"]] == [3]
    _, discriminator = saved("AutoModelForPreTraining", "electra")
    with pytest.raises(UserError, match="neither labels texts nor answers questions nor tags nor fills masks"):
        kobert.load(discriminator, tiny.run_dir / "tokenizer").predict(["[MASK]"])
