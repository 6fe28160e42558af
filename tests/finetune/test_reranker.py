"""A reranker from the corpus alone, through the commands: made examples, training, publishing, and its use."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kobert_pipeline.files import read_json

SETTINGS = (
    "features={rerank: {task: rerank, max_length: 64, pairs: {kind: questions, negatives: 2}, dev_share: 0.3}}",
    "finetune={rerank: {plan: {epochs: 1, batch_size: 8}}}",
    "publish={rerank: {source: rerank, onnx: false}}",
)


def test_a_reranker_of_the_corpus_orders_texts(
    tiny: Any, kobert: Callable[..., Any], corpora: Path, tmp_path: Path
) -> None:
    run_dir = tiny.copy(tmp_path / "runs" / "tiny", "corpus", "analysis", "tokenizer", "shards", "pretrain")
    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    result = kobert("run", tiny.recipe, "--run-dir", run_dir, *settings)
    assert result.code == 0, result.err
    for split in ("train", "dev"):
        lines = (run_dir / "features" / "rerank" / split / "examples.jsonl").read_text(encoding="utf-8").splitlines()
        examples = [json.loads(line) for line in lines]
        assert examples and [example["label"] for example in examples] == [1, 0, 0] * (len(examples) // 3)
        for first, *others in zip(*(examples[n::3] for n in range(3)), strict=True):
            assert {example["text"] for example in others} == {first["text"]}
            assert first["text_pair"] not in [example["text_pair"] for example in others]
    published = run_dir / "publish" / "rerank"
    assert read_json(published / "config.json")["id2label"] == {"0": "other", "1": "relevant"}
    asked = ("similar", run_dir.parent / "none", "--gold", corpora / "qa_dev.json", "--by", "bm25")
    assert "bm25, reranked" in kobert(*asked, "--rerank", published, "--json").json["methods"]
