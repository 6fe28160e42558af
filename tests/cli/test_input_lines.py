"""The texts that `kobert predict` and `tokenize` are given on the command line."""

from pathlib import Path

import pytest

from kobert_pipeline.cli.input_lines import text_batches


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
