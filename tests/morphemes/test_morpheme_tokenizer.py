"""Calling the tokenizer: ids, exact offsets in the text as given, and everything HF's own fast tokenizers can do."""

import itertools
import json
import pickle
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from front_end import PROPERTY, any_text, composed_text, loaded, nfc, nfd, solid, visible_text
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kobert_pipeline.analysis.analyzed import AnalyzedDocument
from kobert_pipeline.morphemes.morpheme_tokenizer import VOCABULARY_FILE, MorphemeTokenizer
from kobert_pipeline.morphemes.normalization import remove_invisible
from kobert_pipeline.morphemes.raw_text_backend import read_morpheme_backend
from kobert_pipeline.tokenizer.special_tokens import CLS_ID, MASK_ID, PAD_ID, SEP_ID, SPECIAL_TOKENS

PLAIN = "그 배우는 무대 위에서 노래했다. 사람들이 웃었다."
TEXTS = [
    PLAIN,
    "  탭\t과\n줄  바꿈 했다 ",
    "재밌었다ㅋㅋㅋㅋ 👨‍👩‍👧‍👦 강추😀😀!!",
    "大韓民國 1.5km, e-mail@a.kr 갔다",
    "쀍쀍 했다",
    "ᄒᆞᆫ글 나〮랏〮말〯",
]
DECOMPOSED = [*TEXTS, "가\u0301나다", "か゚ が했다", "e\u0301tude 했다", "Ạ\u030a 갔다"]


def spans(encoded):
    """Offsets of the tokens that are no special tokens."""
    return [
        span for span, special in zip(encoded.offset_mapping, encoded.special_tokens_mask, strict=True) if not special
    ]


def ask(tokenizer, text, **options):
    return tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True, **options)


@pytest.fixture
def own(front_end):
    """A tokenizer that a test may change."""
    return MorphemeTokenizer.from_pretrained(front_end.tokenizer)


# offsets


@settings(PROPERTY, max_examples=80)
@given(text=composed_text)
@example(text=PLAIN)
@example(text="▁가 a▁b ▁")
def test_offsets_cover_every_character_but_white_space_once(front_end, text):
    places = [place for start, end in spans(ask(loaded(front_end.tokenizer), text)) for place in range(start, end)]
    assert places == solid(text)


@settings(PROPERTY, max_examples=80)
@given(text=visible_text.map(nfd))
@example(text="가 \u0dd9\u0ddf")
def test_offsets_in_decomposed_text_cover_every_character_but_white_space(front_end, text):
    found = spans(ask(loaded(front_end.tokenizer), text))
    assert sorted({place for start, end in found for place in range(start, end)}) == solid(text)
    assert [start for start, _ in found] == sorted(start for start, _ in found)


def test_ids_are_equal_and_offsets_name_the_same_letters_in_nfc_and_nfd(tokenizer):
    for text in DECOMPOSED:
        composed, decomposed = nfc(text), nfd(text)
        first, second = ask(tokenizer, composed), ask(tokenizer, decomposed)
        assert first.input_ids == second.input_ids
        letters = [nfc(decomposed[start:end]) for start, end in spans(second)]
        assert letters == [composed[start:end] for start, end in spans(first)]


@settings(PROPERTY, max_examples=80)
@given(text=any_text)
def test_ids_do_not_depend_on_the_normal_form(front_end, text):
    tokenizer = loaded(front_end.tokenizer)
    assert tokenizer(nfd(text)).input_ids == tokenizer(nfc(text)).input_ids == tokenizer(text).input_ids


def test_words_are_the_morphemes(tokenizer, kiwi):
    for text in TEXTS:
        encoded = ask(tokenizer, text)
        words = {}
        for word, (start, end) in zip(encoded.word_ids(), encoded.offset_mapping, strict=True):
            if word is not None:
                words.setdefault(word, []).append((start, end))
        (found,) = kiwi.segment([text])
        assert [(spans[0][0], spans[-1][1]) for _, spans in sorted(words.items())] == [
            (morpheme.start, morpheme.end) for morpheme in found
        ]


@pytest.mark.parametrize("text", [PLAIN, nfd("무대했다"), "재밌었다ㅋㅋ 😀 쀍"])
def test_every_character_finds_a_token_that_covers_it(text: Any, tokenizer):
    encoded = ask(tokenizer, text)
    for place in solid(nfc(text)) if nfc(text) == text else [0]:
        start, end = encoded.offset_mapping[encoded.char_to_token(place)]
        assert start <= place < end, text


def test_ids_are_those_of_the_morphemes_on_every_bundled_document(front_end, tokenizer, kiwi, bundled):
    backend = read_morpheme_backend(front_end.tokenizer / VOCABULARY_FILE)
    documents = [replace(document, text=remove_invisible(document.text)) for document in bundled]
    segmentations = kiwi.segment([document.text for document in documents])
    wanted = [
        backend.encode(AnalyzedDocument(document, found).words(), is_pretokenized=True).ids
        for document, found in zip(documents, segmentations, strict=True)
    ]
    texts = [document.text for document in bundled]
    assert tokenizer(texts).input_ids == wanted
    assert tokenizer([nfd(text) for text in texts]).input_ids == wanted


# the forms a call can take


def test_a_single_text_is_framed_by_cls_and_sep(tokenizer):
    encoded = ask(tokenizer, PLAIN)
    assert (encoded.input_ids[0], encoded.input_ids[-1]) == (CLS_ID, SEP_ID)
    assert encoded.special_tokens_mask == [1, *[0] * (len(encoded.input_ids) - 2), 1]
    assert encoded.token_type_ids == [0] * len(encoded.input_ids)
    assert tokenizer(PLAIN, add_special_tokens=False).input_ids == encoded.input_ids[1:-1]


def test_a_pair_is_its_sides_between_separators(tokenizer):
    first, second = TEXTS[1], TEXTS[2]
    encoded = ask(tokenizer, first, text_pair=second)
    one, other = (tokenizer(text, add_special_tokens=False).input_ids for text in (first, second))
    assert encoded.input_ids == [CLS_ID, *one, SEP_ID, *other, SEP_ID]
    assert encoded.token_type_ids == [0] * (len(one) + 2) + [1] * (len(other) + 1)
    for side, text in enumerate((first, second)):
        places = [
            i
            for span, of in zip(encoded.offset_mapping, encoded.sequence_ids(), strict=True)
            if of == side
            for i in range(*span)
        ]
        assert places == solid(text)


def test_batches_of_pairs_equal_single_pairs(tokenizer):
    for pairing, form in itertools.product(["two lists", "tuples", "lists of two"], [nfc, nfd]):
        pairs = [(form(one), form(other)) for one, other in zip(TEXTS, reversed(TEXTS), strict=True)]
        calls = {
            "two lists": [list(side) for side in zip(*pairs, strict=True)],
            "tuples": [pairs],
            "lists of two": [[list(pair) for pair in pairs]],
        }
        batch = tokenizer(*calls[pairing], return_offsets_mapping=True)
        singles = [tokenizer(one, other, return_offsets_mapping=True) for one, other in pairs]
        for key in ("input_ids", "token_type_ids", "attention_mask", "offset_mapping"):
            assert batch[key] == [single[key] for single in singles], (pairing, form)


def test_a_batch_equals_its_texts(tokenizer):
    batch = ask(tokenizer, [*TEXTS, "", TEXTS[0]])
    singles = [ask(tokenizer, text) for text in [*TEXTS, "", TEXTS[0]]]
    for key in batch:
        assert batch[key] == [single[key] for single in singles]


@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_is_masked_and_on_the_side_asked_for(side: Any, own):
    own.padding_side = side
    lengths = [len(own(text).input_ids) for text in TEXTS]
    batch = ask(own, TEXTS, padding=True, pad_to_multiple_of=8)
    width = -(-max(lengths) // 8) * 8
    for length, ids, mask, special, offsets in zip(
        lengths,
        *(batch[key] for key in ("input_ids", "attention_mask", "special_tokens_mask", "offset_mapping")),
        strict=True,
    ):
        pads = slice(length, width) if side == "right" else slice(0, width - length)
        assert len(ids) == len(mask) == width, side
        assert ids[pads] == [PAD_ID] * (width - length), side
        assert [i for i, bit in enumerate(mask) if bit == 0] == list(range(width))[pads], side
        assert set(special[pads]) <= {1}, side
        assert set(offsets[pads]) <= {(0, 0)}, side


def test_settings_of_one_call_do_not_last(tokenizer):
    before = tokenizer(PLAIN).input_ids
    tokenizer(PLAIN, truncation=True, max_length=4, padding="max_length")
    assert tokenizer(PLAIN).input_ids == before


@pytest.mark.parametrize("strategy", ["only_first", "only_second", "longest_first"])
def test_truncation_keeps_the_front_of_each_side(strategy: Any, tokenizer):
    one, other = (tokenizer(text, add_special_tokens=False).input_ids for text in (PLAIN, TEXTS[2]))
    encoded = tokenizer(
        PLAIN, TEXTS[2], truncation=strategy, max_length=len(one) + len(other), return_offsets_mapping=True
    )
    assert len(encoded.input_ids) == len(one) + len(other), strategy
    sides = [
        [id_ for id_, of in zip(encoded.input_ids, encoded.sequence_ids(), strict=True) if of == side]
        for side in (0, 1)
    ]
    assert sides == [one[: len(sides[0])], other[: len(sides[1])]], strategy
    if strategy != "longest_first":
        assert sides[strategy == "only_first"] == [one, other][strategy == "only_first"], strategy


@pytest.mark.parametrize("form", [nfc, nfd])
def test_stride_gives_overlapping_windows_with_offsets_in_the_whole_text(form: Any, tokenizer):
    contexts = [form(" ".join(TEXTS * 3)), form(PLAIN)]
    questions = ["누가 웃었나?", "어디?"]
    options = {
        "truncation": "only_second",
        "max_length": 32,
        "stride": 8,
        "return_overflowing_tokens": True,
        "padding": "max_length",
    }
    windows = ask(tokenizer, questions, text_pair=contexts, **options)
    assert windows.overflow_to_sample_mapping.count(0) > 3, form
    assert windows.overflow_to_sample_mapping.count(1) >= 1, form
    for sample, context in enumerate(contexts):
        mine = [i for i, of in enumerate(windows.overflow_to_sample_mapping) if of == sample]
        whole = ask(tokenizer, context)
        wanted = list(zip(whole.input_ids, whole.offset_mapping, strict=True))[1:-1]
        joined = []
        for i in mine:
            assert len(windows.input_ids[i]) == 32, form
            window = [
                pair
                for pair, side in zip(
                    zip(windows.input_ids[i], windows.offset_mapping[i], strict=True),
                    windows.sequence_ids(i),
                    strict=True,
                )
                if side == 1
            ]
            assert not joined or joined[-8:] == window[:8], form
            joined += window[8:] if joined else window
        assert joined == wanted, form


def test_a_single_text_overflows_into_windows(tokenizer):
    text = " ".join(TEXTS)
    windows = ask(tokenizer, text, truncation=True, max_length=16, stride=4, return_overflowing_tokens=True)
    assert set(windows.overflow_to_sample_mapping) == {0}
    assert sorted({place for row in windows.offset_mapping for span in row for place in range(*span)}) == solid(text)


def test_words_given_ready_keep_their_numbers_and_their_own_offsets(tokenizer):
    for form, kind in itertools.product([nfc, nfd], [list, tuple]):
        sentences = [kind(form(text).split()) for text in TEXTS]
        batch = tokenizer(sentences, is_split_into_words=True, return_offsets_mapping=True)
        for i, words in enumerate(sentences):
            single = tokenizer(list(words), is_split_into_words=True, return_offsets_mapping=True)
            assert single.input_ids == batch.input_ids[i], (form, kind)
            assert single.offset_mapping == batch.offset_mapping[i], (form, kind)
            places = [[] for _ in words]
            for word, span in zip(batch.word_ids(i), batch.offset_mapping[i], strict=True):
                if word is not None:
                    places[word] += range(*span)
            assert places == [list(range(len(word))) for word in words], (form, kind)


@pytest.mark.parametrize(("kind", "array"), [("pt", torch.Tensor), ("np", np.ndarray)])
def test_tensors_hold_what_the_lists_hold(kind: Any, array: Any, tokenizer):
    single = ask(tokenizer, PLAIN, return_tensors=kind)
    plain = ask(tokenizer, PLAIN)
    assert tuple(single.offset_mapping.shape) == (1, len(plain.input_ids), 2), (kind, array)
    for key in plain:
        assert isinstance(single[key], array), (kind, array)
        assert np.array_equal(np.asarray(single[key][0]), np.asarray(plain[key])), (kind, array)
    batch = ask(tokenizer, TEXTS, return_tensors=kind, padding=True)
    lists = ask(tokenizer, TEXTS, padding=True)
    for key in lists:
        assert np.array_equal(np.asarray(batch[key]), np.asarray(lists[key])), (kind, array)


# special tokens and odd texts


def test_special_tokens_in_a_text_are_special_unless_disabled(tokenizer):
    text = "무대 [MASK] 위 [SEP][PAD]했다[CLS]"
    assert tokenizer(text, add_special_tokens=False).input_ids.count(MASK_ID) == 1
    literal = tokenizer(text, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True)
    assert not {PAD_ID, CLS_ID, SEP_ID, MASK_ID} & set(literal.input_ids)
    assert [place for span in literal.offset_mapping for place in range(*span)] == solid(text)
    assert tokenizer(text, add_special_tokens=False).input_ids.count(MASK_ID) == 1, "the option holds for one call"


def test_a_mask_within_an_eojeol_begins_no_new_one(tokenizer):
    tokens = tokenizer("무대[MASK]다 그[MASK] 다").tokens()
    places = [i for i, token in enumerate(tokens) if token == "[MASK]"]
    assert [tokens[place + 1] for place in places] == ["다", "▁다"]


def test_decoding_gives_the_text_back(tokenizer, bundled):
    lines = [line for document in bundled[:82] for line in document.text.split("\n")]
    encoded = tokenizer(lines).input_ids
    known = [(line, ids) for line, ids in zip(lines, encoded, strict=True) if tokenizer.unk_token_id not in ids]
    assert len(known) > 100
    assert tokenizer.batch_decode([ids for _, ids in known], skip_special_tokens=True) == [
        " ".join(line.split()) for line, _ in known
    ]


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_an_empty_text_is_only_its_frame(text: Any, tokenizer):
    encoded = ask(tokenizer, text)
    assert encoded.input_ids == [CLS_ID, SEP_ID], text
    assert encoded.offset_mapping == [(0, 0), (0, 0)], text


def test_no_words_are_only_a_frame(tokenizer):
    assert tokenizer([], is_split_into_words=True, return_offsets_mapping=True).input_ids == [CLS_ID, SEP_ID]


@pytest.mark.parametrize(
    "options", [{}, {"return_offsets_mapping": True}, {"padding": True, "truncation": True, "max_length": 8}]
)
def test_an_empty_batch_is_empty(options: Any, tokenizer):
    encoded = tokenizer([], **options)
    assert encoded["input_ids"] == [], options
    assert encoded["attention_mask"] == [], options


@pytest.mark.parametrize(
    ("text", "visible"),
    [("무\ud800대 갔다", "무대 갔다"), ("\udfff", ""), ("무대 \ud83d", "무대"), ("무\x00대", "무대")],
)
def test_half_characters_and_null_bytes_have_no_token(text: Any, visible: Any, tokenizer):
    assert tokenizer(text).input_ids == tokenizer(visible).input_ids


@pytest.mark.parametrize("word", ["ㅋ" * 100_000, "x" * 100_000, "무대했다" * 5_000])
def test_an_endless_word_is_tokenized_whole(word: Any, tokenizer):
    places = [place for span in spans(ask(tokenizer, word)) for place in range(*span)]
    assert places == list(range(len(word))), word


# saving, pickling


def test_saving_and_loading_gives_the_same_tokenizer(own, tmp_path, bundled):
    texts = [*TEXTS, *(document.text for document in bundled[:20])]
    before = own(texts).input_ids
    own.save_pretrained(tmp_path)
    assert "tokenizer.json" not in {path.name for path in tmp_path.iterdir()}
    again = MorphemeTokenizer.from_pretrained(tmp_path)
    assert again(texts).input_ids == before
    assert again.get_vocab() == own.get_vocab()
    assert [again.init_kwargs[key] for key in ("analyzer", "analyzer_version")] == [
        own.init_kwargs[key] for key in ("analyzer", "analyzer_version")
    ]
    again.save_pretrained(tmp_path / "again")
    for name in (VOCABULARY_FILE, "tokenizer_config.json"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / name).read_bytes()


@pytest.mark.parametrize("way", ["saved", "pickled"])
def test_added_tokens_keep_their_ids(own, tmp_path, way):
    own.add_tokens(["새말뭉치"])
    own.add_special_tokens({"additional_special_tokens": ["[USR]"]})
    text = "이건 새말뭉치 이다 [USR] 했다"
    wanted = own(text, return_offsets_mapping=True)
    assert {"새말뭉치", "[USR]"} <= set(wanted.tokens())
    own.save_pretrained(tmp_path)
    again = MorphemeTokenizer.from_pretrained(tmp_path) if way == "saved" else pickle.loads(pickle.dumps(own))
    found = again(text, return_offsets_mapping=True)
    assert (found.input_ids, found.offset_mapping, found.tokens()) == (
        wanted.input_ids,
        wanted.offset_mapping,
        wanted.tokens(),
    )
    assert len(again) == len(own)


def test_settings_survive_pickling(own):
    own.model_max_length, own.padding_side, own.truncation_side = 77, "left", "left"
    again = pickle.loads(pickle.dumps(own))
    assert (again.model_max_length, again.padding_side, again.truncation_side) == (77, "left", "left")


def test_a_pickled_tokenizer_gives_the_same_ids(tokenizer):
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again(TEXTS).input_ids == tokenizer(TEXTS).input_ids
    assert ask(again, TEXTS).offset_mapping == ask(tokenizer, TEXTS).offset_mapping


def test_another_analyzer_version_warns_and_names_both(front_end, tmp_path):
    tokenizer = MorphemeTokenizer.from_pretrained(front_end.tokenizer)
    tokenizer.save_pretrained(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    here = config["analyzer_version"]
    path.write_text(json.dumps(config | {"analyzer_version": "kiwipiepy 0.1, model 0.0"}), encoding="utf-8")
    with pytest.warns(UserWarning) as warned:
        MorphemeTokenizer.from_pretrained(tmp_path)
    assert any("kiwipiepy 0.1, model 0.0" in str(one.message) and here in str(one.message) for one in warned)


def test_the_same_analyzer_version_does_not_warn(front_end, recwarn):
    MorphemeTokenizer.from_pretrained(front_end.tokenizer)
    assert not [one for one in recwarn if "vocabulary was made with" in str(one.message)]


def test_a_folder_without_vocabulary_is_refused(front_end, tmp_path):
    (tmp_path / "tokenizer_config.json").write_bytes((front_end.tokenizer / "tokenizer_config.json").read_bytes())
    with pytest.raises((ValueError, OSError), match=VOCABULARY_FILE):
        MorphemeTokenizer.from_pretrained(tmp_path)


@settings(PROPERTY, max_examples=40)
@given(texts=st.lists(any_text, min_size=1, max_size=6), seed=st.integers(0, 9))
def test_the_batch_around_a_text_does_not_change_it(front_end, texts, seed):
    tokenizer = loaded(front_end.tokenizer)
    shuffled = random.Random(seed).sample(texts, len(texts))
    found = dict(zip(shuffled, tokenizer(shuffled).input_ids, strict=True))
    assert all(found[text] == tokenizer(text).input_ids for text in texts)


def test_special_tokens_are_the_first_ids(tokenizer):
    assert tokenizer.convert_tokens_to_ids(SPECIAL_TOKENS) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("batch", [["가", ("가", "다")], [("가", "다"), "가"]])
def test_a_batch_of_texts_and_pairs_is_refused(batch: Any, tokenizer):
    with pytest.raises(ValueError, match="single texts or pairs"):
        tokenizer(batch)


def test_what_is_no_text_is_refused(tokenizer):
    """With the exceptions that the tokenizers of `transformers` raise."""
    for error, text, pair in [
        (TypeError, ["가", "나"], "다"),
        (ValueError, ["가", "나"], ["다"]),
        (ValueError, [1, 2], None),
        (ValueError, ["가", 2], None),
        (ValueError, 5, None),
    ]:
        with pytest.raises(error, match="text"):
            tokenizer(text, pair)
    with pytest.raises(ValueError, match="not int"):
        tokenizer([["가", 5]], is_split_into_words=True)


def test_one_id_is_decoded(tokenizer):
    [id_] = tokenizer("나", add_special_tokens=False).input_ids
    assert tokenizer.decode(id_) == "나"


def test_a_new_vocabulary_is_left_to_the_pipeline(tokenizer):
    with pytest.raises(NotImplementedError, match="kobert tokenizer"):
        tokenizer.train_new_from_iterator([["가"]], 100)


def test_what_truncation_removed_is_located_in_the_text_too(tokenizer):
    text = " ".join(TEXTS)
    windows = tokenizer(text, truncation=True, max_length=16, stride=4, return_overflowing_tokens=True).encodings
    first, others = windows[0], windows[1:]
    assert len(first) == 16 and len(others) > 2
    assert [window.offsets for window in first.overflowing] == [window.offsets for window in others]
    assert first.words == first.word_ids and first.words[1] == 0
    assert [window.words for window in first.overflowing] == [window.word_ids for window in others]


@pytest.mark.parametrize(("clean_up", "text"), [(None, "나는 ."), (False, "나는 ."), (True, "나는.")])
def test_spaces_before_punctuation_go_where_that_is_asked_for(clean_up: Any, text: Any, tokenizer):
    ids = tokenizer("나는 .", add_special_tokens=False).input_ids
    assert tokenizer.decode(ids, clean_up_tokenization_spaces=clean_up) == text
