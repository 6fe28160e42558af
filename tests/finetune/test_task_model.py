"""The model with a task's head, compared with `transformers` window by window."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy

from kobert_pipeline.config import plugins
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import read_json
from kobert_pipeline.finetune import stage
from kobert_pipeline.finetune.batching import padded
from kobert_pipeline.finetune.model import TaskModule, build, load, logits, predict
from kobert_pipeline.finetune.plan import FinetunePlan
from kobert_pipeline.pipeline.recipe import Recipe
from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.pretrain.architectures.bert import Bert
from kobert_pipeline.pretrain.architectures.modernbert import ModernBert
from kobert_pipeline.pretrain.architectures.roformer import RoFormer
from kobert_pipeline.questions.exact_match import TYPES
from kobert_pipeline.questions.pos_feature import POS_TYPES

TASKS = ["nsmc", "korquad"]


def loaded(prepared: Path, name: str) -> tuple[Task, Features]:
    return Task.choose(read_json(prepared / name / "task.json")["task"]), Features.load(prepared / name / "train")


def tuned(task: Task, pretrained: Path, from_scratch: bool = False, dropout: float = 0.0) -> torch.nn.Module:
    """The model of a plan with this dropout; the head's weights are always the same."""
    torch.manual_seed(5)  # not the seed of the pretrained weights
    return build(task, pretrained, from_scratch, FinetunePlan(dropout=dropout), max_length=96)


def alone(model: torch.nn.Module, features: Features, row: int) -> dict[str, torch.Tensor]:
    """The model's outputs for one window, without padding and without a mask."""
    part = slice(*features.arrays["windows"][row : row + 2])
    inputs = {
        name: torch.from_numpy(features.arrays[name][part].astype(np.int64))[None]
        for name in ("input_ids", "token_type_ids")
    }
    with torch.no_grad():
        return {name: value[0] for name, value in model.eval()(**inputs).items()}


def test_the_loss_of_a_padded_batch_equals_the_windows_one_by_one(prepared: Path, pretrained: Path) -> None:
    for name in TASKS:
        task, features = loaded(prepared, name)
        model = tuned(task, pretrained)
        rows, targets = np.arange(0, 30, 3), task.targets(features)
        if name == "korquad":  # HF's span loss is over padding too, so it is only the same for windows of one length
            rows = np.flatnonzero(features.lengths == features.lengths.max())[:10]
        assert len(rows) == 10, name
        batch = padded(features, rows, "cpu") | {
            key: torch.from_numpy(np.array(array[rows])) for key, array in targets.items()
        }
        loss, _ = TaskModule(model.eval())(batch)
        means = []
        for key, array in targets.items():
            output = {"labels": "logits"}.get(key, key.replace("positions", "logits"))
            each = [cross_entropy(alone(model, features, row)[output], torch.tensor(array[row])).item() for row in rows]
            means.append(np.mean(each))
        assert loss.item() == pytest.approx(np.mean(means), abs=1e-5), name


def test_logits_equal_the_windows_one_by_one_in_their_order(prepared: Path, pretrained: Path) -> None:
    for name in TASKS:
        task, features = loaded(prepared, name)
        model = tuned(task, pretrained, dropout=0.5).train()
        found = logits(model, features, 7, "cpu")
        for row in range(0, len(features), 11):
            for output, values in alone(model, features, row).items():
                np.testing.assert_allclose(found[output][row][: len(values)], values.numpy(), atol=1e-5)
        assert all(len(rows) == len(features) for rows in found.values()), name


def test_the_encoder_is_the_pretrained_one_or_a_random_one_of_the_same_shape(prepared: Path, pretrained: Path) -> None:
    for name in TASKS:
        task, _ = loaded(prepared, name)
        saved = {
            key.removeprefix("bert."): value
            for key, value in load_file(pretrained / "model.safetensors").items()
            if "bert." in key
        }
        learned, random = (tuned(task, pretrained, from_scratch, dropout=0.2) for from_scratch in (False, True))
        assert type(learned).__name__ == type(random).__name__ == task.auto_class.replace("AutoModel", "Bert"), name
        matrices = 0
        for key, value in learned.base_model.state_dict().items():
            assert torch.equal(value, saved[key]), name
            other = random.base_model.state_dict()[key]
            assert other.shape == value.shape, name
            matrices += value.ndim > 1
            assert value.ndim == 1 or not torch.equal(other, value), name
        assert matrices > 5, name
        assert {model.config.hidden_dropout_prob for model in (learned, random)} == {0.2}, name
        assert learned.num_labels == task.config().get("num_labels", 2), name


def test_a_head_for_other_labels_gives_way_to_a_new_one_and_an_encoder_that_does_not_fit_is_refused(
    pretrained: Path, tmp_path: Path
) -> None:
    config = transformers.AutoConfig.from_pretrained(pretrained, num_labels=3)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(pretrained, config=config)
    model.save_pretrained(tmp_path)
    found = tuned(Task.choose("nsmc"), tmp_path)
    assert found.classifier.weight.shape[0] == 2
    for name, weights in model.base_model.named_parameters():
        assert torch.equal(found.base_model.get_parameter(name), weights), name
    values = read_json(tmp_path / "config.json")
    (tmp_path / "config.json").write_text(json.dumps(values | {"vocab_size": values["vocab_size"] + 1}))
    with pytest.raises(UserError, match="word_embeddings"):
        tuned(Task.choose("nsmc"), tmp_path)


def test_measure_scores_its_own_predictions_the_same_at_any_batch_size(prepared: Path, pretrained: Path) -> None:
    for name in TASKS:
        task, features = loaded(prepared, name)
        model = tuned(task, pretrained, dropout=0.1)
        found = predict(model, task, features, "cpu", batch_size=4)
        predictions, scores = found.predictions, found.scores
        assert scores == task.score(predictions, features.examples), name
        assert len(predictions) == len(features.examples), name
        assert predict(model, task, features, "cpu", batch_size=33).predictions == predictions, name


@pytest.mark.parametrize(("mixed_precision", "attention"), [("bf16", "padded"), ("no", "sdpa")])
@pytest.mark.skipif(torch.cuda.is_available(), reason="on CUDA the fused kernel is always taken")
def test_plain_attention_is_taken_in_bf16_and_gives_the_same_logits(
    mixed_precision: Any, attention: Any, prepared: Path, pretrained: Path
) -> None:
    task, features = loaded(prepared, "nsmc")
    reference = tuned(task, pretrained)
    torch.manual_seed(5)
    model = build(task, pretrained, False, FinetunePlan(mixed_precision=mixed_precision, dropout=0.0), 128)
    assert model.config._attn_implementation == attention
    found, expected = (logits(one, features, 8, "cpu")["logits"] for one in (model, reference))
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.usefixtures("bf16_on_any_cpu")
@pytest.mark.parametrize("name", TASKS)
def test_steps_are_taken_in_bf16_and_everything_is_measured_in_full_precision(
    prepared: Path, pretrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The first evaluation, every other one, and the test; also inside an autocast."""
    kinds: dict[bool, list[torch.dtype]] = {True: [], False: []}

    def watched(*given: object, **more: object) -> torch.nn.Module:
        model = build(*given, **more)  # type: ignore[arg-type]
        heads = [part for part in model.children() if isinstance(part, torch.nn.Linear)]
        heads[0].register_forward_hook(lambda head, inputs, output: kinds[head.training].append(output.dtype))
        return model

    monkeypatch.setattr("kobert_pipeline.finetune.model.build", watched)
    plan = {"mixed_precision": "bf16", "epochs": 2, "batch_size": 32, "evaluate_every": 2}
    counts = stage.run(stage.FinetuneOptions(plan=plan), 1, prepared / name, pretrained, tmp_path)
    assert set(kinds[True]) == {torch.bfloat16} and len(kinds[True]) == counts["steps"]
    assert set(kinds[False]) == {torch.float32} and len(kinds[False]) >= counts["steps"] // 2
    task, _ = loaded(prepared, name)
    dev, model = (
        Features.load(prepared / name / "dev"),
        getattr(transformers, task.auto_class).from_pretrained(tmp_path / stage.MODEL),
    )
    with torch.autocast("cpu", torch.bfloat16):
        assert predict(model, task, dev, "cpu", batch_size=7).scores == pytest.approx(counts["dev"], abs=1e-4)


def test_modernbert_reads_the_pooling_that_it_was_pretrained_with(tmp_path: Path) -> None:
    """A folder says itself how its head reads the states, so the mean needs no code of ours to load."""
    ids = torch.tensor([[2, 7, 8, 3]])
    for pooling in ("cls", "mean"):
        torch.manual_seed(0)
        sizes = ModernBert(num_hidden_layers=1, hidden_size=32, num_attention_heads=2, classifier_pooling=pooling)
        sizes.save(sizes.model(sizes.config(50), "masked"), tmp_path / pooling)
        model = build(Task.choose("nsmc"), tmp_path / pooling, False, FinetunePlan(), 16).eval()
        with torch.no_grad():
            states = model.base_model(ids).last_hidden_state
            pooled = states[:, 0] if pooling == "cls" else states.mean(1)
            torch.testing.assert_close(model(ids).logits, model.classifier(model.drop(model.head(pooled))))


def test_a_model_gets_the_token_types_of_matches(tmp_path: Path) -> None:
    """At first they are the context's, so that the outputs are those of the model without them."""
    task = Task.choose({"name": "korquad", "exact_match_feature": True})
    ids, segments = torch.tensor([[2, 7, 3, 8, 9, 3]]), torch.tensor([[0, 0, 0, 1, 1, 1]])
    for cls in (Bert, RoFormer):
        architecture = cls(num_hidden_layers=1, hidden_size=32, num_attention_heads=2, max_position_embeddings=96)
        folder = tmp_path / cls.__name__
        architecture.save(architecture.model(architecture.config(300), "masked"), folder)
        torch.manual_seed(0)
        plain = build(Task.choose("korquad"), folder, False, FinetunePlan(), 16).eval()
        torch.manual_seed(0)
        model = build(task, folder, False, FinetunePlan(), 16).eval()
        assert model.config.type_vocab_size == TYPES
        with torch.no_grad():
            expected = plain(ids, token_type_ids=segments).start_logits
            torch.testing.assert_close(model(ids, token_type_ids=segments * (TYPES - 1)).start_logits, expected)
        model.save_pretrained(tmp_path / "tuned")
        again = load(tmp_path / "tuned")
        types = [one.base_model.embeddings.token_type_embeddings.weight for one in (again, model)]
        assert torch.equal(*types)
        assert build(task, tmp_path / "tuned", False, FinetunePlan(), 16).config.type_vocab_size == TYPES
        assert build(task, folder, True, FinetunePlan(), 16).config.type_vocab_size == TYPES


def test_parts_of_speech_are_token_types_that_begin_as_those_without(tmp_path: Path) -> None:
    """Also of a model that was tuned with matches alone: so it can learn the others."""
    architecture = Bert(num_hidden_layers=1, hidden_size=32, num_attention_heads=2, max_position_embeddings=96)
    architecture.save(architecture.model(architecture.config(300), "masked"), tmp_path / "bert")
    matches = Task.choose({"name": "korquad", "exact_match_feature": True})
    build(matches, tmp_path / "bert", False, FinetunePlan(), 16).save_pretrained(tmp_path / "matches")
    before = load(tmp_path / "matches").base_model.embeddings.token_type_embeddings.weight
    tagged = Task.choose({"name": "korquad", "exact_match_feature": True, "pos_feature": True})
    model = build(tagged, tmp_path / "matches", False, FinetunePlan(), 16)
    types = model.base_model.embeddings.token_type_embeddings.weight
    assert model.config.type_vocab_size == len(types) == POS_TYPES
    assert torch.equal(types, before.repeat(POS_TYPES // TYPES, 1))


def test_features_without_what_a_model_was_trained_with_are_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    architecture = Bert(num_hidden_layers=1, hidden_size=32, num_attention_heads=2, max_position_embeddings=96)
    architecture.save(architecture.model(architecture.config(300), "masked"), tmp_path / "bert")
    matches = Task.choose({"name": "korquad", "exact_match_feature": True})
    build(matches, tmp_path / "bert", False, FinetunePlan(), 16).save_pretrained(tmp_path / "matches")
    build(matches, tmp_path / "matches", False, FinetunePlan(), 16)
    assert "note" not in capsys.readouterr().err
    build(Task.choose("korquad"), tmp_path / "matches", False, FinetunePlan(), 16)
    assert "was trained with exact_match_feature in the options of its task" in capsys.readouterr().err


def test_architectures_without_token_types_have_no_exact_match_feature(tmp_path: Path) -> None:
    """Those that say so are those that `build` refuses, and a recipe names them before anything is trained."""
    task = Task.choose({"name": "korquad", "exact_match_feature": True})
    for name in plugins.contract("architectures").names():
        architecture = Architecture.choose({"name": name, "num_hidden_layers": 1, "hidden_size": 32})
        config = architecture.config(300)
        config.save_pretrained(tmp_path / name)
        recipe = {
            "corpus": {"sources": [{"name": "text", "path": "a.txt"}]},
            "pretrain": {"objective": {"name": "clm" if name == "gpt2" else "mlm"}, "architecture": {"name": name}},
            "features": {"korquad": {"task": task.dump(), "train": "a.json"}},
            "finetune": {"korquad": {}},
        }
        if architecture.token_types:
            assert build(task, tmp_path / name, True, FinetunePlan(), 16).config.type_vocab_size == TYPES
            continue
        with pytest.raises(UserError, match=f"the architecture {config.model_type} has no token types"):
            build(task, tmp_path / name, True, FinetunePlan(), 16)
        with pytest.raises(ValueError, match=f"needs an architecture with token types, and {name} does not have them"):
            Recipe.model_validate(recipe)
