"""Where data files are found, and that the bundled ones are what their list says."""

import hashlib
from pathlib import Path
from unicodedata import normalize

import pytest

from kobert_pipeline import files
from kobert_pipeline.corpus.cleaning import clean
from kobert_pipeline.corpus.data_files import bundled, data_file, find_file, matching_files
from kobert_pipeline.corpus.decontaminate import MIN_WHOLE, EvaluationTexts, count_letters, remove_whitespace
from kobert_pipeline.corpus.document import is_from
from kobert_pipeline.corpus.open_text import open_binary
from kobert_pipeline.corpus.readers.jsonl import JsonLines
from kobert_pipeline.corpus.readers.nsmc import read_reviews
from kobert_pipeline.errors import UserError

OFFICIAL = {
    "nsmc/ratings_train.txt": "ac0dba272895dc1d0b3dd5f11afbeaeb7abe7876",
    "nsmc/ratings_test.txt": "b6cfcd8cd1557bcd9bf06617b0e429ed73e9a367",
    "qa/KorQuAD_v1.0_dev.json": "6849d8c79140447018f5701a0453835c96608a07",
}
"""Git blob SHA-1 of the files that their owners publish."""


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


def test_the_bundled_files_are_those_of_the_list_and_the_official_ones_byte_for_byte() -> None:
    box = files.CLONE / "corpora"
    listed = dict(reversed(line.split()) for line in (box / "SHA256SUMS").read_text(encoding="utf-8").splitlines())
    found = {path.relative_to(box).as_posix(): path for path in box.rglob("*.zst")}
    assert {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in found.items()} == listed
    assert sum(path.stat().st_size for path in found.values()) < 45e6
    for name, blob in OFFICIAL.items():
        with open_binary(box / f"{name}.zst") as file:
            content = file.read()
        assert hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest() == blob
    readme = (box / "README.md").read_text(encoding="utf-8")
    assert all(name in readme for name in [*found, *OFFICIAL.values()])


def keep_letters(text: str) -> str:
    """Letters and digits alone."""
    return "".join(filter(str.isalnum, text))


def test_the_readme_counts_the_raw_reviews_that_equal_a_test_review_and_those_that_decontamination_leaves() -> None:
    box = files.CLONE / "corpora"
    documents = JsonLines(path="nsmc/raw_reviews.jsonl.zst", ordered=False).read(box)
    raw = [line for document in documents for line in document.text.split("\n")]
    test = [review.document for review in read_reviews(box / "nsmc" / "ratings_test.txt.zst")]
    cleaned, cleaned_test = list(map(clean, raw)), list(map(clean, test))
    evaluation = EvaluationTexts(cleaned_test)

    exact_test = set(test)
    equal = [text for text in raw if text in exact_test]
    train = [review.document for review in read_reviews(box / "nsmc" / "ratings_train.txt.zst")]
    compact_raw = set(map(remove_whitespace, raw))
    found = [[remove_whitespace(text) in compact_raw for text in texts] for texts in (train, test)]
    shares = [100 * sum(rows) / len(rows) for rows in found]
    assert [f"{share:.1f}" for share in shares] == ["99.8", "3.9"]
    for page in ("docs/results/README.md", "docs/ko/results/README.md", "models/mini-nsmc/README.md"):
        text = (files.CLONE / page).read_text(encoding="utf-8").replace(" %", "%")
        assert "99.8%" in text and "3.9%" in text, page
    compact_test = set(map(remove_whitespace, test))
    equal_compact = [text for text in map(remove_whitespace, raw) if text in compact_test]
    compact_test = set(map(remove_whitespace, cleaned_test))
    left = [text for text in cleaned if remove_whitespace(text) in compact_test and not evaluation.overlaps(text)]
    letters_of_test = {letters for text in cleaned_test if len(letters := keep_letters(text)) >= MIN_WHOLE}
    near = [text for text in cleaned if keep_letters(text) in letters_of_test and not evaluation.overlaps(text)]

    counts = {
        "raw": len(raw),
        "equal": len(equal),
        "different": len(set(equal)),
        "without white space": len(equal_compact),
        "different without white space": len(set(equal_compact)),
        "of ten letters": sum(count_letters(text) >= MIN_WHOLE for text in equal_compact),
        "left": len(left),
        "different left": len(set(map(remove_whitespace, left))),
        "near": len(near),
        "different near": len(set(map(keep_letters, near))),
    }
    assert list(counts.values()) == [651_054, 11_747, 917, 12_685, 1_124, 111, 12_688, 1_073, 341, 120], counts
    readme = (box / "README.md").read_text(encoding="utf-8")
    assert [name for name, count in counts.items() if f"{count:,}" not in readme] == []


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
