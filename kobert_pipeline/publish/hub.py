"""Upload a published checkpoint to the Hugging Face Hub: the files that its manifest lists, and no others."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kobert_pipeline.checkpoint.source import TOKENIZER_FILES
from kobert_pipeline.errors import UserError
from kobert_pipeline.morphemes import ANALYZERS, tokenizer_files
from kobert_pipeline.tokenizer.plain import PLAIN
from kobert_pipeline.training.weight_files import NGRAMS, NGRAMS_FOLDER

if TYPE_CHECKING:
    from huggingface_hub import HfApi

MISLEADING = [
    *tokenizer_files(), *(f"{folder}/*" for folder in (*ANALYZERS, PLAIN, "onnx", NGRAMS_FOLDER)),
    *TOKENIZER_FILES, "pytorch_model.bin", NGRAMS,
    "modules.json", "1_Pooling/*", "config_sentence_transformers.json", "sentence_bert_config.json",
]  # fmt: skip
"""Files of an earlier upload that loaders would prefer to ours, or that no longer fit the new ones: deleted from the
repository unless they are uploaded again."""
STATUS_MESSAGES = {
    401: "does not accept the token; log in again with `hf auth login`, or set HF_TOKEN",
    403: "does not let this token write there; use a token with write access, or a repository of your own",
    404: "does not know such an owner, or hides it from this token; check the name OWNER/NAME",
}


def upload(folder: Path, files: dict[str, int], repo: str, private: bool, dry_run: bool) -> dict[str, Any]:
    """Upload `files` ({name: size in bytes}) of `folder` to `repo`, unless it is a `dry_run`. Returns the arguments and
    the `url` of the commit, for `--json`. Raises UserError for what the Hub refuses."""
    url = None if dry_run else _upload(folder, repo, private, list(files))
    return {"repo": repo, "private": private, "dry_run": dry_run, "files": files, "url": url}


def refuse_bad_name(repo: str) -> None:
    """Raise UserError for an invalid repository name."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        raise UserError(f"--push {repo}: {str(error).rstrip('.')}; give OWNER/NAME") from None
    if repo.count("/") != 1:
        raise UserError(f"--push {repo}: the name of a repository has the form OWNER/NAME")


def _upload(folder: Path, repo: str, private: bool, files: list[str]) -> str:
    """Create the repository unless it exists, upload, and return the URL of the commit."""
    from huggingface_hub import HfApi, get_token
    from huggingface_hub.errors import HTTPError, OfflineModeIsEnabled  # type: ignore[attr-defined]

    if get_token() is None:
        raise UserError(
            "no token for the Hub was found: log in with `hf auth login`, or set HF_TOKEN to one with write access"
        )
    api = HfApi()
    try:
        return _create_and_commit(api, folder, repo, private, files)
    except OfflineModeIsEnabled:
        raise UserError(
            "HF_HUB_OFFLINE is set, so nothing can be uploaded; unset it, or list the files with --dry-run"
        ) from None
    except RuntimeError as error:
        # raised by the client when a large file fails; the HTTP error is its cause
        reason = _explain(api, error.__cause__ or error)
        raise UserError(f"{repo}: {reason} ({' '.join(str(error).split())[:200]})") from None
    except (HTTPError, OSError, ValueError) as error:
        raise UserError(f"{repo}: {_explain(api, error)}") from None


def _create_and_commit(api: "HfApi", folder: Path, repo: str, private: bool, files: list[str]) -> str:
    # None leaves an existing repository, and the owner's default for new ones, as they are
    api.create_repo(repo, private=private or None, exist_ok=True)
    # `exist_ok` accepts an existing public repository without a word
    if private and not api.repo_info(repo).private:
        raise UserError(f"{repo} exists already and is public; make it private on the Hub first, or omit --private")
    commit = api.upload_folder(
        repo_id=repo,
        folder_path=folder,
        allow_patterns=files,
        delete_patterns=MISLEADING,
        commit_message="Published by kobert-pipeline",
    )
    return str(commit.commit_url)


def _explain(api: "HfApi", error: Any) -> str:
    """What a failed request means, and what to do."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in STATUS_MESSAGES:
        return f"{api.endpoint} {STATUS_MESSAGES[status]}"
    if status is not None:
        return f"{api.endpoint} answered {status} ({str(error).splitlines()[0][:200]}); try again later"
    if isinstance(error, ValueError):  # the client validates the card's metadata and the arguments
        return f"{api.endpoint} refuses the upload ({' '.join(str(error).split())[:300]})"
    what = f"{type(error).__name__}: {str(error)[:200]}"
    return f"{api.endpoint} cannot be reached ({what}); check the network, then run the same command again"
