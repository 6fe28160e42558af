"""Data files are found in the data folder or in that of the clone, plain or compressed, in any form of Unicode."""

from pathlib import Path
from unicodedata import normalize

import pytest

from kobert_pipeline import files
from kobert_pipeline.corpus.document import is_from
from kobert_pipeline.errors import UserError
from kobert_pipeline.tables.data_files import bundled, data_file, find_file, matching_files


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of bundled data, in a clone, with one compressed file."""
    folder = tmp_path / "clone" / "corpora"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "one.txt.zst").write_bytes(b"1")
    (tmp_path / "clone" / "pyproject.toml").touch()
    monkeypatch.setattr(files, "CLONE", tmp_path / "clone")
    return folder


def test_the_data_folder_comes_before_the_bundled_data_and_plain_before_compressed(box: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "a").mkdir(parents=True)
    assert find_file(data, "a/one.txt") == data_file(data, "a/one.txt") == box / "a" / "one.txt.zst"
    assert matching_files(data, "a/*.zst") == [box / "a" / "one.txt.zst"]
    for name in ("one.txt.xz", "one.txt"):
        (data / "a" / name).write_bytes(b"2")
        assert find_file(data, "a/one.txt") == data / "a" / name
    assert matching_files(data, "a/*.txt*") == [data / "a" / "one.txt", data / "a" / "one.txt.xz"]
    assert find_file(box, str(data / "a" / "one.txt")) == data / "a" / "one.txt"
    assert find_file(data, "a/two.txt") is None
    with pytest.raises(UserError, match=r"two\.txt does not exist; check the path"):
        data_file(data, "a/two.txt")


def test_an_installed_package_has_no_bundled_data(box: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bundled() == box
    (tmp_path / "clone" / "pyproject.toml").unlink()
    assert bundled() is None
    assert find_file(tmp_path, "a/one.txt") is None


def test_names_in_either_form_of_unicode_find_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "디자인팀"
    folder.mkdir()
    names = [folder / "가 1.txt", folder / normalize("NFD", "가 2.txt")]
    for path in names:
        path.touch()
    for form in ("NFC", "NFD"):
        assert [find_file(tmp_path, normalize(form, f"디자인팀/가 {n}.txt")) for n in (1, 2)] == names
        for pattern in ("디자인팀/가*.txt", "**/가*", "디자인팀/**", "**"):
            assert sorted(matching_files(tmp_path, normalize(form, pattern))) == sorted(names), pattern
        assert is_from(normalize(form, "가 2.txt"), ["가*"]) and is_from("가 2.txt", [normalize(form, "가*")])
    assert matching_files(tmp_path, "나*") == []
    assert matching_files(tmp_path, "디자인팀/없다/*") == []


def test_wildcards_are_whole_syllables(tmp_path: Path) -> None:
    paths = {name: tmp_path / normalize("NFD", f"{name}.txt") for name in ("고객", "가", "나")}
    for path in paths.values():
        path.touch()
    for pattern, names in (("[가나].txt", "가나"), ("[가나]*.txt", "가나"), ("[!가].txt", "나"), ("고?.txt", ["고객"])):
        for form in ("NFC", "NFD"):
            assert matching_files(tmp_path, normalize(form, pattern)) == sorted(paths[name] for name in names), pattern


def test_a_json_file_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a\.json does not exist"):
        files.read_json(tmp_path / "a.json")
