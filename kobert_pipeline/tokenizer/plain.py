"""The same vocabulary for people without an analyzer: eojeols and punctuation, spelled by the subword model. Its cuts
differ from the morphemes' where the model would not have cut, which the report measures.

A limit: offsets in decomposed text end at the first jamo of a token's last syllable, because the NFC of `tokenizers`
gives a composed syllable that place alone. The ids are those of the composed text.
"""

import re
from pathlib import Path

from tokenizers import Tokenizer, decoders, processors

from kobert_pipeline.morphemes.morpheme import WORD_MARK
from kobert_pipeline.morphemes.raw_text_backend import add_pipeline
from kobert_pipeline.tokenizer.special_tokens import CLS, CLS_ID, MASK, PAD, SEP, SEP_ID, UNK

EOJEOL = re.compile(r"\S+")


def plain(backend: Tokenizer) -> Tokenizer:
    """A tokenizer of eojeols with the model and ids of `backend`."""
    made = Tokenizer.from_str(backend.to_str())
    add_pipeline(made)
    frame(made)
    return made


def frame(backend: Tokenizer) -> None:
    """Dress a backend for BERT's input: [CLS] A [SEP] B [SEP], and tokens that join to eojeols."""
    backend.no_padding()
    backend.no_truncation()
    backend.decoder = decoders.Metaspace(replacement=WORD_MARK, prepend_scheme="always")
    backend.post_processor = processors.TemplateProcessing(
        single=f"{CLS} $A {SEP}", pair=f"{CLS} $A {SEP} $B:1 {SEP}:1", special_tokens=[(CLS, CLS_ID), (SEP, SEP_ID)]
    )


def save_plain(backend: Tokenizer, out: Path) -> None:
    """Save `plain(backend)` as a tokenizer that `AutoTokenizer` loads without any code of ours."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=plain(backend), pad_token=PAD, unk_token=UNK, cls_token=CLS, sep_token=SEP, mask_token=MASK,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )  # fmt: skip
    tokenizer.save_pretrained(out)


def by_eojeol(text: str, ids: list[int], spans: list[tuple[int, int]]) -> list[list[int]]:
    """The ids of each eojeol; a token belongs to the eojeol that holds its end."""
    ends = [match.end() for match in EOJEOL.finditer(text)]
    found: list[list[int]] = [[] for _ in ends]
    eojeol = 0
    for token, (_, end) in zip(ids, spans, strict=True):
        while eojeol < len(ends) - 1 and end > ends[eojeol]:
            eojeol += 1
        if ends:
            found[eojeol].append(token)
    return found
