"""Upload a published checkpoint to a hub (`huggingface_hub`): the files that its manifest lists, and no others."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kobert_pipeline.errors import UserError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

MISLEADING = [
    "tokenizer.json", "vocab.txt", "pytorch_model.bin", "onnx/*", "plain/*",
    "modules.json", "1_Pooling/*", "config_sentence_transformers.json", "sentence_bert_config.json",
]  # fmt: skip
"""Files of an earlier upload that loaders would prefer to ours, or that would no longer fit it; those that are not sent
are deleted."""
ANSWERS = {
    401: "does not accept the token; log in anew with `hf auth login`, or set HF_TOKEN",
    403: "does not let this token write there; use a token with write access, or a repository of your own",
    404: "knows no such owner, or does not show it to this token; check the name OWNER/NAME",
}


def upload(folder: Path, files: dict[str, int], repo: str, private: bool, dry_run: bool) -> dict[str, Any]:
    """Upload `files` ({name: bytes}) of `folder` to `repo` unless it is a `dry_run`; returns what went (or would go)
    where, and the `url` of the commit. Raises UserError for what the hub refuses."""
    url = None if dry_run else _upload(folder, repo, private, list(files))
    return {"repo": repo, "private": private, "dry_run": dry_run, "files": files, "url": url}


def refuse_bad_name(repo: str) -> None:
    """Raise UserError for a name that no repository can have."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        raise UserError(f"--push {repo}: {str(error).rstrip('.')}; give OWNER/NAME") from None
    if repo.count("/") != 1:
        raise UserError(f"--push {repo}: a repository is called OWNER/NAME")


def _upload(folder: Path, repo: str, private: bool, files: list[str]) -> str:
    """Create the repository unless it exists, upload, and return the address of the commit."""
    from huggingface_hub import HfApi, get_token
    from huggingface_hub.errors import HTTPError, OfflineModeIsEnabled  # type: ignore[attr-defined]

    if get_token() is None:
        raise UserError(
            "there is no token of the hub: log in with `hf auth login`, or set HF_TOKEN to one with write access"
        )
    api = HfApi()
    try:
        return _create_and_commit(api, folder, repo, private, files)
    except OfflineModeIsEnabled:
        raise UserError(
            "HF_HUB_OFFLINE is set, so nothing can be sent; unset it, or see with --dry-run what would be"
        ) from None
    except RuntimeError as error:  # how the client tells that a large file failed, with the reason behind it
        raise UserError(
            f"{repo}: {_answer(api, error.__cause__ or error)} ({' '.join(str(error).split())[:200]})"
        ) from None
    except (HTTPError, OSError, ValueError) as error:
        raise UserError(f"{repo}: {_answer(api, error)}") from None


def _create_and_commit(api: "HfApi", folder: Path, repo: str, private: bool, files: list[str]) -> str:
    api.create_repo(repo, private=private or None, exist_ok=True)
    if private and not api.repo_info(repo).private:
        raise UserError(f"{repo} is there already and public; make it private at the hub first, or leave --private out")
    commit = api.upload_folder(
        repo_id=repo,
        folder_path=folder,
        allow_patterns=files,
        delete_patterns=MISLEADING,
        commit_message="Published by kobert-pipeline",
    )
    return str(commit.commit_url)


def _answer(api: "HfApi", error: Any) -> str:
    """What a failed request means."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in ANSWERS:
        return f"{api.endpoint} {ANSWERS[status]}"
    if status is not None:
        return f"{api.endpoint} answered {status} ({str(error).splitlines()[0][:200]}); try again later"
    if isinstance(error, ValueError):
        return f"{api.endpoint} refuses the upload ({' '.join(str(error).split())[:300]})"
    what = f"{type(error).__name__}: {str(error)[:200]}"
    return f"{api.endpoint} cannot be reached ({what}); check the network, then give the same command again"
