"""The code of docs/corpus.md reads what the corpus stage wrote."""

import json
import re
from pathlib import Path

import datasets
import yaml
from front_end import CORPORA

from kobert_pipeline.corpus.document import documents_from
from kobert_pipeline.corpus.options import CorpusOptions
from kobert_pipeline.corpus.pii import MASKS
from kobert_pipeline.corpus.stage import run
from kobert_pipeline.files import write_json

REPO = Path(__file__).resolve().parents[2]
GUIDES = [(REPO / folder / "corpus.md").read_text(encoding="utf-8") for folder in ("docs", "docs/ko")]
OPTIONS = ("filters", "deduplicate")


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


def test_the_options_that_leave_no_document_out_do_so(tmp_path):
    documents = {
        "a": "설정", "b": "An English page of an interface.", "c": "if (a[0] != b[1]) { a += --b; } // ???",
        "d": "같은 글이 두 번 나옵니다.", "e": "같은  글이 두 번 나옵니다.", "f": "가나다라 " * 200,
        "g": "한 줄이 또 나온다.\n" * 40,
    }  # fmt: skip
    for name, text in documents.items():
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
    source = {"name": "text", "path": "*.txt", "documents_by": "file"}
    for folder in ("docs", "docs/ko"):
        guide = (REPO / folder / "embedding.md").read_text(encoding="utf-8")
        recipe = yaml.safe_load(re.search(r"^```yaml\n(data_dir.*?)^```", guide, re.M | re.S)[1])
        options = {name: recipe["corpus"][name] for name in OPTIONS}
        out = tmp_path / folder
        counts = run(CorpusOptions.model_validate({"sources": [source], **options}), tmp_path, out)
        assert (counts["documents_read"], counts["documents_kept"]) == (7, 7)
