"""The folder `plain/`: the same vocabulary for people without an analyzer.

Text is split into eojeols and punctuation, and those by the subword model. Where the model alone does not find the
morphemes, its tokens differ; the report counts how often they agree.

A limit of other programs: offsets in decomposed text (NFD) end at the first jamo of a token's last syllable, because
the NFC of `tokenizers` gives a composed syllable only that place. The ids are the composed text's, and what this
package finds in a text are whole characters (`normalization.character_end`).
"""

import re
from pathlib import Path

from tokenizers import Tokenizer, decoders, processors

from kobert_pipeline.errors import UserError
from kobert_pipeline.morphemes.morpheme import WORD_MARK
from kobert_pipeline.morphemes.raw_text_backend import add_pipeline
from kobert_pipeline.morphemes.settings import VOCABULARY_FILE
from kobert_pipeline.tokenizer.special_tokens import CLS, CLS_ID, MASK, PAD, SEP, SEP_ID, UNK

PLAIN = "plain"
"""Folder of this tokenizer, in the tokenizer's folder and in the published one."""
PLAIN_FILES = (f"{PLAIN}/tokenizer.json", f"{PLAIN}/tokenizer_config.json")
EOJEOL = re.compile(r"\S+")


def own_tokenizer(folder: Path, plain_share: float) -> Path:
    """The folder of the tokenizer with which a model is evaluated and published: the folder of a run's tokenizer stage,
    or its `plain/` where a share of the training examples was tokenized so. Raises UserError where it has none."""
    if not plain_share:
        return folder
    if not (folder / PLAIN).is_dir():
        raise UserError(
            "features: plain_share is for tokenizers of this package, which have a folder plain; leave it out"
        )
    return folder / PLAIN


def folder_with_analyzer(folder: Path) -> Path:
    """The folder of a published model's tokenizer that needs an analyzer: the model's own, or one inside that is named
    after the analyzer, where the model's own tokenizer needs none; the model's own where it has neither."""
    if (folder / VOCABULARY_FILE).is_file():
        return folder
    return next((path.parent for path in sorted(folder.glob(f"*/{VOCABULARY_FILE}"))), folder)


def plain_backend(backend: Tokenizer) -> Tokenizer:
    """A copy of `backend` that takes raw text."""
    copy = Tokenizer.from_str(backend.to_str())
    add_pipeline(copy)
    add_template(copy)
    return copy


def add_template(backend: Tokenizer) -> None:
    """Let `backend` build BERT's input, [CLS] A [SEP] B [SEP], and decode tokens to eojeols."""
    backend.no_padding()
    backend.no_truncation()
    backend.decoder = decoders.Metaspace(replacement=WORD_MARK, prepend_scheme="always")
    backend.post_processor = processors.TemplateProcessing(
        single=f"{CLS} $A {SEP}", pair=f"{CLS} $A {SEP} $B:1 {SEP}:1", special_tokens=[(CLS, CLS_ID), (SEP, SEP_ID)]
    )


def save_plain(backend: Tokenizer, out: Path) -> None:
    """Save `plain_backend(backend)` as a tokenizer that `AutoTokenizer` loads without any code of ours."""
    # not at the top: transformers takes half a second to import, and `kobert check` reads only options
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=plain_backend(backend), pad_token=PAD, unk_token=UNK, cls_token=CLS, sep_token=SEP,
        mask_token=MASK, model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )  # fmt: skip
    tokenizer.save_pretrained(out)


def ids_by_eojeol(text: str, ids: list[int], spans: list[tuple[int, int]]) -> list[list[int]]:
    """The token ids of each eojeol; a token belongs to the eojeol that holds its end."""
    # by the end, since a first token's offsets may begin with the white space before its eojeol (`Metaspace`)
    ends = [match.end() for match in EOJEOL.finditer(text)]
    eojeols: list[list[int]] = [[] for _ in ends]
    current = 0
    for id_, (_, end) in zip(ids, spans, strict=True):
        while current < len(ends) - 1 and end > ends[current]:
            current += 1
        if ends:
            eojeols[current].append(id_)
    return eojeols
