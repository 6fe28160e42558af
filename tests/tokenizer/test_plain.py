"""The tokenizer that needs no analyzer."""

import json
import os
import unicodedata
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from front_end import BLANKS, PROPERTY, any_text, composed_text, marks, nfd, sprinkle
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from kobert_pipeline.analysis.analyzed import read_analysis
from kobert_pipeline.corpus.document import document_parts
from kobert_pipeline.files import read_json
from kobert_pipeline.morphemes.morpheme import WORD_MARK
from kobert_pipeline.morphemes.morpheme_tokenizer import VOCABULARY_FILE
from kobert_pipeline.morphemes.raw_text_backend import read_morpheme_backend
from kobert_pipeline.tokenizer.plain import PLAIN, ids_by_eojeol
from kobert_pipeline.tokenizer.report import covered
from kobert_pipeline.tokenizer.special_tokens import SPECIAL_TOKENS
from kobert_pipeline.tokenizer.stage import TokenizerOptions, run

TEXTS = ["무대 위에서 했다", "재밌었다ㅋㅋ 😀\t쀍", "(3.14%) 갔다.", ""]
ELSEWHERE = """
import json, sys
for name in ("kobert_pipeline", "kiwipiepy", "mecab"): sys.modules[name] = None
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
texts = json.loads(sys.argv[2])
alone, pair = tokenizer(texts, return_offsets_mapping=True), tokenizer(texts[0], texts[1])
print(json.dumps({
    "vocabulary": tokenizer.get_vocab(), "size": len(tokenizer), "fast": tokenizer.is_fast,
    "special": [getattr(tokenizer, name + "_token_id") for name in ("pad", "unk", "cls", "sep", "mask")],
    "ids": alone.input_ids, "offsets": alone.offset_mapping, "pair": dict(pair),
    "text": tokenizer.decode(alone.input_ids[0], skip_special_tokens=True),
}))
"""


@pytest.fixture(scope="module")
def plain(front_end):
    return Tokenizer.from_file(str(front_end.tokenizer / PLAIN / "tokenizer.json"))


@pytest.fixture(scope="module")
def elsewhere(fresh, front_end, tmp_path_factory):
    """The output of `AutoTokenizer` on the folder in a process without the package and without analyzers."""
    place = tmp_path_factory.mktemp("elsewhere")
    environment = os.environ | {"HF_HOME": str(place), "HF_HUB_OFFLINE": "1"}
    result = fresh(ELSEWHERE, front_end.tokenizer / PLAIN, json.dumps(TEXTS), env=environment, cwd=place, timeout=120)
    assert result.code == 0, result.err[-3000:]
    return json.loads(result.out.splitlines()[-1])


def ids(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


# elsewhere


def test_it_loads_elsewhere_with_the_same_vocabulary(elsewhere, tokenizer):
    assert elsewhere["vocabulary"] == tokenizer.get_vocab()
    assert elsewhere["size"] == len(tokenizer)
    assert elsewhere["fast"]


def test_special_tokens_have_the_same_ids_elsewhere(elsewhere, tokenizer):
    assert (
        elsewhere["special"] == [tokenizer.convert_tokens_to_ids(token) for token in SPECIAL_TOKENS] == [0, 1, 2, 3, 4]
    )


def test_it_gives_the_same_ids_elsewhere(elsewhere, plain):
    assert elsewhere["ids"] == [plain.encode(text).ids for text in TEXTS]
    assert elsewhere["text"] == TEXTS[0]


def test_it_dresses_the_input_as_bert_does(elsewhere, plain):
    first, second = (ids(plain, text) for text in TEXTS[:2])
    assert elsewhere["pair"]["input_ids"] == [2, *first, 3, *second, 3]
    assert elsewhere["pair"]["token_type_ids"] == [0] * (len(first) + 2) + [1] * (len(second) + 1)
    assert elsewhere["pair"]["attention_mask"] == [1] * len(elsewhere["pair"]["input_ids"])


def test_offsets_elsewhere_are_inside_the_text(elsewhere):
    for text, spans in zip(TEXTS, elsewhere["offsets"], strict=True):
        assert covered(text, [tuple(span) for span in spans[1:-1]])


def test_the_folder_holds_no_code(front_end):
    assert list((front_end.tokenizer / PLAIN).glob("*.py")) == []
    assert "auto_map" not in read_json(front_end.tokenizer / PLAIN / "tokenizer_config.json")


@PROPERTY
@given(text=composed_text, marks=marks)
@example(text="재미있다", marks=[(1, "\u200b")])
@example(text="각", marks=[(0, "\ufeff")])
@example(text="▁", marks=[(0, "\ufeff")])
def test_invisible_characters_have_no_token_here_either(plain, text, marks):
    marked, before = sprinkle(text, marks)
    expected, encoded = (plain.encode(each) for each in (text, marked))
    assert encoded.ids == expected.ids
    # a word mark that is a token of its own has no characters
    own = [index for index, token in enumerate(expected.tokens) if token != WORD_MARK]
    spans = [(before[start], before[end]) for start, end in encoded.offsets]
    assert [spans[index] for index in own] == [expected.offsets[index] for index in own]


# offsets


@PROPERTY
@given(text=any_text)
def test_offsets_are_inside_the_text_and_never_run_back(plain, text):
    spans = plain.encode(text, add_special_tokens=False).offsets
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    assert all(one[0] <= other[0] and one[1] <= other[1] for one, other in pairwise(spans))


@PROPERTY
@given(text=composed_text)
def test_offsets_reach_every_character_of_composed_text(plain, text):
    assert covered(text, plain.encode(text, add_special_tokens=False).offsets)


def test_offsets_in_decomposed_text_end_at_the_first_jamo_of_a_syllable(plain):
    """The limit that plain.py documents: NFC of `tokenizers` gives a composed syllable only that place."""
    text = "무대 위에서 각"
    places = [len(nfd(text[:place])) for place in range(len(text))]
    expected = [
        (places[start], places[end - 1] + 1) for start, end in plain.encode(text, add_special_tokens=False).offsets
    ]
    assert plain.encode(nfd(text), add_special_tokens=False).offsets == expected
    assert not covered(nfd(text), expected)


# tokens


@pytest.mark.parametrize(
    "text", ["나는 집에 갔다 ", "나는\n집에\t갔다", "나는  \u3000 집에\xa0갔다", nfd("나는 집에 갔다")]
)
def test_white_space_and_composition_change_no_id(text: Any, plain):
    assert ids(plain, text) == ids(plain, "나는 집에 갔다")


@pytest.mark.parametrize("before", [" ", "\n\t", "\r\n", "\u3000 ", "\x1c", "\x85"])
def test_white_space_before_the_text_changes_no_id(before: Any, plain):
    assert ids(plain, before + "나는 집에") == ids(plain, "나는 집에")


@PROPERTY
@given(
    text=st.text("나는집에.(쀍", min_size=1, max_size=6),
    edges=st.lists(st.sampled_from(BLANKS), min_size=3, max_size=3),
)
def test_all_white_space_is_alike(plain, text, edges):
    before, between, after = edges
    assert ids(plain, f"{before}{text}{between}{text}{after}") == ids(plain, f"{text} {text}")


@pytest.mark.parametrize(
    "text", ["나는 [MASK] 집에", "나는\n[MASK]\t\n집에 ", " [MASK] 집에", "[MASK] [MASK]  집에", "나는[MASK] "]
)
def test_an_eojeol_after_a_mask_begins_with_the_mark(text: Any, plain, tokenizer):
    assert ids(plain, text) == tokenizer(text, add_special_tokens=False).input_ids


def test_white_space_around_a_mask_is_no_token(plain, tokenizer):
    text = "나는 [MASK] 집에"
    assert ids(plain, text) == [*ids(plain, "나는"), 4, *ids(plain, "집에")]
    assert ids(plain, text) == tokenizer(text, add_special_tokens=False).input_ids


def test_what_follows_a_mask_without_a_space_continues_its_eojeol(plain):
    assert plain.encode("나는 [MASK]에", add_special_tokens=False).tokens[-2:] == ["[MASK]", "에"]


def test_punctuation_is_separate(plain, bundled):
    for document in bundled[::10]:
        for token in plain.encode(document.text, add_special_tokens=False).tokens:
            letters = token.removeprefix(WORD_MARK)
            if token not in SPECIAL_TOKENS:
                assert len(letters) <= 1 or not [
                    letter for letter in letters if unicodedata.category(letter)[0] in "PS"
                ]


def test_a_long_run_is_not_unknown_as_a_whole(plain):
    found = ids(plain, "다" * 500)
    assert len(found) > 1
    assert 1 not in found


# agreement


@pytest.fixture(scope="module", params=["3000 tokens", "600 tokens"])
def measured(request, front_end, tmp_path_factory):
    """A tokenizer's folder whose report covers the whole corpus."""
    if request.param == "3000 tokens":
        return front_end.tokenizer
    out = tmp_path_factory.mktemp("measured")
    run(TokenizerOptions(subword={"name": "wordpiece", "vocab_size": 600}), front_end.analysis, out, out)
    return out


def test_the_agreement_in_the_report_is_that_of_a_recount(front_end, measured):
    backend = read_morpheme_backend(measured / VOCABULARY_FILE)
    plain = Tokenizer.from_file(str(measured / PLAIN / "tokenizer.json"))
    rows = [row for part in document_parts(front_end.analysis) for row in read_analysis(part)]
    agreeing = total = 0
    for row in rows:
        encoding = backend.encode(row.words(), is_pretokenized=True, add_special_tokens=False)
        eojeol_of = np.cumsum(row.segmentation.initial)[encoding.word_ids]
        own = [part.tolist() for part in np.split(encoding.ids, np.flatnonzero(np.diff(eojeol_of)) + 1)]
        others = [ids(plain, eojeol) for eojeol in row.document.text.split()]
        agreeing += sum(one == other for one, other in zip(own, others, strict=True))
        total += len(others)
    figures = read_json(measured / "report.json")["sources"]["corpus"]
    assert figures["texts"] == len(rows)
    assert figures["agreement_with_plain"] == round(agreeing / total, 4)
    assert 0.5 < agreeing / total < 1


@pytest.mark.parametrize(
    ("text", "spans", "found"),
    [
        ("나는 집", [(0, 1), (1, 2), (3, 4)], [[0, 1], [2]]),
        ("나는 집", [(0, 2), (2, 4)], [[0], [1]]),
        ("나는 집", [(0, 2), (3, 3), (3, 4)], [[0], [1, 2]]),
        ("나 는 집", [(0, 1), (4, 5)], [[0], [], [1]]),
        (" 나 ", [(1, 2)], [[0]]),
        ("나", [], [[]]),
        (" ", [], []),
        (" ", [(0, 1)], []),
    ],
)
def test_a_token_belongs_to_the_eojeol_of_its_end(text: Any, spans: Any, found: Any):
    assert ids_by_eojeol(text, list(range(len(spans))), spans) == found
