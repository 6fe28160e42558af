"""The command `kobert index`. torch and transformers are imported only once the arguments are known to be valid."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from kobert_pipeline.cli.arguments import AsJson, Backend, Folder, IdColumn, Long, TokenizerName
from kobert_pipeline.cli.embed import Column, Files, Pooling
from kobert_pipeline.cli.exit_codes import interrupt_on_sigterm
from kobert_pipeline.cli.formatting import print_json
from kobert_pipeline.cli.input_lines import refuse_missing, refuse_tables
from kobert_pipeline.cli.similar import Candidates
from kobert_pipeline.errors import UserError, refuse_existing
from kobert_pipeline.progress import shown_on

Out = Annotated[Path, typer.Option(metavar="DIR", help="The new folder of the index.")]
BY = "bm25: no vectors, which take most of the time; searches are then by words alone."
By = Annotated[Literal["bm25"] | None, typer.Option("--by", help=BY)]


def index(
    checkpoint: Folder,
    files: Files,
    out: Out,
    column: Column = None,
    id_column: IdColumn = None,
    by: By = None,
    pooling: Pooling = None,
    long: Long = "windows",
    tokenizer: TokenizerName = None,
    backend: Backend = "auto",
    as_json: AsJson = False,
) -> None:
    """Write the vectors and the BM25 index of texts to a folder, in which kobert similar and serve --index DIR search.

    Example: kobert index mini-korquad judgments.txt --out judgments
    """
    interrupt_on_sigterm()
    refuse_existing(out, "--out")
    refuse_missing(files)
    refuse_tables(files, column, id_column)
    if by:
        _refuse_options_of_vectors(checkpoint, {"--pooling": pooling, "--tokenizer": tokenizer, "--backend": backend})

    from kobert_pipeline.inference.embed import Embedder
    from kobert_pipeline.inference.text_index import write_index
    from kobert_pipeline.runs.displays import progress_display

    texts = Candidates(files, column, id_column)
    embedder = None if by else Embedder.load(checkpoint, tokenizer, pooling, long=long, backend=backend)
    with progress_display() as display, shown_on(display):
        display.begin(f"index {out.name}", 1, 1)
        display.start()
        about = write_index(out, [texts.row(index) for index in range(len(texts.texts))], texts.unit, embedder, long)
    blank = len(texts.lines) - len(texts.texts)
    if as_json:
        print_json(about | {"blank": blank})
        return
    left_out = f" (blank and left out: {blank:,})" if blank else ""
    print(f"{out}: {about['texts']:,} texts{left_out}, {_vectors(about)}")


def _refuse_options_of_vectors(checkpoint: Path, options: dict[str, str | None]) -> None:
    """Raise UserError where an index without vectors is given what only they need, or texts in place of a
    checkpoint."""
    for option, value in options.items():
        if value not in (None, "auto"):
            raise UserError(f"{option} is for vectors, which --by bm25 leaves out; give one of them")
    if checkpoint.is_file():
        raise UserError(f"{checkpoint} is a file; the first argument is a checkpoint, also with --by bm25")


def _vectors(about: dict[str, Any]) -> str:
    """What an index has of its texts."""
    if not about["pooling"]:
        return "their words without vectors"
    cut = f"{about['truncated']:,} of them truncated to {about['max_length']} tokens" if about["truncated"] else "whole"
    return f"{cut} (pooling {about['pooling']}, --long {about['long']}), and their words"
