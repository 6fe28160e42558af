"""What commands print: tables, and JSON that another program can read."""

import io
import json

import pytest

from kobert_pipeline.cli.formatting import json_for, print_table


@pytest.mark.parametrize("text", [r"평균은 \[x^2\] 이다", "점수 :x: 와 3:o:2 비교", "[MASK] [b]굵게[/b]", "끝\\"])
def test_a_table_shows_texts_as_they_are(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["text", "n"], [[text, "1"]])
    row = capsys.readouterr().out.splitlines()[1]
    assert row.removesuffix("1").rstrip() == text


@pytest.mark.parametrize("encoding", ["utf-8", "cp949", "ascii"])
@pytest.mark.parametrize("text", ["좋다", "😀 좋다", "\ud83d 좋다"])
def test_json_is_json_in_every_encoding(encoding: str, text: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="backslashreplace")
    line = json_for(stream, {"text": text})
    assert json.loads(line.encode(encoding).decode(encoding)) == {"text": text}
    assert ("좋다" in line) == (
        encoding != "ascii" and text != "\ud83d 좋다" and (encoding, text) != ("cp949", "😀 좋다")
    )
