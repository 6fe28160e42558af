"""Where an existing checkpoint comes from: a folder, a model that comes with a clone of this project, or a repository
of the Hugging Face Hub, which is fetched once."""

import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unicodedata import normalize

from tokenizers import Tokenizer

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import folder_of_clone, read_json
from kobert_pipeline.morphemes.segmenter import Segmenter
from kobert_pipeline.morphemes.settings import VOCABULARY_FILE
from kobert_pipeline.progress import current_display
from kobert_pipeline.tokenizer.loading import compose_hangul, is_morpheme_tokenizer, load_tokenizer
from kobert_pipeline.training.hf_config import with_label_keys, with_model_type
from kobert_pipeline.training.weight_files import (
    FILES,
    INDEX_SUFFIX,
    NGRAMS,
    NGRAMS_FOLDER,
    WEIGHTS,
    lack_of_weights,
    listed_parts,
    weight_files,
)

CONFIG, CARD = "config.json", "README.md"
TOKENIZER_CONFIG = "tokenizer_config.json"
VOCABULARIES = (
    "morphemes.json", "tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model",
    "tokenizer.model", "spm.model",
)  # fmt: skip
"""The files that may hold a tokenizer's tokens. One of them is needed: from settings alone `transformers` makes a
tokenizer that knows the special tokens and nothing else."""
TOKENIZER_FILES = (
    *VOCABULARIES, "merges.txt", TOKENIZER_CONFIG, "special_tokens_map.json", "added_tokens.json",
)  # fmt: skip
"""Every file from which `transformers` makes a tokenizer."""
SENTENCE_ENCODER = (
    "modules.json", "config_sentence_transformers.json", "sentence_*_config.json", "*Pooling/config.json",
)  # fmt: skip
"""What `sentence-transformers` says of how it makes vectors."""
READINGS = ("2024년 3.5점", "GOOD Movie", "漢字", "\uff21\uff22\uff23", " 영화", normalize("NFD", "한글"))
"""Texts by which two ways of reading differ: digits, capitals, Hanja, wide letters, a blank, decomposed Hangul."""
HUB_NAME = re.compile(r"([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")
"""OWNER/NAME, with an optional @REVISION: a commit, a branch or a tag."""


def locate(name: str, weights: str | None = WEIGHTS, tokenizer: str | None = None) -> Path:
    """The folder of the checkpoint `name`: its `local_folder`, or where the Hub's files are kept on this machine, after
    fetching those that are missing. `weights` may name an ONNX file, or be None for all but weights, and `tokenizer` a
    further tokenizer of the checkpoint. Raises UserError where there is no such folder or repository."""
    return local_folder(name) or fetch(*parse_hub_name(name), weights, tokenizer)


def small_files(name: str) -> Path | None:
    """The folder of all but the weights of a checkpoint. Of one on the Hub they are fetched if they never were; None
    where they are not to be had."""
    if folder := local_folder(name):
        return folder
    try:
        cached = cached_file(name, CONFIG)
        return cached.parent if cached else locate(name, weights=None)
    except UserError:
        return None


def cached_file(name: str, file: str) -> Path | None:
    """A file of the checkpoint `name` on the Hub that was fetched before. Raises UserError as `parse_hub_name` does."""
    from huggingface_hub import try_to_load_from_cache

    repo, revision = parse_hub_name(name)
    path = try_to_load_from_cache(repo, file, revision=revision)
    # None where nobody has asked for it, another object where the Hub is known not to have it
    return Path(path) if isinstance(path, str) else None


def local_folder(name: str) -> Path | None:
    """The folder `name`, or else the model of that name that comes with the clone; None for one of the Hub."""
    if Path(name).is_dir():
        return Path(name)
    return next((folder for folder in bundled_models() if folder.name == name), None)


def bundled_models() -> list[Path]:
    """The folders of the models that come with a clone of this project; none in an installed package."""
    models = folder_of_clone("models")
    return sorted(path.parent for path in models.glob(f"*/{CONFIG}")) if models else []


@contextmanager
def load_errors(folder: Path, where: str = "", advice: str = "copy or publish it again") -> Iterator[None]:
    """Turn any exception of a library that reads `folder` into a UserError: the files may come from anybody, with
    anything wrong with them. `where`: the option of a recipe that names the folder."""
    try:
        yield
    except UserError as error:
        if str(error).startswith(where):
            raise
        raise UserError(f"{where}{error}") from error
    except Exception as error:
        damaged = "its weights are damaged: " if type(error).__name__ == "SafetensorError" else ""
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        # a library that is missing is no fault of the folder, and its error says what to install
        advice = "" if isinstance(error, ImportError) else f"; {advice}"
        raise UserError(f"{where}{folder} does not load: {damaged}{reason}{advice}") from error


def parse_hub_name(name: str) -> tuple[str, str | None]:
    """The repository and the revision in a name on the Hub. Raises UserError for what no repository is called, such as
    the path of a folder that does not exist."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    if match := HUB_NAME.fullmatch(name):
        with suppress(HFValidationError):
            validate_repo_id(match[1])
            return match[1], match[2]
    bundled = [folder.name for folder in bundled_models()]
    of_clone = f" nor a model of this clone ({', '.join(bundled)})" if bundled else ""
    raise UserError(
        f"{name} is neither a folder (looked for in {Path.cwd()}) nor a name on the Hugging Face Hub (OWNER/NAME or "
        f"OWNER/NAME@REVISION){of_clone}; correct the path or the name"
    )


def fetch(repo: str, revision: str | None, weights: str | None = WEIGHTS, tokenizer: str | None = None) -> Path:
    """The folder of a repository's files, named by its commit; without weights if those are None. What was fetched once
    is not fetched again, so a pinned revision needs no network. Raises UserError where the Hub does not give it."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]

    small = [CONFIG, CARD, "training_manifest.json", *TOKENIZER_FILES, NGRAMS, *SENTENCE_ENCODER]
    small += [f"{NGRAMS_FOLDER}/{name}" for name in (NGRAMS, CONFIG)]
    small += [f"{tokenizer}/{name}" for name in TOKENIZER_FILES] if tokenizer else []
    try:
        folder = Path(snapshot_download(repo, revision=revision, allow_patterns=small))
        # apart from the small files: as a pattern, FILES would fetch the same weights in every format that there is
        if weights:
            _fetch_weights(repo, folder, FILES if weights == WEIGHTS else (weights,))
    except (HTTPError, OSError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        at = f" at revision {revision}" if revision else ""
        raise UserError(
            f"{repo} is not a folder here, and{at} could not be fetched from the Hugging Face Hub "
            f"({type(error).__name__}: {reason}); check the name and the network"
        ) from None
    return folder


def _fetch_weights(repo: str, folder: Path, names: tuple[str, ...]) -> None:
    """Fetch the weights of the commit that `folder` is named after: the first of `names` that there is."""
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    present = [name for name in names if (folder / name).is_file()]  # then the Hub, out of reach perhaps, is not asked
    for name in present[:1] or names:
        try:
            _fetch_file(repo, folder, name)
        except LocalEntryNotFoundError:  # no connection: looking for the other file would not help
            # caught first, because it is a subclass of EntryNotFoundError
            raise
        except EntryNotFoundError:
            continue
        for part in listed_parts(folder, name) if name.endswith(INDEX_SUFFIX) else ():
            _fetch_file(repo, folder, part)
        return


def _fetch_file(repo: str, folder: Path, name: str) -> None:
    """Fetch one file of the commit that `folder` is named after, unless it is there."""
    from huggingface_hub import hf_hub_download

    if not (folder / name).is_file():
        hf_hub_download(repo, name, revision=folder.name)


def commit_of(name: str, folder: Path) -> str | None:
    """The commit of a fetched checkpoint, None for a folder that was not fetched."""
    return None if local_folder(name) else folder.name


def base_model_of(name: str, folder: Path) -> str | None:
    """The model on the Hub that a checkpoint is, or that its own card in `folder` names as its base; None where there
    is neither."""
    if not local_folder(name):
        return parse_hub_name(name)[0]
    with suppress(UserError):  # the card may name anything
        base_model = stated(folder, "base_model")
        return parse_hub_name(base_model)[0] if base_model else None
    return None


def analyzer_of(tokenizer: Path) -> dict[str, str]:
    """The `analyzer` of the tokenizer in a folder, its `style` and its `library` to install; {} for a tokenizer that is
    not of this package."""
    settings = read_json(tokenizer / TOKENIZER_CONFIG)
    if "analyzer" not in settings:
        return {}
    segmenter = Segmenter(settings["analyzer"], settings["style"])
    return {"analyzer": segmenter.analyzer, "style": segmenter.style, "library": segmenter.library}


def stated_licence(name: str) -> str | None:
    """The licence that the card of a checkpoint states, its own name for it where the Hub has none; None for one on the
    Hub that was not fetched yet, and where the card states none."""
    folder = local_folder(name)
    if folder is None:
        with suppress(UserError):  # what is neither a folder nor a name on the Hub is refused elsewhere
            card = cached_file(name, CARD)
            folder = card.parent if card else None
    licence = stated(folder, "license") if folder else None
    return stated(folder, "license_name") if folder and licence == "other" else licence


def stated(folder: Path, key: str) -> str | None:
    """The text that the metadata of the card in a folder has for a key; None for any other value, and where there is no
    readable card."""
    import yaml
    from huggingface_hub import metadata_load

    with suppress(OSError, ValueError, yaml.YAMLError):  # the card may be anybody's
        value = (metadata_load(folder / CARD) or {}).get(key)
        return value if isinstance(value, str) else None
    return None


def load_checkpoint_tokenizer(folder: Path) -> Any:
    """The tokenizer in `folder`, as `load_tokenizer` does. Where its files do not name its class, that is the model
    type's, also for a config without `model_type`. Raises UserError also for a class that found no vocabulary."""
    from transformers import AutoConfig

    path = folder / CONFIG
    config = read_json(path) if path.is_file() else None
    for name in (CONFIG, *TOKENIZER_FILES):
        if name.endswith((".json", ".txt")) and (folder / name).is_file():
            refuse_other_encoding(folder / name)
    if not isinstance(config, dict) or (folder / VOCABULARY_FILE).is_file():
        settings = {}
    else:
        canonical = with_label_keys(with_model_type(config, path))
        settings = {} if canonical == config else {"config": AutoConfig.for_model(**canonical)}
    tokenizer = load_tokenizer(folder, **settings)
    refuse_no_vocabulary(folder, tokenizer)
    note_other_reading(folder, tokenizer)
    return tokenizer


def refuse_no_vocabulary(folder: Path, tokenizer: Any) -> None:
    """Raise UserError where a tokenizer loaded from `folder` knows nothing but its special and added tokens: where no
    vocabulary file has the name that its class expects, `transformers` goes on without one."""
    if set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens) - set(tokenizer.get_added_vocab()):
        return
    present = ", ".join(name for name in VOCABULARIES if (folder / name).is_file())
    name, expected = type(tokenizer).__name__, " or ".join(tokenizer.vocab_files_names.values())
    raise UserError(
        f"{folder}: its tokenizer has no tokens but special ones, since a {name} reads {expected}, and the folder has "
        f"{present}; name the class that reads {present} as tokenizer_class in tokenizer_config.json, or give a "
        "checkpoint with a tokenizer.json"
    )


def note_other_reading(folder: Path, tokenizer: Any) -> None:
    """Say where a tokenizer loaded from `folder` reads texts otherwise than its tokenizer.json, which is what other
    programs read, and `transformers` 4 did: version 5 makes those of some classes from the vocabulary alone."""
    path = folder / "tokenizer.json"
    if is_morpheme_tokenizer(tokenizer) or not path.is_file():
        return
    with suppress(Exception):  # a file that `tokenizers` cannot read, while its vocabulary alone was enough
        stored = Tokenizer.from_file(str(path))
        # the file may set both, which `transformers` switches off by itself
        stored.no_truncation()
        stored.no_padding()
        compose_hangul(stored, tokenizer.unk_token_id)
        ids = tokenizer(list(READINGS), add_special_tokens=False)["input_ids"]
        stored_ids = [encoding.ids for encoding in stored.encode_batch(list(READINGS), add_special_tokens=False)]
        if other := [text for text, ours, theirs in zip(READINGS, ids, stored_ids, strict=True) if ours != theirs]:
            name = type(tokenizer).__name__
            current_display().say(
                f"note     {folder}: a {name} reads texts such as {other[0]!r} otherwise than its tokenizer.json; if "
                "the model was trained with that file, name PreTrainedTokenizerFast as tokenizer_class in "
                "tokenizer_config.json of a copy"
            )


def refuse_other_encoding(path: Path) -> None:
    """Raise UserError for a file that `transformers` cannot read because it begins with a byte order mark, which would
    be part of the first token of a vocabulary, or is not in UTF-8."""
    content = path.read_bytes()
    if content.startswith(BOM_UTF8):
        raise UserError(
            f"{path} begins with a byte order mark, which models' files do not have; save it as UTF-8 without one"
        )
    try:
        content.decode()
    except UnicodeDecodeError:
        raise UserError(f"{path} is not in UTF-8; save it as UTF-8, or copy the checkpoint again") from None


def lacks_of_tokenizer(folder: Path) -> list[str]:
    """What a tokenizer still needs besides the files in `folder`."""
    if not any((folder / name).is_file() for name in VOCABULARIES):
        return ["a vocabulary (such as morphemes.json, tokenizer.json or vocab.txt)"]
    # without its settings a tokenizer over morphemes would segment in another style than the model has learned
    needed = [TOKENIZER_CONFIG] if (folder / "morphemes.json").is_file() else []
    return [name for name in needed if not (folder / name).is_file()]


def checkpoint_files(folder: Path) -> list[Path]:
    """The files in `folder` that make a checkpoint. Raises UserError where the config, the weights or the tokenizer is
    missing."""
    weights = weight_files(folder)
    tokenizer = [name for name in TOKENIZER_FILES if (folder / name).is_file()]
    lacking = [CONFIG] if not (folder / CONFIG).is_file() else []
    lacking += [lack_of_weights(folder)] if not weights else []
    lacking += lacks_of_tokenizer(folder)
    if lacking:
        raise UserError(f"checkpoint: {folder} lacks {', '.join(lacking)}; give the folder of a whole checkpoint")
    return [folder / name for name in (CONFIG, *weights, *tokenizer)]
