"""Learning curves are the numbers of the logs, by run and training."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib import font_manager
from matplotlib.figure import Figure

from kobert_pipeline.errors import UserError
from kobert_pipeline.visualize import figures
from kobert_pipeline.visualize.curves import curves, draw, read_log


def write_log(folder: Path, *rows: dict[str, Any], end: str = "") -> None:
    (folder / "logs").mkdir(parents=True)
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    (folder / "logs" / "log.jsonl").write_text(text + end, encoding="utf-8")


def row(step: int, **values: float) -> dict[str, Any]:
    return {"step": step, "seconds": 1.0, **values}


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    """Two runs, the second with two seeds of a fine-tuning, which was resumed, and a grid."""
    one, two = tmp_path / "one", tmp_path / "실행 $2"
    for run, loss in ((one, 9.0), (two, 8.0)):
        write_log(
            run / "pretrain",
            row(50, loss=loss, learning_rate=0.1), row(60, evaluation_loss=loss - 1, evaluation_accuracy=0.1),
            row(100, loss=loss - 2, learning_rate=0.0),
        )  # fmt: skip
    for seed in ("1", "2"):
        again = [row(10, loss=0.5), row(20, evaluation_accuracy=70 + int(seed)), row(10, loss=0.4)]
        write_log(two / "finetune" / "nsmc" / seed, *again, end='{"step": 3')
    write_log(two / "finetune" / "nsmc" / "grid" / "a", row(10, loss=7.0))
    return one, two


def test_curves_are_the_numbers_of_the_logs(runs: tuple[Path, Path]) -> None:
    found = {(one.run, one.training, one.metric): one.values for one in curves(runs)}
    assert found == {
        ("one", "pretrain", "loss"): {50: 9.0, 100: 7.0},
        ("one", "pretrain", "evaluation_loss"): {60: 8.0},
        ("실행 $2", "pretrain", "loss"): {50: 8.0, 100: 6.0},
        ("실행 $2", "pretrain", "evaluation_loss"): {60: 7.0},
        ("실행 $2", "finetune/nsmc", "loss"): {10: 0.4},
        ("실행 $2", "finetune/nsmc", "evaluation_accuracy"): {20: 72.0},
    }, "the first number of the evaluations; of a repeated step the last; no trials of a grid"
    assert len(curves(runs)) == 8, "each seed has its own curves"
    rates = curves(runs, ["learning_rate"])
    assert {one.training for one in rates} == {"pretrain"}
    assert rates[0].values == {50: 0.1, 100: 0.0}


def test_runs_of_one_name_are_told_apart(runs: tuple[Path, Path], tmp_path: Path) -> None:
    write_log(tmp_path / "other" / "one" / "pretrain", row(1, loss=1.0))
    names = [one.run for one in curves([runs[0], tmp_path / "other" / "one"], ["loss"])]
    assert names == [str(runs[0]), str(tmp_path / "other" / "one")]


def test_a_stage_folder_is_a_run_of_one_training(runs: tuple[Path, Path]) -> None:
    assert {one.training for one in curves([runs[0] / "pretrain"])} == {"pretrain"}


def test_picture_has_a_panel_for_each_metric_of_each_training(
    runs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[Figure] = []
    plain = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (saved.append(self), plain(self, *a, **k)))
    draw(tmp_path / "c.svg", curves(runs))
    drawn = {axes.get_title(): axes for axes in saved[0].axes if axes.get_title()}
    assert list(drawn) == [
        "pretrain: loss", "pretrain: evaluation_loss", "finetune/nsmc: loss", "finetune/nsmc: evaluation_accuracy",
    ]  # fmt: skip
    lines = drawn["pretrain: loss"].lines
    assert [(list(line.get_xdata()), list(line.get_ydata())) for line in lines] == [
        ([50, 100], [9, 7]),
        ([50, 100], [8, 6]),
    ]
    assert lines[0].get_color() != lines[1].get_color()
    seeds = drawn["finetune/nsmc: loss"].lines
    assert [line.get_color() for line in seeds] == [lines[1].get_color()] * 2, "a run has one colour everywhere"
    assert [text.get_text() for text in saved[0].legends[0].get_texts()] == ["one", "실행 $2"]
    text = (tmp_path / "c.svg").read_text(encoding="utf-8")
    assert ">실행 $2</text>" in text, "text, which any viewer has fonts for"


def test_command_draws_real_runs_and_overwrites_nothing(tiny: Any, tmp_path: Path, kobert: Callable[..., Any]) -> None:
    for name in ("c.png", "c.svg"):
        assert kobert("visualize", "curves", tiny.run_dir, "--out", tmp_path / name).code == 0
        before = (tmp_path / name).read_bytes()
        assert (
            f"{name} exists already" in kobert("visualize", "curves", tiny.run_dir, "--out", tmp_path / name).complaint
        )
        assert (tmp_path / name).read_bytes() == before
        again = tmp_path / f"again.{name}"
        assert kobert("visualize", "curves", tiny.run_dir, "--out", again).code == 0
        assert again.read_bytes() == before, "the same figures give the same bytes"
    titles = re.findall(r">([\w/]+: \w+)</text>", (tmp_path / "c.svg").read_text(encoding="utf-8"))
    assert {"pretrain: loss", "finetune/nsmc: evaluation_accuracy"} <= set(titles)


def test_what_cannot_be_drawn_is_refused_in_one_sentence(
    runs: tuple[Path, Path], tmp_path: Path, kobert: Callable[..., Any]
) -> None:
    def complaint(*words: object) -> str:
        return str(kobert("visualize", "curves", *words).complaint)

    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "gone"):
        assert f"{folder} has no logs/log.jsonl" in complaint(folder, "--out", tmp_path / "x.svg")
    said = complaint(*runs, "--metric", "evaluation_los", "--out", tmp_path / "x.svg")
    assert "did you mean 'evaluation_loss'" in said
    assert "must end in one of .png, .svg" in complaint(*runs, "--out", tmp_path / "x.html")
    assert not list(tmp_path.glob("x.*"))


def test_damaged_logs_are_named(tmp_path: Path) -> None:
    write_log(tmp_path, row(1, loss=1.0), end='{"loss": 2}\n')
    with pytest.raises(UserError, match=r"log.jsonl, line 2 is no JSON object with a step"):
        read_log(tmp_path / "logs" / "log.jsonl")


def test_fonts_are_found_for_what_they_have(monkeypatch: pytest.MonkeyPatch) -> None:
    assert figures.fonts_for(["abc é → 0.5"]) == ["DejaVu Sans"]
    monkeypatch.setattr("matplotlib.font_manager.findSystemFonts", list)
    with pytest.raises(UserError, match=r"no installed font has '가' \(U\+AC00\)"):
        figures.fonts_for(["가나다"])


def test_a_metric_that_one_training_lacks_has_no_panel_there(
    runs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, path, **_: (saved.append(self), path.touch()))
    draw(tmp_path / "c.svg", curves(runs, ["loss", "learning_rate"]))
    assert [(axes.get_title(), axes.axison) for axes in saved[0].axes] == [
        ("pretrain: loss", True), ("pretrain: learning_rate", True), ("finetune/nsmc: loss", True), ("", False),
    ]  # fmt: skip


def test_a_file_that_is_no_font_or_has_nothing_of_what_is_missing_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.ttf").write_text("no font")
    path = font_manager.findfont("DejaVu Sans")
    monkeypatch.setattr(figures, "_candidates", lambda _: [str(tmp_path / "a.ttf"), path, path])
    with pytest.raises(UserError, match="no installed font has '가'"):
        figures.fonts_for(["a가"])
    assert figures.fonts_for(["a"]) == ["DejaVu Sans"]
