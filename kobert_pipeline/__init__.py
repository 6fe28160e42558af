"""From raw Korean text to a published BERT model over morphemes, with a tokenizer that never loses a character.

Start reading at `pipeline/stages.py`. From Python:

    import kobert_pipeline as kobert

    kobert.run("quickstart")
    kobert.load("runs/quickstart/publish/nsmc").predict("정말 재밌다")

Importing the package is quick: torch and the analyzer are imported by the first call that needs them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kobert_pipeline.errors import UserError

if TYPE_CHECKING:
    import numpy as np

__version__ = "0.1.0"


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
        settings: values that override those of the recipe, `{"pretrain.total_tokens": 1_000_000}`.
        run_dir: the folder of the run; default: `runs/RECIPE`.
        until: the last stage to run.
        redo: stages, or parts of one (`finetune/nsmc`), whose results are deleted and run again.
        num_workers: processes of the stages corpus and analysis; default: one per core.
        redo_changed: delete and run again every stage whose options or inputs have changed (otherwise an error).

    Returns a row per folder of the run: `job`, `status` (done, skipped or reused), `seconds`, `folder` and `counts`.
    Raises UserError, with the sentence that the command prints. It runs in one process; several ranks train by the
    commands `kobert pretrain` and `kobert finetune`.
    """
    from kobert_pipeline.distributed import refuse_unsupported_launch
    from kobert_pipeline.files import locked
    from kobert_pipeline.pipeline.stages import plan
    from kobert_pipeline.progress import shown_on
    from kobert_pipeline.runs import runner
    from kobert_pipeline.runs.displays import ProgressLines

    refuse_unsupported_launch("run")
    _, planned = plan(str(recipe), _as_set_options(settings), Path(run_dir) if run_dir else None, num_workers)
    with locked(planned[0].folder.parent), ProgressLines() as lines, shown_on(lines):
        outcomes = runner.run(planned, until=until, redo=redo, redo_changed=redo_changed)
    return [
        {"job": one.job.title, "status": one.status, "seconds": one.seconds, "folder": one.job.folder}
        | {"counts": one.counts}
        for one in outcomes
    ]


def load(folder: str | Path, tokenizer: str | Path | None = None) -> "Checkpoint":
    """Load a checkpoint: a published folder, one of `transformers`, or a name on the Hugging Face Hub (OWNER/NAME, or
    OWNER/NAME@REVISION); with the `tokenizer` folder of its run also the model folder of a training."""
    return Checkpoint(folder, tokenizer)


def _rows(texts: Any) -> list[str]:
    """A text or several as a list. Raises UserError for what is no text, such as the NaN of an empty cell."""
    if not isinstance(texts, Iterable):
        raise UserError(f"texts is {texts!r:.60}; give a text, or a list of texts")
    rows = [texts] if isinstance(texts, str) else list(texts)
    for number, row in enumerate(rows):
        if not isinstance(row, str):
            raise UserError(f"texts[{number}] is {row!r:.60}, which is not a text; leave it out, or give a text for it")
    return rows


class Checkpoint:
    """A model with its tokenizer. It gives the answers of the commands `kobert predict`, `embed` and `evaluate`."""

    def __init__(self, folder: str | Path, tokenizer: str | Path | None = None) -> None:
        from kobert_pipeline.checkpoint.source import locate
        from kobert_pipeline.inference import checkpoint

        self.folder = Path(folder) if tokenizer else locate(str(folder))
        self.model, self.tokenizer = checkpoint.load(self.folder, Path(tokenizer) if tokenizer else None)

    def predict(
        self,
        texts: str | list[str],
        question: str | None = None,
        pair: str | None = None,
        top_k: int = 5,
        long: str = "truncate",
    ) -> Any:
        """One result per text, with the keys that the checkpoint's task gives; for a single text its result alone.

        Args:
            texts: a text or several; with tabs between a text and its pair (unless `pair` is given) or its choices.
            question: the question that is answered from each text.
            pair: the second text of each pair, where the checkpoint labels pairs.
            top_k: the number of tokens for each [MASK].
            long: `truncate` or `windows`: what is done with a text of more tokens than the model reads.

        Raises UserError where the input does not fit the task.
        """
        from kobert_pipeline.inference.predict import predict_loaded

        rows = _rows(texts)
        results = predict_loaded(self.folder, self.model, self.tokenizer, rows, question, top_k, pair, long)
        return results[0] if isinstance(texts, str) else results

    def embed(
        self,
        texts: str | Sequence[str],
        pooling: str | None = None,
        layers: Sequence[int] = (-1,),
        weights: str | Path | None = None,
        long: str = "truncate",
    ) -> "np.ndarray":
        """The vectors of texts, (n, d) float32; of a single text its vector alone, (d,).

        Args:
            texts: a text or several; each is truncated where `predict` truncates it.
            pooling: `cls`, `mean`, `max`, `first-last` or `weighted`; default: the one that the model was trained with,
                or `mean`.
            layers: whose states are concatenated: 0 for the embeddings, 1 for the first layer, -1 for the last.
            weights: the file of token weights that `kobert embed --learn-weights` wrote, for `weighted`.
            long: `truncate` or `windows`, whose vectors are averaged.

        Raises UserError for an argument that does not fit the model, and for what is no text.
        """
        from kobert_pipeline.inference.embed import Embedder

        rows = _rows(texts)
        vectors = Embedder(self.model, self.tokenizer, pooling, layers, weights, long).embed(rows)
        return vectors[0] if isinstance(texts, str) else vectors

    def evaluate(
        self,
        file: str | Path,
        noise: list[str] | None = None,
        errors: bool = False,
        limit: int | None = None,
        task: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The scores on a labelled file: as it is, by kind of text, and under noise, with an analysis of errors.

        Args:
            file: a labelled file in the format of the checkpoint's task.
            noise: kinds of noise as `kobert evaluate --noise` takes them: `all`, `spaces-dropped=0.25,0.5`.
            errors: whether the wrong answers of a question task are classified.
            limit: the number of examples; default: all.
            task: the task, if the checkpoint does not name it.
            settings: options of the task, `{"label": "score"}`.

        Raises UserError for a file or an argument that does not fit the task.
        """
        from kobert_pipeline.evaluation.evaluate import evaluate
        from kobert_pipeline.evaluation.noise import conditions
        from kobert_pipeline.inference.checkpoint import Checkpoint as TaskCheckpoint

        noises = conditions(noise or [], 1)
        loaded = TaskCheckpoint.of_task(self.folder, self.model, self.tokenizer, task, _as_set_options(settings))
        return evaluate(loaded, Path(file), noises, [], errors, limit, report=lambda line: None)


def _as_set_options(settings: Mapping[str, Any] | None) -> list[str]:
    """Settings as the command line spells them after --set."""
    return [f"{key}={json.dumps(value, ensure_ascii=False, default=str)}" for key, value in (settings or {}).items()]
