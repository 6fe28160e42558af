"""From raw Korean text to a published BERT model over morphemes, with a tokenizer that never loses a character.

Start reading at `pipeline/stages.py`. From Python:

    import kobert_pipeline as kobert

    kobert.run("quickstart")
    kobert.load("runs/quickstart/publish/nsmc").predict("정말 재밌다")

Importing the package is quick: torch and the analyzer are imported by the first call that needs them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kobert_pipeline.inference.checkpoint import Checkpoint

__version__ = "0.1.0"
OUTCOME = ("status", "seconds", "counts")
"""What `run` returns of each stage, besides its name and folder."""


def run(
    recipe: str | Path,
    settings: Mapping[str, Any] | None = None,
    run_dir: str | Path | None = None,
    until: str | None = None,
    redo: list[str] | None = None,
    num_workers: int | None = None,
    redo_changed: bool = False,
) -> list[dict[str, Any]]:
    """Run every stage of a recipe that is not done yet, as the command `kobert run` does.

    Args:
        recipe: the path of a YAML file, or the name of a shipped recipe.
        settings: values that override the recipe's, `{"pretrain.total_tokens": 1_000_000}`.
        run_dir: the folder of the run; default: `runs/RECIPE`.
        until: the last stage to run.
        redo: stages, or parts of one (`finetune/nsmc`), whose results are deleted and run again.
        num_workers: processes of the stages before training; default: one per core.
        redo_changed: delete and run again every stage whose options or inputs have changed (otherwise an error).

    Returns a row per folder of the run: `job`, `status` (done, skipped or reused), `seconds`, `folder` and `counts`.
    Raises UserError with the sentence that the command prints. Several ranks train by `kobert pretrain` or `finetune`.
    """
    from kobert_pipeline.config.recipe_file import as_set_options
    from kobert_pipeline.distributed import refuse_unsupported_launch
    from kobert_pipeline.files import locked
    from kobert_pipeline.pipeline.fit import fit_before
    from kobert_pipeline.pipeline.stages import plan
    from kobert_pipeline.progress import shown_on
    from kobert_pipeline.runs import runner
    from kobert_pipeline.runs.displays import ProgressLines

    refuse_unsupported_launch("run")
    folder = Path(run_dir) if run_dir else None
    _, planned = plan(str(recipe), as_set_options(settings), folder, num_workers, fit_before(redo))
    with locked(planned[0].folder.parent), ProgressLines() as lines, shown_on(lines):
        outcomes = runner.run(planned, until=until, redo=redo, redo_changed=redo_changed)
    return [_row(done) for done in outcomes]


def _row(done: Any) -> dict[str, Any]:
    """What `run` returns of the outcome of a job."""
    return {"job": done.job.title, "folder": done.job.folder} | {key: getattr(done, key) for key in OUTCOME}


def load(folder: str | Path, tokenizer: str | Path | None = None, backend: str = "auto") -> "Checkpoint":
    """Load a checkpoint: a published folder, one of `transformers`, or a name on the Hugging Face Hub (OWNER/NAME, or
    OWNER/NAME@REVISION). `tokenizer` names a further tokenizer of the checkpoint (`kiwi`, `plain`), or is the folder
    of a run's, for the model folder of its training. `backend` is `torch`, `onnx`, `onnx-int8`, or `auto`: ONNX Runtime
    where the folder has its file and there is no GPU."""
    from kobert_pipeline.inference.checkpoint import Checkpoint

    return Checkpoint.load(folder, tokenizer, backend)
