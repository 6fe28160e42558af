"""The figures of the report, on texts small enough to count by hand."""

import itertools
import re
import string
from functools import partial
from typing import Any

import pytest
from front_end import CORPORA, PROPERTY
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tokenizers import Tokenizer, models

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.metrics import KORQUAD_SYMBOLS, korquad_exact_match, korquad_normalize
from kobert_pipeline.files import read_json, write_json
from kobert_pipeline.morphemes.morpheme_tokenizer import VOCABULARY_FILE, MorphemeTokenizer
from kobert_pipeline.morphemes.segmenter import Segmenter
from kobert_pipeline.tables.squad import paragraphs
from kobert_pipeline.tokenizer.plain import add_template, plain_backend
from kobert_pipeline.tokenizer.report import (
    BATCH,
    CHARACTERS_AT_ONCE,
    KINDS,
    Tally,
    around,
    ceiling,
    covered,
    evaluate_texts,
    html,
    markdown,
    paragraphs_with_answers,
    same_answer,
    unseen,
)
from kobert_pipeline.tokenizer.special_tokens import SPECIAL_TOKENS, UNK_ID
from kobert_pipeline.tokenizer.stage import TokenizerOptions, raw_files, run
from kobert_pipeline.tokenizer.tagged_morphemes import TaggingSegmenter
from kobert_pipeline.tokenizer.word_cuts import WordCuts, figures_of
from kobert_pipeline.tokenizer.word_cuts import markdown as cuts_markdown

PIECES = ["▁우리", "는", "▁집", "에", ".", "나", "▁나", "▁😀", "▁ㅋㅋ", "▁大", "▁ᄒᆞᆫ"]


def dressed(model):
    """`encode` and the plain tokenizer over `model`: an eojeol is a morpheme, without a mark at its end."""
    backend = Tokenizer(model)
    backend.add_special_tokens(SPECIAL_TOKENS)
    add_template(backend)
    tokenizer = MorphemeTokenizer(tokenizer_object=backend, analyzer="whitespace")
    return partial(tokenizer, add_special_tokens=False, return_offsets_mapping=True), plain_backend(backend)


@pytest.fixture(scope="module")
def words():
    vocabulary = {token: id_ for id_, token in enumerate([*SPECIAL_TOKENS, *PIECES])}
    return dressed(models.WordPiece(vocabulary, unk_token="[UNK]", continuing_subword_prefix=""))


@pytest.fixture(scope="module")
def letters():
    vocabulary = {token: id_ for id_, token in enumerate([*SPECIAL_TOKENS, "▁", "ㅋ", "나"])}
    return dressed(models.BPE(vocabulary, [], unk_token="[UNK]"))


# evaluate_texts


def test_rates_are_those_counted_by_hand(words):
    # ▁우리 는 ▁집 에 . | ▁우리 는 [UNK] ▁집 에 | [UNK], which the plain one spells ▁우리 [UNK] 는
    figures = evaluate_texts(["우리는 집에.", "우리는 쀍 집에", "우리,는"], *words, 16)
    assert figures == {
        "texts": 3,
        "characters": 6 + 6 + 4,
        "tokens_per_eojeol": round(11 / 6, 4),
        "tokens_per_morpheme": round(11 / 7, 4),
        "characters_per_token": round(16 / 11, 4),
        "unknown_rate": round(2 / 11, 6),
        "unknown_rate_of": {kind: {"tokens": 0, "rate": 0.0} for kind in ("emoji", "slang", "hanja", "old_hangul")},
        "texts_with_loss": 0,
        "loss_samples": [],
        "agreement_with_plain": round(5 / 6, 4),
        "tokens_used": 6,
        "share_of_text_by_commonest": {"16": 1.0},
    }


def test_no_texts_have_figures_too(words):
    figures = evaluate_texts([], *words, 16)
    assert (figures["texts"], figures["unknown_rate"], figures["tokens_used"]) == (0, 0.0, 0)
    assert figures["share_of_text_by_commonest"] == {}


@pytest.mark.parametrize(
    ("kind", "text", "tokens", "rate"),
    [
        ("emoji", "😀 😀나 🙃 나", 3, 0.333333),
        ("slang", "ㅋㅋ ㅠㅠ ㅋ 나", 2, 0.5),
        ("hanja", "大 韓 大나 나", 3, 0.333333),
        ("old_hangul", "ᄒᆞᆫ 나랏〮 나", 2, 0.5),
    ],
)
def test_unknown_rates_by_kind(kind: Any, text: Any, tokens: Any, rate: Any, words):
    found = evaluate_texts([text], *words, 16)["unknown_rate_of"]
    assert found == {name: {"tokens": 0, "rate": 0.0} for name in KINDS} | {kind: {"tokens": tokens, "rate": rate}}


@pytest.mark.parametrize(
    ("text", "tokens", "rate"),
    [
        ("ㅋㅋㅠ 나", 3, 0.333333),
        ("나ㅋㅋ나", 2, 0.0),
        ("ㅋ ㅋ ㅠ나ㅋ", 0, 0.0),
        ("나ㅠㅠㅋ ㅋㅋ", 5, 0.4),
    ],
)
def test_jamo_of_a_run_are_slang_one_by_one_too(text: Any, tokens: Any, rate: Any, letters):
    assert evaluate_texts([text], *letters, 8)["unknown_rate_of"]["slang"] == {"tokens": tokens, "rate": rate}


class Encoded(dict):
    def word_ids(self, row):
        return list(range(len(self["input_ids"][row])))


def forgetful(texts):
    """One token for each text, over all but its last character."""
    return Encoded(input_ids=[[5] for _ in texts], offset_mapping=[[(0, len(text) - 1)] for text in texts])


def test_texts_with_loss_are_counted_and_some_shown(words):
    texts = ["우리 ", *(f"{number} 우리" for number in range(6)), "가" * 300]
    figures = evaluate_texts(texts, forgetful, words[1], 16)
    assert figures["texts_with_loss"] == 7
    assert figures["loss_samples"] == ["0 우리", "1 우리", "2 우리", "3 우리", "4 우리"]
    assert evaluate_texts(texts[-1:], forgetful, words[1], 16)["loss_samples"] == ["가" * 100]


def test_the_commonest_tokens_share_of_the_text():
    tally = Tally()
    ids = [0] * 101 + list(range(1, 100))  # one token 101 times, 99 once
    tally.add("가" * 200, ids, [(place, place + 1) for place in range(200)], 200, [ids])
    figures = tally.figures(200)
    assert figures["tokens_used"] == 100
    assert figures["share_of_text_by_commonest"] == {"64": (101 + 63) / 200, "128": 1.0, "200": 1.0}


def test_texts_of_several_batches_are_all_counted(words):
    many = CHARACTERS_AT_ONCE // len("우리는 집에") + 1
    figures = evaluate_texts((text for text in ["우리는 집에"] * many + ["쀍"]), *words, 16)
    assert figures["texts"] == many + 1
    assert figures["unknown_rate"] == round(1 / (4 * many + 1), 6)


# covered


@pytest.mark.parametrize(
    ("text", "spans", "answer"),
    [
        ("나 는", [(0, 1), (2, 3)], True),
        ("나 는", [(0, 3)], True),
        ("나는", [(0, 2), (0, 1), (1, 2)], True),
        ("나는집", [(0, 3), (1, 2)], True),
        (" \n", [], True),
        ("", [(0, 0)], True),
        ("나는", [(0, 1)], False),
        ("나는", [(1, 2)], False),
        ("나는집", [(0, 1), (2, 3)], False),
        ("나는", [(1, 2), (0, 1)], False),
        ("나는", [(0, 2), (1, 0)], False),
        ("나는", [(0, 3)], False),
        ("나는", [(-1, 2)], False),
    ],
)
def test_covered(text: Any, spans: Any, answer: Any):
    assert covered(text, spans) is answer


@settings(PROPERTY, max_examples=200)
@given(data=st.data(), text=st.text("가 \n\u3000나", max_size=6), sound=st.booleans())
def test_covered_says_what_its_words_say(data, text, sound):
    place = st.integers(0, len(text)) if sound else st.integers(-1, 7)
    spans = data.draw(st.lists(st.tuples(place, place), max_size=6))
    spans = sorted((min(span), max(span)) for span in spans) if sound else spans
    starts = [start for start, _ in spans]
    inside = all(0 <= start <= end <= len(text) for start, end in spans)
    reached = {place for start, end in spans for place in range(start, end)}
    everything = all(place in reached or character.isspace() for place, character in enumerate(text))
    assert covered(text, spans) == (starts == sorted(starts) and inside and everything)


@PROPERTY
@given(boundaries=st.lists(st.integers(0, 12), max_size=8), lost=st.integers(0, 11))
def test_spans_that_leave_out_one_letter_do_not_cover(boundaries, lost):
    text = "가나다라마바사아자차카타"
    edges = sorted({0, 12, *boundaries})
    spans = list(itertools.pairwise(edges))
    assert covered(text, spans)
    assert not covered(
        text,
        [
            part
            for start, end in spans
            for part in ((start, min(end, lost)), (max(start, lost + 1), end))
            if part[0] < part[1]
        ],
    )


# the best EM that tokens allow


def spelled(marked):
    """A text written with | between its tokens, and their spans; no token holds white space."""
    text, spans = "", []
    for eojeol in marked.replace(" ", "\0 \0").replace("\n", "\0\n\0").split("\0"):
        for token in eojeol.split("|"):
            if token and not token.isspace():
                spans.append((len(text), len(text) + len(token)))
            text += token
    return text, spans


def asked(marked, *answers):
    """The figures for one question with `answers`, the first place of each."""
    text, spans = spelled(marked)
    question = {"answers": [{"text": answer, "answer_start": text.index(answer)} for answer in answers]}
    return ceiling([{"context": text, "qas": [question]}], lambda texts: {"offset_mapping": [spans for _ in texts]})


@pytest.mark.parametrize(
    ("marked", "answer", "on_borders", "reachable"),
    [
        ("나|는 서울|에 갔다|.", "서울", True, True),
        ("나|는 서울|에 갔다|.", "서울에 갔다", True, True),
        ("나|는 서울 갔다", "서울 ", False, True),
        ("나|는 서울 갔다", " 서울", False, True),
        ("나|는 서울\n갔다", "서울\n", False, True),
        ("나|는 갔다.", "갔다", False, True),
        ("나|는 (서울|)", "서울", False, True),
        ("(서울), 갔다", "서울", False, True),
        ("나|는 서울 갔다", "서울 갔다", True, True),
        ("나|는 서울|, 갔다", "서울, ", False, True),
        ("나|는 서울에 갔다", "서울", False, False),
        ("나|는 남서울 갔다", "서울", False, False),
        ("나|는 3.14", "14", False, False),
        ("서울.에", "서울", False, False),
    ],
)
def test_ceiling(marked: Any, answer: Any, on_borders: Any, reachable: Any):
    figures = asked(marked, answer)
    assert figures["answers"] == 1
    assert (figures["answers_on_borders_percent"], figures["ceiling_exact_match"]) == (
        100.0 * on_borders,
        100.0 * reachable,
    )
    assert figures["missed"] == len(figures["missed_samples"]) == (not reachable)


@pytest.mark.parametrize(
    ("marked", "answers"),
    [
        ("나|는 《서울》 갔다", ["서울"]),
        ("나|는 서울에 갔다", ["서울", "서울에"]),
    ],
)
def test_nothing_that_the_metric_allows_is_above_the_ceiling(marked: Any, answers: Any):
    text, spans = spelled(marked)
    best = max(
        korquad_exact_match(text[start:end], answer) for start, _ in spans for _, end in spans for answer in answers
    )
    assert asked(marked, *answers)["ceiling_exact_match"] == 100.0 * best == 100.0, (marked, answers)


@PROPERTY
@given(
    data=st.data(),
    edges=st.lists(st.text(string.punctuation + KORQUAD_SYMBOLS + " \n\u3000\x1c", max_size=3), min_size=6, max_size=6),
)
def test_the_ceiling_is_what_the_metric_gives_the_best_span(data, edges):
    text = edges[0] + "".join(letter + edge for letter, edge in zip("가나다라마", edges[1:], strict=True))
    boundaries = data.draw(st.sets(st.integers(0, len(text))))
    tokens = [
        list(group)
        for white, group in itertools.groupby(range(len(text)), lambda place: text[place].isspace())
        if not white
    ]
    spans = [
        span
        for token in tokens
        for span in itertools.pairwise(
            sorted({token[0], token[-1] + 1} | {b for b in boundaries if token[0] < b <= token[-1]})
        )
    ]
    left = data.draw(st.integers(0, len(text) - 1))
    answer = text[left : data.draw(st.integers(left + 1, len(text)))]
    assume(any(letter in "가나다라마" for letter in answer))
    best = max(korquad_exact_match(text[start:end], answer) for start, _ in spans for _, end in spans)
    question = {"answers": [{"text": answer, "answer_start": left}]}
    found = ceiling([{"context": text, "qas": [question]}], lambda texts: {"offset_mapping": [spans]})
    assert found["ceiling_exact_match"] == 100.0 * best


def test_the_ceiling_counts_over_all_questions():
    text, spans = spelled("나|는 서울에 갔다|.")
    questions = [
        {"answers": [{"text": answer, "answer_start": text.index(answer)}]}
        for answer in ("나", "서울", "갔다", "서울에", "갔")
    ]
    figures = ceiling(
        [{"context": text, "qas": questions}, {"context": "", "qas": []}], lambda texts: {"offset_mapping": [spans, []]}
    )
    assert figures == {
        "answers": 5,
        "answers_on_borders_percent": 60.0,
        "ceiling_exact_match": 60.0,
        "missed": 2,
        "missed_samples": ["나는 [서울]에 갔다.", "나는 서울에 [갔]다."],
    }


def test_no_answers_have_a_ceiling_too():
    unanswerable = [{"context": "서울", "qas": [{"answers": []}]}]
    assert ceiling(unanswerable, lambda texts: {"offset_mapping": [[(0, 2)]]})["answers"] == 0
    assert ceiling([], lambda texts: {"offset_mapping": []})["ceiling_exact_match"] == 0.0


def test_paragraphs_of_several_batches_are_all_asked():
    sizes = []

    def encode(texts):
        sizes.append(len(texts))
        return {"offset_mapping": [[(0, 2)] for _ in texts]}

    row = {"context": "서울", "qas": [{"answers": [{"text": "서울", "answer_start": 0}]}]}
    missed = {"context": "서울", "qas": [{"answers": [{"text": "울", "answer_start": 1}]}]}
    figures = ceiling([row] * BATCH + [missed] * 7, encode)
    assert sizes == [BATCH, 7]
    assert (figures["answers"], figures["missed"], len(figures["missed_samples"])) == (BATCH + 7, 7, 5)


@pytest.mark.parametrize(
    ("text", "place", "boundaries", "answer"),
    [
        ("서울", 1, {1}, True),
        ("서울", 1, {0, 2}, False),
        ("서 울", 1, {2}, True),
        ("서 울", 2, {1}, True),
        ("서., 울", 1, {4}, True),
        ("서., 울", 4, {1}, True),
        ("서.울", 1, {0, 3}, False),
        ("서.", 1, {2}, True),
        (".울", 1, {0}, True),
        ("서·울", 1, {2}, False),
        ("서울", 0, set(), False),
    ],
)
def test_same_answer(text: Any, place: Any, boundaries: Any, answer: Any):
    assert same_answer(text, place, boundaries) is answer


def test_what_the_metric_does_not_see_is_what_it_drops():
    characters = [chr(code) for code in range(0x20000)]
    assert [one for one in characters if unseen(one)] == [one for one in characters if not korquad_normalize(one)]


@pytest.mark.parametrize(
    ("left", "right", "shown"),
    [
        (12, 14, "cdefghijkl[mn]opqrstuvwx"),
        (0, 1, "[a]bcdefghijk"),
        (3, 3, "abc[]defghijklm"),
        (24, 26, "opqrstuvwx[yz]"),
    ],
)
def test_around(left: Any, right: Any, shown: Any):
    assert around(string.ascii_lowercase, left, right) == shown


# on the bundled questions


def reached(answer, text, spans):
    """Whether a span of tokens that touches the answer scores."""
    left, right = answer["answer_start"], answer["answer_start"] + len(answer["text"])
    begins = [start for start, _ in spans if left - 8 < start < right]
    ends = [end for _, end in spans if left < end < right + 8]
    return any(korquad_exact_match(text[start:end], answer["text"]) for start in begins for end in ends if start < end)


@pytest.mark.slow
@pytest.mark.parametrize("analyzer", ["kiwi", "whitespace"])
def test_the_ceiling_of_the_bundled_questions_is_that_of_a_recount(analyzer: Any, front_end):
    tokenizer = MorphemeTokenizer(vocab_file=front_end.tokenizer / VOCABULARY_FILE, analyzer=analyzer)
    encode = partial(tokenizer, add_special_tokens=False, return_offsets_mapping=True)
    rows = list(paragraphs(CORPORA / "qa_train.json"))
    scores = [
        reached(question["answers"][0], row["context"], encode(row["context"])["offset_mapping"])
        for row in rows
        for question in row["qas"]
    ]
    figures = ceiling(rows, encode)
    assert figures["answers"] == len(scores) > 50, analyzer
    assert figures["ceiling_exact_match"] == round(100 * sum(scores) / len(scores), 3), analyzer
    assert figures["missed"] == scores.count(False), analyzer
    assert (figures["missed"] > 0) == (analyzer == "whitespace"), analyzer


def test_the_stage_reports_every_source_and_the_answers(front_end, tmp_path):
    sources = {"reviews": {"name": "nsmc", "path": "reviews_test.txt"}}
    options = {"documents": 10, "sources": sources, "answers": "qa_dev.json"}
    counts = run(
        TokenizerOptions(subword={"name": "wordpiece", "vocab_size": 1000}, report=options),
        front_end.analysis,
        CORPORA,
        tmp_path,
    )
    figures, page = read_json(tmp_path / "report.json"), (tmp_path / "report.md").read_text(encoding="utf-8")
    assert figures["vocabulary"] == {"vocab_size": 1000, "style": "surface"}
    assert list(figures["sources"]) == ["corpus", "reviews"]
    assert figures["sources"]["reviews"]["texts"] == 60
    assert counts["unknown_rate"] == figures["sources"]["corpus"]["unknown_rate"]
    assert counts["ceiling_exact_match"] == figures["answers"]["ceiling_exact_match"]
    assert f"**{figures['answers']['ceiling_exact_match']} %** of {figures['answers']['answers']:,} answers" in page
    assert "| reviews | 60 |" in page
    explained = page.partition("\n\nAn eojeol is a word between spaces.")[2]
    assert "`plain/` is the tokenizer that needs no morphological analyzer" in explained


def test_missing_answers_are_refused_before_the_run():
    with pytest.raises(UserError, match=rf"gone\.json does not exist; .* data_dir \(now {CORPORA}\)"):
        raw_files(TokenizerOptions(report={"answers": "gone.json"}), CORPORA)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"question": "어디"}, "has no answers"),
        ({"answers": True}, "has no answers"),
        ({"answers": [{"text": "집", "answer_start": 600}]}, "cannot be read: answer_start is 600"),
        ({"answers": [{"text": "집", "answer_start": -1}]}, "cannot be read: answer_start is -1"),
        ({"answers": [{"text": "밭"}]}, "cannot be read: the context does not have the answer '밭'"),
    ],
)
def test_questions_without_answers_in_their_contexts_are_refused_before_the_training(question, message, tmp_path):
    paragraph = {"context": "나는 집에", "qas": [{"id": "q1", "answers": []}, {"id": "q2", **question}]}
    write_json(tmp_path / "blind.json", {"data": [{"paragraphs": [paragraph]}]})
    write_json(tmp_path / "analyzer.json", {})
    options = TokenizerOptions(report={"answers": "blind.json"})
    # a folder without parts, which training would refuse
    with pytest.raises(UserError, match=rf"blind\.json, question q2 {message}"):
        run(options, tmp_path, tmp_path, tmp_path)


def test_answers_are_read_in_the_forms_of_data_sets(tmp_path):
    answers = [{"text": "집", "answer_start": 3}, {"text": ["집"], "answer_start": [3]}, {"text": "집"}]
    qas = [{"id": str(number), "answers": answer} for number, answer in enumerate(answers)]
    write_json(tmp_path / "forms.json", {"data": [{"paragraphs": [{"context": "나는 집에", "qas": qas}]}]})
    [paragraph] = paragraphs_with_answers(tmp_path / "forms.json")
    assert [question["answers"] for question in paragraph["qas"]] == [[{"text": "집", "answer_start": 3}]] * 3


def test_no_source_of_a_report_takes_the_name_of_the_corpus():
    with pytest.raises(ValidationError, match="corpus is the name of the corpus itself"):
        TokenizerOptions(report={"sources": {"corpus": {"name": "text", "path": "a.txt"}}})


# words and how they are cut


def test_words_numbers_and_terms_are_listed_with_their_tokens(words):
    encode, plain = words
    cuts = WordCuts(terms=["우리는", "쀍", "집에", "집"])
    texts = ["나는 집에는 37 우리는에.", "집에는에 쀍 3.5 37", "우리는에 37, 집에"]
    evaluate_texts(texts, encode, plain, 16, cuts)
    figures = figures_of(cuts, encode, UNK_ID, {})
    assert figures["words"] == [
        {"word": "우리는에", "count": 2, "cut": "우리 는 에"},
        {"word": "집에는", "count": 1, "cut": "집 에 는"},
        {"word": "집에는에", "count": 1, "cut": "집 에 는 에"},
    ]
    assert figures["terms"] == [
        {"word": "우리는", "count": 2, "one_token": 0, "cut": "우리 는"},
        {"word": "쀍", "count": 1, "one_token": 0, "cut": "[UNK]"},
        {"word": "집에", "count": 3, "one_token": 0, "cut": "집 에"},
        {"word": "집", "count": 3, "one_token": 3, "cut": "집"},
    ]
    assert figures["numbers"] == [], "unknown ones have a single token"


def test_a_word_in_two_tokenizers_and_as_a_page(words):
    cuts = WordCuts(terms=["<b>"])
    cuts.add(["값은 750원"], [[(0, 1), (1, 2), (3, 5), (5, 6), (6, 7)]], [[False] * 5])
    other = partial(lambda texts, **_: {"input_ids": [[9]] * len(texts), "offset_mapping": [[(0, 9)]] * len(texts)})
    other.unk_token_id = UNK_ID
    figures = figures_of(cuts, words[0], UNK_ID, {"other|one": other})
    assert figures["numbers"] == [{"word": "750", "count": 1, "cut": "75 0", "others": {"other|one": "750"}}]
    page = html("\n".join(cuts_markdown(figures)))
    assert "<td>75 0</td>\n<td>750</td>" in page and "other|one" in page and "<b>" not in page
    assert "0 of 1 are one token by themselves. Not in the sample: &lt;b" in page


def test_another_tokenizer_cuts_a_word_at_the_same_place():
    """So the same tokenizer beside itself never differs, although 38 alone is one token here, and two in 제38조."""

    def itself(texts, **_):
        spans = [[match.span() for match in re.finditer(r"(?<=[가-힣])\d|\d+|[가-힣]+", text)] for text in texts]
        return {"input_ids": [[9] * len(of_text) for of_text in spans], "offset_mapping": spans}

    itself.unk_token_id = UNK_ID
    cuts, texts = WordCuts(), ["법률 제38조와 38쪽을 본다", "또한 제38조이다"]
    spans = itself(texts)["offset_mapping"]
    cuts.add(texts, spans, [[False] * len(of_text) for of_text in spans])
    numbers = figures_of(cuts, itself, UNK_ID, {"itself": itself})["numbers"]
    assert numbers == [{"word": "38", "count": 3, "cut": "3 8", "others": {"itself": "3 8"}}]


def test_words_that_an_analyzer_knows_have_no_particles_and_endings():
    """Words are 경우 (case) and not 경우에는 (in the case), 머물 (stay) and not 머물렀다 (stayed), and no name with a
    space."""
    text = "손해배상청구를 하였다. 원고들이 경우에는 3년을 알탄 칸에 머물렀다"
    cuts = WordCuts(TaggingSegmenter(Segmenter("kiwi")))
    cuts.add([text], [[(n, n + 1) for n, letter in enumerate(text) if letter != " "]], [[False] * len(text)])
    assert list(cuts.words) == ["손해배상청구", "하", "원고들", "경우", "년", "머물"]
    assert cuts.words["손해배상청구"] == {"손 해 배 상 청 구": 1} and list(cuts.numbers) == ["3"]


@pytest.mark.parametrize("missed", [[], ["[훈]민정음", "세[종]"]])
def test_answers_out_of_reach_are_quoted(missed: list[str]) -> None:
    answers = {"ceiling_exact_match": 98.5, "answers": 1200, "answers_on_borders_percent": 97.0}
    page = markdown({"vocabulary": {}, "sources": {}, "answers": answers | {"missed_samples": missed}})
    assert "Best EM these tokens allow: **98.5 %** of 1,200 answers" in page
    assert ("Out of reach, for example: [훈]민정음; 세[종]" in page) == bool(missed)
