"""The commands that apply a checkpoint to texts: `kobert tokenize` and `kobert predict`.

torch and transformers are imported inside the commands, so that `kobert --help` stays fast.
"""

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from kobert_pipeline.cli.arguments import AsJsonLines, Backend, Folder, IdColumn, Long, TokenizerName
from kobert_pipeline.cli.formatting import json_for, note_truncated, print_table
from kobert_pipeline.cli.input_lines import (
    file_batches,
    is_table,
    refuse_blank_arguments,
    refuse_file_names,
    refuse_missing,
    refuse_undecodable,
    text_batches,
)
from kobert_pipeline.errors import UserError

IN = (
    "A file of texts: one per row of a table (.csv .tsv .xlsx .jsonl .json .parquet; empty rows are left out), or one "
    "per line; - is standard input."
)
In = Annotated[list[str] | None, typer.Option("--in", metavar="FILE", help=IN)]
COLUMN = "Column of the text or context; given twice, also of its pair or question. Default: as in training files."
Columns = Annotated[list[str] | None, typer.Option("--column", metavar="NAME", help=COLUMN)]
QUESTION = "Question to answer from each text; given several times, all are answered."
Questions = Annotated[list[str] | None, typer.Option("--question", metavar="TEXT", help=QUESTION)]
NO_PROBABILITY = (
    "note: answers have no probability, because the model stores no answer_calibration (fine-tuning finds it with at "
    "least 50 questions by people in dev); a score only compares answers to the same question"
)
PAIR = "Second text of each pair; without it a tab in TEXT separates the two."
Pair = Annotated[str | None, typer.Option(help=PAIR)]


def tokenize(
    checkpoint: Annotated[
        Path, typer.Argument(metavar="CHECKPOINT", help="A published checkpoint or a run's tokenizer folder.")
    ],
    texts: Annotated[list[str], typer.Argument(metavar="TEXT...", help="Texts; - reads lines from standard input.")],
    as_json: AsJsonLines = False,
) -> None:
    """Show the tokens of a text with their ids and raw-text offsets. Example: kobert tokenize runs/quickstart/tokenizer
    아버지가방에"""
    from kobert_pipeline.inference.loading import load_tokenizer
    from kobert_pipeline.inference.tokens import token_rows

    tokenizer = load_tokenizer(checkpoint)
    for row in chain.from_iterable(token_rows(tokenizer, batch) for batch in text_batches(texts)):
        if as_json:
            print(json_for(sys.stdout, row))
        else:
            rows = [
                [token, str(token_id), str(start), str(end), row["text"][start:end]]
                for token, token_id, (start, end) in zip(
                    row["tokens"], row["input_ids"], row["offset_mapping"], strict=True
                )
            ]
            print_table(["token", "id", "start", "end", "text"], rows)


def predict(
    checkpoint: Folder,
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TEXT]...", help="Texts (contexts, with --question); - reads lines from standard input."
        ),
    ] = None,
    files: In = None,
    columns: Columns = None,
    id_column: IdColumn = None,
    questions: Questions = None,
    pair: Pair = None,
    top_k: Annotated[int, typer.Option(min=1, help="Tokens shown for each [MASK].")] = 5,
    long: Long = "truncate",
    tokenizer: TokenizerName = None,
    backend: Backend = "auto",
    as_json: AsJsonLines = False,
) -> None:
    """Classify texts or pairs of texts, answer a question from them, find their entities, or fill their [MASK]s.

    Example: kobert predict runs/quickstart/publish/nsmc "정말 재밌다"
    """
    file = _input_file(files or [], texts or [], columns, id_column)
    refuse_undecodable(questions or [], "--question")
    refuse_undecodable([pair] if pair else [], "--pair")

    from kobert_pipeline.inference.checkpoint import Checkpoint
    from kobert_pipeline.inference.table_fields import predict_table

    loaded = replace(Checkpoint.load(checkpoint, tokenizer, backend), counted=(counted := Counter[str]()))
    more = (questions or None, pair, top_k, long)
    if file and (columns or is_table(file)):
        batches = predict_table(loaded, Path(file), columns or [], *more, id_column)
    else:
        has_tabs = not loaded.fills_masks and len(loaded.task.inputs) > 1
        lines = file_batches([file], tabs=has_tabs) if file else text_batches(texts or [], "--in")
        batches = (loaded.predict(batch, *more) for batch in lines)
    _print_results(batches, as_json)
    note_truncated(loaded, counted["truncated"], counted["texts"], pair)


def _input_file(files: list[str], texts: list[str], columns: list[str] | None, id_column: str | None) -> str | None:
    """The file of --in, None where there are texts. Raises UserError where texts, file and columns do not fit."""
    if ((file := only_one(files, texts)) is None) == (not texts):
        raise UserError("give either texts or --in FILE")
    if columns and file in (None, "-"):
        raise UserError("--column names columns of a table; give one with --in FILE, or leave it out")
    if id_column and not columns and not (file and is_table(file)):
        raise UserError("--id-column names a column of a table; give one with --in FILE, or leave it out")
    refuse_missing([file] if file else [], "a table or a file with one text per line")
    refuse_blank_arguments(texts)
    return file


def only_one(files: list[str], texts: list[str]) -> str | None:
    """The file of --in; None for none. Raises UserError for several, also where they are among the `texts`: their
    results have no names of files."""
    if len(files) > 1:
        raise UserError(f"--in is given {len(files)} times, but one file is read at a time; run the command for each")
    if files:
        refuse_file_names(texts, "run the command for each file")
    return files[0] if files else None


def _print_results(batches: Iterable[list[dict[str, Any]]], as_json: bool) -> None:
    is_uncalibrated = False
    for results in batches:
        for result in results:
            if as_json:
                print(json_for(sys.stdout, result))
            else:
                print(_line(result))
            # only answers have a `probability`, null without a calibration; a regression also has a score
            is_uncalibrated |= result.get("score") is not None and result.get("probability", 0) is None
        sys.stdout.flush()  # to a pipe, Python would keep answers back until there are 8 KB of them
    if is_uncalibrated:
        print(NO_PROBABILITY, file=sys.stderr)


def _line(result: dict[str, Any]) -> str:
    """A result on one line."""
    shown = {key: " ".join(value.split()) if isinstance(value, str) else value for key, value in result.items()}
    line = "  ".join(f"{key}: {'none' if value is None else value}" for key, value in shown.items())
    return line.encode(errors="replace").decode()  # half an emoji of a JSON file cannot be printed
