"""Tagging end to end: one run by the command, from files to entities of a published folder; and the feature-based
model."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
import yaml
from torch.nn.functional import cross_entropy

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import read_json
from kobert_pipeline.finetune.batching import Batches
from kobert_pipeline.finetune.feature_based import FeatureBasedTagger
from kobert_pipeline.finetune.model import TaskModule, build, load, logits
from kobert_pipeline.finetune.plan import FinetunePlan
from kobert_pipeline.inference.checkpoint import Checkpoint
from kobert_pipeline.inference.loading import load_model, load_tokenizer
from kobert_pipeline.tokenizer.special_tokens import IGNORE_INDEX

NAMES = ["민수", "지호", "준서", "시우", "민지", "수아", "지우", "은우", "하나", "유나"]
PLACES = ["부산", "강릉", "남해", "춘천", "여수", "경주", "대구", "제주", "목포", "전주"]
FRAMES = ["{}는 어제 {}에 갔다.", "오늘 {}가 {}에서 온다.", "{}와 함께 {}에 머물렀다.", "비가 와서 {}는 {}에 남았다."]


def sentences() -> Iterator[tuple[str, list[tuple[int, int, str]]]]:
    """Sentences with a person and a place."""
    for i, frame in enumerate(FRAMES):
        for j, name in enumerate(NAMES):
            for place in (PLACES[j], PLACES[(j + i + 1) % 10]):
                text = frame.format(name, place)
                begins = text.index(name), text.index(place)
                yield text, [(begins[0], begins[0] + len(name), "PS"), (begins[1], begins[1] + len(place), "LC")]


def klue(more: str = "") -> str:
    """The sentences in KLUE's form, with `more` at their ends."""
    blocks = []
    for number, (sentence, entities) in enumerate(sentences()):
        text = sentence + more
        tags = ["O"] * len(text)
        for start, end, kind in entities:
            tags[start:end] = [f"B-{kind}"] + [f"I-{kind}"] * (end - start - 1)
        rows = "".join(f"{character}\t{tag}\n" for character, tag in zip(text, tags, strict=True))
        blocks.append(f"## own-{number}\t{text}\n{rows}")
    return "\n".join(blocks)


PLAN = {"epochs": 12, "batch_size": 16, "learning_rate": 5e-3}
FROZEN = {
    "features": "ner",
    "encoder": "frozen",
    "plan": {"epochs": 30, "batch_size": 8, "learning_rate": 1e-2, "evaluate_every": 80},
}


@pytest.fixture(scope="module")
def run_dir(tiny: Any, kobert: Any, corpora: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with both tasks; `own` over windows of 16 tokens, `ner` tuned and feature-based."""
    place = tmp_path_factory.mktemp("tagging")
    data = place / "data"
    data.mkdir()
    for name in ("documents", "reviews_test.txt", "qa_dev.json"):
        (data / name).symlink_to(corpora / name)
    (data / "ner.tsv").write_text(klue(), encoding="utf-8")
    (data / "train.tsv").write_text(klue(" 참"), encoding="utf-8")  # a test file must not be that of train
    rows = list(sentences())
    with (data / "own.jsonl").open("w", encoding="utf-8") as own:
        for (first, left), (second, right) in zip(rows, [*rows[7:], *rows[:7]], strict=True):
            moved = [(start + len(first) + 1, end + len(first) + 1, kind) for start, end, kind in right]
            own.write(json.dumps({"text": f"{first} {second}", "entities": [*left, *moved]}) + "\n")
    run_dir = tiny.copy(place / "runs" / "tiny", "corpus", "analysis", "tokenizer", "shards", "pretrain")
    content = yaml.safe_load(tiny.recipe.read_text(encoding="utf-8")) | {"data_dir": str(data)}
    content["features"] = {
        "ner": {"task": "ner", "train": "train.tsv", "test": "ner.tsv", "dev_share": 0.2, "max_length": 48},
        "own": {
            "task": {"name": "tagging", "labels": ["PS", "LC"]},
            "train": "own.jsonl",
            "dev_share": 0.2,
            "max_length": 16,
        },
    }
    content["finetune"] = {"ner": {"plan": PLAN}, "own": {"plan": PLAN}, "frozen": FROZEN}
    content["publish"] = {"ner": {"source": "ner", "onnx": False}}
    (place / "tiny.yaml").write_text(yaml.safe_dump(content, allow_unicode=True, sort_keys=False), encoding="utf-8")
    result = kobert("run", place / "tiny.yaml", "--run-dir", run_dir)
    assert result.code == 0, result.err
    return run_dir


@pytest.mark.parametrize(("name", "split"), [("ner", "test"), ("own", "dev"), ("frozen", "test")])
def test_entities_are_learned(name: Any, split: Any, run_dir: Path, tiny: Any) -> None:
    counts = tiny.manifests(run_dir)[f"finetune/{name}/1"]["counts"]
    assert list(counts[split]) == [
        "entity_f1", "entity_precision", "entity_recall", "entity_macro_f1", "character_macro_f1",
        "character_macro_f1_with_o",
    ]  # fmt: skip
    assert counts[split]["entity_f1"] > 80, "by chance it is near 0"


def test_the_features_tell_the_ceiling(run_dir: Path, tiny: Any) -> None:
    counts = tiny.manifests(run_dir)["features/ner"]["counts"]
    assert counts["test_entities"] == 2 * counts["test_examples"] == 160
    assert counts["test_entity_f1_ceiling"] >= 100 - 100 * counts["test_entity_borders_inside_tokens"] / 160


def test_predictions_are_written_in_characters(run_dir: Path) -> None:
    lines = (run_dir / "finetune" / "ner" / "1" / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    found = {row["id"]: row["prediction"] for row in map(json.loads, lines)}
    assert len(found) == 80
    right = sum(
        [list(entity) for entity in entities] == found[f"own-{i}"] for i, (_, entities) in enumerate(sentences())
    )
    assert right > 40


TEXTS = ["민수는 어제\t부산에 갔다.", "오늘  지호가 여수에서 온다.", "", "비가 온다"]


def test_predict_equals_the_pipeline_of_transformers(run_dir: Path) -> None:
    for texts in [TEXTS, [" ".join(text for text, _ in sentences())[:300]]]:
        folder = run_dir / "publish" / "ner"
        loaded = Checkpoint.load(folder)
        model, tokenizer = loaded.model, loaded.tokenizer
        find = transformers.pipeline(
            "token-classification", model=model, tokenizer=tokenizer, aggregation_strategy="simple"
        )
        tokenizer.model_max_length = model.config.task_specific_params["ner"]["max_length"] = 256
        found = loaded.predict(texts)  # in one window, as the pipeline reads a text
        for ours in found:
            theirs = find(ours["text"]) if ours["text"] else []
            assert [(e["start"], e["end"], e["label"]) for e in ours["entities"]] == [
                (e["start"], e["end"], e["entity_group"]) for e in theirs
            ], texts
            assert [e["score"] for e in ours["entities"]] == pytest.approx(
                [float(e["score"]) for e in theirs], abs=2e-4
            ), texts
            assert all(e["text"] == ours["text"][e["start"] : e["end"]] for e in ours["entities"]), texts
        assert len([entity for ours in found for entity in ours["entities"]]) > 2, texts


def test_the_command_finds_entities_in_raw_characters(run_dir: Path, kobert: Any) -> None:
    texts = list(filter(None, TEXTS))  # an empty one is refused on the command line
    result = kobert("predict", run_dir / "publish" / "ner", *texts, "--json")
    found = [json.loads(line) for line in result.out.splitlines()]
    assert [row["text"] for row in found] == texts
    assert [(e["text"], e["label"]) for e in found[0]["entities"]] == [("민수", "PS"), ("부산", "LC")]
    assert set(found[0]["entities"][0]) == {"start", "end", "text", "label", "score"}
    assert found[-1]["entities"] == []


def test_a_long_text_is_read_in_windows_and_every_entity_has_its_offsets(run_dir: Path) -> None:
    text = "  ".join(text for text, _ in sentences())
    folder, tokenizer = run_dir / "finetune" / "own" / "1" / "model", run_dir / "tokenizer"
    assert len(load_tokenizer(tokenizer)(text)["input_ids"]) > 20 * 16
    assert load_model(folder, with_tokenizer=False).config.task_specific_params["tagging"]["max_length"] == 16
    [found] = Checkpoint.load(folder, tokenizer).predict([text])
    places = {(e["start"], e["end"], e["label"]) for e in found["entities"]}
    assert len(places) == len(found["entities"]) and all(text[start:end].strip() for start, end, _ in places)
    begin, right = 0, 0
    for sentence, entities in sentences():
        right += sum((begin + start, begin + end, kind) in places for start, end, kind in entities)
        begin += len(sentence) + 2
    assert right > 0.8 * 160


def test_the_card_is_one_of_token_classification_and_its_code_runs(
    run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = (run_dir / "publish" / "ner" / "README.md").read_text(encoding="utf-8")
    data = yaml.safe_load(card.split("---\n")[1])
    assert data["pipeline_tag"] == "token-classification"
    metrics = data["model-index"][0]["results"][0]["metrics"]
    assert [(one["type"], one["name"]) for one in metrics[:2]] == [
        ("f1", "entity_f1"),
        ("precision", "entity_precision"),
    ]
    code = re.search(r"```python\n(.*?)```", card, re.S)
    assert code
    exec(code.group(1).replace("PATH/TO/THIS/FOLDER", str(run_dir / "publish" / "ner")), {})
    assert re.search(r"\[\]|'entity_group': '(PS|LC)'", capsys.readouterr().out)


# the loss, and steps in parts


def module(run_dir: Path, frozen: bool = False) -> tuple[TaskModule, Features, Task]:
    """Model and data of `own` without dropout."""
    task = Task.choose(read_json(run_dir / "features" / "own" / "task.json")["task"])
    torch.manual_seed(3)
    model = build(task, run_dir / "pretrain" / "model", False, FinetunePlan(dropout=0.0), 16, frozen)
    return TaskModule(model), Features.load(run_dir / "features" / "own" / "train"), task


@pytest.mark.parametrize("frozen", [False, True])
def test_the_loss_is_the_mean_over_the_labelled_tokens_window_by_window(frozen: Any, run_dir: Path) -> None:
    learner, features, task = module(run_dir, frozen)
    batches = Batches(features, task.targets(features), 9, seed=1)
    rows = batches.epoch(0)[0]
    loss, _ = learner.eval()(batches.batch(0, 0, 1))
    total, count = 0.0, 0
    for row in rows:
        part = slice(*features.arrays["windows"][row : row + 2])
        inputs = {
            name: torch.from_numpy(features.arrays[name][part].astype(np.int64))[None]
            for name in ("input_ids", "token_type_ids")
        }
        with torch.no_grad():
            alone = learner.model(attention_mask=torch.ones_like(inputs["input_ids"]), **inputs).logits[0]
        labels = torch.from_numpy(features.arrays["labels"][part].astype(np.int64))
        total += cross_entropy(alone, labels, reduction="sum").item()
        count += int((labels != IGNORE_INDEX).sum())
    assert 0 < count < sum(features.lengths[rows]) - 2 * len(rows), "some tokens stand more central elsewhere"
    assert loss.item() == pytest.approx(total / count, rel=1e-5), frozen


@pytest.mark.parametrize("parts", [2, 4, 12])
def test_parts_of_a_step_add_up_to_its_loss_and_gradients(run_dir: Path, parts: int) -> None:
    learner, features, task = module(run_dir)
    batches = Batches(features, task.targets(features), 9, seed=1)

    def step(count: int) -> tuple[float, torch.Tensor]:
        learner.zero_grad()
        losses = [learner.eval()(batches.batch(1, part, count))[0] for part in range(count)]
        loss = torch.stack(losses).sum()
        loss.backward()
        return loss.item(), learner.model.classifier.weight.grad.clone()

    (whole, gradient), (cut, of_parts) = step(1), step(parts)
    assert cut == pytest.approx(whole, rel=1e-5)
    torch.testing.assert_close(of_parts, gradient, rtol=1e-4, atol=1e-6)


# feature-based


def test_the_frozen_encoder_stays_as_it_was_pretrained_and_the_head_does_not(run_dir: Path) -> None:
    model = load(run_dir / "finetune" / "frozen" / "1" / "model")
    assert isinstance(model, FeatureBasedTagger)
    pretrained = transformers.AutoModel.from_pretrained(run_dir / "pretrain" / "model").state_dict()
    for name, value in model.encoder.state_dict().items():
        assert torch.equal(value, pretrained[name]), name
    assert not [name for name, parameter in model.encoder.named_parameters() if parameter.requires_grad]
    assert not model.train().encoder.training and model.lstm.training


def test_the_head_reads_the_last_four_layers_of_a_deeper_encoder() -> None:
    sizes = {
        "hidden_size": 8,
        "num_attention_heads": 2,
        "intermediate_size": 8,
        "vocab_size": 30,
        "max_position_embeddings": 16,
    }
    encoder = transformers.BertModel(transformers.BertConfig(num_hidden_layers=6, num_labels=3, **sizes))
    model = FeatureBasedTagger(encoder).eval()
    seen: list[torch.Tensor] = []
    model.lstm.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].data))
    ids = torch.arange(5, 12)[None]
    found = model(torch.ones_like(ids), input_ids=ids).logits
    states = encoder(ids, output_hidden_states=True).hidden_states
    assert found.shape == (1, 7, 3)
    torch.testing.assert_close(seen[0], torch.cat([states[3], states[4], states[5], states[6]], -1)[0])


def test_the_lstm_runs_in_full_precision_under_autocast() -> None:
    """On a GPU autocast runs LSTMs in fp16, also where bf16 was asked for."""
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 30}
    encoder = transformers.BertModel(transformers.BertConfig(num_hidden_layers=4, num_labels=3, **sizes))
    model = FeatureBasedTagger(encoder).eval()
    passed: list[tuple[torch.Tensor, torch.Tensor]] = []
    model.lstm.register_forward_hook(lambda _, inputs, outputs: passed.append((inputs[0].data, outputs[0].data)))
    ids = torch.arange(5, 12)[None]
    with torch.autocast("cpu", torch.bfloat16):
        model(torch.ones_like(ids), input_ids=ids).logits.sum().backward()
    [(features, states)] = passed
    assert features.dtype == states.dtype == torch.float32
    torch.testing.assert_close(states, model.lstm(features[None])[0][0])


def test_a_feature_based_model_gives_the_same_logits_once_saved_and_batched_with_longer_windows(
    run_dir: Path, tmp_path: Path
) -> None:
    learner, features, _ = module(run_dir, frozen=True)
    learner.model.save_pretrained(tmp_path / "model")
    again = load(tmp_path / "model")
    expected = logits(learner.model, features, 1, "cpu")["logits"]
    for row, values in enumerate(logits(again, features, 16, "cpu")["logits"]):
        np.testing.assert_allclose(values[: len(expected[row])], expected[row], atol=1e-5)


def test_a_feature_based_model_predicts_with_the_tokenizer_of_its_run(run_dir: Path, kobert: Any) -> None:
    folder, tokenizer = run_dir / "finetune" / "frozen" / "1" / "model", run_dir / "tokenizer"
    result = kobert("predict", folder, TEXTS[0], "--tokenizer", tokenizer, "--json")
    [found] = [json.loads(line) for line in result.out.splitlines()]
    assert [(e["text"], e["label"]) for e in found["entities"]] == [("민수", "PS"), ("부산", "LC")]
    with pytest.raises(UserError, match="not a published checkpoint"):
        Checkpoint.load(folder).predict(TEXTS)


def test_a_tuned_model_predicts_in_its_run_as_it_does_published(run_dir: Path) -> None:
    unpublished = Checkpoint.load(run_dir / "finetune" / "ner" / "1" / "model", run_dir / "tokenizer").predict(TEXTS)
    assert unpublished == Checkpoint.load(run_dir / "publish" / "ner").predict(TEXTS)


def test_a_folder_of_a_feature_based_model_loads_as_nothing_else(run_dir: Path) -> None:
    with pytest.raises((OSError, ValueError), match=r"config\.json"):
        transformers.AutoModelForTokenClassification.from_pretrained(run_dir / "finetune" / "frozen" / "1" / "model")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (
            "publish.ner.source=frozen",
            "publish.ner.source is 'frozen', whose encoder is frozen: transformers has no class",
        ),
        ("features.ner.task=sts", "finetune.frozen.encoder is 'frozen', which sts does not support"),
        ("finetune.ner.encoder=forzen", "finetune.ner.encoder"),
        ("features.own.task.labels=[O]", "'O' means that there is no entity"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(setting: Any, said: Any, run_dir: Path, kobert: Any) -> None:
    assert said in kobert("check", run_dir.parents[1] / "tiny.yaml", "--set", setting).complaint


@pytest.mark.slow
def test_a_stopped_run_goes_on_to_the_same_files(run_dir: Path, tiny: Any, kobert: Any, tmp_path: Path) -> None:
    for number, name in enumerate(["own", "frozen"]):
        place = tmp_path / str(number)
        place.mkdir()
        again = place / "runs" / "again"
        again.mkdir(parents=True)
        for stage in ("corpus", "analysis", "tokenizer", "shards", "features", "pretrain"):
            (again / stage).symlink_to(run_dir / stage)
        content = yaml.safe_load((run_dir.parents[1] / "tiny.yaml").read_text(encoding="utf-8"))
        tuned = content["finetune"][name]
        content["finetune"] = {name: tuned | {"plan": tuned["plan"] | {"checkpoint_every": 7}}}
        content["publish"] = {}
        recipe = place / "tiny.yaml"
        recipe.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
        stopped = kobert("finetune", recipe, "--run-dir", again, "--set", f"finetune.{name}.plan.max_minutes=0.001")
        assert stopped.code == 75, stopped.err
        assert kobert("finetune", recipe, "--run-dir", again).code == 0, name
        made, expected = (tiny.manifests(place)[f"finetune/{name}/1"]["files"] for place in (again, run_dir))
        assert made == expected, name
