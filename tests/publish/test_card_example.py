"""The example of a model card: of the task's own domain, and nothing that may not be published."""

from pathlib import Path
from typing import Any

from kobert_pipeline.config import plugins
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import write_json_lines
from kobert_pipeline.pipeline.card_from_dev import card_example
from kobert_pipeline.publish.licences import NOT_STATED, allows_quoting
from kobert_pipeline.publish.snippets import PAIRED, USES, with_example

LAW = {"id": "1", "group": "g", "text": "임대차 계약을 해지하려면 어떻게 하나요?", "label": 0}


def run_with(run_dir: Path, *examples: dict[str, Any]) -> Path:
    dev = run_dir / "features" / "law" / "dev"
    dev.mkdir(parents=True)
    write_json_lines(dev / "examples.jsonl", iter(examples))
    return run_dir


def test_own_data_gives_the_example_where_its_licence_allows(tmp_path: Path) -> None:
    own = Task.choose("classification")
    run_dir = run_with(tmp_path, LAW)
    assert card_example(own, "CC BY 4.0", run_dir / "features" / "law") == {"text": LAW["text"]}
    refused = "CC BY-ND 2.0 KR", "CC BY 4.0 / CC BY-ND 2.0 KR", "CC BY-NC 4.0", "own", "research only", NOT_STATED
    for licence in refused:
        assert card_example(own, licence, run_dir / "features" / "law") == {}, licence
    assert card_example(Task.choose("nsmc"), "CC0-1.0", run_dir / "features" / "law") == {
        "text": "배우들 연기가 정말 좋았다"
    }
    assert card_example(own, "CC0-1.0", run_dir / "features" / "none") == {}


def test_texts_that_should_not_be_shown_are_passed_over(tmp_path: Path) -> None:
    unfit = [
        "짧다",
        "길" * 301,
        "전화는 010-1234-5678로 주세요",
        "메일은 kim@example.org 입니다",
        "두 줄인\n글입니다 여기",
    ]
    run_dir = run_with(tmp_path, *({**LAW, "text": text} for text in unfit), LAW)
    assert card_example(Task.choose("classification"), "CC0-1.0", run_dir / "features" / "law") == {"text": LAW["text"]}


def test_every_tasks_sample_is_in_its_code() -> None:
    for name in plugins.contract("tasks").names():
        task = Task.choose(name)
        code = with_example(PAIRED if task.paired else USES[task.auto_class], task.card_sample())
        compile(code, name, "exec")
        assert all(repr(text)[1:-1] in code for text in task.card_sample().values()), name
        assert not [word for word in ("TEXT", "QUESTION", "CONTEXT", "CHOICES") if word in code], name


def test_licences_that_allow_to_show_a_text() -> None:
    for licence in ("CC0-1.0", "CC BY-SA 4.0", "KOGL-1", "MIT / CC BY 4.0"):
        assert allows_quoting(licence), licence
    for licence in ("", "my own", "KOGL-3", "CC BY-NC-SA 4.0", "proprietary"):
        assert not allows_quoting(licence), licence
