"""The command `kobert embed`. torch and transformers are imported only once the arguments are known to be valid."""

import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kobert_pipeline.cli.arguments import Backend, Folder, Long, TokenizerName
from kobert_pipeline.cli.exit_codes import interrupt_on_sigterm
from kobert_pipeline.cli.formatting import json_for
from kobert_pipeline.cli.input_lines import count_texts, file_batches, refuse_missing, refuse_tables
from kobert_pipeline.errors import UserError, refuse_existing
from kobert_pipeline.files import refuse_unwritable
from kobert_pipeline.progress import shown_on

if TYPE_CHECKING:
    from kobert_pipeline.inference.embed import Embedder

FILES = "Text files, one text per line, or with --column tables; - reads standard input."
Files = Annotated[list[str], typer.Argument(metavar="FILE...", help=FILES)]
COLUMN = "The files are tables (CSV, TSV, Excel, JSON Lines, JSON, Parquet): the column of their texts."
Column = Annotated[str | None, typer.Option(metavar="NAME", help=COLUMN)]
OUT = "Write the vectors to this new file: .parquet, .npy or .jsonl; default: JSON Lines to standard output."
Out = Annotated[Path | None, typer.Option(metavar="OUT", help=OUT)]
POOLING = "How tokens become a text's vector: cls, mean, max, first-last, weighted; default: that of training, or mean."
Pooling = Annotated[str | None, typer.Option(help=POOLING)]
LAYERS = "Layers whose states are concatenated: 0 for the embeddings, 1 for the first layer, -1 for the last."
Layers = Annotated[str, typer.Option(metavar="N,N,...", help=LAYERS)]
Tokens = Annotated[bool, typer.Option("--tokens", help="One vector per token, with its text, place and morpheme.")]
Weights = Annotated[Path | None, typer.Option(metavar="FILE", help="Weights of tokens, for --pooling weighted (BM25).")]
LEARN = "Learn the weights of tokens from the texts, write them to this new file, and embed nothing."
LearnWeights = Annotated[Path | None, typer.Option(metavar="FILE", help=LEARN)]


def embed(
    checkpoint: Folder,
    files: Files,
    out: Out = None,
    column: Column = None,
    pooling: Pooling = None,
    layers: Layers = "-1",
    tokens: Tokens = False,
    weights: Weights = None,
    learn_weights: LearnWeights = None,
    long: Long = "truncate",
    tokenizer: TokenizerName = None,
    backend: Backend = "auto",
) -> None:
    """Turn each line of text, or each row of a table, into a vector, or with --tokens each of its tokens. A command
    that was interrupted resumes when it is repeated.

    Example: kobert embed runs/quickstart/publish/nsmc reviews.txt --out reviews.parquet
    """
    interrupt_on_sigterm()
    _refuse_conflicts(out, pooling, tokens, weights, learn_weights, long)
    refuse_missing(files)
    refuse_tables(files, column)
    numbers = parse_layers(layers)

    from kobert_pipeline.inference.embed import Embedder
    from kobert_pipeline.inference.vector_files import FORMATS

    if out:
        refuse_unwritable(out, "--out", FORMATS)
    pooling = "mean" if tokens or learn_weights else pooling  # nothing is pooled then, whatever the model says
    embedder = Embedder.load(checkpoint, tokenizer, pooling, numbers, weights, long, backend)
    if learn_weights:
        _learn_weights(embedder, file_batches(files, column), learn_weights)
    elif out:
        _write(embedder, file_batches(files, column), out, tokens, count_texts(files, column))
    else:
        _print(embedder, file_batches(files, column), tokens)
    if embedder.truncated:
        print(f"truncated to {embedder.max_length} tokens: {embedder.truncated:,} texts", file=sys.stderr)


def _refuse_conflicts(
    out: Path | None, pooling: str | None, tokens: bool, weights: Path | None, learn_weights: Path | None, long: str
) -> None:
    if long == "windows" and (tokens or learn_weights):
        raise UserError("--long windows is for vectors of texts; leave it out with --tokens and --learn-weights")
    if learn_weights and (out or pooling or tokens or weights):
        raise UserError("--learn-weights writes no vectors; leave --out, --pooling, --tokens and --weights out")
    if learn_weights:
        refuse_existing(learn_weights, "--learn-weights")
    if tokens and (pooling or weights):
        raise UserError("--tokens pools nothing, every token has a vector; leave --pooling and --weights out")
    if tokens and out and out.suffix == ".npy":
        raise UserError(f"--out {out}: NumPy's file has vectors alone; choose .parquet or .jsonl for --tokens")


def parse_layers(layers: str) -> tuple[int, ...]:
    """The numbers in `-4,-3,-2,-1`. Raises UserError for anything else."""
    try:
        return tuple(int(layer) for layer in layers.split(","))
    except ValueError:
        raise UserError(f"--layers {layers}: numbers separated by commas were expected, such as -4,-3,-2,-1") from None


def _learn_weights(embedder: "Embedder", batches: Iterator[list[str]], path: Path) -> None:
    from kobert_pipeline.inference.token_weights import TokenWeights

    ids = chain.from_iterable(map(embedder.token_ids, batches))
    TokenWeights.learn(ids, embedder.tokenizer).save(path)


def _write(embedder: "Embedder", batches: Iterator[list[str]], out: Path, tokens: bool, total: int | None) -> None:
    from kobert_pipeline.inference.embed import write_embeddings
    from kobert_pipeline.runs.displays import progress_display

    with progress_display() as display, shown_on(display):
        display.begin(f"embed {out.name}", 1, 1)
        display.start()
        write_embeddings(out, embedder, chain.from_iterable(batches), tokens, total)


def _print(embedder: "Embedder", batches: Iterator[list[str]], tokens: bool) -> None:
    from kobert_pipeline.inference.vector_files import json_rows

    done = 0
    for texts in batches:
        for row in json_rows(embedder.columns(texts, done, tokens)):
            print(json_for(sys.stdout, row))
        sys.stdout.flush()  # a program that writes a line gets its vector before it writes the next
        done += len(texts)
