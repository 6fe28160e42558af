"""The hash of a finished stage's files, by which the records of later stages name what they were made from."""

import hashlib
import json
from typing import Any

ROUNDED = "rounded_to_bfloat16"
"""Entry of a manifest: {name: size and sha256 before} of the weights that were rounded after the stage had finished.
Scores and losses in `counts` were measured with the weights before rounding."""


def content_hash(files: dict[str, Any]) -> str:
    """One hash of the `files` of a manifest."""
    hashes = {name: file["sha256"] for name, file in files.items()}
    return hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()


def input_hash(manifest: dict[str, Any], recorded: str | None) -> str:
    """The hash by which a job names a finished stage that it reads; `recorded` is the one in the job's own record.

    A stage whose weights were rounded has two: a job that was made from the weights before keeps theirs, and one that
    is made from the rounded ones gets theirs.
    """
    before = content_hash(manifest["files"] | manifest.get(ROUNDED, {}))
    return before if recorded == before else content_hash(manifest["files"])
