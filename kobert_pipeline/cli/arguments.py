"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

RecipeName = Annotated[
    str, typer.Argument(metavar="RECIPE", help="Path of a YAML file, or the name of a shipped recipe.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Override an option of the recipe: --set pretrain.total_tokens=1e6."
    ),
]
RunDir = Annotated[Path | None, typer.Option(help="Folder of the run; default: runs/RECIPE.")]
REDO = "Delete this stage's results and run it again; if they change, later stages must be redone too."
Redo = Annotated[
    list[str] | None,
    typer.Option(metavar="STAGE[/NAME]", help=f"{REDO} With a name: only that part (finetune/nsmc). Repeatable."),
]
REDO_CHANGED = "Delete the results of every stage whose options or inputs have changed, and run it again."
RedoChanged = Annotated[bool, typer.Option("--redo-changed", help=REDO_CHANGED)]
RedoStage = Annotated[bool, typer.Option("--redo", help=REDO)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
AsJsonLines = Annotated[bool, typer.Option("--json", help="Print one JSON object per text, each on its own line.")]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Worker processes of the stages before training; default: one per core."),
]
MINUTES = "Stop after this many minutes, a training with a checkpoint; the same command resumes. No schedule changes."
Minutes = Annotated[float | None, typer.Option(metavar="N", help=MINUTES)]
EXPLAINED = "A stage, an option (pretrain.plan), a variant (bert, kiwi, ...), a family, a shipped recipe, or `recipe`."
Explained = Annotated[str, typer.Argument(help=EXPLAINED)]
CHECKPOINT = "A checkpoint folder, a model that comes with the clone (mini-nsmc), or a name on the Hugging Face Hub."
Folder = Annotated[Path, typer.Argument(metavar="CHECKPOINT", help=CHECKPOINT)]
TOKENIZER = (
    "A further tokenizer of the checkpoint (kiwi, plain); for a model that is not published "
    "(runs/NAME/finetune/NAME/SEED/model) the tokenizer folder of its run."
)
TokenizerName = Annotated[str | None, typer.Option("--tokenizer", metavar="NAME|FOLDER", help=TOKENIZER)]
LONG = "What to do with texts of more tokens than the model reads; windows overlap, and their mean is the result."
Long = Annotated[Literal["truncate", "windows"], typer.Option("--long", help=LONG)]
ID_COLUMN = (
    "Column of a table whose values name its rows in the results; default: id, guid or the like, if there is one."
)
IdColumn = Annotated[str | None, typer.Option("--id-column", metavar="NAME", help=ID_COLUMN)]
BACKEND = (
    "What computes: torch, or ONNX Runtime with the file that `kobert publish` wrote, in float32 or in int8; auto is "
    "onnx where the folder has that file and there is no GPU."
)
Backend = Annotated[Literal["auto", "torch", "onnx", "onnx-int8"], typer.Option(help=BACKEND)]
