"""Files of entities in the forms of KLUE, Naver and CoNLL, and tables of the user's own; wrong inputs by file and
line."""

import itertools
import json
import unicodedata
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.entity_rows import gathered_tokens
from kobert_pipeline.features.task import Task
from kobert_pipeline.tables.unreadable import Location, Row, UnreadableInput

KLUE = """## 문장 구분자 : \\n\\n
## 컬럼명 : CHAR\tNE_TAG
## own-0\t특히 <강릉역:LC>은 <내일 밤:TI>까지 붐빈다.
특\tO
히\tO
 \tO
강\tB-LC
릉\tI-LC
역\tI-LC
은\tO
 \tO
내\tB-TI
일\tI-TI
 \tI-TI
밤\tI-TI
까\tO
지\tO

## own-1\t"#"
#\tO
1\tB-QT
1\tB-QT
\t
"""
NAVER = "1\t한지민\tPER_B\n2\t작가는\t-\n3\t남해\tLOC_B\n4\t바닷가에서\tLOC_I\n5\t3\tNUM_B\n6\t4\tNUM_B\n\n1\t끝.\t-\n"
CONLL = "-DOCSTART- O\n\n한지민\tB-PER\n작가\tO\n\n\n남해 POS B-LOC\n바닷가 POS I-LOC\n,\tO\n"


def file(path: Path, content: Any) -> Path:
    """A file of the kind that its name says."""
    if path.suffix == ".jsonl":
        content = "\n".join(json.dumps(row, ensure_ascii=False) for row in content)
    elif path.suffix == ".json":
        content = json.dumps(content, ensure_ascii=False)
    elif path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(content), path)
        return path
    path.write_text(content, encoding="utf-8")
    return path


def spelled(example: dict[str, Any]) -> list[tuple[str, str]]:
    """The entities of an example in words."""
    return [(example["text"][start:end], kind) for start, end, kind in example["entities"]]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_klue_is_read_by_characters(ending: Any, tmp_path: Path) -> None:
    path = tmp_path / "k.tsv"
    path.write_bytes(KLUE.replace("\n", ending).encode())
    first, second = Task.choose("ner").read(path)
    assert (first["id"], first["text"]) == ("own-0", "특히 강릉역은 내일 밤까지"), ending
    assert spelled(first) == [("강릉역", "LC"), ("내일 밤", "TI")], ending
    assert (second["id"], second["text"], second["entities"]) == ("own-1", "#11", [[1, 2, "QT"], [2, 3, "QT"]])


def test_naver_is_read_by_eojeols(tmp_path: Path) -> None:
    first, second = Task.choose("ner").read(file(tmp_path / "train_data", NAVER))
    assert (first["id"], first["text"]) == ("0", "한지민 작가는 남해 바닷가에서 3 4")
    assert spelled(first) == [("한지민", "PER"), ("남해 바닷가에서", "LOC"), ("3", "NUM"), ("4", "NUM")]
    assert (second["text"], second["entities"]) == ("끝.", [])


def test_numbers_are_no_tokens_whatever_the_tags_of_a_file_in_naver_s_form(tmp_path: Path) -> None:
    """Its sentences may begin with the shortest, without any entity."""
    for turned, first, separator in itertools.product([False, True], [0, 1], ["\t", " "]):
        lines = []
        for line in ("1\t끝.\t-\n\n" + NAVER).splitlines():
            number, *columns = line.split("\t")
            name, _, side = columns[1].partition("_") if columns else ("", "", "")
            tag = f"{side}-{name}" if side else "O"
            kept = [str(int(number) - 1 + first), columns[0], tag if turned else columns[1]] if columns else []
            lines.append(separator.join(kept))
        found = Task.choose("ner").read(file(tmp_path / "train_data", "\n".join(lines)))
        assert [example["text"] for example in found] == ["끝.", "한지민 작가는 남해 바닷가에서 3 4", "끝."]
        assert [spelled(example) for example in found] == [
            [],
            [("한지민", "PER"), ("남해 바닷가에서", "LOC"), ("3", "NUM"), ("4", "NUM")],
            [],
        ], (turned, first, separator)


def test_conll_is_read_by_its_first_and_last_column(tmp_path: Path) -> None:
    first, second = Task.choose("ner").read(file(tmp_path / "a.txt", CONLL))
    assert (first["text"], spelled(first)) == ("한지민 작가", [("한지민", "PER")])
    assert (second["text"], spelled(second)) == ("남해 바닷가 ,", [("남해 바닷가", "LOC")])


def test_the_last_tag_and_the_single_one_of_bilou_are_read(tmp_path: Path) -> None:
    lines = "김 B-PER\n민 I-PER\n수 L-PER\n박 U-PER\n부산 U-LOC\n"
    [example] = Task.choose("ner").read(file(tmp_path / "a.txt", lines))
    assert spelled(example) == [("김 민 수", "PER"), ("박", "PER"), ("부산", "LOC")]


def test_comments_before_a_sentence_are_no_tokens(tmp_path: Path) -> None:
    lines = "# columns = a b\n\n# sent_id = 1\n# text = 부산 #\n부산 B-LOC\n# O\n\n# O\n1 B-QT\n"
    found = Task.choose("ner").read(file(tmp_path / "a.txt", lines))
    assert [(one["id"], one["text"]) for one in found] == [("0", "부산 #"), ("1", "# 1")]


def test_a_number_as_the_first_token_makes_no_file_naver_s(tmp_path: Path) -> None:
    for number in ("2019", "1"):
        [example] = Task.choose("ner").read(file(tmp_path / "a.txt", f"{number}\tSN\tB-DT\n년\tNNB\tI-DT\n"))
        assert (example["text"], spelled(example)) == (f"{number} 년", [(f"{number} 년", "DT")])
    lines = "1\tSN\tB-QT\n2\tSN\tB-QT\n3\tSN\tB-QT\n출발\tNNG\tO\n!\tSF\tO\n\n" + "가자\tVV\tO\n!\tSF\tO\n"
    first, second = Task.choose("ner").read(file(tmp_path / "a.txt", lines))
    assert (first["text"], spelled(first), second["text"]) == (
        "1 2 3 출발 !",
        [("1", "QT"), ("2", "QT"), ("3", "QT")],
        "가자 !",
    )


def test_types_are_those_of_the_training_files_or_as_said(tmp_path: Path) -> None:
    path = file(tmp_path / "a.txt", NAVER)
    task = Task.choose("ner").fit_labels([path, file(tmp_path / "b.tsv", KLUE)])
    assert task.dump()["labels"] == ["LC", "LOC", "NUM", "PER", "QT", "TI"]
    assert list(task.config()["id2label"].values())[:5] == ["O", "B-LC", "I-LC", "B-LOC", "I-LOC"]
    given = Task.choose({"name": "ner", "labels": ["PER", "LOC", "NUM"]})
    assert given.fit_labels([tmp_path / "not read"]) is given
    with pytest.raises(
        UserError,
        match=r"b\.tsv, line 1: the type of '강릉역' is 'LC'; allowed are PER, LOC, NUM \(also refused: line 19\)$",
    ):
        given.read(tmp_path / "b.tsv")
    with pytest.raises(
        UserError, match=r"allowed are LOC, NUM, PER, those of the training files unless .*option labels"
    ):
        Task.choose("ner").fit_labels([path]).read(tmp_path / "b.tsv")
    with pytest.raises(UserError, match=r"d\.txt holds no examples"):
        Task.choose("ner").fit_labels([file(tmp_path / "d.txt", "\n\n")])
    with pytest.raises(UserError, match="no entity to learn from"):
        Task.choose("ner").fit_labels([file(tmp_path / "c.txt", "가\tO\n")])


WRONG_LINES = [
    ("## a\n가\tB-PS\n나 O\n", r"line 3: '나 O' was found where a character, a tab and its tag was expected"),
    ("## a\n가\tB-PS\n나\t\n", r"line 3: '나\\t' was found where a character"),
    ("1\t가\tPER_B\n2\t나\n", "line 2: .* where number, eojeol and tag was expected"),
    ("1 가 B-PER\n2 나 밤 O\n3 다 O\n", "line 2: '2 나 밤 O' was found where number, eojeol and tag was expected"),
    ("1\t가\tNNP\tB-PER\n2\t나\tNNB\tO\n", "line 1: .* was found where number, eojeol and tag was expected"),
    ("가 O\n나\n", "line 2: '나' was found where a token and its tag was expected"),
]


def test_a_wrong_line_is_refused_by_its_number(tmp_path: Path) -> None:
    for content, said in WRONG_LINES:
        with pytest.raises(UserError, match=said):
            Task.choose("ner").read(file(tmp_path / "a.txt", content))


# rows of one's own

TEXT = "한지민 작가는 남해에 산다"
ENTITIES = [{"start": 0, "end": 3, "label": "PER"}, {"start": 8, "end": 10, "label": "LOC"}]
TOKENS = {"tokens": ["한지민", "작가는", "남해", "바닷가"], "tags": ["B-PER", "O", "B-LOC", "I-LOC"]}
ROWS: list[tuple[dict, dict, str, list]] = [
    ({}, {"text": TEXT, "entities": ENTITIES}, TEXT, [("한지민", "PER"), ("남해", "LOC")]),
    ({}, {"text": TEXT, "entities": ENTITIES, **TOKENS}, TEXT, [("한지민", "PER"), ("남해", "LOC")]),
    ({}, TOKENS, "한지민 작가는 남해 바닷가", [("한지민", "PER"), ("남해 바닷가", "LOC")]),
    ({}, TOKENS | {"tags": ["PER", "O", "LOC", "LOC"]},
     "한지민 작가는 남해 바닷가", [("한지민", "PER"), ("남해 바닷가", "LOC")]),
    ({"separator": ""}, {"words": ["남", "해", " ", "밤"], "ner_tags": ["B-LOC", "I-LOC", "O", "O"]},
     "남해 밤", [("남해",
    "LOC")]),
    ({"tag_names": ["O", "B-LOC", "I-LOC"]}, {"tokens": ["남해", "밤"], "ner_tags": [1, 0]},
     "남해 밤", [("남해", "LOC")]),
    ({"text": "data.body", "entities": "marks"}, {"data": {"body": TEXT}, "marks": ENTITIES[:1]}, TEXT, [("한지민",
    "PER")]),
    ({"tokens": "left", "tags": "right"}, {"left": ["밤"], "right": ["O"], "text": TEXT, "entities": ENTITIES},
     "밤", []),
]  # fmt: skip


def test_rows_are_read_by_their_columns(tmp_path: Path) -> None:
    for (options, row, text, entities), name in itertools.product(ROWS, ["a.jsonl", "a.json", "a.parquet"]):
        [example] = Task.choose({"name": "tagging", **options}).read(file(tmp_path / name, [row | {"id": 7}]))
        assert (example["id"], example["text"], spelled(example)) == ("7", text, entities), (options, name)


@pytest.mark.parametrize("kind", ["사람 ", "\xa0사람", "사람\u200b"])
def test_blanks_around_a_type_and_what_nobody_sees_are_no_part_of_it(kind: str, tmp_path: Path) -> None:
    path = file(tmp_path / "a.jsonl", [{"text": TEXT, "entities": [[0, 3, name]]} for name in ("사람", kind)])
    assert Task.choose("tagging").fit_labels([path]).dump()["labels"] == ["사람"]


def test_a_decomposed_type_is_the_same_type(tmp_path: Path) -> None:
    decomposed = unicodedata.normalize("NFD", "사람")
    marked = file(tmp_path / "a.jsonl", [{"text": TEXT, "entities": [[0, 3, kind]]} for kind in ("사람", decomposed)])
    tagged = file(tmp_path / "b.jsonl", [{"tokens": ["한지민", "작가"], "tags": ["B-사람", f"I-{decomposed}"]}])
    for given in (None, [decomposed]):
        task = Task.choose({"name": "tagging", "labels": given}).fit_labels([marked, tagged])
        assert task.dump()["labels"] == ["사람"]
        assert [spelled(example) for example in task.read(marked)] == [[("한지민", "사람")]] * 2
        assert [spelled(example) for example in task.read(tagged)] == [[("한지민 작가", "사람")]]


def test_entities_are_counted_by_type_and_rare_types_are_found(tmp_path: Path) -> None:
    path = file(
        tmp_path / "a.jsonl", [{"text": TEXT, "entities": [[0, 3, kind]]} for kind in ("PER", "PER", "PER", "PRE")]
    )
    task = Task.choose("tagging").fit_labels([path])
    assert task.label_counts(task.read(path)) == {"PER": 3, "PRE": 1}
    assert task.rare_labels(task.read(path)) == {"PRE": 1}


def test_a_file_without_entities_is_refused_with_what_it_has(tmp_path: Path) -> None:
    path = file(tmp_path / "a.jsonl", [{"text": TEXT, "label": {"PER": "한지민"}}])
    said = (
        r"no column is the entities .*, but 'label' holds .*, another form.; name it by the option entities of the task"
    )
    for name, where in (("tagging", r" \(kobert"), ("ner", " tagging$")):
        with pytest.raises(UserError, match=said + where):
            Task.choose(name).read(path)


WRONG_TEXTS = [
    ({"text": TEXT, "entities": "[0"}, "line 2: a list of entities was expected, not '\\[0'"),
    ({"text": None, "entities": []}, "line 2: text was expected, not None"),
    ({"text": "\n ", "entities": []}, r"a\.jsonl, line 2: the text is empty, text was expected"),
    ({"text": TEXT}, "line 2: there is no 'entities'"),
    (
        {"text": TEXT, "entities": [{"start": 0, "end": 3}]},
        r"line 2: an entity is \{'start': 0, 'end': 3\}; \{start, end, label\} or",
    ),
    ({"text": TEXT, "entities": [[0, "3", "PER"]]}, "line 2: an entity is"),
    ({"text": TEXT, "entities": [[True, 3, "PER"]]}, "line 2: an entity is"),
    (
        {"text": TEXT, "entities": [[0, 3, "O"]]},
        "line 2: the type of '한지민' is 'O', which means that there is no entity",
    ),
    ({"text": TEXT, "entities": [[0, 3, "_"]]}, "line 2: the type of '한지민' is '_'"),
    ({"text": TEXT, "entities": [[0, 99, "PER"]]}, "line 2: an entity is from 0 to 99"),
]


def test_a_wrong_row_of_texts_is_refused_by_file_and_line(tmp_path: Path) -> None:
    for row, said in WRONG_TEXTS:
        with pytest.raises(UserError, match=said):
            Task.choose("tagging").read(file(tmp_path / "a.jsonl", [{"text": TEXT, "entities": ENTITIES}, row]))


def test_the_first_token_of_a_table_of_tokens_may_be_a_number(tmp_path: Path) -> None:
    rows = [{"word": 1446, "tag": "B-DT"}, {"word": "년", "tag": "I-DT"}]
    [example] = Task.choose("ner").read(file(tmp_path / "a.jsonl", rows))
    assert (example["text"], spelled(example)) == ("1446 년", [("1446 년", "DT")])


WRONG_TOKENS = [
    (TOKENS | {"tags": ["O"]}, "line 2: 4 tokens and 1 tags; each has one"),
    (TOKENS | {"tags": [0, 1, 0, 0]}, "line 2: a tag .*tag_names.* was expected, not 0"),
    (TOKENS | {"tokens": ["가", True, "나", "다"]}, "line 2: a token was expected, not True"),
    ({"tokens": [], "tags": []}, "line 2: the text is empty"),
    (TOKENS | {"tokens": "한지민"}, "line 2: 1 eojeols and 4 tags; each has one"),
    (TOKENS | {"tokens": 3}, "line 2: tokens was expected, not 3"),
    (TOKENS | {"tags": 3}, "line 2: a list of tags was expected"),
    (TOKENS | {"tags": ["B-PER", "O", "LOC", "O"]}, "line 2: 'LOC' is no tag as the others of the file are"),
]


def test_a_wrong_row_of_tokens_is_refused_by_file_and_line(tmp_path: Path) -> None:
    for row, said in WRONG_TOKENS:
        with pytest.raises(UserError, match=said):
            Task.choose("tagging").read(file(tmp_path / "a.jsonl", [TOKENS, row]))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"token": "나", "tag": None}, "line 2: a tag was expected, not None"),
        ({"token": None, "tag": "O"}, "line 2: a token was expected, not None"),
    ],
)
def test_a_row_of_a_table_of_tokens_without_one_or_its_tag_is_refused(row: Any, said: str, tmp_path: Path) -> None:
    rows = [{"token": "나", "tag": "B-PS"}, row, {"token": 1903, "tag": "O"}]
    with pytest.raises(UserError, match=said):
        Task.choose("tagging").read(file(tmp_path / "a.jsonl", rows))


def test_an_unreadable_row_of_a_table_of_tokens_is_passed_on_and_ends_no_sentence() -> None:
    at = Location(Path("a.csv"), "line", 3)
    unreadable = UnreadableInput("columns", "one cell too many", at)
    rows = [Row({"token": token, "tag": "O"}, at, index) for index, token in ((1, "나"), (2, "는"), (4, "너"))]
    gathered = list(gathered_tokens([rows[0], unreadable, *rows[1:]], "token", "tag", []))
    assert gathered[0] is unreadable
    assert [row.cells["tokens"] for row in gathered[1:] if isinstance(row, Row)] == [["나", "는"], ["너"]]
    assert list(gathered_tokens([unreadable], "token", "tag", [])) == [unreadable]
