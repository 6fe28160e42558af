"""The texts that commands are given: on the command line, and as lines of files."""

from pathlib import Path

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


def test_all_lines_of_a_file_that_are_not_utf8_are_named_before_any_is_answered(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("가나다라마\n".encode() * 9 + b"\xff\n" + "바사아자차\n".encode() * 9 + b"\xff\xfe\n\xb0\xa1")
    with pytest.raises(UserErrors) as caught:
        next(file_batches([str(path)]))
    assert str(caught.value).startswith(f"{path}, line 10: it is not UTF-8 (invalid start byte); correct it")
    assert str(caught.value).endswith("(also refused: line 20, line 21)")


@pytest.mark.parametrize("encoding", ["cp949", "utf-16"])
def test_a_file_in_another_encoding_is_refused_as_a_whole(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.txt").write_text("가나다라마\n" * 9, encoding=encoding)
    with pytest.raises(UserError, match=f"is not UTF-8 .* line 1.*; it looks like {encoding}: convert it"):
        next(file_batches([str(tmp_path / "a.txt")]))
