"""What a model is measured by during training: comparable numbers, taken without changing anything in the training."""

import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from rows import SMALL, prepared
from safetensors.torch import load_file
from synthetic_shards import articles, reviews, shard_of, shards_of
from tokenizers import Tokenizer, models, pre_tokenizers

from kobert_pipeline.files import sha256
from kobert_pipeline.morphemes.morpheme import WORD_MARK
from kobert_pipeline.pretrain import held_out, stage
from kobert_pipeline.pretrain.batch import Batch
from kobert_pipeline.pretrain.held_out import HELD_OUT_BATCHES, HeldOutEvaluator, characters_of, per_character
from kobert_pipeline.pretrain.loader import Loader
from kobert_pipeline.pretrain.model import LossModule
from kobert_pipeline.pretrain.options import PretrainOptions
from kobert_pipeline.pretrain.stage import BEST
from kobert_pipeline.progress import by_source_text
from kobert_pipeline.shards.format import EOJEOL, Shard, Shards
from kobert_pipeline.tokenizer.special_tokens import SPECIAL_TOKENS
from kobert_pipeline.training.device import make_accelerator
from kobert_pipeline.training.loop import NotFinite
from kobert_pipeline.training.plan import Plan

BERT = {"name": "bert", **SMALL}
ROWS = {
    "clm": ("clm", {"name": "gpt2", **SMALL}),
    "mlm": ("mlm_nsp", BERT),
    "rtd": ("rtd", {"name": "electra", **SMALL}),
}
WORDS = ["나", "는", "학교", "에서", "대한민국"]


def vocabulary() -> Tokenizer:
    """Special tokens, then tokens of one to seven characters, every other one at the beginning of a word."""
    tokens = list(SPECIAL_TOKENS)
    for number in range(200 - len(tokens)):
        tokens.append(WORD_MARK * (number % 2) + WORDS[number % 5] + str(number))
    return Tokenizer(models.WordPiece({token: number for number, token in enumerate(tokens)}, unk_token="[UNK]"))


def options(objective: Any = "mlm_nsp", architecture: Any = BERT, **plan: Any) -> PretrainOptions:
    """The first third of a small schedule."""
    return PretrainOptions(
        objective=objective, architecture=architecture, max_length=48, batch_tokens=256, total_tokens=2500,
        plan={"checkpoint_every": 4, "learning_rate": 5e-3, **plan},
    )  # fmt: skip


def measure_of(kind: str, out: Path, mixed_precision: str = "no") -> HeldOutEvaluator:
    module, _ = prepared(*ROWS[kind])
    held_out, chosen = shards_of(articles(8), reviews(3)), options(*ROWS[kind])
    return HeldOutEvaluator(module, chosen, mixed_precision, held_out, vocabulary(), out)


def test_characters_are_those_of_a_token() -> None:
    assert len(WORD_MARK) == 1
    made = vocabulary()
    for number, characters in enumerate(characters_of(made).tolist()):
        token = made.id_to_token(number)
        assert characters == (1 if number < len(SPECIAL_TOKENS) else len(token.replace(WORD_MARK, "")))
    bare = Tokenizer(models.WordPiece({"[UNK]": 0, WORD_MARK: 1, "은": 2}, unk_token="[UNK]"))
    assert characters_of(bare).tolist() == [1, 1, 1], "the mark alone is asked for too"
    # "가" is EA B0 80: a token with its first byte, one with the others, one with all, and the space alone
    of_bytes = Tokenizer(models.BPE({"[UNK]": 0, "ê": 1, "°\u0122": 2, "\u0120ê°\u0122": 3, "\u0120": 4}, []))
    of_bytes.pre_tokenizer = pre_tokenizers.ByteLevel()
    assert characters_of(of_bytes, (0,)).tolist() == [1, 1, 0, 1, 1]
    # tags are not in the text
    tagged = Tokenizer(
        models.WordPiece({"[UNK]": 0, f"{WORD_MARK}영화/NNG": 1, "/NNG": 2, "하/VV-R": 3, "AC": 4}, unk_token="[UNK]")
    )
    assert characters_of(tagged, (0,)).tolist() == [1, 2, 0, 1, 2]


def test_a_loss_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    measured = measure_of("mlm", tmp_path)
    assert measured(0)["loss"] > 0
    torch.nn.init.constant_(next(measured.module.parameters()), math.nan)
    with pytest.raises(NotFinite, match=r"held-out text is not finite after step 7; .* lower plan.learning_rate"):
        measured(7)
    assert list(measured.evaluations.values) == [0]


def nats(module: LossModule, batch: Batch) -> float:
    """The loss of HF's model on the labels, in nats, one sequence at a time."""
    model = {"electra": getattr(module.model, "generator", None)}.get(module.architecture.name, module.model)
    model.set_attn_implementation("eager")
    total = 0.0
    labels = np.full(len(batch.input_ids), -100)
    labels[batch.masked_positions] = batch.labels
    for start, length in zip(batch.starts.tolist(), batch.lengths.tolist(), strict=True):
        given = {"input_ids": batch.input_ids[None, start : start + length]}
        if module.architecture.name != "gpt2":
            given["token_type_ids"] = batch.token_type_ids[None, start : start + length]
        found = model(**{name: torch.from_numpy(array) for name, array in given.items()})
        logits = getattr(found, "prediction_logits", None)
        chances = (found.logits if logits is None else logits)[0].double().log_softmax(-1)
        wanted = labels[start : start + length]
        total -= sum(chances[place, label].item() for place, label in enumerate(wanted.tolist()) if label != -100)
    model.set_attn_implementation("packed")
    return total


@torch.no_grad()
def test_perplexity_per_character_equals_a_plain_computation(tmp_path: Path) -> None:
    for number, kind in enumerate(ROWS):
        place = tmp_path / str(number)
        place.mkdir()
        measured = measure_of(kind, place)
        found = measured(0)
        batches = [
            measured.held_out_words.batch(step)
            for step in range(min(HELD_OUT_BATCHES, measured.held_out_words.steps_per_epoch()))
        ]
        tokens = [
            vocabulary().id_to_token(label).removeprefix(WORD_MARK)
            for batch in batches
            for label in batch.labels.tolist()
        ]
        characters = sum(1 if token in SPECIAL_TOKENS else len(token) for token in tokens)
        expected = math.exp(sum(nats(measured.module.eval(), batch) for batch in batches) / characters)
        name = "perplexity_per_character" if kind == "clm" else "pseudo_perplexity_per_character"
        assert found[name] == pytest.approx(expected, rel=1e-4), kind
        assert len(batches) > 1 and expected > 2, kind


def test_perplexity_does_not_depend_on_how_often_batches_are_cut() -> None:
    """The mean is over characters, not over batches."""
    module, _ = prepared(*ROWS["clm"])
    found = []
    for tokens in (200, 10_000):
        chosen = SimpleNamespace(objective=module.objective, max_length=48, batch_tokens=tokens)
        loader = Loader(shards_of(articles(8), reviews(3)), chosen, 200, seed=0)
        found.append(per_character(module, loader, 1000, characters_of(vocabulary())))
    assert found[0] == pytest.approx(found[1])


def numbered(shard: Shard) -> Shards:
    """Every token has another id, so that a label determines its position."""
    return Shards([replace(shard, ids=np.arange(5, 5 + len(shard.ids)).astype(np.uint16))])


@pytest.mark.parametrize(
    "objective", ["mlm_nsp", "mlm_sop", "rtd", {"name": "mlm", "mask_unit": "token", "mlm_probability": 0.4}]
)
def test_eojeols_are_hidden_whole(objective: Any) -> None:
    chosen = options(objective, {"name": "electra" if objective == "rtd" else "bert", **SMALL})
    assert chosen.objective.mask_unit != "eojeol"
    words = chosen.with_whole_word_masking()
    assert words.objective.model_copy(update={"mask_unit": chosen.objective.mask_unit}) == chosen.objective
    shards = numbered(shard_of(articles(20) + reviews(6), seed=4))
    eojeol = np.cumsum(shards.shards[0].boundaries & EOJEOL != 0)
    longer = 0
    for step in range(3):
        batch = Loader(shards, words, 60_000, seed=0).batch(step)
        originals = batch.input_ids.copy()
        originals[batch.masked_positions] = batch.labels
        hidden = np.isin(np.arange(len(originals)), batch.masked_positions)
        sequence = np.repeat(np.arange(len(batch.lengths)), batch.lengths) * 2 + batch.token_type_ids
        word_of = {}
        for place, token in enumerate(originals.tolist()):
            if token >= len(SPECIAL_TOKENS):
                word_of.setdefault((sequence[place], eojeol[token - 5]), []).append(hidden[place])
        assert all(len(set(word)) == 1 for word in word_of.values())
        longer += sum(len(word) > 1 and word[0] for word in word_of.values())
    assert longer > 5


def test_what_hides_nothing_stays_as_it_is() -> None:
    chosen = options(*ROWS["clm"])
    assert chosen.with_whole_word_masking() is chosen


def scripted(monkeypatch: pytest.MonkeyPatch, losses: list[float]) -> None:
    """Evaluations with these losses, one after the other."""
    found = iter(losses)
    monkeypatch.setattr(held_out, "evaluate", lambda *anything: {"loss": next(found)})


def test_the_folder_best_holds_the_weights_of_the_lowest_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of equals; losses are equal where the file of evaluations says so."""
    for number, (losses, best) in enumerate(
        [([5, 4, 3, 4], 2), ([5, 4, 3.5, 3], 3), ([3, 4, 5, 4], 0), ([5, 3, 3, 4], 1), ([3, 2.9999999, 4, 4], 0)]
    ):
        place = tmp_path / str(number)
        place.mkdir()
        with monkeypatch.context() as patch:
            scripted(patch, losses)
            measured = measure_of("mlm", place)
            weight = measured.module.model.bert.pooler.dense.bias
            for step in range(len(losses)):
                weight.data.fill_(step)
                measured(step)
            assert measured.best == best, (losses, best)
            assert load_file(place / BEST / "model.safetensors")["bert.pooler.dense.bias"].unique().tolist() == [
                best
            ], (losses, best)


def test_a_resumed_training_keeps_the_best_of_its_own_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after an evaluation and before a checkpoint, it evaluates the same step again."""
    scripted(monkeypatch, [5, 4, 3, 4, 3, 6])
    measured = measure_of("mlm", tmp_path)
    weight = measured.module.model.bert.pooler.dense.bias
    for step in (0, 1, 2):
        weight.data.fill_(step)
        measured(step)
    resumed = measure_of("mlm", tmp_path)
    weight = resumed.module.model.bert.pooler.dense.bias
    for step in (1, 2, 3):
        weight.data.fill_(step)
        resumed(step)
    assert resumed.best == 2
    assert load_file(tmp_path / BEST / "model.safetensors")["bert.pooler.dense.bias"].unique().tolist() == [2]


@pytest.mark.parametrize("way", ["falls", "rises", "turns"])
def test_the_stage_keeps_the_best_where_it_is_not_the_last(
    way: str, folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = {"falls": lambda step: 9 - step, "rises": lambda step: 9 + step, "turns": lambda step: abs(step - 4)}[way]
    steps = iter([0, *range(1, 100)])
    saved: dict[int, torch.Tensor] = {}

    def evaluate(module: LossModule, *rest: Any) -> dict[str, float]:
        step = next(steps)
        saved[step] = module.model.bert.embeddings.word_embeddings.weight.detach().clone()
        return {"loss": losses(step)}

    monkeypatch.setattr(held_out, "evaluate", evaluate)
    counts = stage.run(options(evaluate_every=1), *folders, tmp_path / "out")
    best = {"falls": counts["steps"], "rises": 0, "turns": 4}[way]
    assert counts["best_step"] == best
    name = "bert.embeddings.word_embeddings.weight"
    assert torch.equal(load_file(tmp_path / "out" / stage.MODEL / "model.safetensors")[name], saved[counts["steps"]])
    if way == "falls":
        assert not (tmp_path / "out" / BEST).exists()
    else:
        assert torch.equal(load_file(tmp_path / "out" / BEST / "model.safetensors")[name], saved[best])
        assert not torch.equal(saved[best], saved[counts["steps"]])


@pytest.mark.usefixtures("bf16_on_any_cpu")
@pytest.mark.parametrize("mixed_precision", ["no", "bf16"])
def test_every_evaluation_runs_in_the_precision_of_the_training(
    mixed_precision: str, folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, seen = type(options().architecture), []
    plain = kind.token_states

    def spy(self: Any, model: Any, hidden: torch.Tensor) -> torch.Tensor:
        seen.append((model.training, torch.nn.functional.linear(hidden, hidden).dtype))
        return plain(self, model, hidden)

    monkeypatch.setattr(kind, "token_states", spy)
    stage.run(options(mixed_precision=mixed_precision, evaluate_every=4), *folders, tmp_path / "out")
    assert not seen[0][0] and {training for training, _ in seen} == {True, False}
    assert {dtype for _, dtype in seen} == {torch.bfloat16 if mixed_precision == "bf16" else torch.float32}


def test_the_same_weights_are_measured_the_same_before_and_after_accelerate_takes_them(tmp_path: Path) -> None:
    for number, mixed_precision in enumerate(["no", "bf16"]):
        place = tmp_path / str(number)
        place.mkdir()
        measured = measure_of("mlm", place, mixed_precision)
        before = measured(0)
        make_accelerator(Plan(mixed_precision=mixed_precision)).prepare(measured.module)
        assert measured(1) == before, mixed_precision


def test_an_evaluation_leaves_random_state_and_mode_of_the_training(tmp_path: Path) -> None:
    """It draws numbers: the generator's samples."""
    for number, (training, kind) in enumerate(product([True, False], ROWS)):
        place = tmp_path / str(number)
        place.mkdir()
        measured = measure_of(kind, place)
        measured.module.train(training)
        torch.manual_seed(8)
        before = torch.get_rng_state()
        first = measured(0)
        assert torch.equal(torch.get_rng_state(), before), (kind, training)
        assert measured.module.training is training, (kind, training)
        torch.manual_seed(9)
        assert measured(1) == first, "always the same numbers"


def test_how_often_is_evaluated_changes_no_weight(folders: tuple[Path, Path], tmp_path: Path) -> None:
    for name, every in (("often", 1), ("rarely", 100)):
        electra = options("rtd", {"name": "electra", **SMALL, "generator_share": 0.5}, evaluate_every=every)
        stage.run(electra, *folders, tmp_path / name)
    digests = {sha256(tmp_path / name / stage.MODEL / "model.safetensors") for name in ("often", "rarely")}
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({}, ""),
        ({"held_out_by_source": {"law.txt": {"before": 40.123, "after": 31}}}, "character law.txt 40.12 -> 31.00"),
        (
            {"held_out_by_source": {"law.txt": {"before": 840.1, "after": 31}}, "new_head": {"heads": "MLM head"}},
            "perplexity per character after training law.txt 31.00",
        ),
        (
            {
                "held_out_after": {"loss": 3, "pseudo_perplexity_per_character": 31.004},
                "new_head": {"heads": "MLM head"},
            },
            "perplexity per character after training 31.00",
        ),
        (
            {
                "held_out_before": {"loss": 4, "perplexity_per_character": 40.123},
                "held_out_after": {"loss": 3, "perplexity_per_character": 31},
                "held_out_sources": 500,
            },
            "character 40.12 -> 31.00 (of all held-out texts, as they are from 500 sources)",
        ),
    ],
)
def test_perplexity_by_source_or_of_all_texts(counts: dict[str, Any], expected: str) -> None:
    text = by_source_text(counts)
    assert expected in text and bool(text) == bool(counts)


def test_many_sources_are_counted_and_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out, "MOST_SOURCES", 0)
    evaluator = measure_of("mlm", tmp_path)
    evaluator.evaluate_start()
    summary = evaluator.summary(0)
    assert summary["held_out_sources"] == len(evaluator.sources) > 0 and "held_out_by_source" not in summary


def test_a_start_that_was_killed_between_its_evaluations_is_completed(tmp_path: Path) -> None:
    measure_of("mlm", tmp_path)(0)  # as a run that is killed then
    resumed = measure_of("mlm", tmp_path)
    resumed.of_source = {"a.txt": resumed.held_out_words, "b.txt": resumed.held_out_words}
    resumed.evaluate_start()
    assert resumed.summary(0)["held_out_by_source"].keys() == {"a.txt", "b.txt"}
