"""The bundled data files are what their list and their README say."""

import hashlib

import pytest

from kobert_pipeline import files
from kobert_pipeline.corpus.cleaning import clean
from kobert_pipeline.corpus.decontaminate import MIN_WHOLE, EvaluationTexts, count_letters, remove_whitespace
from kobert_pipeline.corpus.readers.jsonl import JsonLines
from kobert_pipeline.corpus.readers.nsmc import read_reviews
from kobert_pipeline.tables.open_text import open_binary
from kobert_pipeline.tables.unreadable import readable

OFFICIAL = {
    "nsmc/ratings_train.txt": "ac0dba272895dc1d0b3dd5f11afbeaeb7abe7876",
    "nsmc/ratings_test.txt": "b6cfcd8cd1557bcd9bf06617b0e429ed73e9a367",
    "qa/KorQuAD_v1.0_dev.json": "6849d8c79140447018f5701a0453835c96608a07",
}
"""Git blob SHA-1 of the files that their owners publish."""


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


def reviews_of(split: str) -> list[str]:
    rows = readable(read_reviews(files.CLONE / "corpora" / "nsmc" / f"ratings_{split}.txt.zst"))
    return [row.cells["document"] for row in rows]


def keep_letters(text: str) -> str:
    """Letters and digits alone."""
    return "".join(filter(str.isalnum, text))


@pytest.mark.slow
def test_the_readme_counts_the_raw_reviews_that_equal_a_test_review_and_those_that_decontamination_leaves() -> None:
    box = files.CLONE / "corpora"
    documents = JsonLines(path="nsmc/raw_reviews.jsonl.zst", ordered=False).read(box)
    raw = [line for document in documents for line in document.text.split("\n")]
    test = reviews_of("test")
    cleaned, cleaned_test = list(map(clean, raw)), list(map(clean, test))
    evaluation = EvaluationTexts(cleaned_test)

    exact_test = set(test)
    equal = [text for text in raw if text in exact_test]
    train = reviews_of("train")
    compact_raw = set(map(remove_whitespace, raw))
    found = [[remove_whitespace(text) in compact_raw for text in texts] for texts in (train, test)]
    shares = [100 * sum(rows) / len(rows) for rows in found]
    assert [f"{share:.1f}" for share in shares] == ["99.8", "3.9"]
    for page in ("docs/results/README.md", "docs/ko/results/README.md"):
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
