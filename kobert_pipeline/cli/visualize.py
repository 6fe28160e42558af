"""The commands `kobert visualize ...`. torch and transformers are imported only once the arguments are known to be
valid."""

import sys
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from kobert_pipeline.cli.arguments import Folder, TokenizerName
from kobert_pipeline.cli.formatting import Commands
from kobert_pipeline.cli.input_lines import file_batches, is_table, refuse_missing
from kobert_pipeline.errors import UserError, refuse_existing, refuse_unknown
from kobert_pipeline.files import refuse_unwritable

HELP = """Draw attention, tokens, sentence vectors by layer or learning curves, each in one file.

Example: kobert visualize attention runs/quickstart/publish/nsmc "정말 재밌다" --out attention.html"""
app = typer.Typer(cls=Commands, no_args_is_help=True, rich_markup_mode=None, help=HELP)

AttentionOut = Annotated[
    Path,
    typer.Option(metavar="OUT", help="The new file: .html for a page, .png or .svg for a picture of one matrix."),
]
Pair = Annotated[str | None, typer.Option(help="Second text, for a model of pairs.")]
LAYER = "The layer shown first, or in the picture: from 1, -1 for the last."
Layer = Annotated[int, typer.Option(help=LAYER)]
Head = Annotated[int | None, typer.Option(help="The head shown first, or in the picture, from 1; default: their mean.")]
UNIT = "What is shown first, or in the picture: tokens, morphemes (of other tokenizers: words) or characters."
UnitName = Annotated[str, typer.Option(help=UNIT)]
FILE = "One text per line; in a .tsv each with a tab and its label."
POOLING = "How tokens become the vector of their text: mean, cls or max."
PROJECTION = "How vectors become points: pca, or tsne, which keeps neighbours (40 s for 2,000 texts and six layers)."
PROJECTOR = "Write the last layer's vectors to this new folder, as TensorBoard's projector reads them."
METRIC = "A number of the log, such as learning_rate; default: loss and the first of the evaluations. Repeatable."


@app.command()
def attention(
    checkpoint: Folder,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text that the model reads.")],
    out: AttentionOut,
    pair: Pair = None,
    layer: Layer = -1,
    head: Head = None,
    unit: UnitName = "morphemes",
    tokenizer: TokenizerName = None,
) -> None:
    """Draw what each token, morpheme or character of a text reads from, by layer and head.

    Example: kobert visualize attention runs/quickstart/publish/nsmc "정말 재밌다" --out attention.html
    """
    refuse_unwritable(out, "--out", (".html", ".png", ".svg"))

    from kobert_pipeline.visualize.attention import UNITS, Attention
    from kobert_pipeline.visualize.attention_page import write

    refuse_unknown("--unit", unit, UNITS)
    text_attention = Attention.load(checkpoint, [text] if pair is None else [text, pair], tokenizer)
    write(out, text_attention, layer, head, unit)
    if text_attention.notice:
        print(text_attention.notice, file=sys.stderr)


@app.command()
def tokenization(
    checkpoint: Annotated[
        Path, typer.Argument(metavar="CHECKPOINT", help="A checkpoint, or a run's tokenizer folder.")
    ],
    texts: Annotated[list[str], typer.Argument(metavar="TEXT...", help="Texts.")],
    out: Annotated[Path, typer.Option(metavar="OUT.html", help="The new page.")],
) -> None:
    """Show how texts are cut: their morphemes with tags, the tokens, their ids and offsets.

    Example: kobert visualize tokenization runs/quickstart/tokenizer "아버지가 방에 들어가셨다" --out tokens.html
    """
    refuse_unwritable(out, "--out", (".html",))

    from kobert_pipeline.visualize.page import write_page
    from kobert_pipeline.visualize.tokenization import tokenization_of

    write_page(out, tokenization_of(checkpoint, texts))


@app.command()
def embeddings(
    checkpoint: Folder,
    file: Annotated[Path, typer.Argument(metavar="FILE", help=FILE)],
    out: Annotated[Path | None, typer.Option(metavar="OUT.html", help="The new page.")] = None,
    projector: Annotated[Path | None, typer.Option(metavar="FOLDER", help=PROJECTOR)] = None,
    pooling: Annotated[str, typer.Option(help=POOLING)] = "mean",
    projection: Annotated[str, typer.Option(help=PROJECTION)] = "pca",
    limit: Annotated[int, typer.Option(min=3, help="Texts shown; of more, evenly spaced lines are taken.")] = 2000,
    tokenizer: TokenizerName = None,
) -> None:
    """Show the vectors of texts in two dimensions, layer by layer, coloured by label.

    Example: kobert visualize embeddings runs/quickstart/publish/nsmc reviews.tsv --out reviews.html
    """
    if not (out or projector):
        raise UserError("give --out OUT.html for a page, --projector FOLDER for TensorBoard, or both")
    if out:
        refuse_unwritable(out, "--out", (".html",))
    refuse_missing([str(file)])
    if is_table(file.name) and file.suffix != ".tsv":
        raise UserError(
            f"{file} is not one text per line; write its texts to a .txt with one per line, or with their labels to a "
            ".tsv whose lines are a text, a tab and its label"
        )

    from kobert_pipeline.visualize import embeddings as found
    from kobert_pipeline.visualize.embeddings_page import embeddings_page
    from kobert_pipeline.visualize.page import label_of, write_page

    refuse_unknown("--projection", projection, found.PROJECTIONS)
    if projector:
        refuse_existing(projector, "--projector")
    texts = found.LabelledTexts.of(file, chain(*file_batches([str(file)], tabs=file.suffix == ".tsv")), limit)
    vectors, truncated = found.layer_vectors(checkpoint, texts.texts, pooling, tokenizer)
    if out:
        write_page(out, embeddings_page(label_of(checkpoint), texts, found.Projection.of(vectors, projection), pooling))
    if projector:
        found.write_projector(projector, vectors[-1], texts)
    if truncated:
        print(f"{truncated:,} texts are longer than the model reads, and were truncated", file=sys.stderr)


@app.command()
def curves(
    run_dirs: Annotated[list[Path], typer.Argument(metavar="RUN_DIR...", help="Folders of runs, finished or not.")],
    out: Annotated[Path, typer.Option(metavar="OUT", help="The new picture, .png or .svg.")],
    metric: Annotated[list[str] | None, typer.Option(metavar="NAME", help=METRIC)] = None,
) -> None:
    """Draw the learning curves of one or several runs in one picture.

    Example: kobert visualize curves runs/quickstart runs/mini --out curves.svg
    """
    refuse_unwritable(out, "--out", (".png", ".svg"))

    from kobert_pipeline.visualize.curves import curves as curves_of
    from kobert_pipeline.visualize.curves import draw

    draw(out, curves_of(run_dirs, metric or []))
