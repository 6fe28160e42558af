"""`scripts/tables`: the probe that compares pretrained encoders, and the table of its results."""

import json
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kobert_pipeline.inference.embed import Embedder


@pytest.fixture
def tables(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script as a module, with fewer labels, which the tiny run has."""
    spec = spec_from_loader("tables", SourceFileLoader("tables", str(repo / "scripts" / "tables")))
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "LABELS", 60)
    return module


def test_a_probe_of_an_encoder_gives_what_its_mean_vectors_and_the_same_labels_give(tables, tiny) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    found = tables.accuracies(tiny.run_dir, 2)
    assert [len(each) for each in found.values()] == [5, 5]
    train, dev = (
        [json.loads(line) for line in (tiny.run_dir / f"features/nsmc/{split}/examples.jsonl").open(encoding="utf-8")]
        for split in ("train", "dev")
    )
    embedder = Embedder.load(tiny.run_dir / "pretrain/model", tiny.run_dir / "tokenizer", pooling="mean")
    rows = [train[row] for row in np.random.default_rng([2, 4]).choice(len(train), 60, replace=False)]
    vectors = embedder.embed([row["text"] for row in rows])
    scaler = StandardScaler().fit(vectors)
    labels = [int(row["label"]) for row in rows]
    probe = LogisticRegression(C=tables.C, max_iter=1000).fit(scaler.transform(vectors), labels)
    right = probe.predict(scaler.transform(embedder.embed([row["text"] for row in dev])))
    assert found["encoder"][4] == pytest.approx(100 * np.mean(right == [int(row["label"]) for row in dev]))
    assert len(set(found["encoder"] + found[tables.N_GRAMS])) > 2


def test_the_table_has_the_means_of_draws_and_of_seeds(tables, tmp_path) -> None:
    rows = {"base": [], "none": ["analysis.analyzer.style=none"], "bert": [], "not-run": []}
    for name, encoder in (
        ("base-seed1", [80, 82]),
        ("base-seed2", [82, 84]),
        ("none-seed1", [70, 71]),
        ("bert-seed1", [81, 83]),
        ("bert-seed2", [85, 87]),
    ):
        (tmp_path / f"{name}.json").write_text(json.dumps({"encoder": encoder, "n-grams": [75, 76]}), encoding="utf-8")
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in tables.report(tmp_path, rows).splitlines()
    ]
    assert lines[2:] == [
        ["base", "81.00, 83.00", "82.00", "1.00", "", ""],
        ["none", "70.50", "70.50", "", "-10.50", ""],
        ["bert", "82.00, 86.00", "84.00", "2.00", "+2.00", "1.00"],
        ["n-grams", "75.50, 75.50", "75.50", "0.00", "-6.50", "1.00"],
    ]


def test_a_row_is_pretrained_with_its_changes_and_its_seed_and_probed_once(tables, tmp_path, monkeypatch) -> None:
    called: list[tuple[Any, ...]] = []
    monkeypatch.setattr(tables, "kobert", lambda *words: called.append(words))
    monkeypatch.setattr(tables, "read_json", lambda path: {"counts": {}, "seconds": 1})
    monkeypatch.setattr(tables, "accuracies", lambda run, seed: {"encoder": [seed]})
    for _ in range(2):
        tables.run_row(tmp_path / "wiki-seed2", ["pretrain.sources=[kowiki*]"], 2)
    assert [call[-4:] for call in called] == [("--set", "pretrain.sources=[kowiki*]", "--set", "pretrain.plan.seed=2")]
    assert json.loads((tmp_path / "wiki-seed2.json").read_text(encoding="utf-8"))["encoder"] == [2]
