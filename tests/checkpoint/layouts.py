"""Small checkpoints in the layouts of Korean models that people use, with random weights and vocabularies of the small
texts: the same files, settings and names of tensors."""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from kobert_pipeline.files import write_json

TEXTS = Path(__file__).resolve().parents[2] / "kobert_pipeline" / "pipeline" / "recipes" / "tiny" / "documents"
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
BERT_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
XLMR_TOKENS = ["<s>", "<pad>", "</s>", "<unk>"]
KLUE_ROBERTA_TOKENS = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"]
"""klue/roberta has RoBERTa's ids under BERT's names."""


def lines() -> Iterator[str]:
    for path in sorted(TEXTS.glob("*.txt")):
        yield from path.read_text(encoding="utf-8").splitlines()


@functools.cache
def trained_wordpiece(special: tuple[str, ...]) -> str:
    """The content of its `tokenizer.json`; the same in every call, so it is trained once."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(lines(), trainers.WordPieceTrainer(vocab_size=1500, special_tokens=list(special)))
    return str(tokenizer.to_str())


def wordpiece(folder: Path, special: list[str], files: tuple[str, ...] = ("vocab.txt",)) -> int:
    """A WordPiece vocabulary in `vocab.txt`, as BERT's; with `tokenizer.json` if asked for. Returns its size."""
    tokenizer = Tokenizer.from_str(trained_wordpiece(tuple(special)))
    ids = tokenizer.get_vocab()
    (folder / "vocab.txt").write_text("\n".join(sorted(ids, key=lambda token: ids[token])) + "\n", encoding="utf-8")
    write_json(folder / "tokenizer_config.json", {"do_lower_case": False, "tokenizer_class": "BertTokenizer"})
    if "tokenizer.json" in files:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[(token, ids[token]) for token in ("[CLS]", "[SEP]")],
        )  # fmt: skip
        tokenizer.save(str(folder / "tokenizer.json"))
    return len(ids)


@functools.cache
def trained_byte_level() -> str:
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1500, special_tokens=BERT_TOKENS, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(lines(), trainer)
    return str(tokenizer.to_str())


def byte_level(folder: Path) -> int:
    """Byte-level BPE in `tokenizer.json`, as ModernBERT's. Returns its size."""
    tokenizer = Tokenizer.from_str(trained_byte_level())
    ids = tokenizer.get_vocab()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[(token, ids[token]) for token in ("[CLS]", "[SEP]")],
    )  # fmt: skip
    tokenizer.save(str(folder / "tokenizer.json"))
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), BERT_TOKENS, strict=True))
    inputs = ["input_ids", "attention_mask"]
    write_json(
        folder / "tokenizer_config.json",
        {**names, "tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": inputs},
    )
    return len(ids)


@functools.cache
def trained_unigram() -> str:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=1500, special_tokens=XLMR_TOKENS, unk_token="<unk>")
    tokenizer.train_from_iterator(lines(), trainer)
    tokenizer.add_special_tokens(["<mask>"])
    return str(tokenizer.to_str())


def sentencepiece(folder: Path) -> int:
    """A Unigram vocabulary in `tokenizer.json`, as XLM-R's. Returns its size."""
    tokenizer = Tokenizer.from_str(trained_unigram())
    ids = tokenizer.get_vocab()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>",
        special_tokens=[(token, ids[token]) for token in ("<s>", "</s>")],
    )  # fmt: skip
    tokenizer.save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "XLMRobertaTokenizer"})
    return len(ids)


def save(model: Any, folder: Path, pickled: bool) -> Path:
    """The model's files, as safetensors or, as older ones, pickled."""
    model.save_pretrained(folder)
    if pickled:
        (folder / "model.safetensors").unlink()
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return folder


def klue_bert(folder: Path) -> Path:
    from transformers import BertConfig, BertForMaskedLM

    rows = wordpiece(folder, BERT_TOKENS, ("vocab.txt", "tokenizer.json"))
    return save(BertForMaskedLM(BertConfig(vocab_size=rows, max_position_embeddings=128, **SIZES)), folder, True)


def koelectra(folder: Path) -> Path:
    from transformers import ElectraConfig, ElectraForPreTraining

    rows = wordpiece(folder, BERT_TOKENS)
    config = ElectraConfig(vocab_size=rows, embedding_size=16, max_position_embeddings=128, **SIZES)
    return save(ElectraForPreTraining(config), folder, True)


def klue_roberta(folder: Path) -> Path:
    from transformers import RobertaConfig, RobertaForMaskedLM

    rows = wordpiece(folder, KLUE_ROBERTA_TOKENS)
    ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "type_vocab_size": 1}
    return save(
        RobertaForMaskedLM(RobertaConfig(vocab_size=rows, max_position_embeddings=130, **ids, **SIZES)), folder, True
    )


def kcbert(folder: Path) -> Path:
    from transformers import BertConfig, BertForMaskedLM

    rows = wordpiece(folder, BERT_TOKENS)
    return save(BertForMaskedLM(BertConfig(vocab_size=rows, max_position_embeddings=100, **SIZES)), folder, True)


def kpfbert(folder: Path) -> Path:
    """The encoder alone, whose tensors have no prefix, and embeddings with rows to spare."""
    from transformers import BertConfig, BertModel

    rows = wordpiece(folder, BERT_TOKENS)
    return save(BertModel(BertConfig(vocab_size=rows + 60, max_position_embeddings=128, **SIZES)), folder, True)


def modernbert(folder: Path) -> Path:
    from transformers import ModernBertConfig, ModernBertForMaskedLM

    rows = byte_level(folder)
    ids = {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
    config = ModernBertConfig(vocab_size=rows, max_position_embeddings=128, local_attention=16, **ids, **SIZES)
    return save(ModernBertForMaskedLM(config), folder, False)


def xlm_roberta(folder: Path) -> Path:
    from transformers import XLMRobertaConfig, XLMRobertaForMaskedLM

    rows = sentencepiece(folder)
    ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "type_vocab_size": 1}
    config = XLMRobertaConfig(vocab_size=rows, max_position_embeddings=130, **ids, **SIZES)
    return save(XLMRobertaForMaskedLM(config), folder, False)


def roformer(folder: Path) -> Path:
    """With all that RoFormers may have: values are rotated, too, and embeddings are narrower."""
    from transformers import RoFormerConfig, RoFormerForMaskedLM

    rows = wordpiece(folder, BERT_TOKENS)
    more = {"rotary_value": True, "embedding_size": 16, "max_position_embeddings": 128}
    return save(RoFormerForMaskedLM(RoFormerConfig(vocab_size=rows, **more, **SIZES)), folder, True)


LAYOUTS: dict[str, Callable[[Path], Path]] = {
    "klue-bert": klue_bert, "koelectra-v3": koelectra, "klue-roberta": klue_roberta, "kcbert": kcbert,
    "kpfbert": kpfbert, "modernbert": modernbert, "roformer": roformer, "xlm-roberta": xlm_roberta,
}  # fmt: skip


def made(name: str, place: Path) -> Path:
    """The checkpoint of a layout in a new folder of `place`."""
    folder = place / name
    folder.mkdir(parents=True)
    torch.manual_seed(1)
    return LAYOUTS[name](folder)
