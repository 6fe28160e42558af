"""Continuing from a checkpoint: a model takes over its weights, and each token that the checkpoint's vocabulary lacks
starts as the mean of the embeddings of the old tokens that spell it (Gee et al. 2022, "Fast Vocabulary Transfer").
"""

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from kobert_pipeline.checkpoint.source import CONFIG, load_errors
from kobert_pipeline.errors import UserError
from kobert_pipeline.morphemes.morpheme import WORD_MARK
from kobert_pipeline.morphemes.raw_text_backend import read_morpheme_backend
from kobert_pipeline.morphemes.settings import VOCABULARY_FILE
from kobert_pipeline.pretrain.base_config import read_config
from kobert_pipeline.tokenizer.growing import origins, tokens_by_id
from kobert_pipeline.tokenizer.plain import folder_with_analyzer
from kobert_pipeline.tokenizer.special_tokens import SPECIAL_TOKENS, UNK_ID
from kobert_pipeline.training.weight_files import WEIGHTS, load_pretrained, weight_files

PLAIN_VOCABULARY = "tokenizer.json"
CONTINUATION_MARK = "##"
"""WordPiece's prefix of tokens that do not begin a word."""
OF_BASE = ("pretrain.base: ", "fetch it again")
"""What an error of a base that does not load begins and ends with."""


def base_files(base: Path) -> list[Path]:
    """The config, weights and vocabulary of the checkpoint `base`. Raises UserError where one is missing."""
    # first the one of the tokenizer with an analyzer, which may be in a folder inside: the plain one cuts otherwise
    vocabularies = (folder_with_analyzer(base) / VOCABULARY_FILE, base / PLAIN_VOCABULARY)
    vocabulary = next((path for path in vocabularies if path.is_file()), None)
    weights = weight_files(base)
    missing = [name for name in (CONFIG, *(weights or [WEIGHTS])) if not (base / name).is_file()]
    if missing or not vocabulary:
        names = ", ".join(missing or [f"{VOCABULARY_FILE} (or {PLAIN_VOCABULARY})"])
        raise UserError(
            f"pretrain.base: {base} lacks {names}; name a folder that `kobert` published, or a BERT in the format of "
            "transformers"
        )
    return [*(base / name for name in (CONFIG, *weights)), vocabulary]


def start_from(model: Any, base: Path, tokenizer: Path) -> dict[str, Any]:
    """Give `model` the weights of `base`. Returns the numbers of tokens that were taken over, that start as a mean and
    at random, and of weights that the checkpoint lacks and that stay random, such as the weights of pretraining
    heads."""
    import torch

    spelling = base_token_origins(base, read_morpheme_backend(tokenizer / VOCABULARY_FILE))
    (old, missing), rows = _base_weights(type(model), base), read_config(base).vocab_size
    if any(id_ >= rows for ids in spelling for id_ in ids):
        raise UserError(
            f"pretrain.base: the vocabulary in {base} has more tokens than its model ({rows:,}); fetch it again"
        )
    with torch.no_grad():
        # a state dict holds the model's own tensors, so what is written to `value` is in the model
        for name, value in model.state_dict().items():
            # embeddings, and the bias of the output layer
            has_row_per_token = bool(value.dim()) and value.shape[0] == len(spelling) and old[name].shape[0] == rows
            old[name] = _same_rows(name, value, old[name])
            if has_row_per_token:
                _init_embedding_rows(value, old[name], spelling)
            else:
                value.copy_(old[name])
    known = sum(len(ids) == 1 for ids in spelling)
    unknown = sum(not ids for ids in spelling)
    return {
        "tokens_taken_over": known,
        "tokens_started_as_a_mean": len(spelling) - known - unknown,
        "tokens_started_at_random": unknown,
        "weights_started_at_random": len(missing),
    }


def _base_weights(kind: Any, base: Path) -> tuple[dict[str, Any], list[str]]:
    """The weights of `base` for the model class `kind` by name, and the names of weights that it lacks, which are
    random. Raises UserError where it cannot be loaded."""
    with load_errors(base, *OF_BASE):
        loaded, loading_info = load_pretrained(kind, base)
    missing = sorted(loading_info["missing_keys"])
    # heads and pooler may be missing, as in a checkpoint made for something else, but not the encoder
    if any(name.startswith(kind.base_model_prefix) and ".pooler." not in name for name in missing):
        raise UserError(f"pretrain.base: {base} lacks weights of the encoder ({missing[0]}); give another")
    return loaded.state_dict(), missing


def _same_rows(name: str, value: Any, old: Any) -> Any:
    """The rows of `old` that `value` has in its table of token types or positions."""
    if "token_type_embeddings" in name and len(old) == 1:
        return old.expand(len(value), -1)  # a model that knows one type gives both segments what it gave its texts
    if "position_embeddings" in name and len(old) != len(value):
        return old[-len(value) :]  # RoBERTa's begin after the padding's, and the id of its padding was another one
    return old


def _init_embedding_rows(value: Any, old: Any, spelling: list[list[int]]) -> None:
    """Set each row of `value`, (V, ...), to the mean of the rows of `old`, (V_old, ...), that spell its token. Rows of
    tokens without spelling stay as they are."""
    for row, ids in enumerate(spelling):
        if ids:
            value[row] = old[ids].mean(0)


def base_token_origins(base: Path, new: Tokenizer) -> list[list[int]]:
    """The ids of the checkpoint's vocabulary that spell the token of each id of `new`. Raises UserError for one of
    another kind."""
    path = base_files(base)[-1]
    with load_errors(path, *OF_BASE):
        old = read_morpheme_backend(path) if path.name == VOCABULARY_FILE else Tokenizer.from_file(str(path))
    # as a saved tokenizer may ask for: padding would count as part of every token
    old.no_padding()
    old.no_truncation()
    if path.name == VOCABULARY_FILE:
        return origins(old, new)
    if getattr(old.model, "continuing_subword_prefix", None) == CONTINUATION_MARK:
        return wordpiece_origins(old, new)
    if tokens_by_id(old)[: len(SPECIAL_TOKENS)] != list(SPECIAL_TOKENS):
        raise UserError(
            f"pretrain.base: {path} has tokens of another kind than {CONTINUATION_MARK} marks, and is not kobert's; "
            "fine-tune that checkpoint or pretrain it further as it is (the option checkpoint), or name another base"
        )
    # our own, for raw text: of its tokens alone, since what it does to raw text would change them
    old.normalizer = old.pre_tokenizer = None
    return origins(old, new)


def wordpiece_origins(old: Tokenizer, new: Tokenizer) -> list[list[int]]:
    """What `base_token_origins` gives for a WordPiece vocabulary, which marks tokens that continue a word (##), while
    our word mark marks tokens that begin an eojeol."""
    vocabulary = old.get_vocab()
    unknown = vocabulary.get("[UNK]", UNK_ID)
    spellings = []
    for token in tokens_by_id(new):
        bare = token.removeprefix(WORD_MARK)
        begins_word = token != bare or token in SPECIAL_TOKENS
        name = bare if begins_word else CONTINUATION_MARK + bare
        if name in vocabulary:
            spellings.append([vocabulary[name]])
            continue
        ids = old.encode(bare, add_special_tokens=False).ids if bare else []
        spellings.append([id_ for id_ in ids if id_ != unknown])
    return spellings
