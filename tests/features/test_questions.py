"""Files with questions: KLUE-MRC, SQuAD 2.0, tables of one's own, and what is wrong with them in one sentence."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.options import FeaturesOptions
from kobert_pipeline.features.splits import split
from kobert_pipeline.features.task import Task
from kobert_pipeline.inference.similar import contexts

CONTEXT = "등대는 1903년에 처음 불을 밝혔다. 지금은 아무도 살지 않는다."
ANSWER = {"text": "1903년", "answer_start": 4}
KLUE = [
    {
        "guid": "mrc-1",
        "question": "언제 불을 밝혔나?",
        "question_type": 1,
        "is_impossible": False,
        "answers": [ANSWER, ANSWER | {"text": "1903"}],
    },
    {
        "guid": "mrc-2",
        "question": "누가 세웠나?",
        "question_type": 3,
        "is_impossible": True,
        "answers": [],
        "plausible_answers": [ANSWER],
    },
]
SQUAD2 = [
    {"id": "a", "question": "언제 불을 밝혔나?", "answers": [ANSWER], "is_impossible": False},
    {"id": "b", "question": "누가 세웠나?", "answers": [], "is_impossible": True, "plausible_answers": [ANSWER]},
    {"id": "c", "question": "누가 부쉈나?", "answers": []},
]


def squad(path: Path, *questions: Any) -> Path:
    content = {
        "version": "v2.0",
        "data": [{"title": "등대", "paragraphs": [{"context": CONTEXT, "qas": list(questions)}]}],
    }
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
    return path


def table(path: Path, *records: dict[str, Any]) -> Path:
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(records)), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    elif path.suffix == ".json":
        path.write_text(json.dumps(records), encoding="utf-8")
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([list(records[0]), *(list(record.values()) for record in records)])
    return path


def read(examples: list[dict[str, Any]]) -> list[tuple[str, str, list]]:
    return [(example["id"], example["question"], example["answers"]) for example in examples]


@pytest.mark.parametrize("task", ["mrc", "span"])
def test_klue_and_squad_2_are_read_as_they_come(task: Any, tmp_path: Path) -> None:
    chosen = Task.choose(task)
    klue = chosen.read(squad(tmp_path / "klue.json", *KLUE))
    assert read(klue) == [
        ("mrc-1", "언제 불을 밝혔나?", [["1903년", 4], ["1903", 4]]),
        ("mrc-2", "누가 세웠나?", []),
    ], task
    assert klue[0]["group"] == klue[0]["context"] == chosen.content(klue[1]) == CONTEXT, task
    assert [example[2] for example in read(chosen.read(squad(tmp_path / "two.json", *SQUAD2)))] == [
        [["1903년", 4]],
        [],
        [],
    ], task


WRONG_QUESTIONS = [
    (SQUAD2[0] | {"answers": []}, "question a: is_impossible is false, but it has no answer"),
    (
        SQUAD2[0] | {"answers": [ANSWER | {"answer_start": 5}]},
        "question a: answer_start is 5, where the context has '903년에', not the answer",
    ),
    (
        SQUAD2[0] | {"answers": [ANSWER | {"answer_start": "사"}]},
        "question a: answer_start is '사'; the character, counted from 0",
    ),
    (
        SQUAD2[0] | {"answers": [{"text": True, "answer_start": 4}]},
        "question a: an answer holds bool, text was expected",
    ),
    (SQUAD2[0] | {"answers": [{"answer_start": 4}]}, "question a: the column 'answers' holds"),
    (SQUAD2[0] | {"answers": [{"text": "다"}]}, "question a: the context has the answer '다' in several places"),
    (SQUAD2[0] | {"answers": "1904년"}, "question a: the context does not have the answer '1904년'; copy it"),
    (SQUAD2[0] | {"question": None}, "question a: the question holds NoneType"),
    (SQUAD2[0] | {"question": " "}, "question a: the question is empty"),
    (SQUAD2[0] | {"is_impossible": "예"}, "question a: is_impossible is '예'; true, false, 1, 0 or nothing"),
    ({"id": "a", "answers": [ANSWER]}, "question a: it lacks question; each question needs id"),
    ({"question": "?", "answers": [ANSWER]}, "question 2: it lacks id"),
    ({"id": "a", "question": "?"}, "question a: it lacks answers"),
    (SQUAD2[1] | {"id": "first"}, "question first: an earlier question has the id first, too"),
]


@pytest.mark.parametrize("task", ["mrc", "span"])
@pytest.mark.parametrize(("question", "message"), WRONG_QUESTIONS)
def test_a_wrong_question_is_refused_in_a_sentence(
    tmp_path: Path, question: dict[str, Any], message: str, task: str
) -> None:
    with pytest.raises(UserError, match=rf"qa\.json, {re.escape(message)}"):
        Task.choose(task).read(squad(tmp_path / "qa.json", SQUAD2[0] | {"id": "first"}, question))


@pytest.mark.parametrize("task", ["mrc", "span", "korquad"])
def test_all_wrong_questions_of_a_file_are_named_at_once(tmp_path: Path, task: str) -> None:
    wrong = [SQUAD2[0] | {"id": n, "answers": [ANSWER | {"answer_start": n}]} for n in range(6)]
    with pytest.raises(UserError, match=r"question 0: answer_start is 0.* \(also refused: question 1, .* question 5\)"):
        Task.choose(task).read(squad(tmp_path / "qa.json", *wrong))


def test_korquad_refuses_questions_without_an_answer_and_names_the_task_that_takes_them(tmp_path: Path) -> None:
    for question in SQUAD2[1:]:
        with pytest.raises(UserError, match=rf"question {question['id']}: it has no answer; the task mrc"):
            Task.choose("korquad").read(squad(tmp_path / "qa.json", SQUAD2[0], question))


OWN = {"nr": "7", "ask": "언제 불을 밝혔나?", "page": CONTEXT, "found": "1903년", "at": 4}
OPTIONS = {"name": "span", "id": "nr", "question": "ask", "context": "page", "answer": "found", "start": "at"}


@pytest.mark.parametrize("name", ["own.csv", "own.json", "own.jsonl", "own.parquet"])
def test_options_name_the_columns_and_an_empty_answer_is_none(name: Any, tmp_path: Path) -> None:
    without = OWN | {"nr": "8", "found": "", "at": "" if name == "own.csv" else 0}
    assert read(Task.choose(OPTIONS).read(table(tmp_path / name, OWN, without))) == [
        ("7", OWN["ask"], [["1903년", 4]]),
        ("8", OWN["ask"], []),
    ], name


@pytest.mark.parametrize(
    ("value", "answers"), [("1.0", 0), ("TRUE", 0), (1, 0), (1.0, 0), ("0", 1), (0.0, 1), (None, 1), ("", 1)]
)
def test_a_question_is_impossible_as_tables_spell_it(value: Any, answers: Any, tmp_path: Path) -> None:
    path = table(tmp_path / "own.jsonl", OWN | {"is_impossible": value})
    assert len(Task.choose(OPTIONS).read(path)[0]["answers"]) == answers, (value, answers)


PLAIN = {"question": "언제 불을 밝혔나?", "context": CONTEXT}
HUB = PLAIN | {"id": "h", "answers": {"text": ["1903년", "1903"], "answer_start": [4, 4]}}
LISTED = PLAIN | {"guid": "l", "answers": [ANSWER]}


@pytest.mark.parametrize("name", ["own.json", "own.jsonl", "own.parquet"])
def test_answers_that_hold_their_starts_are_read_without_options(name: Any, tmp_path: Path) -> None:
    none = HUB | {"id": "n", "answers": {"text": [], "answer_start": []}}
    plausible = HUB | {"id": "p", "is_impossible": True}
    flagged = [{"is_impossible": False} | record for record in (HUB, none | {"is_impossible": True}, plausible)]
    found = Task.choose("span").read(table(tmp_path / name, *flagged))
    assert [(one["id"], len(one["answers"])) for one in found] == [("h", 2), ("n", 0), ("p", 0)], name
    assert Task.choose("span").read(table(tmp_path / name, LISTED))[0]["answers"] == [["1903년", 4]], name
    two = PLAIN | {"answer": ["1903년", "1903"], "answer_start": [4, 4]}
    assert len(Task.choose("span").read(table(tmp_path / name, two))[0]["answers"]) == 2, name


@pytest.mark.parametrize("name", ["own.csv", "own.jsonl", "own.parquet"])
def test_an_answer_without_a_start_is_where_the_context_has_it(name: str, tmp_path: Path) -> None:
    last = CONTEXT.rindex("다")
    rows = [
        PLAIN | {"answer": answer, "start": start} for answer, start in (("1903년", None), ("", None), ("다", last))
    ]
    found = Task.choose("span").read(table(tmp_path / name, *rows))
    assert [one["answers"] for one in found] == [[["1903년", 4]], [], [["다", last]]]
    without = [{key: value for key, value in row.items() if key != "start"} for row in rows[:2]]
    found = Task.choose("span").read(table(tmp_path / name, *without))
    assert [one["answers"] for one in found] == [[["1903년", 4]], []]


@pytest.mark.parametrize("name", ["examples.jsonl", "examples.json"])
def test_examples_of_a_features_folder_are_questions_again(name: str, tmp_path: Path) -> None:
    """Made questions are kept there, and evaluated or searched for as they are."""
    example = PLAIN | {"id": "h", "group": CONTEXT, "answers": [["1903년", 4], ["1903", 4]]}
    file = table(tmp_path / name, example)
    assert Task.choose("span").read(file) == [example]
    assert contexts(file) == ([CONTEXT], [PLAIN["question"]], [0])


WRONG_TABLES = [
    (
        {},
        OWN,
        r"own\.jsonl: no column is the question of the task span "
        r"\(known are question; found were nr, ask, page, found, at\)",
    ),
    ({"question": "asks"}, OWN, "there is no column 'asks' - did you mean 'ask'"),
    ({}, PLAIN | {"answer": "1904년"}, "line 1: the context does not have the answer '1904년'; copy it from there"),
    (
        {},
        PLAIN | {"answer": "다", "start": ""},
        "line 1: the context has the answer '다' in several places; add a column",
    ),
    ({}, PLAIN, "no column is the answer of the task span"),
    (
        {},
        PLAIN | {"answer": "1903년", "start": 5},
        r"own\.jsonl, line 1: answer_start is 5, where the context has '903년에', not the answer '1903년'",
    ),
    ({}, PLAIN | {"answer": "1903년", "start": "사"}, "answer_start is '사'; the character"),
    ({}, PLAIN | {"answer": "1903년", "start": -3}, "answer_start is -3"),
    ({}, PLAIN | {"answer": "1903년", "start": "9" * 5000}, "answer_start is '9{59}; the character"),
    (
        {},
        PLAIN | {"answer": "1903년", "start": 4, "is_impossible": "yes"},
        "line 1: is_impossible is 'yes'; true, false, 1, 0 or nothing",
    ),
    ({}, PLAIN | {"answer": True, "start": 4}, "the column 'answer' holds True; a text, and its start"),
    ({}, PLAIN | {"answers": {"text": ["1903년"], "answer_start": []}}, "the column 'answers' holds .*; a text"),
    ({}, PLAIN | {"context": None, "answers": []}, "line 1: the context holds NoneType, text was expected"),
    ({}, PLAIN | {"answers": [], "is_impossible": "0"}, "line 1: is_impossible is false, but it has no answer"),
]


@pytest.mark.parametrize(("options", "record", "message"), WRONG_TABLES)
def test_a_wrong_table_is_refused_in_a_sentence(
    tmp_path: Path, options: dict[str, str], record: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        Task.choose({"name": "span"} | options).read(table(tmp_path / "own.jsonl", record))


def test_a_row_that_lacks_a_column_and_one_whose_id_came_before_are_refused(tmp_path: Path) -> None:
    task = Task.choose(OPTIONS)
    with pytest.raises(UserError, match="line 2: there is no 'page' - did you mean"):
        task.read(
            table(
                tmp_path / "own.jsonl", OWN, {key: value for key, value in OWN.items() if key != "page"} | {"pages": ""}
            )
        )
    with pytest.raises(UserError, match="line 2: an earlier question has the id 7"):
        task.read(table(tmp_path / "own.jsonl", OWN, OWN))


def test_training_contexts_that_are_in_the_test_set_are_dropped_for_own_questions_too(tmp_path: Path) -> None:
    others = [
        PLAIN | {"context": f"{word} {i}번지 골목에 사는 {word} 이야기 {word * 9}", "answers": []}
        for i, word in enumerate("갈낙달락말박삿악")
    ]
    table(tmp_path / "train.jsonl", *others, HUB | {"id": "9"})
    table(tmp_path / "test.jsonl", HUB)
    options = FeaturesOptions(task="span", train="train.jsonl", test="test.jsonl", dev_share=0.3)
    _, counts = split(options, tmp_path)
    assert counts == {"train_examples_read": 9, "train_examples_contaminated": 1}


NAMED = [
    {"question_id": "a", "question": "언제 불을 밝혔나?", "answers": {"text": "1903년", "answer_start": 4}},
    {"qas_id": "a", "question": "언제 불을 밝혔나?", "answers": [{"text": "1903년", "answer_start": 4.0}]},
    {"qid": "a", "question": "언제 불을 밝혔나?", "answers": [{"answer_text": "1903년", "start_offset": "4"}]},
    {"id": "a", "question_id": "b", "question": "언제 불을 밝혔나?", "answers": [{"answer": "1903년", "begin": 4}]},
    {"id": "a", "question": "언제 불을 밝혔나?", "answers": [{"text": "1903년"}]},
]  # fmt: skip


@pytest.mark.parametrize("question", NAMED)
@pytest.mark.parametrize("task", ["korquad", "mrc", "span"])
def test_questions_are_read_by_the_names_that_data_sets_use(tmp_path: Path, task: str, question: dict) -> None:
    examples = Task.choose(task).read(squad(tmp_path / "a.json", question))
    assert read(examples) == [("a", "언제 불을 밝혔나?", [["1903년", 4]])]


PRINTED = [
    "{'text': ['1903년'], 'answer_start': [4]}",
    '{"text": ["1903년"], "answer_start": [4]}',
    "{'text': array(['1903년'], dtype=object), 'answer_start': array([4])}",
    "[{'text': '1903년', 'answer_start': 4}]",
]
"""Answers as Python, JSON, and pandas after `datasets` print them into a table."""


@pytest.mark.parametrize("answers", [HUB["answers"], *PRINTED])
@pytest.mark.parametrize("task", ["korquad", "mrc", "span"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.parquet", "a.csv"])
def test_questions_are_read_from_tables_by_every_task(tmp_path: Path, name: str, task: str, answers: Any) -> None:
    examples = Task.choose(task).read(table(tmp_path / name, PLAIN | {"guid": "h", "answers": answers}))
    assert [(example["id"], example["answers"][0]) for example in examples] == [("h", ["1903년", 4])]


def test_the_form_of_run_qa_is_read(tmp_path: Path) -> None:
    """`data` with a question in each entry, as the examples of `transformers` read."""
    (tmp_path / "a.json").write_text(json.dumps({"version": "1", "data": [HUB]}), encoding="utf-8")
    assert read(Task.choose("mrc").read(tmp_path / "a.json")) == [
        ("h", "언제 불을 밝혔나?", [["1903년", 4], ["1903", 4]])
    ]


def test_a_table_without_known_columns_is_refused_with_the_task_that_takes_names(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no column is the context .*by the option context of the task span"):
        Task.choose("mrc").read(table(tmp_path / "a.jsonl", {"question": "?", "paragraph_text": "글", "answers": ""}))


@pytest.mark.parametrize("start", ["4", "4.0", 4.0])
def test_a_start_is_a_number_by_its_value(tmp_path: Path, start: Any) -> None:
    row = {"question": "언제?", "context": CONTEXT, "answer": "1903년", "start_offset": start}
    [example] = Task.choose("span").read(table(tmp_path / "a.jsonl", row))
    assert example["answers"] == [["1903년", 4]]


@pytest.mark.parametrize(
    ("context", "answer", "start"),
    [
        ("15명 가운데 5명이 남았다.", "5명", 8),
        ("1,500원이 아니라 500원이다.", "500원", 12),
        ("정확도는 1.5배가 아니라 5배다.", "5배", 15),
        ("값은 5.", "5", 3),
    ],
)
def test_a_number_inside_another_is_no_place_of_an_answer(
    tmp_path: Path, context: str, answer: str, start: int
) -> None:
    row = {"question": "몇?", "context": context, "answer": answer}
    [example] = Task.choose("span").read(table(tmp_path / "a.jsonl", row))
    assert example["answers"] == [[answer, start]]
    with pytest.raises(UserError, match="the context does not have the answer '5'"):
        Task.choose("span").read(
            table(tmp_path / "b.jsonl", row | {"context": "값은 15, 2.5와 5.1이다.", "answer": "5"})
        )


def test_a_number_may_be_an_answer(tmp_path: Path) -> None:
    answers = [{"text": 1903, "answer_start": 4}]
    [example] = Task.choose("mrc").read(
        squad(tmp_path / "a.json", {"id": "a", "question": "몇 년?", "answers": answers})
    )
    assert example["answers"] == [["1903", 4]]


@pytest.mark.parametrize(("value", "count"), [("False", 1), ("", 1), ("0", 1), ("True", 0)])
def test_a_table_says_as_text_which_articles_are_in_the_dev_set(value: str, count: int, tmp_path: Path) -> None:
    header = "id,question,context,answers,title_in_korquad1_dev"
    (tmp_path / "a.csv").write_text(f"{header}\na,누가?,민수가 갔다,민수,{value}\n", encoding="utf-8")
    assert len(Task.choose("korquad").read(tmp_path / "a.csv")) == count
