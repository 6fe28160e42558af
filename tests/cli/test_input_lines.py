"""The texts that commands are given: on the command line, and as lines of files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kobert_pipeline.cli.input_lines import file_batches, text_batches
from kobert_pipeline.errors import UserError, UserErrors


def test_the_name_of_a_file_is_a_text_but_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("문의.csv").write_text("언제 오나요", encoding="utf-8")
    texts = ["정말 재밌다", "문의.csv", "글" * 5000, "a\0b"]
    assert list(text_batches(texts)) == [texts]
    assert capsys.readouterr().err == (
        "문의.csv is a file, but its name is read as the text; - < 문의.csv reads its texts\n"
    )
    assert list(text_batches(texts, "--in")) == [texts]
    assert capsys.readouterr().err.endswith("; --in 문의.csv reads its texts\n")
    assert list(text_batches(["정말 재밌다"])) == [["정말 재밌다"]]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "command", [["predict"], ["predict", "글", "--question"], ["predict", "글", "--pair"], ["tokenize"]]
)
def test_an_argument_in_another_encoding_is_refused(command: list[str], kobert: Callable[..., Any]) -> None:
    name, *more = command
    cp949 = "좋다".encode("cp949").decode("utf-8", "surrogateescape")  # as Python reads it
    assert " 1 is not UTF-8; convert it first" in kobert(name, "mini-nsmc", *more, cp949).complaint


@pytest.mark.parametrize("texts", [["-", "좋다"], ["좋다", "-"], ["-", "-"]])
def test_standard_input_beside_other_texts_is_refused(texts: list[str]) -> None:
    with pytest.raises(UserError, match="- reads texts from standard input; give it alone, or only texts"):
        text_batches(texts)


def test_blank_rows_of_a_table_are_left_out_with_one_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text,n\n가,1\n,\n,2\n나,3\n", encoding="utf-8")
    for _ in range(2):  # `embed` counts the rows first
        assert list(file_batches([str(path)], "text")) == [["가", "", "나"]]
    note = f"note: {path}: blank rows left out: 1, so the n-th text may be of a later row\n"
    assert capsys.readouterr().err == note


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("2023-05-01 21:10 이모: 비 온대요\n2023-05-01 21:11 삼촌: 네\n" * 2, "a chat log"),
        ("1\n00:00:01,000 --> 00:00:04,000\n비가 오네요\n", "subtitles"),
        ('{"text": "비가 오네요"}\n', "JSON Lines"),
        ("비가 오네요\n우산은요?\n", None),
        ("id\tdocument\tlabel\n" + "1\t비가 온다\t1\n" * 3, "a table with tabs or commas"),
    ],
)
def test_lines_that_are_no_texts_are_read_with_one_note(
    content: str, what: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.txt"
    path.write_text(content, encoding="utf-8")
    for _ in range(2):  # `embed` counts the lines first
        assert sum(map(len, file_batches([str(path)]))) == content.count("\n")
    note = capsys.readouterr().err
    assert note == "" if what is None else note.count("every line of it is read as a text") == 1 and what in note


def test_a_table_is_expected_where_lines_are_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.txt"
    path.write_text("비가 온다\t땅이 젖는다\n" * 9, encoding="utf-8")
    assert list(file_batches([str(path)], tabs=True)) == [["비가 온다\t땅이 젖는다"] * 9]
    assert capsys.readouterr().err == ""


def test_all_lines_of_a_file_that_cannot_be_decoded_are_named_before_any_is_answered(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("가나다라마\n".encode() * 9 + b"\xff\n" + "바사아자차\n".encode() * 9 + b"\xff\xfe\n\xff")
    with pytest.raises(UserErrors) as caught:
        next(file_batches([str(path)]))
    assert str(caught.value).startswith(f"{path}, line 10: it has bytes that are neither UTF-8 nor CP949; correct them")
    assert str(caught.value).endswith("(also refused: line 20, line 21)")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp949", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_lines_are_the_same_in_every_korean_encoding(tmp_path: Path, encoding: str, line_end: str) -> None:
    lines = ["", "가나다라마", "", *(f"{number}번째 줄\x0c이다" for number in range(9000))]
    (tmp_path / "a.txt").write_bytes(line_end.join([*lines, ""]).encode(encoding))
    batches = list(file_batches([str(tmp_path / "a.txt")]))
    assert [line for batch in batches for line in batch] == lines
    assert len(batches) > 1
