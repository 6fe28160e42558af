"""Bad rows of a file reach every command as one sentence with the places of all of them, and exit code 2."""

import json
from pathlib import Path
from typing import Any

import pytest

TABLE = "document,label\n좋다,1\n나쁘다\n그저 그렇다,1,2\n"
QUESTION = {"question": "누가?", "answers": [{"text": "민수", "answer_start": 9}]}
QUESTIONS = json.dumps(
    {"data": [{"paragraphs": [{"context": "민수가 갔다", "qas": [QUESTION | {"id": n} for n in "12"]}]}]}
)
RECIPE = "data_dir: {0}\ncorpus:\n  sources: [{{name: csv, path: a.csv, text: document}}]\n"
CHECKED = (
    "data_dir: {0}\ncheckpoint: {1}\nfinetune: {{a: {{}}}}\n"
    "features: {{a: {{task: {{name: classification, text: document}}, train: a.csv}}}}\n"
)


@pytest.mark.parametrize(
    ("words", "places"),
    [
        (["corpus", "corpus.yaml"], ["line 3", "line 4"]),
        (["check", "corpus.yaml"], ["line 3", "line 4"]),
        (["check", "features.yaml"], ["line 3", "line 4"]),
        (["predict", "nsmc", "--in", "a.csv"], ["line 3", "line 4"]),
        (["embed", "nsmc", "a.csv", "--column", "document"], ["line 3", "line 4"]),
        (["similar", "nsmc", "글", "--in", "a.csv", "--column", "document"], ["line 3", "line 4"]),
        (["evaluate", "nsmc", "a.tsv"], ["line 3", "line 4"]),
        (["evaluate", "korquad", "q.json"], ["question 1", "question 2"]),
        (["similar", "nsmc", "--gold", "q.json"], ["question 1", "question 2"]),
    ],
)
def test_bad_rows_arrive_with_their_places(
    tiny: Any, tmp_path: Path, kobert: Any, monkeypatch: pytest.MonkeyPatch, words: list[str], places: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("nsmc", "korquad"):
        Path(name).symlink_to(tiny.run_dir / "publish" / name)
    Path("a.csv").write_text(TABLE, encoding="utf-8")
    Path("a.tsv").write_text("id\t" + TABLE.replace(",", "\t").replace("\n", "\n1\t"), encoding="utf-8")
    Path("q.json").write_text(QUESTIONS, encoding="utf-8")
    Path("corpus.yaml").write_text(RECIPE.format(tmp_path), encoding="utf-8")
    Path("features.yaml").write_text(CHECKED.format(tmp_path, tmp_path / "nsmc"), encoding="utf-8")
    result = kobert(*words)
    assert result.out == "" or words[0] == "check", "nothing is answered before all rows were tried"
    assert all(place in result.out + result.complaint for place in places)
