"""Segmentation loses no character, whatever the text and whatever the analyzer says."""

import itertools
from itertools import pairwise
from typing import Any

import pytest
from front_end import PROPERTY, any_text, composed_text, nfc
from hypothesis import example, given
from hypothesis import strategies as st

from kobert_pipeline.corpus.readers.jsonl import JsonLines
from kobert_pipeline.morphemes.analyzers import kiwi as kiwi_module
from kobert_pipeline.morphemes.analyzers import whitespace as whitespace_module
from kobert_pipeline.morphemes.morpheme import MAX_MORPHEME_CHARACTERS, WORD_MARK, Morpheme
from kobert_pipeline.morphemes.segmentation import MAX_UNIT_CHARACTERS, Tokens, segment, units
from kobert_pipeline.morphemes.segmenter import BATCH_CHARACTERS, Segmenter

ANALYZERS = [Segmenter(), Segmenter("whitespace")]
TEXTS = ["하나 둘", "셋", "넷\n다섯"]
LONG = [
    "가" * 5000,
    "ㅋ" * 2001,
    "했다 " * 1500,
    " " * 5000 + "끝",
    "가" * 1999 + " " + "나" * 2001,
    "https://a.kr/" + "x" * 300,
]


def check_lossless(text, found):
    """Every character that is not white space is in exactly one morpheme, in order; no morpheme holds white space or
    is too long."""
    reach = 0
    for morpheme in found:
        assert reach <= morpheme.start < morpheme.end <= len(text)
        assert morpheme.end - morpheme.start <= MAX_MORPHEME_CHARACTERS
        reach = morpheme.end
    surfaces = [text[morpheme.start : morpheme.end] for morpheme in found]
    assert not any(character.isspace() for surface in surfaces for character in surface)
    assert "".join(surfaces) == "".join(text.split())


def check_sentences(found):
    """Sentence numbers begin at 0, never decrease and skip none."""
    found = list(found)
    assert sorted({morpheme.sentence for morpheme in found}) == list(range(found[-1].sentence + 1 if found else 0))
    assert all(one.sentence <= other.sentence for one, other in pairwise(found))


@PROPERTY
@given(text=composed_text)
@example(text="")
@example(text=" \n\t ")
@example(text="무대 위에서\n\n했다.  😀 갔다")
def test_no_character_is_lost_by_a_real_analyzer(text):
    for analyzer in ANALYZERS:
        (found,) = analyzer.segment([text])
        check_lossless(text, found)
        check_sentences(found)


def test_very_long_words_and_lines_lose_nothing():
    for text, analyzer in itertools.product(LONG, ANALYZERS):
        (found,) = analyzer.segment([text])
        check_lossless(text, found)
        check_sentences(found)


def test_decomposed_text_is_segmented_without_loss_too(kiwi):
    text = "".join(map(chr, range(0x1112, 0x1113))) + "ᅢᆻ다 갔다"
    (found,) = kiwi.segment([text])
    check_lossless(text, found)


def test_bundled_documents_are_segmented_without_loss(kiwi, bundled):
    texts = [document.text for document in bundled]
    for text, found in zip(texts, kiwi.segment(texts), strict=True):
        check_lossless(text, found)
        check_sentences(found)
        assert len(found)


@pytest.mark.parametrize("path", ["kowiki/kowiki-12m.jsonl.zst", "nsmc/raw_reviews.jsonl.zst"])
def test_real_documents_are_segmented_without_loss(path, kiwi, real_data):
    reader = JsonLines(path=path, limit_characters=60_000)
    texts = [nfc(document.text) for document in reader.read(real_data)]
    assert sum(map(len, texts)) >= 60_000
    for text, segmentation in zip(texts, kiwi.segment(texts), strict=True):
        check_lossless(text, segmentation)
        check_sentences(segmentation)


def test_contracted_morphemes_that_share_a_character_stay_together(kiwi):
    starts, ends, _, _ = next(kiwi_module.tokens(["했다"], "surface"))
    assert [*zip(starts, ends, strict=True)] == [(0, 1), (0, 1), (1, 2)], "Kiwi restores 하 + 었 + 다"
    assert [list(found) for found in kiwi.segment(["했다"])] == [[Morpheme(0, 1, 0), Morpheme(1, 2, 0)]]


@pytest.mark.parametrize(
    ("text", "morphemes"),
    [
        ("-20도", "- 20도"),
        ("Inc.은", "Inc.은"),
        ("끝.", "끝 ."),
        ("3.14", "3.14"),
        ("...", "..."),
        ("(주)", "( 주 )"),
        ("ㅋㅋ!", "ㅋㅋ !"),
        ("?!", "?!"),
        ("!", "!"),
        ("[가", "[ 가"),
    ],
)
def test_a_single_mark_at_either_end_of_a_token_is_separated(text: Any, morphemes: Any):
    (found,) = Segmenter("whitespace").segment([text])
    assert [text[morpheme.start : morpheme.end] for morpheme in found] == morphemes.split(), (text, morphemes)


def test_the_segmentation_of_a_text_depends_on_no_other_text(kiwi, bundled):
    texts = [document.text for document in bundled[:12]] + ["", " "]
    assert list(kiwi.segment(texts, 2)) == [next(kiwi.segment([text])) for text in texts]


def test_texts_beyond_one_batch_come_back_in_order():
    texts = [f"{number} " + "가 " * (BATCH_CHARACTERS // 5) for number in range(5)]
    segmentations = list(Segmenter("whitespace").segment(texts))
    assert [text[: found.ends[0]] for text, found in zip(texts, segmentations, strict=True)] == [
        "0",
        "1",
        "2",
        "3",
        "4",
    ]


def segment_one(text, tokens, style="surface"):
    """The segmentation of one text, from (start, end, sentence) of its tokens, one list per unit."""
    columns = [Tokens(*([token[column] for token in unit] for column in range(3))) for unit in tokens]
    return list(segment([text], [list(units(text))], columns, style)[0])


def token_lists(text, numbers):
    """For every unit of `text` a list of tokens that may overlap, be empty, leave gaps, decrease or exceed the end."""
    lists = [
        st.lists(st.tuples(st.integers(0, end - start + 3), st.integers(0, end - start + 3), numbers), max_size=8)
        for start, end in units(text)
    ]
    return st.tuples(*lists)


@PROPERTY
@given(data=st.data(), text=any_text)
def test_no_analyzer_however_wrong_makes_it_lose_a_character(data, text):
    tokens = data.draw(token_lists(text, st.integers(-2, 5)))
    check_lossless(text, segment_one(text, tokens))


@PROPERTY
@given(data=st.data(), text=any_text)
def test_sentences_are_dense_however_the_analyzer_numbers_them(data, text):
    tokens = [
        [(start, end, number) for (start, end), number in zip(spans, numbers, strict=True)]
        for spans, numbers in (
            (sorted((start, end) for start, end, _ in unit), sorted(number for _, _, number in unit))
            for unit in data.draw(token_lists(text, st.integers(0, 9)))
        )
    ]
    check_sentences(segment_one(text, tokens))


@pytest.mark.parametrize(
    ("tokens", "spans"),
    [
        ([(0, 1, 0), (0, 1, 0), (1, 2, 0)], [(0, 1), (1, 2), (3, 5)]),
        ([(0, 2, 0), (2, 2, 0), (3, 5, 0)], [(0, 2), (3, 5)]),
        ([(0, 1, 0), (3, 5, 0), (1, 4, 0)], [(0, 1), (1, 2), (3, 5)]),
        ([(0, 1, 0), (1, 2, 0), (0, 2, 0), (3, 4, 0)], [(0, 2), (3, 4), (4, 5)]),
        ([(1, 4, 0)], [(0, 1), (1, 2), (3, 4), (4, 5)]),
        ([], [(0, 2), (3, 5)]),
    ],
)
def test_what_overlapping_empty_and_missing_tokens_become(tokens: Any, spans: Any):
    found = segment_one("했다 가나", [tokens])
    assert [(morpheme.start, morpheme.end) for morpheme in found] == spans


def test_a_token_of_white_space_only_takes_no_sentence_number():
    found = segment_one(" 가 나", [[(0, 1, 0), (1, 2, 1), (2, 3, 2), (3, 4, 3)]])
    assert found == [Morpheme(1, 2, 0), Morpheme(3, 4, 1)]


@PROPERTY
@given(text=any_text)
@example(text="가" * 4001)
@example(text="가 " * 2500)
@example(text=("가" * 999 + " ") * 5 + "\n" + "나" * 3000)
def test_units_are_short_lines_that_cover_everything_but_white_space(text):
    spans = list(units(text))
    reach = 0
    for start, end in spans:
        assert reach <= start < end <= len(text)
        assert end - start <= MAX_UNIT_CHARACTERS
        assert "\n" not in text[start:end]
        assert not text[reach:start].strip()
        reach = end
    assert not text[reach:].strip()


def test_a_long_line_is_split_at_white_space_when_it_can():
    text = ("가" * 9 + " ") * 500
    assert all(text[end - 1] == " " for _, end in units(text))


def test_a_line_begins_a_sentence(kiwi):
    text = "무대 위에서\n했다"
    (found,) = kiwi.segment([text])
    assert {morpheme.sentence for morpheme in found if morpheme.start < 6} == {0}
    assert {morpheme.sentence for morpheme in found if morpheme.start > 6} == {1}


@PROPERTY
@given(text=composed_text)
def test_eojeols_are_given_back_by_their_marks(text):
    text = text.replace(WORD_MARK, "_")
    (found,) = Segmenter().segment([text])
    joined = "".join(found.words(text))
    assert joined.replace(WORD_MARK, " ").split(" ")[1:] == text.split()


def test_unknown_analyzer_is_refused():
    with pytest.raises(ValueError, match="kiwi, mecab, whitespace"):
        Segmenter("mecab2")


def test_an_analyzer_that_takes_no_words_refuses_them():
    with pytest.raises(ValueError, match="the analyzer whitespace takes no user dictionary"):
        Segmenter("whitespace", user_words=(("관세율표", "NNG", 0.0),))


@pytest.mark.parametrize(
    ("change", "said"), [(lambda found: found[:-1], "1 analyses fewer"), (lambda found: found * 2, "4 analyses more")]
)
def test_an_analyzer_that_loses_count_is_an_error(change, said, monkeypatch):
    """What follows would otherwise be segmented by another text's analysis, and no error would show it."""
    real = whitespace_module.tokens
    monkeypatch.setattr(whitespace_module, "tokens", lambda *given: iter(change(list(real(*given)))))
    with pytest.raises(RuntimeError, match=said):
        list(Segmenter("whitespace").segment(TEXTS))


def test_a_source_that_fails_and_a_reader_that_leaves_do_no_harm():
    """Texts are asked for ahead of what is segmented."""
    for analyzer in ANALYZERS:

        def source():
            yield from ["한 문장이 있다."] * 100
            raise OSError("gone")

        with pytest.raises(OSError, match="gone"):
            list(analyzer.segment(source()))
        left = analyzer.segment(["한 문장이 있다." * 2000] * 100)
        next(left)
        left.close()
        assert [len(list(found)) > 0 for found in analyzer.segment([*TEXTS, "", ""])] == [
            True,
            True,
            True,
            False,
            False,
        ], analyzer
