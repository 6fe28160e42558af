"""The commands that apply a checkpoint to texts: `kobert tokenize` and `kobert predict`.

torch and transformers are imported inside the commands, so that `kobert --help` stays fast.
"""

import json
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from kobert_pipeline.cli.arguments import AsJsonLines, Checkpoint
from kobert_pipeline.cli.formatting import print_table
from kobert_pipeline.errors import UserError

READ_BYTES = 65_536
"""Bytes of standard input that are read, and answered, at once: as many as a pipe holds."""


def tokenize(
    checkpoint: Annotated[
        Path, typer.Argument(metavar="CHECKPOINT", help="A published checkpoint or a run's tokenizer folder.")
    ],
    texts: Annotated[list[str], typer.Argument(metavar="TEXT...", help="Texts; - reads lines from standard input.")],
    as_json: AsJsonLines = False,
) -> None:
    """Show the tokens of a text with their ids and raw-text offsets. Example: kobert tokenize runs/quickstart/tokenizer
    아버지가방에"""
    from kobert_pipeline.inference.checkpoint import load_tokenizer

    tokenizer = load_tokenizer(checkpoint)
    for text in chain.from_iterable(_text_batches(texts)):
        encoded = tokenizer(text, return_offsets_mapping=True)
        tokens, ids, offsets = encoded.tokens(), encoded["input_ids"], encoded["offset_mapping"]
        if as_json:
            row = {"text": text, "tokens": tokens, "input_ids": ids, "offset_mapping": offsets}
            print(json.dumps(row, ensure_ascii=False))
        else:
            rows = [
                [token, str(token_id), str(start), str(end), text[start:end]]
                for token, token_id, (start, end) in zip(tokens, ids, offsets, strict=True)
            ]
            print_table(["token", "id", "start", "end", "text"], rows)


def predict(
    checkpoint: Checkpoint,
    texts: Annotated[
        list[str],
        typer.Argument(metavar="TEXT...", help="Texts (contexts, with --question); - reads lines from standard input."),
    ],
    question: Annotated[str | None, typer.Option(help="Question to answer from each text.")] = None,
    pair: Annotated[
        str | None, typer.Option(help="Second text of each pair; without it a tab in TEXT separates the two.")
    ] = None,
    top_k: Annotated[int, typer.Option(min=1, help="Tokens shown for each [MASK].")] = 5,
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            help="A run's tokenizer folder, for a model that is not published (runs/NAME/finetune/NAME/SEED/model)."
        ),
    ] = None,
    as_json: AsJsonLines = False,
) -> None:
    """Classify texts or pairs of texts, answer a question from them, find their entities, or fill their [MASK]s.

    Example: kobert predict runs/quickstart/publish/nsmc "정말 재밌다"
    """
    from kobert_pipeline.inference.predict import predict_batches as predictions

    for results in predictions(checkpoint, _text_batches(texts), question, top_k, pair, tokenizer):
        for result in results:
            if as_json:
                print(json.dumps(result, ensure_ascii=False))
            else:
                print("  ".join(f"{key}: {value}" for key, value in result.items()))
        sys.stdout.flush()  # to a pipe, Python would keep answers back until there are 8 KB of them


def _text_batches(texts: list[str]) -> Iterator[list[str]]:
    """The texts on the command line, or with `-` the lines of standard input, as many at a time as are there already.
    Raises UserError for input that is empty or not UTF-8."""
    return iter([texts]) if texts != ["-"] else _line_batches(sys.stdin.buffer)


def _line_batches(stream: Any) -> Iterator[list[str]]:
    """The lines of a binary stream. One read of the system returns a block of a file, but of a pipe or terminal only
    what was written so far, so a program that writes a line gets its answer before it writes the next."""
    rest, offset, leading, found = b"", 0, list[str](), False
    while True:
        block = stream.read1(READ_BYTES)
        # bytes are split, not text: a block may end inside a character. str.splitlines() would also split at form
        # feeds and Unicode line separators inside a text
        *complete, rest = (rest + block).split(b"\n")
        if not block and rest:
            complete, rest = [*complete, rest], b""
        lines = []
        for line in complete:
            lines.append(_decode(line, offset))
            offset += len(line) + 1
        # blank lines are kept, so that the n-th result belongs to the n-th line; only those before the first text wait
        # for it, since alone they are no input
        lines = [*leading, *lines]
        found = found or any(lines)
        leading = [] if found else lines
        if found and lines:
            yield lines
        if not block:
            break
    if not found:
        raise UserError("standard input is empty; give one text per line")


def _decode(line: bytes, offset: int) -> str:
    try:
        # bytes, because the locale's encoding need not be UTF-8; Windows editors begin a file with a byte order mark
        return line.decode("utf-8" if offset else "utf-8-sig").removesuffix("\r")
    except UnicodeDecodeError as error:
        place = offset + error.start
        raise UserError(f"standard input is not UTF-8 ({error.reason} at byte {place}); convert it first") from None
