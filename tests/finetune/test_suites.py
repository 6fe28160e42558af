"""The recipes klue and kobest: files in the form of the owners are read row by row, and a small checkpoint goes through
both suites, to their tables."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kobert_pipeline.features.options import FeaturesOptions, named_files
from kobert_pipeline.features.tagging import TaggingTask
from kobert_pipeline.pipeline.stages import load_recipe

NAMES, PLACES = ["김하늘", "이서연", "박지호", "최민수"], ["강릉", "부산", "춘천", "여수"]


def pick(items: list[Any], index: int) -> Any:
    return items[index % len(items)]


def ynat(text: str, i: int) -> dict[str, Any]:
    label = pick(["IT과학", "경제", "사회", "생활문화", "세계", "스포츠", "정치"], i)
    annotations = {"annotators": ["08", "13"], "annotations": {"first-scope": [label], "second-scope": ["해당없음"]}}
    return {
        "guid": f"ynat-v1_train_{i:05}", "title": text, "predefined_news_category": label, "label": label,
        "annotations": annotations, "url": "https://example.com/1", "date": "2016.06.30. 오전 10:36",
    }  # fmt: skip


def nli(text: str, i: int) -> dict[str, Any]:
    label = pick(["contradiction", "entailment", "neutral"], i)
    others = {"author": label, **{f"label{number}": label for number in range(2, 6)}}
    return {
        "guid": f"klue-nli-v1_train_{i:05}", "source": "airbnb", "premise": text, "hypothesis": f"{i}번은 아니다.",
        "gold_label": label, **others,
    }  # fmt: skip


def sts(text: str, i: int) -> dict[str, Any]:
    score = pick([0.0, 1.3, 2.9, 3.0, 4.9], i)
    return {
        "guid": f"klue-sts-v1_train_{i:05}", "source": "airbnb-rtt", "sentence1": text, "sentence2": f"{text} {i}",
        "labels": {"label": score, "real-label": score + 0.01, "binary-label": int(score >= 3)},
        "annotations": {"agreement": "0:0:0:0:1:6", "annotators": ["17"], "annotations": [5]},
    }  # fmt: skip


def re(text: str, i: int) -> dict[str, Any]:
    person, place = pick(NAMES, i), pick(PLACES, i)
    sentence = f"{person}은 {place}에서 태어났다. {text}"
    start = len(person) + 2
    return {
        "guid": f"klue-re-v1_train_{i:05}", "sentence": sentence,
        "subject_entity": {"word": person, "start_idx": 0, "end_idx": len(person) - 1, "type": "PER"},
        "object_entity": {"word": place, "start_idx": start, "end_idx": start + len(place) - 1, "type": "LOC"},
        "label": pick(["per:place_of_birth", "no_relation", "per:origin"], i), "source": "wikipedia",
    }  # fmt: skip


def mrc(text: str, i: int) -> dict[str, Any]:
    answer = f"{i}년 《{pick(PLACES, i)}》"
    context, impossible = f"등대는 {answer}에 섰다. {text}", i % 3 == 2
    question = {"question": f"등대 {i}은 어디에 섰나?", "answers": [], "question_type": 3, "is_impossible": True}
    answers = [{"text": answer, "answer_start": 4}, {"text": answer[:-1], "answer_start": 4}]
    if impossible:
        question["plausible_answers"] = answers
    else:
        question |= {"answers": answers, "question_type": 1, "is_impossible": False}
    question["guid"] = f"klue-mrc-v1_train_{i:05}"
    return {
        "title": "등대", "paragraphs": [{"context": context, "qas": [question]}], "news_category": "종합",
        "source": "hankyung",
    }  # fmt: skip


def ner(text: str, i: int) -> str:
    sentence = f"{pick(NAMES, i)}은 {pick(PLACES, i)}에 산다. {text}"
    tags = ["O"] * len(sentence)
    place = len(pick(NAMES, i)) + 2
    tags[0], tags[1 : place - 2] = "B-PS", ["I-PS"] * (place - 3)
    tags[place : place + 2] = ["B-LC", "I-LC"]
    lines = [f"{character}\t{tag}" for character, tag in zip(sentence, tags, strict=True)]
    return "\n".join([f"## klue-ner-v1_train_{i:05}-nsmc\t<{sentence}>", *lines])


NER_HEADER = """## 토큰, 레이블 구분자 : \\t
## 토큰 구분자 : \\n
## 문장 구분자 : \\n\\n
## 주석 : ##
## 컬럼명 : CHAR\tNE_TAG
"""


def boolq(text: str, i: int) -> dict[str, Any]:
    return {"paragraph": text, "question": f"{i}번인가?", "label": i % 2}


def copa(text: str, i: int) -> dict[str, Any]:
    alternatives = {"alternative_1": f"{i}번 물이 끓었다.", "alternative_2": f"{i}번 물이 얼었다."}
    return {"premise": text, "question": pick(["결과", "원인"], i), **alternatives, "label": i % 2}


def wic(text: str, i: int) -> dict[str, Any]:
    contexts = {"context_1": f"[철]에 따라 피는 꽃. {text}\t", "context_2": f"{i}번 [철]을 녹였다."}
    return {"word": "철", **contexts, "label": i % 2}


def hellaswag(text: str, i: int) -> dict[str, Any]:
    return {"context": text, **{f"ending_{number}": f"{number}번 끝 {i}." for number in range(1, 5)}, "label": i % 4}


def sentineg(text: str, i: int) -> dict[str, Any]:
    return {"sentence": text, "label": i % 2}


KLUE = {"ynat": ynat, "nli": nli, "sts": sts, "ner": ner, "re": re, "mrc": mrc}
KOBEST = {"boolq": boolq, "copa": copa, "wic": wic, "hellaswag": hellaswag, "sentineg": sentineg}
SUITES: dict[str, dict[str, Callable[[str, int], Any]]] = {"klue": KLUE, "kobest": KOBEST}
TASKS = [(suite, task) for suite, tasks in SUITES.items() for task in tasks]


def write(path: Path, make: Callable[[str, int], Any], texts: list[str]) -> Path:
    """A file of a task in the form of its owners, with a row for each text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [make(text, i) for i, text in enumerate(texts)]
    if make is ner:
        content = NER_HEADER + "\n\n".join(rows) + "\n"
    elif path.suffix == ".jsonl":
        content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    else:
        content = json.dumps({"version": "v1.1", "data": rows} if make is mrc else rows, ensure_ascii=False, indent=4)
    path.write_text(content, encoding="utf-8")
    return path


def options_of(suite: str, task: str) -> FeaturesOptions:
    return load_recipe(suite).features[task]


words = st.text(st.sampled_from("가힣ㅋ a1\"'[]{}<>:,;|.?!《》·―\\"), min_size=1, max_size=20).map(
    lambda text: f"글 {text}끝"
)


@pytest.mark.parametrize(("suite", "task"), TASKS)
@given(texts=st.lists(words, min_size=7, max_size=12))
def test_a_file_has_as_many_examples_as_rows(
    suite: str, task: str, texts: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    options = options_of(suite, task)
    path = write(tmp_path_factory.mktemp("rows") / Path(named_files(options)[0]).name, SUITES[suite][task], texts)
    fitted = options.task.fit_labels([path])
    examples = fitted.read(path)
    assert len({example["id"] for example in examples}) == len(examples) == len(texts)
    for text, example in zip(texts, examples, strict=True):
        assert text in "\n".join(str(example[key]) for key in ("text", "text_pair", "context") if key in example)
    if isinstance(fitted, TaggingTask):
        found = [[example["text"][start:end] for start, end, _ in example["entities"]] for example in examples]
        assert found == [[pick(NAMES, i), pick(PLACES, i)] for i in range(len(texts))]
        assert examples[0]["id"] == "klue-ner-v1_train_00000-nsmc"


TEXTS = [f"{pick(NAMES, i)}이 {pick(PLACES, i + i // 4)}에 {i}번 갔다." for i in range(40)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of both suites below a data folder: 40 rows to train on, 12 others in every other file."""
    folder = tmp_path_factory.mktemp("suites")
    for suite, task in TASKS:
        train, *others = named_files(options_of(suite, task))
        write(folder / train, SUITES[suite][task], TEXTS)
        for other in others:
            write(folder / other, SUITES[suite][task], [f"{other.split('/')[-1][0]} {text}" for text in TEXTS[:12]])
    return folder


def run(kobert: Any, suite: str, checkpoint: Path, data: Path, *options: str) -> Any:
    """The result of the command on small inputs."""
    settings = [f"checkpoint={checkpoint}", f"data_dir={data}"]
    for task in SUITES[suite]:
        settings += [f"features.{task}.max_length=64", f"features.{task}.dev_share=0.2"]
        settings.append(f"finetune.{task}={{plan: {{epochs: 1, batch_size: 16}}}}")
    given = [word for setting in settings for word in ("--set", setting)]
    return kobert("run", suite, *given, "--run-dir", data / "runs" / suite, *options)


@pytest.fixture(scope="module")
def runs(data: Path, tiny: Any, kobert: Any) -> dict[str, Any]:
    """What the run of each suite printed, by its folder."""
    return {suite: run(kobert, suite, tiny.run_dir / "publish/mlm", data, "--json").json for suite in SUITES}


@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_is_run_to_its_table(suite: str, data: Path, runs: dict[str, Any], kobert: Any, tiny: Any) -> None:
    run_dir, columns = data / "runs" / suite, load_recipe(suite).table
    [row] = runs[suite]["table"]
    assert list(row) == ["run", "start", "seeds", *columns] and (row["run"], row["seeds"]) == (suite, "1")
    manifests = tiny.manifests(run_dir)
    for title, column in columns.items():
        task, score = column.split(".")
        assert float(row[title]) == pytest.approx(manifests[f"finetune/{task}/1"]["counts"]["test"][score], abs=0.006)
        assert math.isfinite(float(row[title]))
    assert {column.split(".")[0] for column in columns.values()} == set(SUITES[suite])
    for task in SUITES[suite]:
        counts = manifests[f"features/{task}"]["counts"]
        assert (counts["train_examples_read"], counts["test_examples"]) == (40, 12), task
    assert kobert("compare", run_dir, "--table", suite, "--json").json["table"] == [row]


def test_the_table_has_a_row_per_run_and_a_dash_for_what_a_run_does_not_have(
    data: Path, runs: dict[str, Any], kobert: Any
) -> None:
    folders = [data / "runs" / suite for suite in runs]
    header, _, *lines = kobert("compare", *folders, "--table", "klue").out.splitlines()[:4]
    assert [cell.strip() for cell in header.split("|")[4:-1]] == [*load_recipe("klue").table]
    klue, kobest = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines)
    assert klue == list(runs["klue"]["table"][0].values())
    assert kobest[2:] == ["-"] * (len(klue) - 2)
    assert r"RE AUPRC" in kobert("compare", folders[0], "--table", "klue", "--latex").out


def test_the_command_prints_the_table_with_a_row_per_score(
    data: Path, runs: dict[str, Any], kobert: Any, tiny: Any
) -> None:
    out = run(kobert, "kobest", tiny.run_dir / "publish/mlm", data).out
    printed = [line.rsplit(maxsplit=1) for line in out.split("\n\n")[1].splitlines()]
    assert printed[3:] == [[title, runs["kobest"]["table"][0][title]] for title in load_recipe("kobest").table]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("nli.accuracy", "table: input should be a valid dictionary"),
        ({"NLI": "nil.accuracy"}, "'NLI' is 'nil.accuracy'; FINETUNING.SCORE was expected"),
        ({"NLI": "nli"}, "'NLI' is 'nli'; FINETUNING.SCORE was expected"),
        ({"NLI": "nli.accuraccy"}, "nli has no score 'accuraccy'; its scores are accuracy"),
        ({}, "has no section table"),
    ],
)
def test_a_wrong_table_is_refused(
    table: Any, said: str, data: Path, runs: dict[str, Any], kobert: Any, tmp_path: Path
) -> None:
    content = {
        "checkpoint": "klue/bert-base",
        "features": {"nli": {"task": "nli", "train": "a.tsv"}},
        "finetune": {"nli": {}},
        "table": table,
    }
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    assert said in kobert("compare", data / "runs" / "klue", "--table", tmp_path / "mine.yaml").complaint
