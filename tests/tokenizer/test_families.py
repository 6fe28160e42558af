"""Every family of subword models fulfils the same contract."""

import itertools
import re
from typing import Any

import pytest
from front_end import loaded

from kobert_pipeline.analysis.analyzed import read_analysis
from kobert_pipeline.corpus.document import document_parts
from kobert_pipeline.errors import UserError
from kobert_pipeline.morphemes.morpheme import WORD_MARK
from kobert_pipeline.morphemes.morpheme_tokenizer import VOCABULARY_FILE, MorphemeTokenizer
from kobert_pipeline.morphemes.raw_text_backend import read_morpheme_backend
from kobert_pipeline.tokenizer.report import covered
from kobert_pipeline.tokenizer.special_tokens import SPECIAL_TOKENS, UNK_ID
from kobert_pipeline.tokenizer.stage import TokenizerOptions, corpus_lines, run
from kobert_pipeline.tokenizer.subword import Subword, alphabet_of

FAMILIES = ["bpe", "unigram", "wordpiece"]
SIZE = 1000
STRANGE = "쀍"


def train(front_end, out, family, size=SIZE, **options):
    out.mkdir()
    subword = {"name": family, "vocab_size": size}
    return run(TokenizerOptions(subword=subword, report={"documents": 10}, **options), front_end.analysis, out, out)


def spelled(backend, morpheme):
    """The pieces of a morpheme in a row; an unknown part is [UNK], whatever the family calls it in `tokens`."""
    ids = backend.encode([morpheme], is_pretokenized=True, add_special_tokens=False).ids
    return "".join(backend.id_to_token(id_) for id_ in ids)


@pytest.fixture(scope="module")
def folders(front_end, tmp_path_factory):
    """A trained tokenizer of every family."""
    made = {family: tmp_path_factory.mktemp("families") / family for family in FAMILIES}
    for family, out in made.items():
        assert train(front_end, out, family)["vocab_size"] == SIZE
    return made


@pytest.fixture(scope="module")
def backends(folders):
    return {family: read_morpheme_backend(folder / VOCABULARY_FILE) for family, folder in folders.items()}


@pytest.fixture(scope="module")
def rows(front_end):
    return [row for part in document_parts(front_end.analysis) for row in read_analysis(part)]


def test_the_families_are_all_there_are():
    assert Subword.names() == FAMILIES


def test_special_tokens_have_the_first_ids(folders, backends):
    for family in FAMILIES:
        assert [backends[family].id_to_token(i) for i in range(5)] == SPECIAL_TOKENS, family
        assert [backends[family].token_to_id(token) for token in SPECIAL_TOKENS] == list(range(5)), family
        lines = (folders[family] / "vocabulary.txt").read_text(encoding="utf-8").splitlines()
        assert lines[:5] == SPECIAL_TOKENS, family
        assert sorted(loaded(folders[family]).all_special_ids) == list(range(5)), family


def test_the_vocabulary_has_the_size_asked_for_and_no_gaps(folders, backends):
    for family in FAMILIES:
        assert backends[family].get_vocab_size() == len(loaded(folders[family])) == SIZE, family
        assert sorted(backends[family].get_vocab().values()) == list(range(SIZE)), family


def test_training_twice_gives_the_same_bytes(front_end, folders, tmp_path):
    for family in FAMILIES:
        train(front_end, tmp_path / f"again-{family}", family)
        first, second = (
            {path.relative_to(place): path.read_bytes() for path in place.rglob("*") if path.is_file()}
            for place in (folders[family], tmp_path / f"again-{family}")
        )
        assert first.keys() == second.keys(), family
        assert [name for name in first if first[name] != second[name]] == [], family


def test_pieces_join_back_to_the_marked_morphemes(backends, rows):
    for family in FAMILIES:
        known = total = 0
        for row in rows:
            encoding = backends[family].encode(row.words(), is_pretokenized=True, add_special_tokens=False)
            joined, unknown = [""] * len(row.segmentation), set()
            for id_, token, word in zip(encoding.ids, encoding.tokens, encoding.word_ids, strict=True):
                joined[word] += token
                unknown |= {word} if id_ == UNK_ID else set()
            pairs = [pair for word, pair in enumerate(zip(joined, row.words(), strict=True)) if word not in unknown]
            assert [pair for pair in pairs if pair[0] != pair[1]] == [], family
            known, total = known + len(pairs), total + len(joined)
        assert known > 0.9 * total, family


def test_every_piece_is_a_part_of_some_morpheme(backends, rows):
    for family in FAMILIES:
        corpus = "\n".join({piece for row in rows for piece in row.words()})
        assert [
            piece for piece in backends[family].get_vocab() if piece not in SPECIAL_TOKENS and piece not in corpus
        ] == [], family


def test_every_letter_of_the_alphabet_has_a_piece(front_end, backends):
    for family in FAMILIES:
        alphabet = alphabet_of(corpus_lines(front_end.analysis), SIZE // 2)
        assert set(alphabet) == {piece for piece in backends[family].get_vocab() if len(piece) == 1}, family


def test_a_letter_without_a_piece_is_unknown(backends):
    for family in FAMILIES:
        assert spelled(backends[family], f"{WORD_MARK}학{STRANGE}교") == (
            "[UNK]" if family == "wordpiece" else f"{WORD_MARK}학[UNK]교"
        ), family


@pytest.mark.parametrize(("family", "unknown"), [("bpe", "[UNK][UNK]"), ("unigram", "[UNK]")])
def test_neighbouring_letters_without_pieces(family: Any, unknown: Any, backends):
    """`tokenizers` joins them to one [UNK] in its unigram model and has no switch for it."""
    assert spelled(backends[family], f"{WORD_MARK}학{STRANGE}{STRANGE}교") == f"{WORD_MARK}학{unknown}교", (
        family,
        unknown,
    )


def test_an_unknown_letter_in_a_text_has_its_place(folders):
    for family in FAMILIES:
        text = f"나는 {STRANGE} 집에 갔다"
        encoded = loaded(folders[family])(text, add_special_tokens=False, return_offsets_mapping=True)
        assert [span for id_, span in zip(encoded.input_ids, encoded.offset_mapping, strict=True) if id_ == UNK_ID] == [
            (3, 4)
        ], family
        assert covered(text, encoded.offset_mapping), family


def test_a_size_beyond_the_text_is_refused_with_one_that_works(front_end, tmp_path):
    for size, family in itertools.product([500_000, 3_600], FAMILIES):
        with pytest.raises(UserError, match=rf"vocab_size is {size}, but this corpus supports \d+ tokens") as raised:
            train(front_end, tmp_path / f"large-{family}-{size}", family, size)
        supported, named, letters = map(
            int, re.search(r"supports (\d+) .* set both \S+=(\d+) and \S+=(\d+),", str(raised.value)).groups()
        )
        assert SIZE < supported == named < size, (size, family)
        assert (
            train(front_end, tmp_path / f"fitting-{family}-{size}", family, supported, limit_alphabet=letters)[
                "vocab_size"
            ]
            == supported
        ), (size, family)


def test_a_size_below_special_tokens_and_alphabet_is_refused(front_end, tmp_path):
    for family in FAMILIES:
        with pytest.raises(UserError, match=r"vocab_size is 100, which has no room .*limit_alphabet \(now 96\)"):
            train(front_end, tmp_path / f"small-{family}", family, 100, limit_alphabet=96)


def test_a_size_of_special_tokens_and_alphabet_alone_will_do(front_end, tmp_path):
    for family in FAMILIES:
        train(front_end, tmp_path / f"letters-{family}", family, 100, limit_alphabet=95)
        pieces = (tmp_path / f"letters-{family}" / "vocabulary.txt").read_text(encoding="utf-8").splitlines()
        assert len(pieces) == 100, family
        assert [len(piece) for piece in pieces[5:]] == [1] * 95, family


def test_an_alphabet_that_spells_nothing_is_refused(front_end, tmp_path):
    for family in FAMILIES:
        with pytest.raises(
            UserError,
            match=r"supports \d tokens; the smallest .* 100, so raise tokenizer\.limit_alphabet \(now 1\), or add text",
        ):
            train(front_end, tmp_path / f"nothing-{family}", family, 150, limit_alphabet=1)


def test_a_letter_that_a_trainer_may_reserve_is_one_like_others():
    for family in FAMILIES:
        for letter in ["▅", "\0", "\ufffd"]:
            lines = [f"▁값 ▁▂{letter} ▁나 는"] * 4
            alphabet = alphabet_of(lines, 50)
            backend = Subword.variant(family)(vocab_size=100).train(
                lambda lines=lines: iter(lines), alphabet, SPECIAL_TOKENS
            )
            assert (
                {piece for piece in backend.get_vocab() if len(piece) == 1}
                == set(alphabet)
                == set(f"{WORD_MARK}값▂{letter}나는")
            ), family
            assert spelled(backend, f"나{letter}는") == f"나{letter}는", family


def test_special_tokens_in_the_lines_do_not_disturb_the_vocabulary():
    for family in FAMILIES:
        for line in ["▁나 는 [PAD] ▁집 에 ▁[MASK] ▁간다", "▁나 [UNK] [UNK]는 <unk> <s> ▁</s>", "[PAD]", "<unk>"]:
            lines = [line] * 20
            backend = Subword.variant(family)(vocab_size=100).train(
                lambda lines=lines: iter(lines), alphabet_of(lines, 50), SPECIAL_TOKENS
            )
            assert [backend.token_to_id(token) for token in SPECIAL_TOKENS] == list(range(5)), family
            assert sorted(backend.get_vocab().values()) == list(range(backend.get_vocab_size())), family
            assert set(line) - {" "} <= backend.get_vocab().keys(), family


def test_nothing_to_learn_from_leaves_the_special_tokens():
    for family in FAMILIES:
        backend = Subword.variant(family)(vocab_size=100).train(lambda: iter([]), [], SPECIAL_TOKENS)
        assert backend.get_vocab() == {token: id_ for id_, token in enumerate(SPECIAL_TOKENS)}, family


def test_a_saved_copy_gives_the_same_ids_and_places(folders, bundled, tmp_path):
    for family in FAMILIES:
        loaded(folders[family]).save_pretrained(tmp_path / family)
        texts = [document.text[:200] for document in bundled[::5]] + [f"{STRANGE} [MASK] 😀"]
        first, second = (
            one(texts, return_offsets_mapping=True)
            for one in (loaded(folders[family]), MorphemeTokenizer.from_pretrained(tmp_path / family))
        )
        assert first["input_ids"] == second["input_ids"], family
        assert first["offset_mapping"] == second["offset_mapping"], family
