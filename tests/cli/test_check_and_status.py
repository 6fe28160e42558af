"""What `kobert check`, `status` and a refused stage say of a recipe that only has texts, and how wide they say it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from kobert_pipeline.training import device


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recipe with some texts and nothing else, in the working folder."""
    documents = "\n\n".join(f"비가 {i}일째 와서 산에 오르지 못했다." for i in range(30))
    (tmp_path / "글.txt").write_text(documents, encoding="utf-8")
    recipe = "corpus: {sources: [{name: text, path: 글.txt, license: my own}]}\n"
    (tmp_path / "c.yaml").write_text(recipe, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KOBERT_DATA", str(tmp_path))
    monkeypatch.delenv("COLUMNS", raising=False)
    return Path("c.yaml")


def test_a_changed_stage_is_refused_with_the_command_that_runs_it_alone(
    texts: Path, monkeypatch: pytest.MonkeyPatch, kobert: Callable[..., Any]
) -> None:
    next_commands = "`kobert run c.yaml` runs all, `kobert corpus c.yaml` only the stage corpus."
    assert f"Next, with the same options: {next_commands}" in kobert("check", texts).out
    assert kobert("corpus", texts).code == 0
    changed = ("--set", "corpus.keep_dropped=true")
    refused = kobert("corpus", texts, *changed, "--set", "corpus.part_characters=9").complaint
    assert "option corpus.keep_dropped was False and is now True (also changed: part_characters)" in refused
    assert (
        "add --redo corpus or --redo-changed (all that has changed) to `kobert run`, or --redo to `kobert corpus`"
        in refused
    )

    status = kobert("status", texts, *changed).out
    table, *reasons = status.split("\n\n")
    assert all(cell_len(line) < 60 for line in table.splitlines()), "reasons are not in the table"
    (reason,) = reasons
    assert reason.startswith(
        "corpus is stale: runs/c/corpus was created with different options: option corpus.keep_dropped"
    )
    assert len(reason.splitlines()) == 1, "a line is a line for other programs"
    monkeypatch.setenv("COLUMNS", "80")
    wrapped = kobert("status", texts, *changed).out
    assert all(cell_len(line) <= 80 for line in wrapped.splitlines())
    assert wrapped.split() == status.split()

    assert kobert("analysis", texts).code == 0
    *_, own, dependent = kobert("status", texts, *changed).out.strip().split("\n\n")
    assert own.startswith("corpus is stale: ")
    assert dependent == "not up to date, because an earlier stage is not done: analysis"


def test_what_a_user_dictionary_is_read_as_is_shown(texts: Path, kobert: Callable[..., Any]) -> None:
    Path("words.tsv").write_text("# 용어\n선의취득\n구상금청구권\tNNP\t9\n", encoding="utf-8")
    shown = kobert("check", texts, "--set", "analysis.analyzer={name: kiwi, user_dictionary: words.tsv}").out
    assert "words.tsv is read as a user dictionary, words: 2, for example: 선의취득 (tag NNG, score 12)" in shown


def test_memory_is_estimated_without_the_data(texts: Path, kobert: Callable[..., Any]) -> None:
    Path("글.txt").unlink()
    checked = kobert("check", texts)
    assert "글.txt" in checked.complaint
    assert checked.out.startswith("Pretraining needs about ") and len(checked.out.splitlines()) == 1


def test_explanations_are_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch, kobert: Callable[..., Any]) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    shown = kobert("explain", "pretrain.plan").out
    assert all(cell_len(line) <= 120 for line in shown.splitlines())
    assert "Peak learning rate." in shown


def test_check_warns_of_bf16_where_the_cpu_has_no_instructions_for_it(
    monkeypatch: pytest.MonkeyPatch, kobert: Callable[..., Any]
) -> None:
    asked = ("check", "tiny", "--set", "pretrain.plan.mixed_precision=bf16")
    for fast, command in ((False, asked), (True, asked), (False, asked[:2])):
        monkeypatch.setattr(device, "has_fast_bf16", lambda fast=fast: fast)
        warned = "warning: this CPU has no instructions for bf16" in kobert(*command).out
        assert warned == (not fast and command == asked), (fast, command)


def test_check_warns_of_a_test_set_that_the_corpus_may_hold(kobert: Callable[..., Any], corpora: Path) -> None:
    given = ("check", "tiny", "--set", f"data_dir={corpora}")
    assert "decontaminate" not in kobert(*given).out
    warned = kobert(*given, "--set", "corpus.decontaminate=[]").out
    assert "features.nsmc.test reviews_test.txt is not among corpus.decontaminate" in warned
