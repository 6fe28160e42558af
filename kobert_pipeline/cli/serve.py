"""The command `kobert serve`. FastAPI, uvicorn and torch are imported only once the arguments are known to be valid."""

import re
from pathlib import Path
from typing import Annotated

import typer

from kobert_pipeline.cli.arguments import Backend, Long, TokenizerName
from kobert_pipeline.errors import UserError

NAME = re.compile(r"[\w.@/-]+")
"""What a model may be called."""
CHECKPOINTS = "Checkpoint folders, or names on the Hugging Face Hub; NAME is what requests call it (default: FOLDER's)."
Checkpoints = Annotated[list[str], typer.Argument(metavar="[NAME=]CHECKPOINT...", help=CHECKPOINTS)]
Host = Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all of this machine.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for any that is free.")]
KEY = "File with a key of one line, without which nothing is answered."
ApiKeyFile = Annotated[Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help=KEY)]
BatchTokens = Annotated[int, typer.Option(min=1, help="Tokens that are computed together.")]
Queue = Annotated[int, typer.Option(min=1, help="Texts that wait at most; more are refused for now.")]
Timeout = Annotated[float, typer.Option(min=0.1, help="Seconds for a request, waiting included.")]

WORKERS = "Processes that answer, each with its own copy of the models; one that dies is replaced."
Workers = Annotated[int, typer.Option(min=1, help=WORKERS)]

INDEX = "What kobert index wrote; /v1/similar then also searches in it, where a request has no texts."
Index = Annotated[Path | None, typer.Option(metavar="DIR", help=INDEX)]


def serve(
    checkpoints: Checkpoints,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    api_key_file: ApiKeyFile = None,
    max_batch_tokens: BatchTokens = 16_384,
    max_queue: Queue = 2048,
    timeout: Timeout = 30,
    long: Long = "truncate",
    index: Index = None,
    workers: Workers = 1,
    tokenizer: TokenizerName = None,
    backend: Backend = "auto",
) -> None:
    """Answer requests over HTTP with one or several checkpoints.

    Example: kobert serve runs/quickstart/publish/nsmc
    """
    named = by_name(checkpoints)
    try:
        from kobert_pipeline.serve.limits import Limits
        from kobert_pipeline.serve.server import read_api_key
        from kobert_pipeline.serve.server import serve as run_server
    except ModuleNotFoundError as error:
        raise UserError(f"{error.name} is not installed; run: pip install 'kobert-pipeline[serve]'") from None
    api_key = read_api_key(api_key_file) if api_key_file else None
    if index:
        from kobert_pipeline.inference.text_index import TextIndex

        TextIndex(index)  # what is no index is refused before models are loaded
    limits = Limits(max_batch_tokens=max_batch_tokens, max_queue=max_queue, timeout=timeout)
    run_server(named, host, port, limits, api_key, long, workers, backend, tokenizer, index)


def by_name(checkpoints: list[str]) -> dict[str, str]:
    """{name: checkpoint} of `[NAME=]CHECKPOINT`. Raises UserError for a name that is given twice, or is none."""
    named: dict[str, str] = {}
    for argument in checkpoints:
        name, sign, checkpoint = argument.partition("=")
        # a folder may have a "=" in its path; resolved, since "." has no name
        if not sign or Path(argument).is_dir():
            name, checkpoint = Path(argument).resolve().name if Path(argument).is_dir() else argument, argument
        if not NAME.fullmatch(name):
            raise UserError(f"{name!r:.80} is not a name; use letters, digits and ._-/@, as in mood={checkpoint}")
        if name in named:
            raise UserError(f"two checkpoints are called {name}; name one of them, as in other={checkpoint}")
        named[name] = checkpoint
    return named
