"""Load the model and the tokenizer of a checkpoint.

A checkpoint is a published folder, any folder that `transformers` reads, a repository of the Hugging Face Hub, or the
model folder of a fine-tuning and the tokenizer folder of its run. No code in a folder is ever run (`trust_remote_code`
is False): the folder may come from anybody.
"""

import importlib.util
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from kobert_pipeline.checkpoint.source import (
    TOKENIZER_CONFIG,
    lacks_of_tokenizer,
    load_checkpoint_tokenizer,
    load_errors,
    local_folder,
    locate,
    small_files,
)
from kobert_pipeline.errors import UserError
from kobert_pipeline.finetune import onnx_model
from kobert_pipeline.finetune.inference_state import added_tokens, inference_length
from kobert_pipeline.finetune.ngrams import NO_ENCODER, NgramModel
from kobert_pipeline.inference.sentence_encoder import sentence_length
from kobert_pipeline.runs import manifest
from kobert_pipeline.runs.manifest import is_finished, verify
from kobert_pipeline.tokenizer import tokenizers_only
from kobert_pipeline.tokenizer.loading import add_tokens, is_morpheme_tokenizer
from kobert_pipeline.tokenizer.unknown import refuse_misread_vocabulary
from kobert_pipeline.training.weight_files import NGRAMS, ONNX, ONNX_INT8, WEIGHTS, lack_of_weights, weight_files

MODEL_FILES = ("config.json", WEIGHTS)
AUTO, TORCH, BY_ONNX, BY_NGRAMS = "auto", "torch", "onnx", "ngrams"
BACKENDS = {TORCH: WEIGHTS, BY_ONNX: ONNX, "onnx-int8": ONNX_INT8}
"""{backend: the file of a published checkpoint that it computes}"""
FILES = BACKENDS | {BY_NGRAMS: NGRAMS}
"""The same with the backend that nobody chooses: a classifier over n-grams has no other."""
DRIVER = Path("/proc/driver/nvidia/version")
"""Present where there is a GPU for torch; asking torch itself would take a second."""


class Loaded(NamedTuple):
    """A model and a tokenizer, the folders that they are from, and which of the `BACKENDS` computes the model."""

    folder: Path
    tokenizer_folder: Path
    backend: str
    model: Any
    tokenizer: Any


def choose_backend(name: str, tokenizer: str | Path | None = None, backend: str = AUTO) -> str:
    """The backend for a checkpoint: the one asked for, and for `auto` ONNX Runtime where its folder has the file for
    it, and there is no GPU. A classifier over n-grams has a single one."""
    folder = local_folder(name)
    small = folder or small_files(name)
    if small is not None and (small / NGRAMS).is_file():
        return BY_NGRAMS
    if backend != AUTO:
        return backend
    if folder is None or not (folder / ONNX).is_file() or DRIVER.exists():
        return TORCH
    # a published tokenizer has its tokens saved; a run's gets the tokens that the model's fine-tuning added
    if tokenizer is not None and not is_published_tokenizer(folder, tokenizer):
        return TORCH
    return BY_ONNX if importlib.util.find_spec("onnxruntime") else TORCH


def is_published_tokenizer(folder: Path, tokenizer: str | Path) -> bool:
    """Whether a checkpoint's folder has a further tokenizer of this name, such as `kiwi` or `plain`."""
    return Path(tokenizer).name == str(tokenizer) and (folder / tokenizer / TOKENIZER_CONFIG).is_file()


def load(name: str | Path, tokenizer: str | Path | None = None, backend: str = TORCH, needs: str = "") -> Loaded:
    """Load model and tokenizer of a published folder, a folder of `transformers`, or a name on the Hugging Face Hub
    (OWNER/NAME, OWNER/NAME@REVISION). `tokenizer` names a further tokenizer of a published checkpoint (`kiwi`,
    `plain`), or is the folder of a run's, for the model folder of its training. With another of the `BACKENDS` than
    torch the model is an `OnnxModel` or an `NgramModel`; `auto` is what `choose_backend` says, and torch where that
    does not load, or the attribute that `needs` names is False. Raises UserError where one of them does not load, or
    their vocabularies differ in size."""
    chosen, here = choose_backend(str(name), tokenizer, backend), local_folder(str(name))
    if backend == AUTO and chosen == BY_ONNX and here and weight_files(here):
        # the ONNX file may be of another program, for other outputs or inputs than are read here
        with suppress(UserError):
            loaded = _load(name, tokenizer, chosen)
            if not needs or getattr(loaded.model, needs):
                return loaded
        chosen = TORCH
    return _load(name, tokenizer, chosen)


def _load(name: str | Path, tokenizer: str | Path | None, backend: str) -> Loaded:
    """`load` with one backend."""
    folder, tokenizer_folder, published = _locate(str(name), tokenizer, backend)
    if backend == TORCH:
        model, loaded = load_model(folder, published), load_tokenizer(tokenizer_folder)
    else:
        loaded = load_tokenizer(tokenizer_folder, with_transformers=False)
        is_linear = backend == BY_NGRAMS
        model = load_ngrams(folder, loaded, published) if is_linear else load_onnx(folder, backend)
    if not published:  # a run's lacks what fine-tuning added
        add_tokens(loaded, added_tokens(model.config.to_dict()))
    tokens = model.config.vocab_size
    # embeddings of other packages' checkpoints may have spare rows
    fits = len(loaded) == tokens if is_morpheme_tokenizer(loaded) else len(loaded) <= tokens
    if not fits:
        fix = "publish it again" if published else "name the tokenizer of its run"
        raise UserError(
            f"{tokenizer_folder} has a tokenizer of {len(loaded)} tokens and the model in {folder} {tokens}; {fix}"
        )
    # the tokenizer of a run has no length of its own, and a published one may be edited
    with load_errors(folder):
        lengths = inference_length(model.config.to_dict()), sentence_length(folder)
    loaded.model_max_length = min(loaded.model_max_length, *lengths)
    return Loaded(folder, tokenizer_folder, backend, model, loaded)


def load_encoder(name: str | Path, tokenizer: str | Path | None = None) -> Loaded:
    """`load` with torch. Raises UserError for a classifier over n-grams, which has no encoder."""
    loaded = load(name, tokenizer)
    if loaded.backend == BY_NGRAMS:
        raise UserError(NO_ENCODER)
    return loaded


def _locate(name: str, tokenizer: str | Path | None, backend: str) -> tuple[Path, Path, bool]:
    """The folders of a checkpoint and of its tokenizer, and whether the tokenizer was published with the model."""
    here = local_folder(name)
    if here and tokenizer is not None and not is_published_tokenizer(here, tokenizer):
        if not Path(tokenizer).is_dir():
            names = ", ".join(sorted(path.parent.name for path in here.glob(f"*/{TOKENIZER_CONFIG}")))
            raise UserError(
                f"--tokenizer {tokenizer} is no folder, nor a tokenizer that {here} has besides its own "
                f"({names or 'it has none'}); name one of these, or the tokenizer folder of the model's run"
            )
        return here, Path(tokenizer), False
    folder = here or locate(name, FILES[backend], None if tokenizer is None else str(tokenizer))
    return folder, folder / (tokenizer or ""), True


def load_model(folder: Path, with_tokenizer: bool = True) -> Any:
    """Load the model with its saved head, in evaluation mode. With `with_tokenizer` the folder must be a published
    checkpoint, without it a model folder of a run is enough."""
    from kobert_pipeline.finetune import feature_based, model
    from kobert_pipeline.training.log import quiet_transformers

    quiet_transformers()
    required = MODEL_FILES
    # a feature-based tagger is no class of `transformers`, so it is never published and has its own files
    if not with_tokenizer and (folder / feature_based.CONFIG).is_file():
        required = (feature_based.CONFIG, feature_based.WEIGHTS)
    refuse_incomplete(folder, required, with_tokenizer)
    with load_errors(folder):
        return model.load(folder)


def load_onnx(folder: Path, backend: str) -> Any:
    """Load the ONNX file of a published checkpoint. Raises UserError where it is missing or does not load."""
    refuse_incomplete(folder, ("config.json",))
    with load_errors(folder):
        config = onnx_model.config_of(folder)
    if config.architectures[0].endswith("ForMultipleChoice"):
        raise UserError(f"{folder} chooses between candidates, which no ONNX file does yet; give --backend {TORCH}")
    name = BACKENDS[backend]
    if not (folder / name).is_file():
        option = "int8" if name == ONNX_INT8 else "true"
        raise UserError(f"{folder} has no {name}; publish it with onnx: {option}, or give --backend {TORCH}")
    with load_errors(folder):
        return onnx_model.load(folder, name, config)


def load_ngrams(folder: Path, tokenizer: Any, published: bool) -> NgramModel:
    """Load a classifier over n-grams for the texts of a tokenizer; if `published`, its folder has one, too."""
    refuse_incomplete(folder, ("config.json",), published)
    with load_errors(folder):
        return NgramModel.load(folder, tokenizer.backend_tokenizer)


def load_tokenizer(folder: Path, with_transformers: bool = True) -> Any:
    """Load the tokenizer of a checkpoint or of a run's tokenizer stage, with this package's code, not the folder's; if
    not `with_transformers`, by `tokenizers` alone where that is enough."""
    folder = local_folder(str(folder)) or folder
    if lacking := lacks_of_tokenizer(folder):
        raise UserError(
            f"{folder} has no tokenizer: it lacks {', '.join(lacking)}; name a checkpoint or the tokenizer folder of a "
            "run"
        )
    with load_errors(folder):
        if not with_transformers and tokenizers_only.is_enough(folder):
            return tokenizers_only.TokenizersOnly.from_folder(folder)
        tokenizer = load_checkpoint_tokenizer(folder)
        tokenizer.model_max_length = tokenizers_only.length_limit(tokenizer.model_max_length)
        if not is_morpheme_tokenizer(tokenizer):
            refuse_misread_vocabulary(folder, tokenizer)
        return tokenizer


def refuse_incomplete(folder: Path, required: tuple[str, ...] = MODEL_FILES, with_tokenizer: bool = True) -> None:
    """Raise UserError unless `folder` has the required files (weights also in parts, or pickled), `with_tokenizer` also
    a tokenizer's, and, where it has a manifest, they are unchanged."""
    missing = [name for name in required if name != WEIGHTS and not (folder / name).is_file()]
    missing += [lack_of_weights(folder)] if WEIGHTS in required and not weight_files(folder) else []
    lacking = lacks_of_tokenizer(folder) if with_tokenizer else []
    if missing or lacking:
        # a folder that lacks nothing else is a run's model folder
        other = "" if missing else ", or give `kobert predict`, embed or similar its tokenizer with --tokenizer FOLDER"
        raise UserError(
            f"{folder} is not a published checkpoint: {', '.join(missing + lacking)} missing; `kobert publish` makes "
            f"one{other}"
        )
    if is_finished(folder):  # a checkpoint that was downloaded may come without a manifest
        verify(folder)


def head_of(model: Any) -> str:
    """The name of the model's class in `transformers`, whose suffix says what its head is for."""
    # models that are not of `transformers` (an ONNX file, one over a frozen encoder) know whose outputs they have
    return str(getattr(model, "class_name", type(model).__name__))


def files_to_upload(folder: Path) -> dict[str, int]:
    """{file: size in bytes} of a finished checkpoint. Raises UserError where the licence of a training file is not
    known, so that nobody uploads by accident what must not be shared."""
    refuse_incomplete(folder, ("config.json",) if (folder / NGRAMS).is_file() else MODEL_FILES)
    record = manifest.read(folder)
    if without := record["counts"].get("files_without_licence", 0):
        raise UserError(
            f"{folder} was trained on {without} files without a stated or known licence (its README.md lists them); "
            "give each its `license` in the recipe, or say in publish's option `permission` why it may be shared, and "
            "publish again"
        )
    return {name: file["size"] for name, file in record["files"].items()}
