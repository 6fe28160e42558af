"""Added tokens in a text and pre-split words: where they are found, and that the text around them is spelled as without
them."""

import random
import unicodedata
from typing import Any

import pytest
from front_end import PROPERTY, any_text, loaded, nfd, solid, visible_text
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import AddedToken
from transformers import BertTokenizerFast

from kobert_pipeline.morphemes.morpheme import STYLES
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer

MARKERS = ["[SUBJ]", "[/SUBJ]"]


@pytest.fixture(scope="module")
def marked(front_end):
    """The tokenizer with two markers (one of them not a special token), an added word, and the styles with other
    spellings."""
    tokenizer = MorphemeTokenizer.from_pretrained(front_end.tokenizer)
    tokenizer.add_special_tokens({"additional_special_tokens": MARKERS[:1]})
    tokenizer.add_tokens([MARKERS[1], "새말뭉치"])
    return tokenizer


def inner(encoded):
    """(token, characters) of everything between [CLS] and [SEP]."""
    return list(zip(encoded.tokens(), encoded.offset_mapping, strict=True))[1:-1]


def ask(tokenizer, text, **options):
    return tokenizer(text, return_offsets_mapping=True, **options)


def test_an_entity_between_markers_is_spelled_as_without_them(marked, bundled):
    """Eojeols of real sentences between markers; relation extraction reads them so."""
    chosen, same, count = random.Random(0), 0, 0
    for document in bundled[:60]:
        words = document.text.split("\n")[0].split()[:12]
        place = chosen.randrange(len(words))
        before, entity, after = (
            " ".join(part) for part in (words[:place], words[place : place + 1], words[place + 1 :])
        )
        lead = f"{before} " if before else ""
        plain, text = f"{lead}{entity} {after}", f"{lead}[SUBJ]{entity}[/SUBJ] {after}"
        found, wanted = inner(ask(marked, text)), inner(ask(marked, plain))
        assert [token for token, _ in found if token not in MARKERS] == [token for token, _ in wanted]
        assert all(text[slice(*span)] == token for token, span in found if token in MARKERS)
        same, count = same + 1, count + 1
    assert same == count == 60


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("동[SUBJ]해", "▁동[SUBJ]해"),
        ("[SUBJ]동해", "[SUBJ]▁동해"),
        ("바다 [SUBJ]동해[/SUBJ]는", "▁바다[SUBJ]▁동해[/SUBJ]는"),
        ("[SUBJ] 동해 [/SUBJ] 바다", "[SUBJ]▁동해[/SUBJ]▁바다"),
        ("[SUBJ][/SUBJ]동해", "[SUBJ][/SUBJ]▁동해"),
        ("[MASK]는", "[MASK]는"),
        ("그 [MASK]는", "▁그[MASK]는"),
        ("[MASK] 는", "[MASK]▁는"),
        ("새말뭉치는", "새말뭉치는"),
        ("[SUBJ]새말뭉치[/SUBJ]는", "[SUBJ]새말뭉치[/SUBJ]는"),
    ],
)
def test_what_follows_a_marker_is_spelled_as_if_it_were_not_there_and_what_follows_a_mask_continues(
    text: Any, spelled: Any, marked
):
    assert "".join(token for token, _ in inner(ask(marked, text))) == spelled, (text, spelled)
    assert [place for _, span in inner(ask(marked, nfd(text))) for place in range(*span)] == solid(nfd(text)), (
        text,
        spelled,
    )


@PROPERTY
@given(parts=st.lists(st.one_of(visible_text, st.sampled_from([*MARKERS, "[MASK]", "새말뭉치"])), max_size=8))
@example(parts=["가", "[SUBJ]", "\u0301", "나"])
def test_offsets_with_added_tokens_cover_every_character_but_white_space(front_end, marked, parts):
    text = "".join(parts)
    covered = sorted({place for _, span in inner(ask(marked, text)) for place in range(*span)})
    assert covered == solid(text)
    assert marked(unicodedata.normalize("NFC", text)).input_ids == marked(nfd(text)).input_ids


@PROPERTY
@given(text=any_text)
def test_markers_at_the_borders_of_eojeols_change_no_spelling(front_end, marked, text):
    eojeols = text.split()
    if any(token in text for token in (*MARKERS, "새말뭉치", "[MASK]")):
        return
    plain, between = " ".join(eojeols), " ".join(f"[SUBJ]{one}[/SUBJ]" for one in eojeols)
    assert [token for token, _ in inner(ask(marked, between)) if token not in MARKERS] == [
        token for token, _ in inner(ask(marked, plain))
    ]


def test_added_tokens_are_found_where_berts_are(front_end):
    """Flags and surroundings as users give them, ending in symbols or letters; the places are `BertTokenizerFast`'s."""
    specials = {name: number for number, name in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])}
    texts = ["{} 좋다", "{}는 좋다", "가{} 나", "가 {} 나", "가{}나", "{}{} {}", "  {}  ", "A{}!"]
    flags = [{"single_word": True}, {"lstrip": True}, {"rstrip": True}, {"lstrip": True, "rstrip": True}, {}]
    rows = 0
    for content in ("C++", "#태그", "(주)", "<e>", "새말"):
        for number, flag in enumerate(flags):
            bert = BertTokenizerFast(vocab=specials, do_lower_case=False)
            ours = MorphemeTokenizer.from_pretrained(front_end.tokenizer)
            places = []
            for tokenizer in (bert, ours):
                tokenizer.add_tokens([AddedToken(content, **flag)], special_tokens=number % 2 == 1)
                id_ = tokenizer.convert_tokens_to_ids(content)
                encoded = [ask(tokenizer, text.format(*[content] * 3)) for text in texts]
                places.append(
                    [
                        [span for one, span in zip(row.input_ids, row.offset_mapping, strict=True) if one == id_]
                        for row in encoded
                    ]
                )
            assert places[0] == places[1], (content, flag)
            rows += len(texts)
    assert rows == 200


def test_a_single_word_is_not_found_inside_another_though_morphemes_end_there(front_end):
    tokenizer = MorphemeTokenizer.from_pretrained(front_end.tokenizer)
    tokenizer.add_tokens([AddedToken("배우", single_word=True)])
    id_ = tokenizer.convert_tokens_to_ids("배우")
    text = "그 배우는 배우 이다"
    for options in ({}, {"text_pair": text}, {"truncation": True, "max_length": 32, "return_overflowing_tokens": True}):
        encoded = tokenizer(text, return_offsets_mapping=True, **options)
        ids, spans = (
            encoded[key] if "text_pair" in options or not options else encoded[key][0]
            for key in ("input_ids", "offset_mapping")
        )
        assert {span for one, span in zip(ids, spans, strict=True) if one == id_} == {(6, 8)}


# words given ready


def words_of(encoded, count):
    """The tokens of each given word."""
    found = [[] for _ in range(count)]
    for token, word in zip(encoded.tokens(), encoded.word_ids(), strict=True):
        if word is not None:
            found[word].append(token)
    return found


def test_eojeols_are_spelled_as_in_the_text_that_they_make(tokenizer, bundled):
    for document in bundled[:80]:
        text = " ".join(document.text.split())[:400]
        eojeols = text.split()
        given_, whole = tokenizer(eojeols, is_split_into_words=True), tokenizer(text)
        assert given_.input_ids == whole.input_ids
        assert [len("".join(tokens).replace("▁", "")) > 0 for tokens in words_of(given_, len(eojeols))] == [True] * len(
            eojeols
        )


def test_characters_with_the_spaces_among_them_are_split_at_the_text_s_boundaries_and_their_own(tokenizer, bundled):
    """KLUE-NER comes as single characters, white space included."""
    for document in bundled[:40]:
        text = document.text.split("\n")[0][:120].strip()
        encoded = tokenizer(list(text), is_split_into_words=True, return_offsets_mapping=True)
        characters = [
            (token, word) for token, word in zip(encoded.tokens(), encoded.word_ids(), strict=True) if word is not None
        ]
        assert sorted({word for _, word in characters}) == solid(text)
        first = {place for place in solid(text) if place == 0 or text[place - 1].isspace()}
        assert {word for token, word in characters if token.startswith("▁")} == first - {
            word for token, word in characters if token == "[UNK]"
        }
        assert {
            span for span, word in zip(encoded.offset_mapping, encoded.word_ids(), strict=True) if word is not None
        } <= {(0, 0), (0, 1)}


@PROPERTY
@given(words=st.lists(visible_text, max_size=8), style=st.sampled_from(STYLES))
@example(words=["예", "뻤", " ", "다"], style="form")
@example(words=["ᄒ", "ᅡ", "ᆫ"], style="surface")
def test_every_given_word_keeps_its_number_and_its_characters(front_end, words, style):
    tokenizer = styled(front_end.tokenizer, style)
    if tokenizer.mask_token in "".join(words):
        return
    encoded = tokenizer(words, is_split_into_words=True, return_offsets_mapping=True)
    places = [set() for _ in words]
    for word, (start, end) in zip(encoded.word_ids(), encoded.offset_mapping, strict=True):
        if word is not None:
            assert 0 <= start <= end <= len(words[word])
            places[word] |= set(range(start, end))
    assert all(set(solid(word)) <= of_word for word, of_word in zip(words, places, strict=True))
    if style in ("surface", "none"):
        assert [sorted(of_word) for of_word in places] == [solid(word) for word in words]


def styled(folder, style):
    key = (folder, style)
    if key not in STYLED:
        STYLED[key] = loaded(folder) if style == "surface" else MorphemeTokenizer.from_pretrained(folder, style=style)
    return STYLED[key]


STYLED: dict = {}


def test_decoding_keeps_white_space_before_added_tokens(marked):
    text = "그 [MASK] 했다 [SUBJ]배우[/SUBJ] 노래 새말뭉치"
    assert marked.decode(marked(text).input_ids) == "[CLS] 그 [MASK] 했다 [SUBJ] 배우 [/SUBJ] 노래 새말뭉치 [SEP]"
    assert marked.decode(marked(text).input_ids, skip_special_tokens=True) == "그 했다 배우 [/SUBJ] 노래 새말뭉치"
    assert marked.batch_decode([[0, 99_999]]) == ["[PAD]"]
