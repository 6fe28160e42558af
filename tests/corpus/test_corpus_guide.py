"""The code of docs/corpus.md reads what the corpus stage wrote."""

import json
import re
from pathlib import Path

import datasets
from front_end import CORPORA

from kobert_pipeline.corpus.document import documents_from
from kobert_pipeline.corpus.options import CorpusOptions
from kobert_pipeline.corpus.pii import MASKS
from kobert_pipeline.corpus.stage import run
from kobert_pipeline.files import write_json

REPO = Path(__file__).resolve().parents[2]
GUIDES = [(REPO / folder / "corpus.md").read_text(encoding="utf-8") for folder in ("docs", "docs/ko")]


def test_the_result_can_be_read_as_the_guide_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    out = Path("runs/mine/corpus")
    (tmp_path / "documents").symlink_to(CORPORA / "documents")
    options = {"sources": [{"name": "text", "path": "documents/*.txt"}], "part_characters": 2000}
    counts = run(CorpusOptions.model_validate(options), tmp_path, out)
    write_json(out / "manifest.json", {"counts": counts})
    documents = list(documents_from(out, []))
    assert len(list(out.glob("part-*"))) > 1
    english, korean = (re.findall(r"^```python\n(.*?)^```", guide, re.M | re.S) for guide in GUIDES)
    assert english == korean
    exec("".join(english), {})
    columns = ["id", "source", "text", "ordered"]
    assert capsys.readouterr().out.startswith(f"{columns} {len(documents)}\n{len(documents)}\n{documents[0].text}\n")
    rows = [json.loads(line) for line in Path("clean.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [[row[name] for name in columns] for row in rows] == [
        [document.id, document.source, document.text, document.ordered] for document in documents
    ]
    for guide in GUIDES:
        assert {*columns, *MASKS} <= set(re.findall(r"^\| `(\w+)` \|", guide, re.M))
