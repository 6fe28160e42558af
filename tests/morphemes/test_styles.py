"""Every style: what morphemes are spelled as, where they are in the raw text, and that the tokenizer built on it says
so."""

import itertools
import unicodedata
from itertools import pairwise

import pytest
from front_end import CORPORA, PROPERTY, any_text, composed_text, nfd
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from kobert_pipeline.corpus.readers.text import Text
from kobert_pipeline.morphemes.morpheme import MAX_MORPHEME_CHARACTERS, REPLACING, STYLES
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer
from kobert_pipeline.morphemes.raw_text_backend import remove_pipeline
from kobert_pipeline.morphemes.segmentation import Tokens, segment, units
from kobert_pipeline.morphemes.segmenter import Segmenter
from kobert_pipeline.tokenizer.special_tokens import SPECIAL_TOKENS, UNK

SENTENCE = "나는 그 배우를 사랑했었다. 정말 친구다"
SPELLED = {
    "surface": "▁나 는 ▁그 ▁배우 를 ▁사랑 했었 다 . ▁정말 ▁친구 다",
    "form": "▁나 는 ▁그 ▁배우 를 ▁사랑 하 었었 다 . ▁정말 ▁친구 이 다",
    "lemma": "▁나 는 ▁그 ▁배우 를 ▁사랑 하다 었었 다 . ▁정말 ▁친구 이다 다",
    "tagged": "▁나/NP 는/JX ▁그/MM ▁배우/NNG 를/JKO ▁사랑/NNG 하/XSV 었었/EP 다/EF ./SF "
    "▁정말/MAG ▁친구/NNG 이/VCP 다/EF",
    "none": "▁나는 ▁그 ▁배우를 ▁사랑했었다. ▁정말 ▁친구다",
}
SEGMENTERS = [Segmenter(analyzer, style) for analyzer in ("kiwi", "mecab") for style in STYLES]


def test_a_sentence_is_spelled_as_the_style_says():
    for style in STYLES:
        (found,) = Segmenter(style=style).segment([SENTENCE])
        assert " ".join(found.words(SENTENCE)) == SPELLED[style]


@settings(PROPERTY, max_examples=40)
@given(text=composed_text)
@example(text="했다" * 50 + " " + "ㅋ" * 200)
@example(text="")
def test_spans_never_run_back_and_reach_every_character(text):
    for segmenter in SEGMENTERS:
        (found,) = segmenter.segment([text])
        morphemes = list(found)
        assert all(0 <= one.start <= one.end <= len(text) for one in morphemes), segmenter
        assert all(
            one.start <= other.start and one.end <= other.end and one.sentence <= other.sentence
            for one, other in pairwise(morphemes)
        ), segmenter
        reached = {place for one in morphemes for place in range(one.start, one.end)}
        assert {place for place, character in enumerate(text) if not character.isspace()} <= reached, segmenter
        words = found.words(text)
        assert all(word and not any(character.isspace() for character in word) for word in words), segmenter
        assert all(len(word) <= MAX_MORPHEME_CHARACTERS + 1 for word in words), segmenter
        assert int(found.initial.sum()) <= len(text.split()), segmenter
        if segmenter.style not in REPLACING:
            assert int(found.initial.sum()) == len(text.split()), segmenter


@PROPERTY
@given(data=st.data(), text=any_text)
def test_no_analyzer_however_wrong_makes_a_respelled_segmentation_miss_a_character(data, text):
    tokens = []
    for start, end in units(text):
        place = st.integers(0, end - start + 3)
        rows = data.draw(
            st.lists(st.tuples(place, place, st.integers(-2, 5), st.text(" ab가", max_size=80)), max_size=8)
        )
        tokens.append(Tokens(*([row[column] for row in rows] for column in range(4))))
    (found,) = segment([text], [list(units(text))], tokens, "form")
    reached = {place for one in found for place in range(one.start, one.end)}
    assert {place for place, character in enumerate(text) if not character.isspace()} <= reached
    assert all(one.start <= other.start and one.end <= other.end for one, other in pairwise(found))
    assert all(0 < len(one.spelling) <= MAX_MORPHEME_CHARACTERS and not one.spelling.isspace() for one in found)


def test_the_batch_around_a_text_does_not_change_its_respelled_segmentation():
    # Kiwi reads 닥 as 하다 and an ending, the first of which has no character of its own
    texts = [SENTENCE, "", "친구다", " ", "했다\n\n갔다 친구이다", "친구다", "닥10점"]
    for style in REPLACING:
        segmenter = Segmenter(style=style)
        assert list(segmenter.segment(texts)) == [next(segmenter.segment([text])) for text in texts]


def test_a_morpheme_without_characters_at_the_start_of_a_line_begins_an_eojeol() -> None:
    texts = ["영화 좋다", "닥10점"]
    for style in REPLACING:
        alone, joined = (next(Segmenter(style=style).segment([text])) for text in (texts[1], "\n".join(texts)))
        assert joined.words("\n".join(texts))[-len(alone) :] == alone.words(texts[1])
        assert alone.starts[0] == alone.ends[0] == 0


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    """A tokenizer of each style with its own vocabulary, saved and loaded."""
    return [trained(style, tmp_path_factory.mktemp(style)) for style in STYLES]


def trained(style, folder):
    segmenter = Segmenter(style=style)
    texts = [document.text for document in Text(path="documents/*.txt").read(CORPORA)][:40]
    lines = [" ".join(found.words(text)) for text, found in zip(texts, segmenter.segment(texts), strict=True)]
    backend = Tokenizer(models.WordPiece(unk_token=UNK, continuing_subword_prefix="", max_input_chars_per_word=200))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=2500, special_tokens=SPECIAL_TOKENS, continuing_subword_prefix="", show_progress=False
    )
    backend.train_from_iterator(lines, trainer)
    backend.pre_tokenizer = None
    MorphemeTokenizer(tokenizer_object=backend, style=style).save_pretrained(folder)
    return MorphemeTokenizer.from_pretrained(folder)


def spans(encoded):
    return [span for span, side in zip(encoded.offset_mapping, encoded.sequence_ids(), strict=True) if side is not None]


def test_the_tokenizer_encodes_the_morphemes_of_its_style(tokenizers):
    for styled in tokenizers:
        (found,) = styled.segmenter.segment([SENTENCE])
        encoded = styled(SENTENCE, add_special_tokens=False)
        backend = remove_pipeline(Tokenizer.from_str(styled.backend_tokenizer.to_str()))
        assert (
            encoded.input_ids
            == backend.encode(found.words(SENTENCE), is_pretokenized=True, add_special_tokens=False).ids
        ), styled
        assert encoded.word_ids() == sorted(encoded.word_ids()) and set(encoded.word_ids()) == set(range(len(found))), (
            styled
        )
        assert styled.init_kwargs["style"] == styled.segmenter.style, styled


def test_a_token_is_where_its_morpheme_is(tokenizers):
    for styled, text, form in itertools.product(
        tokenizers,
        [SENTENCE, "  탭\t과 했다ㅋㅋ 😀 ", "大韓民國 갔다가 왔다. 쀍", "예뻐서 좋았던 그것은 친구였다"],
        [str, nfd],
    ):
        given = form(text)
        encoded = styled(given, return_offsets_mapping=True)
        (found,) = styled.segmenter.segment([text])
        surfaces = [text[one.start : one.end] for one in found]
        for word, span in zip(encoded.word_ids(), encoded.offset_mapping, strict=True):
            if word is not None:
                inside = unicodedata.normalize("NFC", given[slice(*span)])
                assert inside in surfaces[word], (styled, text)
                if styled.segmenter.style in REPLACING and found.spellings[word] != surfaces[word]:
                    assert inside == surfaces[word], (styled, text)
        reached = {place for start, end in spans(encoded) for place in range(start, end)}
        assert {place for place, character in enumerate(given) if not character.isspace()} <= reached, (styled, text)
        assert all(one[0] <= other[0] and one[1] <= other[1] for one, other in pairwise(spans(encoded))), (styled, text)


def test_windows_with_stride_keep_offsets_and_every_character(tokenizers):
    for styled in tokenizers:
        question, context = "누가 갔나?", " ".join([SENTENCE] * 6)
        encoded = styled(
            question,
            context,
            truncation="only_second",
            max_length=48,
            stride=8,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        assert len(encoded.input_ids) > 1, styled
        whole = styled(context, return_offsets_mapping=True)
        reached = set()
        for window in range(len(encoded.input_ids)):
            places = [
                span
                for span, side in zip(encoded.offset_mapping[window], encoded.sequence_ids(window), strict=True)
                if side == 1
            ]
            assert set(places) <= set(whole.offset_mapping), styled
            reached |= {place for start, end in places for place in range(start, end)}
        assert {place for place, character in enumerate(context) if not character.isspace()} <= reached, styled


def test_questions_about_characters_and_words_agree(tokenizers):
    for styled in tokenizers:
        encoded = styled(SENTENCE, return_offsets_mapping=True)
        for place, character in enumerate(SENTENCE):
            token = encoded.char_to_token(place)
            if character.isspace():
                assert token is None, styled
                continue
            span = encoded.token_to_chars(token)
            assert span.start <= place < span.end and tuple(span) == encoded.offset_mapping[token], styled
            word = encoded.char_to_word(place)
            assert word == encoded.token_to_word(token), styled
            first, last = encoded.word_to_tokens(word)
            assert first <= token < last, styled
            chars = encoded.word_to_chars(word)
            assert chars.start <= place < chars.end, styled
        assert encoded.char_to_token(len(SENTENCE)) is None, styled
        assert encoded.word_to_tokens(10_000) is None, styled
