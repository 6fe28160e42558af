"""The commands that apply a checkpoint to texts: `kobert tokenize` and `kobert predict`.

torch and transformers are imported inside the commands, so that `kobert --help` stays fast.
"""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from kobert_pipeline.cli.arguments import AsJsonLines, Checkpoint
from kobert_pipeline.cli.formatting import print_table
from kobert_pipeline.errors import UserError


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
    for text in _read_texts(texts):
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
    from kobert_pipeline.inference.predict import predict as predictions

    for result in predictions(checkpoint, _read_texts(texts), question, top_k, pair, tokenizer):
        if as_json:
            print(json.dumps(result, ensure_ascii=False))
        else:
            print("  ".join(f"{key}: {value}" for key, value in result.items()))


def _read_texts(texts: list[str]) -> list[str]:
    """The texts on the command line, or with `-` the lines of standard input. Raises UserError for input that is empty
    or not UTF-8."""
    if texts != ["-"]:
        return texts
    try:
        # bytes, because the locale's encoding need not be UTF-8; utf-8-sig drops the byte order mark of Windows editors
        content = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(
            f"standard input is not UTF-8 ({error.reason} at byte {error.start}); convert it first"
        ) from None
    # Blank lines are kept, so that the n-th result belongs to the n-th line. str.splitlines() would also split at
    # form feeds and Unicode line separators inside a text.
    lines = [line.removesuffix("\r") for line in content.removesuffix("\n").split("\n")]
    if not any(lines):
        raise UserError("standard input is empty; give one text per line")
    return lines
