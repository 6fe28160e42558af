"""A model that starts from a checkpoint has its weights, also with a changed vocabulary."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertForPreTraining, BertForSequenceClassification, ElectraForPreTraining

from kobert_pipeline.errors import UserError
from kobert_pipeline.morphemes.raw_text_backend import read_morpheme_backend
from kobert_pipeline.pretrain.options import PretrainOptions
from kobert_pipeline.pretrain.starting import (
    base_files,
    base_token_origins,
    start_from,
    wordpiece_origins,
)
from kobert_pipeline.tokenizer.growing import tokens_by_id
from kobert_pipeline.tokenizer.special_tokens import SPECIAL_TOKENS
from kobert_pipeline.training.weight_files import weight_files

MODELS = Path(__file__).parents[2] / "models"
OLD = [*SPECIAL_TOKENS, *"가나다라", "▁가", "가나"]
NEW = [*SPECIAL_TOKENS, "가나", "나다", *"가나다라", "마", "▁가", "▁가나다"]


def backend(tokens: list[str], prefix: str = "") -> Tokenizer:
    vocabulary = {token: number for number, token in enumerate(tokens)}
    made = Tokenizer(
        models.WordPiece(vocabulary, unk_token="[UNK]", continuing_subword_prefix=prefix, max_input_chars_per_word=200)
    )
    made.add_special_tokens(SPECIAL_TOKENS)
    return made


def sized(tiny_bert, size: int):
    config = tiny_bert().config
    config.vocab_size = size
    return config


@pytest.fixture
def base(tiny_bert, tmp_path: Path) -> Path:
    """A checkpoint over `OLD`."""
    torch.manual_seed(1)
    folder = tmp_path / "base"
    model = BertForPreTraining(sized(tiny_bert, len(OLD)))
    torch.nn.init.normal_(model.cls.predictions.bias)
    model.save_pretrained(folder)
    backend(OLD).save(str(folder / "morphemes.json"))
    return folder


def tokenizer(tmp_path: Path, tokens: list[str]) -> Path:
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    backend(tokens).save(str(folder / "morphemes.json"))
    return folder


def test_with_the_same_vocabulary_all_weights_are_the_checkpoints(tiny_bert, base, tmp_path) -> None:
    model = BertForPreTraining(sized(tiny_bert, len(OLD)))
    counts = start_from(model, base, tokenizer(tmp_path, OLD))
    old = BertForPreTraining.from_pretrained(base).state_dict()
    assert all(torch.equal(value, old[name]) for name, value in model.state_dict().items())
    assert counts.pop("weights_started_at_random") == 0
    assert counts == {"tokens_taken_over": len(OLD), "tokens_started_as_a_mean": 0, "tokens_started_at_random": 0}


def test_new_tokens_start_as_the_mean_of_those_that_spell_them(tiny_bert, base, tmp_path) -> None:
    model = BertForPreTraining(sized(tiny_bert, len(NEW)))
    before = model.bert.embeddings.word_embeddings.weight.detach().clone()
    counts = start_from(model, base, tokenizer(tmp_path, NEW))
    old, place = BertForPreTraining.from_pretrained(base), {token: number for number, token in enumerate(OLD)}
    spelled = {"나다": ["나", "다"], "▁가나다": ["▁가", "나", "다"]}
    for made, was in (
        (model.bert.embeddings.word_embeddings.weight, old.bert.embeddings.word_embeddings.weight),
        (model.cls.predictions.bias, old.cls.predictions.bias),
    ):
        for number, token in enumerate(NEW):
            if token != "마":
                rows = [place[one] for one in spelled.get(token, [token])]
                assert torch.allclose(made[number], was[rows].mean(0)), token
    assert torch.equal(model.bert.embeddings.word_embeddings.weight[NEW.index("마")], before[NEW.index("마")])
    assert model.cls.predictions.decoder.weight is model.bert.embeddings.word_embeddings.weight
    assert torch.equal(model.bert.encoder.layer[1].output.dense.weight, old.bert.encoder.layer[1].output.dense.weight)
    assert counts.pop("weights_started_at_random") == 0
    assert counts == {"tokens_taken_over": len(NEW) - 3, "tokens_started_as_a_mean": 2, "tokens_started_at_random": 1}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_means_over_a_base_stored_in_half_precision_are_computed_in_float32(tiny_bert, base, tmp_path, dtype) -> None:
    folder, models = tokenizer(tmp_path, NEW), []
    for stored in (dtype, torch.float32):  # the same values, rounded to `dtype`, in a file of each type
        BertForPreTraining.from_pretrained(base).to(stored).save_pretrained(base)
        torch.manual_seed(2)
        models.append(BertForPreTraining(sized(tiny_bert, len(NEW))))
        start_from(models[-1], base, folder)
    half, full = (model.state_dict() for model in models)
    assert all(torch.equal(value, full[name]) for name, value in half.items())


def test_heads_that_a_fine_tuned_checkpoint_lacks_start_at_random_and_are_counted(tiny_bert, base, tmp_path) -> None:
    tuned = BertForSequenceClassification.from_pretrained(base)
    tuned.save_pretrained(base)
    model = BertForPreTraining(sized(tiny_bert, len(OLD)))
    counts = start_from(model, base, tokenizer(tmp_path, OLD))
    assert counts["weights_started_at_random"] > 4
    assert torch.equal(model.bert.encoder.layer[0].output.dense.weight, tuned.bert.encoder.layer[0].output.dense.weight)


def test_weights_of_another_model_are_refused(tiny_bert, base, tmp_path) -> None:
    save_file({"nothing": torch.zeros(1)}, base / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match="lacks weights of the encoder"):
        start_from(BertForPreTraining(sized(tiny_bert, len(OLD))), base, tokenizer(tmp_path, OLD))


def test_the_vocabulary_of_a_plain_bert_is_taken_over_by_its_own_marks() -> None:
    old = backend([*SPECIAL_TOKENS, "가", "##가", "##나", "나", "가나", "##다"], prefix="##")
    old.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    found = dict(zip(NEW, wordpiece_origins(old, backend(NEW)), strict=True))
    place = old.get_vocab()
    assert found["▁가"] == [place["가"]]
    assert found["나"] == [place["##나"]]
    assert found["▁가나다"] == [place["가나"], place["##다"]]
    assert found["가나"] == [place["가나"]]
    assert found["마"] == []
    assert [found[name] for name in SPECIAL_TOKENS] == [[place[name]] for name in SPECIAL_TOKENS]


@pytest.mark.parametrize("plain_alone", [False, True])
def test_the_vocabulary_of_a_published_model_is_taken_over_whole(plain_alone: bool, tmp_path) -> None:
    """Whose own tokenizer needs no analyzer, as that of `mini-nsmc`: the other one is in a folder inside."""
    published = MODELS / "mini-nsmc"
    new, base = read_morpheme_backend(published / "kiwi" / "morphemes.json"), published
    if plain_alone:
        base = tmp_path / "plain"
        base.mkdir()
        for name in ("config.json", "model.safetensors", "tokenizer.json"):
            (base / name).symlink_to(published / name)
    grown = backend([*tokens_by_id(new), "▁배우나무"], prefix="")
    *known, spelled = base_token_origins(base, grown)
    assert known == [[id_] for id_ in range(len(known))]
    assert "".join(new.id_to_token(id_) for id_ in spelled) == "▁배우나무"


def test_a_vocabulary_of_another_kind_is_refused(base) -> None:
    (base / "morphemes.json").unlink()
    Tokenizer(models.BPE({"<s>": 0, "Ġa": 1}, [])).save(str(base / "tokenizer.json"))
    with pytest.raises(UserError, match=r"tokens of another kind than ## marks.*the option checkpoint"):
        base_token_origins(base, backend(NEW))


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors", "morphemes.json"])
def test_what_a_checkpoint_lacks_is_named(base, missing) -> None:
    (base / missing).unlink()
    with pytest.raises(UserError, match=f"pretrain.base: .* lacks {missing}"):
        base_files(base)


ELECTRA = {
    "name": "electra", "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "embedding_size": 16,
    "max_position_embeddings": 64,
}  # fmt: skip


def electra_options(**changes) -> PretrainOptions:
    return PretrainOptions(**{"objective": "mlm", "architecture": ELECTRA, "max_length": 32} | changes)


@pytest.fixture
def electra_base(tmp_path: Path) -> Path:
    """A discriminator as it is published, without its generator."""
    folder = tmp_path / "electra"
    ElectraForPreTraining(electra_options().architecture.config(len(OLD))).save_pretrained(folder)
    backend(OLD).save(str(folder / "morphemes.json"))
    return folder


def test_an_electra_is_continued_with_masks_alone(electra_base, tmp_path) -> None:
    """Its published checkpoint has no generator, which the objective rtd would train."""
    with pytest.raises(ValueError, match="objective rtd trains a generator too, which published checkpoints do not"):
        electra_options(objective="rtd", base="electra")
    options = electra_options(base="electra")
    model = options.architecture.model(options.architecture.config(len(NEW)), options.objective.head)
    counts = start_from(model, electra_base, tokenizer(tmp_path, NEW))
    old = ElectraForPreTraining.from_pretrained(electra_base)
    for name, value in model.electra.encoder.state_dict().items():
        assert torch.equal(value, old.electra.encoder.state_dict()[name]), name
    assert counts["tokens_started_at_random"] == 1
    assert counts["weights_started_at_random"] > 0, "the head for masked tokens"


def test_a_base_with_its_weights_in_parts_is_one_with_them_in_one_file(tiny_bert, base, tmp_path) -> None:
    made = tokenizer(tmp_path, NEW)

    def started():
        torch.manual_seed(0)
        model = BertForPreTraining(sized(tiny_bert, len(NEW)))
        return start_from(model, base, made), model.state_dict()

    counts, weights = started()
    BertForPreTraining.from_pretrained(base).save_pretrained(base, max_shard_size="20KB")
    (base / "model.safetensors").unlink()
    assert len(weight_files(base)) > 3
    assert [path.name for path in base_files(base)] == ["config.json", *weight_files(base), "morphemes.json"]
    counts_of_parts, weights_of_parts = started()
    assert counts_of_parts == counts
    assert all(torch.equal(weights_of_parts[name], value) for name, value in weights.items())


def test_a_run_starts_from_what_another_published(tiny, tmp_path, kobert) -> None:
    """Grown by 100 tokens: the held-out loss begins where the other run ended, not at that of a model from scratch."""
    settings = {
        "pretrain.base": tiny.run_dir / "publish" / "mlm",
        "tokenizer.base": tiny.run_dir / "publish" / "mlm",
        "tokenizer.subword.vocab_size": 1600,
        "pretrain.total_tokens": 10_000,
    }
    given = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    run_dir = tiny.copy(tmp_path / "runs" / "grown", "corpus", "analysis")
    rows = kobert("run", tiny.recipe, "--run-dir", run_dir, "--until", "pretrain", "--json", *given).json["stages"]
    counts = json.loads((tmp_path / "runs" / "grown" / "pretrain" / "manifest.json").read_text())["counts"]
    before = tiny.manifests()["pretrain"]["counts"]
    assert rows[-1]["status"] == "done"
    assert counts["tokens_taken_over"] == 1500
    assert counts["tokens_started_as_a_mean"] + counts["tokens_started_at_random"] == 100
    assert counts["held_out_before"]["loss"] < before["held_out_before"]["loss"]
    assert abs(counts["held_out_before"]["loss"] - before["held_out_after"]["loss"]) < 0.35


def lying(base: Path, **changes: object) -> None:
    config = json.loads((base / "config.json").read_text(encoding="utf-8"))
    (base / "config.json").write_text(json.dumps(config | changes), encoding="utf-8")


def pickled(base: Path) -> None:
    weights = base / "model.safetensors"
    torch.save({"a": torch.zeros(1)}, weights)


def truncated(base: Path) -> None:
    weights = base / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])


HOSTILE = {
    "weights cut off": truncated,
    "weights that are a pickle": pickled,
    "a header of 2^63 bytes": lambda base: (base / "model.safetensors").write_bytes(b"\xff" * 7 + b"\x7f{}"),
    "no weights at all": lambda base: (base / "model.safetensors").write_bytes(b""),
    "more rows than there are": lambda base: lying(base, vocab_size=len(OLD) + 7),
    "rows without end": lambda base: lying(base, vocab_size=10**15),
    "rows that are text": lambda base: lying(base, vocab_size="12"),
    "another hidden size": lambda base: lying(base, hidden_size=8),
    "an unknown activation": lambda base: lying(base, hidden_act="nobody's"),
    "a list": lambda base: (base / "config.json").write_text("[]", encoding="utf-8"),
    "nothing": lambda base: (base / "config.json").write_text("{}", encoding="utf-8"),
    "a vocabulary of the wrong types": lambda base: (base / "morphemes.json").write_text(
        '{"model": {"vocab": 3}}', encoding="utf-8"
    ),
    "a vocabulary larger than the model": lambda base: backend(
        [*OLD[:-1], *map(chr, range(0xAC20, 0xAC40)), "마"]
    ).save(str(base / "morphemes.json")),
}  # fmt: skip


def test_hostile_bases_are_refused_in_one_sentence(tiny_bert, base, tmp_path) -> None:
    intact = {path.name: path.read_bytes() for path in base.iterdir()}
    made = tokenizer(tmp_path, NEW)
    for name, spoil in HOSTILE.items():
        for file, content in intact.items():
            (base / file).write_bytes(content)
        spoil(base)
        with pytest.raises(UserError, match=r"pretrain\.base") as raised:
            start_from(BertForPreTraining(sized(tiny_bert, len(NEW))), base, made)
        assert "\n" not in str(raised.value), name


def test_the_code_that_a_base_brings_along_is_never_run(tiny_bert, base, tmp_path) -> None:
    lying(base, auto_map={"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil", "AutoModelForPreTraining": "evil.Evil"})
    (base / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Evil: pass\n", encoding="utf-8")
    counts = start_from(BertForPreTraining(sized(tiny_bert, len(OLD))), base, tokenizer(tmp_path, OLD))
    assert counts["tokens_taken_over"] == len(OLD)
    assert not (tmp_path / "ran").exists()
