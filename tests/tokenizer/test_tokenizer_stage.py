"""Training: the same corpus gives the same files, and tokens spell the text that they replace."""

from typing import Any

import pytest
from front_end import PROPERTY, VOCAB_SIZE, loaded
from hypothesis import given
from hypothesis import strategies as st

from kobert_pipeline.analysis.analyzed import read_analysis, write_analysis
from kobert_pipeline.corpus.document import document_parts
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json
from kobert_pipeline.morphemes.morpheme import MAX_MORPHEME_CHARACTERS, WORD_MARK
from kobert_pipeline.morphemes.morpheme_tokenizer import VOCABULARY_FILE
from kobert_pipeline.morphemes.raw_text_backend import read_morpheme_backend
from kobert_pipeline.tokenizer.special_tokens import SPECIAL_TOKENS, UNK_ID
from kobert_pipeline.tokenizer.stage import TokenizerOptions, advice, corpus_lines, run, sample
from kobert_pipeline.tokenizer.subword import Subword, alphabet_of
from kobert_pipeline.tokenizer.subwords.wordpiece import WordPiece


@pytest.fixture(scope="module")
def backend(front_end):
    return read_morpheme_backend(front_end.tokenizer / VOCABULARY_FILE)


@pytest.fixture(scope="module")
def rows(front_end):
    return [row for part in document_parts(front_end.analysis) for row in read_analysis(part)]


def train(front_end, out, size=VOCAB_SIZE, **options):
    out.mkdir()
    return run(TokenizerOptions(subword=WordPiece(vocab_size=size), **options), front_end.analysis, out, out)


@pytest.fixture(scope="module")
def again(front_end, tmp_path_factory):
    """(counts, folder) of the shared tokenizer, trained a second time."""
    out = tmp_path_factory.mktemp("again") / "tokenizer"
    return train(front_end, out), out


NARROW = {"size": 500, "limit_alphabet": 100}


@pytest.fixture(scope="module")
def narrow(front_end, tmp_path_factory):
    """(counts, folder) of a tokenizer whose alphabet lacks letters."""
    out = tmp_path_factory.mktemp("narrow") / "tokenizer"
    return train(front_end, out, **NARROW), out


def test_training_twice_gives_the_same_files(front_end, again, narrow, tmp_path):
    assert train(front_end, tmp_path / "narrow", **NARROW) == narrow[0]
    for first, second in ((front_end.tokenizer, again[1]), (narrow[1], tmp_path / "narrow")):
        files = [
            {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} for folder in (first, second)
        ]
        assert files[0] == files[1]
        assert {VOCABULARY_FILE, "tokenizer_config.json", "vocabulary.txt", "kiwi.py"} <= files[0].keys()
        assert "morpheme_tokenizer.py" in files[0] and "tokenizer.json" not in files[0]


def test_special_tokens_have_the_first_ids(backend, front_end):
    assert [backend.id_to_token(i) for i in range(5)] == SPECIAL_TOKENS
    lines = (front_end.tokenizer / "vocabulary.txt").read_text(encoding="utf-8").splitlines()
    assert lines[:5] == SPECIAL_TOKENS
    assert lines == [backend.id_to_token(i) for i in range(VOCAB_SIZE)]


def test_the_vocabulary_has_the_size_asked_for(backend, tokenizer, narrow):
    assert backend.get_vocab_size() == len(tokenizer) == VOCAB_SIZE
    assert narrow[0]["vocab_size"] == NARROW["size"]


def test_a_vocabulary_too_large_for_the_text_is_refused_with_what_it_supports(front_end, tmp_path):
    with pytest.raises(UserError, match=r"vocab_size is 500000, but this corpus supports (\d+) tokens") as raised:
        train(front_end, tmp_path / "large", size=500_000)
    supported = int(str(raised.value).split("supports ")[1].split()[0])
    assert VOCAB_SIZE < supported < 500_000


@pytest.mark.parametrize(
    ("found", "limit_alphabet", "remedy"),
    [
        (100, None, "set both tokenizer.subword.vocab_size=100 and tokenizer.limit_alphabet=40, or add text"),
        (99, None, "the smallest vocabulary has 100, so add text"),
        (99, 40, "the smallest vocabulary has 100, so raise tokenizer.limit_alphabet (now 40), or add text"),
    ],
)
def test_what_is_advised_for_too_little_text_is_allowed(found: Any, limit_alphabet: Any, remedy: Any):
    options = TokenizerOptions(limit_alphabet=limit_alphabet)
    assert advice(options, found, 40, 0) == remedy, (limit_alphabet, remedy)
    with pytest.raises(ValueError, match="greater than or equal to 100"):
        WordPiece(vocab_size=99)


def test_tokens_join_back_to_the_marked_morphemes(backend, rows):
    known = 0
    for row in rows:
        encoding = backend.encode(row.words(), is_pretokenized=True, add_special_tokens=False)
        joined = [""] * len(row.segmentation)
        unknown = set()
        for id_, token, word in zip(encoding.ids, encoding.tokens, encoding.word_ids, strict=True):
            joined[word] += token
            unknown |= {word} if id_ == UNK_ID else set()
        assert [one for i, one in enumerate(joined) if i not in unknown] == [
            one for i, one in enumerate(row.words()) if i not in unknown
        ]
        known += len(joined) - len(unknown)
    assert known > 0.97 * sum(len(row.segmentation) for row in rows)


def test_a_letter_without_a_token_makes_its_morpheme_unknown(narrow):
    counts, folder = narrow
    assert counts["alphabet"] == 100
    assert counts["unknown_rate"] > 0.01
    alphabet = {token for token in loaded(folder).get_vocab() if len(token) == 1}
    assert len(alphabet) == 100
    assert WORD_MARK in alphabet


def test_no_token_is_longer_than_a_marked_morpheme_or_holds_a_mark_inside(backend):
    tokens = [token for token in backend.get_vocab() if token not in SPECIAL_TOKENS]
    assert max(map(len, tokens)) <= MAX_MORPHEME_CHARACTERS + 1
    assert not [token for token in tokens if WORD_MARK in token[1:]]
    assert not [token for token in tokens if any(character.isspace() for character in token)]
    assert not [token for token in tokens if token.startswith("##")]


def test_the_longest_morpheme_can_be_spelled(backend):
    word = WORD_MARK + "다" * MAX_MORPHEME_CHARACTERS
    encoding = backend.encode([word], is_pretokenized=True, add_special_tokens=False)
    assert "".join(encoding.tokens) == word


def test_every_token_is_in_some_morpheme_of_the_corpus(backend, rows):
    """Nothing is merged across morphemes, nor over a letter that was left out of the alphabet."""
    corpus = "\n".join({token for row in rows for token in row.words()})
    assert [token for token in backend.get_vocab() if token not in SPECIAL_TOKENS and token not in corpus] == []


def test_the_report_counts_what_it_says(again, backend, rows):
    counts, _ = again
    encodings = [backend.encode(row.words(), is_pretokenized=True, add_special_tokens=False).ids for row in rows]
    tokens = sum(map(len, encodings))
    assert counts["tokens_per_morpheme"] == pytest.approx(tokens / sum(len(row.segmentation) for row in rows), abs=1e-4)
    assert counts["tokens_per_eojeol"] == pytest.approx(
        tokens / sum(len(row.document.text.split()) for row in rows), abs=1e-4
    )
    assert counts["unknown_rate"] == pytest.approx(sum(ids.count(UNK_ID) for ids in encodings) / tokens, abs=1e-6)


def test_the_saved_config_names_analyzer_and_version(front_end, kiwi):
    config = read_json(front_end.tokenizer / "tokenizer_config.json")
    assert (config["analyzer"], config["style"]) == ("kiwi", "surface")
    assert config["analyzer_version"] == kiwi.version


def test_the_corpus_is_a_document_a_line(front_end, rows):
    lines = list(corpus_lines(front_end.analysis))
    assert [line.split(" ") for line in lines] == [row.words() for row in rows]


def test_a_limit_takes_the_first_documents_of_each_part(rows, tmp_path):
    write_analysis(tmp_path / "part-00000.parquet", rows)
    write_analysis(tmp_path / "part-00001.parquet", rows[::-1])
    count = len(rows) // 3
    limit = sum(len(row.document.text) for row in (*rows[:count], *rows[::-1][:count]))
    lines = list(corpus_lines(tmp_path, limit=limit))
    words = [" ".join(row.words()) for row in rows]
    taken = next(index for index, line in enumerate(lines) if line == words[-1])
    assert 0 < taken < len(rows)
    assert lines == [*words[:taken], *words[::-1][: len(lines) - taken]]
    longest = max(len(row.document.text) for row in rows)
    read = sum(len(row.document.text) for row in (*rows[:taken], *rows[::-1][: len(lines) - taken]))
    assert limit <= read < limit + 2 * longest
    assert list(corpus_lines(tmp_path, limit=10**9)) == [*words, *words[::-1]]


@pytest.mark.parametrize(("documents", "expected"), [(4, (4, 1)), (10, (8, 2)), (10**6, (40, 10))])
def test_the_report_reads_the_same_share_of_every_part(rows, tmp_path, documents, expected):
    of_parts = [(rows * 40)[:40], rows[:1] * 10]
    for number, of_part in enumerate(of_parts):
        write_analysis(tmp_path / f"part-0000{number}.parquet", of_part)
    texts, count = sample(tmp_path, documents)
    taken = [
        of_part[index * len(of_part) // size].document.text
        for of_part, size in zip(of_parts, expected, strict=True)
        for index in range(size)
    ]
    assert (list(texts), count) == (taken, sum(expected))


def test_the_vocabulary_is_learned_from_the_characters_of_the_limit(front_end, tmp_path):
    train(front_end, tmp_path / "limited", size=500, limit_characters=5_000)
    with pytest.raises(UserError, match="this corpus supports"):
        train(front_end, tmp_path / "less", limit_characters=5_000)


# the alphabet


@pytest.mark.parametrize(
    ("lines", "limit", "alphabet"),
    [
        (["나 가 다"], 2, ["가", "나"]),
        (["다 다 나 가"], 2, ["가", "다"]),
        (["bab", "b c"], 2, ["a", "b"]),
        (["가"], 5, ["가"]),
        ([], 5, []),
        (["  "], 5, []),
    ],
)
def test_the_alphabet_is_the_commonest_letters_in_code_order(lines: Any, limit: Any, alphabet: Any):
    assert alphabet_of(lines, limit) == alphabet


@PROPERTY
@given(lines=st.lists(st.text("가나다abc ", max_size=20), max_size=6), limit=st.integers(1, 8), data=st.data())
def test_the_alphabet_does_not_depend_on_the_order_of_the_lines(lines, limit, data):
    assert alphabet_of(lines, limit) == alphabet_of(data.draw(st.permutations(lines)), limit)


def test_special_tokens_in_the_text_do_not_disturb_the_vocabulary(front_end):
    lines = [*corpus_lines(front_end.analysis), "▁[ MASK ] ▁[MASK] [PAD]"] * 2
    backend = WordPiece(vocab_size=1500).train(lambda: iter(lines), alphabet_of(lines, 1000), SPECIAL_TOKENS)
    assert [backend.id_to_token(i) for i in range(5)] == SPECIAL_TOKENS


def test_an_unknown_subword_model_is_answered_with_a_guess():
    with pytest.raises(UserError, match="did you mean 'wordpiece'"):
        Subword.variant("word_piece")
