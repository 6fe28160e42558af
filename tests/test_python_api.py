"""`import kobert_pipeline as kobert` gives what the commands give."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kobert_pipeline as kobert
from kobert_pipeline.errors import UserError

CONTEXT = "한글은 세종대왕이 1443년에 만들었다. 처음 이름은 훈민정음이었다."


def test_run_does_what_the_command_does(tiny: Any, tmp_path: Path) -> None:
    run_dir = tiny.copy_before(tmp_path / "runs" / "x", "shards")
    rows = kobert.run(tiny.recipe, {"shards.held_out": 0.2}, run_dir, until="shards", num_workers=1)
    statuses = [(row["job"], row["status"]) for row in rows]
    assert statuses == [("corpus", "skipped"), ("analysis", "skipped"), ("tokenizer", "skipped"), ("shards", "done")]
    assert rows[3]["folder"] == run_dir / "shards"
    found, expected = rows[3]["counts"], tiny.manifests()["shards"]["counts"]
    assert found["held_out_documents"] > expected["held_out_documents"]
    for unit in ("documents", "tokens"):
        totals = [counts[f"train_{unit}"] + counts[f"held_out_{unit}"] for counts in (found, expected)]
        assert totals[0] == totals[1]
    assert json.loads((run_dir / "shards" / "manifest.json").read_text())["options"]["held_out"] == 0.2
    with pytest.raises(UserError, match="unknown key 'peices'"):
        kobert.run(tiny.recipe, {"pretrain.peices": 1}, run_dir)


@pytest.mark.parametrize(
    ("name", "texts", "given"),
    [
        ("nsmc", ["정말 재밌다", "지루했다"], {}),
        ("korquad", [CONTEXT], {"question": "누가 만들었는가?"}),
        ("mlm", ["이 영화 [MASK] 재밌다"], {"top_k": 2}),
    ],
)
def test_a_loaded_checkpoint_predicts_as_the_command(
    name: Any, texts: Any, given: Any, tiny: Any, kobert_command: Callable[..., Any]
) -> None:
    folder = tiny.run_dir / "publish" / name
    checkpoint = kobert.load(folder)
    words = [word for key, value in given.items() for word in (f"--{key.replace('_', '-')}", value)]
    printed = kobert_command("predict", folder, *texts, *words, "--json").out.splitlines()
    assert checkpoint.predict(texts, **given) == [json.loads(line) for line in printed], (name, texts, given)
    assert checkpoint.predict(texts[0], **given) == json.loads(printed[0]), (name, texts, given)


def test_what_is_no_text_is_refused_in_one_sentence(tiny: Any) -> None:
    checkpoint = kobert.load(tiny.run_dir / "publish" / "nsmc")
    for texts, said in {(None,): "texts[0] is None", ("글", float("nan")): "texts[1] is nan", 3: "texts is 3;"}.items():
        for call in (checkpoint.predict, checkpoint.embed):
            with pytest.raises(UserError, match=re.escape(said)):
                call(texts)


def test_an_unpublished_model_is_loaded_with_the_tokenizer_of_its_run(tiny: Any) -> None:
    model = tiny.run_dir / "finetune" / "nsmc" / "1" / "model"
    with pytest.raises(UserError, match=r"is not a published checkpoint.*--tokenizer FOLDER"):
        kobert.load(model)
    unpublished = kobert.load(model, tiny.run_dir / "tokenizer").predict("정말 재밌다")
    assert unpublished == kobert.load(tiny.run_dir / "publish" / "nsmc").predict("정말 재밌다")


def test_a_loaded_checkpoint_is_evaluated_as_by_the_command(tiny: Any, corpora: Path, kobert_command: Any) -> None:
    folder, file = tiny.run_dir / "publish" / "nsmc", corpora / "reviews_test.txt"
    by_command = kobert_command("evaluate", folder, file, "--limit", 20, "--noise", "spaces-removed", "--json").json
    by_python = kobert.load(folder).evaluate(file, noise=["spaces-removed"], limit=20)
    assert {"checkpoint": "nsmc"} | json.loads(json.dumps(by_python)) == by_command


@pytest.mark.parametrize("guide", ["README.md", "README.ko.md", "docs/publishing.md", "docs/ko/publishing.md"])
def test_the_lines_of_python_in_the_guides_predict_and_evaluate(
    guide: str, tiny: Any, corpora: Path, repo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = re.findall(r"^```python\n(.*?)^```", (repo / guide).read_text(encoding="utf-8"), re.M | re.S)
    (code,) = [block for block in found if "kobert.load(" in block]
    code = re.sub(r'"runs/[^"]+"', repr(str(tiny.run_dir / "publish" / "nsmc")), code)
    exec(re.sub(r'"[^"]+_test\.txt[^"]*"', repr(str(corpora / "reviews_test.txt")), code), {})
    printed = capsys.readouterr().out
    assert "'label': " in printed and "'accuracy': " in printed


@pytest.fixture
def kobert_command(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """The command, next to the module of the same name."""
    return request.getfixturevalue("kobert")


def test_importing_the_package_imports_nothing_heavy(fresh: Callable[..., Any]) -> None:
    heavy = "('torch', 'transformers', 'kiwipiepy', 'pydantic', 'typer')"
    code = f"import sys, kobert_pipeline\nprint([name for name in {heavy} if name in sys.modules])"
    assert fresh(code).out == "[]\n"


def test_a_stage_that_does_not_exist_is_refused(tiny: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no stage 'tokeniser' - did you mean 'tokenizer'"):
        kobert.run(tiny.recipe, run_dir=tmp_path / "runs" / "x", until="tokeniser")
