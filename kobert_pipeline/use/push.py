"""Send a published checkpoint to a hub (`huggingface_hub`): exactly the files that its manifest lists, after they were found unchanged."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kobert_pipeline import manifest
from kobert_pipeline.errors import UserError
from kobert_pipeline.inference.checkpoint import refuse_incomplete

if TYPE_CHECKING:
    from huggingface_hub import HfApi

MISLEADING = [
    "tokenizer.json", "vocab.txt", "pytorch_model.bin", "onnx/*", "plain/*",
    "modules.json", "1_Pooling/*", "config_sentence_transformers.json", "sentence_bert_config.json",
]  # fmt: skip
"""Files of an earlier upload that loaders would prefer to ours, or that would no longer fit it; those that are not sent are deleted."""
ANSWERS = {
    401: "does not accept the token; log in anew with `hf auth login`, or set HF_TOKEN",
    403: "does not let this token write there; use a token with write access, or a repository of your own",
    404: "knows no such owner, or does not show it to this token; check the name OWNER/NAME",
}


def upload(folder: Path, repo: str, private: bool, dry_run: bool) -> dict[str, Any]:
    """Send `folder` to `repo` unless it is a `dry_run`; what went (or would go) where, with the `url` of the commit.

    Raises UserError for a folder that is no finished checkpoint or is damaged, for data without a licence, and for what a hub answers.
    """
    files = sendable(folder)
    url = None if dry_run else _sent(folder, repo, private, list(files))
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


def sendable(folder: Path) -> dict[str, int]:
    """{file: bytes} of a finished checkpoint that may be passed on."""
    refuse_incomplete(folder)
    made = manifest.read(folder)
    if without := made["counts"].get("files_without_licence", 0):
        raise UserError(
            f"{folder} was made from {without} files without a stated licence (its README.md lists them); give each its `license` in the "
            f"recipe, or say in publish's option `permission` why it may be passed on, and publish again"
        )
    return {name: file["size"] for name, file in made["files"].items()}


def _sent(folder: Path, repo: str, private: bool, files: list[str]) -> str:
    """Create the repository unless it is there, upload, and give the address of the commit."""
    from huggingface_hub import HfApi, get_token
    from huggingface_hub.errors import HTTPError, OfflineModeIsEnabled  # type: ignore[attr-defined]

    if get_token() is None:
        raise UserError("there is no token of the hub: log in with `hf auth login`, or set HF_TOKEN to one with write access")
    api = HfApi()
    try:
        return _upload(api, folder, repo, private, files)
    except OfflineModeIsEnabled:
        raise UserError("HF_HUB_OFFLINE is set, so nothing can be sent; unset it, or see with --dry-run what would be") from None
    except RuntimeError as error:  # how the client tells that a large file failed, with the reason behind it
        raise UserError(f"{repo}: {_answer(api, error.__cause__ or error)} ({' '.join(str(error).split())[:200]})") from None
    except (HTTPError, OSError, ValueError) as error:
        raise UserError(f"{repo}: {_answer(api, error)}") from None


def _upload(api: "HfApi", folder: Path, repo: str, private: bool, files: list[str]) -> str:
    api.create_repo(repo, private=private or None, exist_ok=True)
    if private and not api.repo_info(repo).private:
        raise UserError(f"{repo} is there already and public; make it private at the hub first, or leave --private out")
    commit = api.upload_folder(
        repo_id=repo, folder_path=folder, allow_patterns=files, delete_patterns=MISLEADING, commit_message="Published by kobert-pipeline"
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
