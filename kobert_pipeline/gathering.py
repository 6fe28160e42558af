"""What a run knows about a model beside the model: read from its manifests, for the card and the training manifest."""

from pathlib import Path
from typing import Any

from kobert_pipeline import manifest
from kobert_pipeline.publish.model_card import Results, mean
from kobert_pipeline.training.hf_config import fine_tuned_for


def results_of(name: str, task: str, metric: str, runs: dict[str, dict[str, Any]], controls: dict[str, list[Path]]) -> Results:
    """What the fine-tuning `name` scored by its manifests `runs` (by seed), on test where there is one, beside the controls that are done,
    the best on dev (by `metric`) first. The seed that is published is the best on dev."""
    made = list(runs.values())
    split = split_of(made)
    seed = max(runs, key=lambda one: runs[one]["counts"]["dev"][metric])
    found = finished(controls)
    order = sorted(found, key=lambda one: -mean([run["counts"]["dev"][metric] for run in found[one]]))
    of_controls = {one: scores(found[one], split) for one in order}
    return Results(name, task, split, scores(made, split), of_controls, seed, runs[seed]["counts"][split])


def finished(controls: dict[str, list[Path]]) -> dict[str, list[dict[str, Any]]]:
    """The manifests of the controls that are done: one that was left out for want of time keeps nothing from being published."""
    done = {name: folders for name, folders in controls.items() if all(map(manifest.is_finished, folders))}
    return {name: [manifest.read(folder) for folder in folders] for name, folders in done.items()}


def split_of(runs: list[dict[str, Any]]) -> str:
    """The split whose scores are told: test, where there was one."""
    return "test" if runs and "test" in runs[0]["counts"] else "dev"


def scores(runs: list[dict[str, Any]], split: str) -> dict[str, list[float]]:
    """Every score on a split, a value per run."""
    return {name: [one["counts"][split][name] for one in runs] for name in runs[0]["counts"][split]}


def beside(run_dir: Path, source: str, features: str) -> dict[str, dict[str, Any]]:
    """The manifests of what was made for a fine-tuned model and is not in it: features, and the trials of a grid."""
    folders = [run_dir / "features" / features, *sorted((run_dir / "finetune" / source / "grid").glob("*"))]
    return {folder.relative_to(run_dir).as_posix(): manifest.read(folder) for folder in folders if manifest.is_finished(folder)}


def null_threshold(config: dict[str, Any]) -> float | None:
    """Of a model whose questions may have no answer, by how much the score of none must exceed that of the best span."""
    threshold = fine_tuned_for(config)[1].get("null_threshold")
    return None if threshold is None else float(threshold)


def card_counts(made: dict[str, dict[str, Any]], config: dict[str, Any]) -> dict[str, str]:
    """The numbers of the model card, from the manifests and the model's config."""
    trained = made["pretrain"]["counts"]
    layers, width = (config.get(name, config.get(other)) for name, other in (("num_hidden_layers", "n_layer"), ("hidden_size", "n_embd")))
    task, state = fine_tuned_for(config)
    losses = [f"{trained[f'held_out_{when}']['loss']:.3f}" for when in ("before", "after")]
    return {
        "documents": f"{made['corpus']['counts']['documents_kept']:,}",
        "vocabulary": f"{made['tokenizer']['counts']['vocab_size']:,}",
        "architecture": f"{config['model_type']}, {layers} layers of width {width}",
        "parameters": f"{trained['parameters']:,}",
        "pieces seen in pretraining": f"{trained['pieces_seen']:,}",
        "held-out loss before and after": " -> ".join(losses),
        **({"labels": ", ".join(config["id2label"].values())} if task and "id2label" in config else {}),
        **({"pieces of a window in fine-tuning, at most": f"{state['max_length']:,}"} if "max_length" in state else {}),
    }


def placeless(value: Any, data_dir: Path) -> Any:
    """`value` with every absolute path in it as a name: below data_dir, or the last part. Where a file lies is nobody's business."""
    if isinstance(value, dict):
        return {key: placeless(one, data_dir) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [placeless(one, data_dir) for one in value]
    if not isinstance(value, str) or not value.startswith("/"):
        return value
    path = Path(value)
    return path.relative_to(data_dir).as_posix() if path.is_relative_to(data_dir) else path.name
