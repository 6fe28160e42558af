"""Where a model starts that goes on from a checkpoint: its weights, and for every token that its vocabulary lacks the
mean of the embeddings of the old tokens that spell it (as in Gee et al. 2022, "Fast Vocabulary Transfer").
"""

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json
from kobert_pipeline.morphemes.morpheme import WORD_MARK
from kobert_pipeline.morphemes.morpheme_tokenizer import VOCABULARY_FILE
from kobert_pipeline.morphemes.raw_text_backend import read_morpheme_backend
from kobert_pipeline.tokenizer.growing import origins
from kobert_pipeline.tokenizer.special_tokens import SPECIAL_TOKENS, UNK_ID

CONFIG, WEIGHTS, PLAIN_VOCABULARY = "config.json", "model.safetensors", "tokenizer.json"
SIZES = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "max_position_embeddings")
MOST_ROWS = 10**8
"""Of a vocabulary; the largest have a few hundred thousand."""
CONTINUES = "##"
"""Before what is not the beginning of a word in other people's vocabularies."""


def base_files(base: Path) -> list[Path]:
    """What of a checkpoint a model starts from. Raises UserError where it is missing."""
    vocabulary = next((name for name in (VOCABULARY_FILE, PLAIN_VOCABULARY) if (base / name).is_file()), None)
    missing = [name for name in (CONFIG, WEIGHTS) if not (base / name).is_file()]
    if missing or not vocabulary:
        lacks = ", ".join(missing or [f"{VOCABULARY_FILE} (or {PLAIN_VOCABULARY})"])
        raise UserError(
            f"pretrain.base: {base} lacks {lacks}; name a folder that `kobert` published, or a BERT in transformers' "
            "form"
        )
    return [base / name for name in (CONFIG, WEIGHTS, vocabulary)]


def check_sizes(base: Path, config: Any) -> None:
    """Raises UserError where the architecture asked for is not that of the checkpoint."""
    theirs = read_json(base / CONFIG)
    rows = theirs.get("vocab_size") if isinstance(theirs, dict) else None
    if isinstance(rows, bool) or not isinstance(rows, int) or not 0 < rows < MOST_ROWS:
        raise UserError(
            f"pretrain.base: {base / CONFIG} is no configuration of a model (vocab_size is {rows!r:.60}); give another "
            "folder"
        )
    for name in ("model_type", *SIZES):
        wanted = getattr(config, name, None)
        if theirs.get(name, wanted) != wanted:
            raise UserError(
                f"pretrain.base: {base} has {name} {theirs[name]!r:.60}, pretrain.architecture {wanted!r}; make them "
                "the same"
            )


def start_from(model: Any, base: Path, tokenizer: Path) -> dict[str, int]:
    """Give `model` the weights of `base`. Counts of tokens that were taken over, that start as a mean, and at random,
    and of weights that the checkpoint lacks (its heads, where it was made for something else)."""
    import torch

    check_sizes(base, model.config)
    spelling = base_token_origins(base, read_morpheme_backend(tokenizer / VOCABULARY_FILE))
    try:
        # a class of transformers, whatever the folder's auto_map says, and nothing that was pickled
        loaded, told = type(model).from_pretrained(
            base, output_loading_info=True, use_safetensors=True, trust_remote_code=False
        )
    except Exception as error:  # of a damaged or lying folder transformers raises whatever it stumbles over
        raise UserError(
            f"pretrain.base: {base} cannot be loaded ({' '.join(str(error).split()):.300}); fetch it again"
        ) from None
    old, rows = loaded.state_dict(), read_json(base / CONFIG)["vocab_size"]
    if any(name.startswith(model.base_model_prefix) and ".pooler." not in name for name in told["missing_keys"]):
        raise UserError(
            f"pretrain.base: {base / WEIGHTS} lacks weights of the encoder ({sorted(told['missing_keys'])[0]}); give "
            "another"
        )
    if any(id_ >= rows for ids in spelling for id_ in ids):
        raise UserError(
            f"pretrain.base: the vocabulary in {base} has more tokens than its model ({rows:,}); fetch it again"
        )
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if value.dim() and value.shape[0] == len(spelling) and old[name].shape[0] == rows:
                _start_rows(value, old[name], spelling)
            else:
                value.copy_(old[name])
    known = sum(len(ids) == 1 for ids in spelling)
    none = sum(not ids for ids in spelling)
    return {
        "tokens_taken_over": known,
        "tokens_started_as_a_mean": len(spelling) - known - none,
        "tokens_started_at_random": none,
        "weights_started_at_random": len(told["missing_keys"]),
    }


def _start_rows(value: Any, old: Any, spelling: list[list[int]]) -> None:
    """`value` (V, ...) from `old` (V_old, ...): row by row the mean of the rows that spell the token; others stay as
    they are."""
    for row, ids in enumerate(spelling):
        if ids:
            value[row] = old[ids].mean(0)


def base_token_origins(base: Path, made: Tokenizer) -> list[list[int]]:
    """For each id of `made`, the old ids that spell its token."""
    path = base_files(base)[2]
    try:
        old = read_morpheme_backend(path) if path.name == VOCABULARY_FILE else Tokenizer.from_file(str(path))
    except Exception as error:  # `tokenizers` raises nothing narrower
        raise UserError(f"pretrain.base: {path} is not a vocabulary ({error}); fetch it again") from None
    return origins(old, made) if path.name == VOCABULARY_FILE else foreign_origins(old, made)


def foreign_origins(old: Tokenizer, made: Tokenizer) -> list[list[int]]:
    """The same for a vocabulary that cuts at white space and marks what goes on (##) instead of what begins (the word
    mark)."""
    vocabulary = old.get_vocab()
    found = []
    for token, _ in sorted(made.get_vocab().items(), key=lambda item: item[1]):
        bare = token.removeprefix(WORD_MARK)
        whole = [
            vocabulary[name]
            for name in ([bare] if token != bare or token in SPECIAL_TOKENS else [CONTINUES + bare])
            if name in vocabulary
        ]
        unknown = vocabulary.get("[UNK]", UNK_ID)
        spelled = [id_ for id_ in old.encode(bare, add_special_tokens=False).ids if id_ != unknown] if bare else []
        found.append(whole or spelled)
    return found
