"""A vocabulary derived from another one: what keeps its id, and what a new token starts from."""

import itertools
import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from front_end import VOCAB_SIZE, loaded
from tokenizers import Tokenizer

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json, write_json
from kobert_pipeline.morphemes.morpheme_tokenizer import VOCABULARY_FILE
from kobert_pipeline.morphemes.raw_text_backend import read_morpheme_backend
from kobert_pipeline.tokenizer.growing import CONFIG_FILE, MIN_USES, ORIGINS_FILE, base_files, grown_alphabet
from kobert_pipeline.tokenizer.special_tokens import UNK_ID
from kobert_pipeline.tokenizer.stage import (
    TokenizerOptions,
    corpus_lines,
    other_files,
    other_tokenizers,
    raw_files,
    run,
)

MODELS = Path(__file__).parents[2] / "models"

OLD, NEW = 800, 1500


def train(front_end, out, size=NEW, family="wordpiece", **options):
    out.mkdir()
    subword = {"name": family, "vocab_size": size}
    run(
        TokenizerOptions(subword=subword, report={"documents": 10}, **options),
        front_end.analysis,
        front_end.tokenizer.parent,
        out,
    )
    return out


def vocabulary(folder):
    return (folder / "vocabulary.txt").read_text(encoding="utf-8").splitlines()


def longest_matches(pieces, word):
    """The ids of `word`, always the longest piece first; nothing where a part cannot be spelled."""
    found = []
    while word:
        length = next((length for length in range(len(word), 0, -1) if word[:length] in pieces), None)
        if length is None:
            return []
        found.append(pieces.index(word[:length]))
        word = word[length:]
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("growing")


@pytest.fixture(scope="module")
def old(front_end, place):
    return train(front_end, place / "old", OLD)


@pytest.fixture(scope="module")
def grown(front_end, place, old):
    return train(front_end, place / "grown", base=str(old))


@pytest.fixture(scope="module")
def swapped(front_end, place, old):
    return train(front_end, place / "swapped", base=str(old), keep="nothing")


# keep: all


def test_grown_old_pieces_keep_their_ids(old, grown):
    assert vocabulary(grown)[:OLD] == vocabulary(old)
    assert len(vocabulary(grown)) == len(set(vocabulary(grown))) == NEW


def test_grown_new_pieces_are_the_first_that_training_anew_learns_and_numbers_come_last(old, front_end, tmp_path):
    grown, swapped = (
        train(front_end, tmp_path / keep, base=str(old), keep=keep, limit_alphabet=400) for keep in ("all", "nothing")
    )
    lacking = [piece for piece in vocabulary(swapped) if piece not in vocabulary(old)]
    lacking.sort(key=lambda piece: len(piece.strip("▁")) > 1 and re.search(r"\d", piece) is not None)
    assert re.search(r"\d", lacking[-1])
    assert vocabulary(grown)[OLD:] == lacking[: NEW - OLD]


def test_grown_new_characters_are_the_commonest_and_none_that_is_rare(old, grown, front_end):
    used = Counter("".join(corpus_lines(front_end.analysis)).replace(" ", ""))
    lacking = sorted(used.keys() - set(vocabulary(old)), key=lambda character: (-used[character], character))
    new = [piece for piece in vocabulary(grown)[OLD:] if len(piece) == 1]
    assert len(new) == (NEW - OLD) // 4 and used[lacking[len(new)]] >= MIN_USES, "the share is what limits them here"
    assert new == sorted(lacking[: len(new)])


def test_grown_new_characters_occur_several_times(old):
    base = read_morpheme_backend(old / VOCABULARY_FILE)
    assert "다" in base.get_vocab() and not {"㎡", "學"} & base.get_vocab().keys()
    lines = ["㎡" * MIN_USES, "學" * (MIN_USES - 1) + " 다"]
    assert grown_alphabet(lines, base, NEW) == sorted("㎡다")
    assert grown_alphabet(lines, base, OLD + 3) == ["다"], "a quarter of three tokens is none"


def test_grown_origins_are_the_old_ids_of_their_spelling(old, grown):
    before, origins = vocabulary(old), read_json(grown / ORIGINS_FILE)
    assert origins[:OLD] == [[id_] for id_ in range(OLD)]
    assert origins[OLD:] == [longest_matches(before, piece) for piece in vocabulary(grown)[OLD:]]
    assert {min(len(ids), 2) for ids in origins[OLD:]} == {0, 2}


def test_grown_special_tokens_stay_special(old, grown):
    before, after = (
        {id_: token.content for id_, token in loaded(one).added_tokens_decoder.items()} for one in (old, grown)
    )
    assert before == after == dict(enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))


def test_grown_tokenizer_uses_its_new_pieces(old, grown, bundled):
    texts = [document.text[:200] for document in bundled[:40]]
    before, after = ([id_ for ids in loaded(one)(texts).input_ids for id_ in ids] for one in (old, grown))
    assert max(before) < OLD <= max(after) < NEW
    assert 0 < after.count(UNK_ID) < before.count(UNK_ID)


def test_growing_twice_gives_the_same_bytes(front_end, old, grown, tmp_path):
    again = train(front_end, tmp_path / "again", base=str(old))
    for name in (VOCABULARY_FILE, ORIGINS_FILE, "vocabulary.txt"):
        assert (again / name).read_bytes() == (grown / name).read_bytes()


def test_a_base_larger_than_the_size_asked_for_is_refused(front_end, tmp_path):
    with pytest.raises(
        UserError, match=f"vocab_size is {NEW}, but the {VOCAB_SIZE} tokens of tokenizer.base .* keep: nothing"
    ):
        train(front_end, tmp_path / "smaller", NEW, base=str(front_end.tokenizer))


def test_what_is_advised_where_too_little_text_grows_a_base_is_accepted(front_end, old, tmp_path):
    with pytest.raises(UserError, match="supports") as refused:
        train(front_end, tmp_path / "large", 500_000, base=str(old))
    advised = int(re.search(r"set tokenizer.subword.vocab_size=(\d+) or less", str(refused.value))[1])
    assert advised > NEW
    assert len(vocabulary(train(front_end, tmp_path / "fits", advised, base=str(old)))) == advised


def test_a_base_of_the_size_asked_for_stays_as_it_is(front_end, old, tmp_path):
    assert vocabulary(train(front_end, tmp_path / "same", OLD, base=str(old))) == vocabulary(old)


# keep: nothing


def test_swapped_vocabulary_is_what_training_without_a_base_gives(front_end, swapped, tmp_path):
    anew = train(front_end, tmp_path / "anew")
    assert (anew / VOCABULARY_FILE).read_bytes() == (swapped / VOCABULARY_FILE).read_bytes()
    assert not (anew / ORIGINS_FILE).exists()


def test_swapped_origins_are_the_old_ids_of_their_spelling(old, swapped):
    before = vocabulary(old)
    assert read_json(swapped / ORIGINS_FILE) == [longest_matches(before, piece) for piece in vocabulary(swapped)]


@pytest.mark.parametrize("family", ["bpe", "unigram"])
def test_swapped_origins_from_another_family_spell_the_piece(front_end, tmp_path, family):
    old = train(front_end, tmp_path / "old", OLD, family)
    swapped = train(front_end, tmp_path / "swapped", NEW, base=str(old), keep="nothing")
    before, after = vocabulary(old), vocabulary(swapped)
    model, letters = (
        Tokenizer.from_file(str(old / VOCABULARY_FILE)).model,
        {piece for piece in before if len(piece) == 1},
    )
    for piece, origins in zip(after, read_json(swapped / ORIGINS_FILE), strict=True):
        if piece in before:
            assert origins == [before.index(piece)]
        else:
            assert origins == [token.id for token in model.tokenize(piece) if token.id != UNK_ID]
            assert "".join(before[id_] for id_ in origins) == "".join(letter for letter in piece if letter in letters)


# what cannot be


@pytest.mark.parametrize("family", ["bpe", "unigram"])
def test_a_family_that_cannot_grow_is_refused_before_anything_is_read(family: Any, kobert):
    result = kobert("check", "tiny", "--set", f"tokenizer.subword.name={family}", "--set", "tokenizer.base=gone")
    assert f"a {family} vocabulary cannot grow" in result.complaint, family
    assert "keep: nothing" in result.complaint, family


@pytest.mark.parametrize(("family", "model"), [("bpe", "BPE"), ("unigram", "Unigram")])
def test_a_base_of_a_family_that_cannot_grow_is_refused(front_end, tmp_path, family, model):
    old = train(front_end, tmp_path / "old", OLD, family)
    with pytest.raises(UserError, match=f"a {model} vocabulary cannot grow.*keep: nothing"):
        train(front_end, tmp_path / "grown", base=str(old))


@pytest.mark.parametrize("base", ["gone", "documents"])
def test_a_base_that_is_no_tokenizer_folder_is_refused_in_one_sentence(base: Any, kobert, corpora):
    result = kobert("check", "tiny", "--set", f"data_dir={corpora}", "--set", f"tokenizer.base={base}")
    assert f"tokenizer.base: {Path.cwd() / base / VOCABULARY_FILE} does not exist" in result.complaint
    assert "name a folder that `kobert` published" in result.complaint, base


def test_the_plain_export_is_no_base(old):
    with pytest.raises(UserError, match=VOCABULARY_FILE):
        base_files(old / "plain")


def test_a_vocabulary_without_its_settings_is_no_base(old, tmp_path):
    shutil.copy(old / VOCABULARY_FILE, tmp_path)
    with pytest.raises(UserError, match=r"tokenizer_config\.json does not exist"):
        raw_files(TokenizerOptions(base="."), tmp_path)


@pytest.mark.parametrize(("key", "value"), [("style", "form"), ("analyzer", "mecab")])
def test_a_base_made_otherwise_than_the_analysis_is_refused(key: Any, value: Any, front_end, old, tmp_path):
    base = shutil.copytree(old, tmp_path / key)
    write_json(base / "tokenizer_config.json", read_json(base / "tokenizer_config.json") | {key: value})
    with pytest.raises(UserError, match=f"made with {key} '{value}', the analysis with"):
        train(front_end, tmp_path / f"grown-{key}", base=str(base))


def test_a_base_whose_files_hold_something_else_is_refused_in_one_sentence(front_end, old, tmp_path):
    contents = ["version https://git-lfs.github.com/spec/v1\nsize 1\n", "[]", '"text"', ""]
    for case, (content, name) in enumerate(itertools.product(contents, [VOCABULARY_FILE, CONFIG_FILE])):
        base = shutil.copytree(old, tmp_path / f"base-{case}")
        (base / name).write_text(content)
        with pytest.raises(UserError, match=name) as raised:
            train(front_end, tmp_path / f"grown-{case}", base=str(base))
        assert "\n" not in str(raised.value), (content, name)


TERMS = ["주주총회소집절차", "관세율표", "모델", "한글날", "영화"]
"""Two that the bundled texts do not have, and three that they do, of which the last is frequent enough for training."""


@pytest.fixture(scope="module")
def with_terms(front_end, place):
    """The analysis with a user dictionary, as the stage reads it."""
    analysis = Path(shutil.copytree(front_end.analysis, place / "analysis-of-terms"))
    settings = read_json(analysis / "analyzer.json")
    # and a compound that Kiwi knows with a space, as the stage adds it to a word; no token has a space
    words = [[term, "NNG", 12.0] for term in [*TERMS, "관세 율표"]]
    write_json(analysis / "analyzer.json", settings | {"user_words": words})
    return replace(front_end, analysis=analysis)


@pytest.mark.parametrize("size", [NEW, OLD], ids=["grown", "only-words"])
@pytest.mark.parametrize("base", [None, OLD])
def test_words_of_the_user_dictionary_are_tokens_after_all_others(base, size, with_terms, old, tmp_path):
    options = {} if base is None else {"base": str(old)}
    before = vocabulary(train(with_terms, tmp_path / "before", size, **options))
    folder = train(with_terms, tmp_path / "after", size, user_words=True, **options)
    after = vocabulary(folder)
    forms = [mark + term for term in TERMS for mark in ("▁", "")]
    missing = [form for form in forms if form not in before]
    assert missing
    assert len(before) == size and after == before + missing
    if base:
        assert after[:OLD] == vocabulary(old)
        origins = read_json(folder / ORIGINS_FILE)
        assert len(origins) == len(after) and any(len(origins[after.index(form)]) > 1 for form in missing)
    tokenizer = loaded(folder)
    assert tokenizer.tokenize("관세율표를 보았다")[0] == "▁관세율표"


def test_words_do_not_hide_that_a_corpus_is_too_small(with_terms, tmp_path):
    analysis = Path(shutil.copytree(with_terms.analysis, tmp_path / "analysis"))
    words = [["다" * length, "NNG", 12.0] for length in range(2, 99)]
    write_json(analysis / "analyzer.json", read_json(analysis / "analyzer.json") | {"user_words": words})
    with pytest.raises(UserError, match="but this corpus supports"):
        train(replace(with_terms, analysis=analysis), tmp_path / "out", 100_000, user_words=True)


def test_the_report_sets_the_base_and_another_that_is_named_beside(grown, old, front_end, tmp_path):
    others = read_json(grown / "report.json")["others"]
    corpus = read_json(old / "report.json")["sources"]["corpus"]
    assert others == {old.name: {name: corpus[name] for name in others[old.name]}}
    assert f"| corpus, by {old.name} | {corpus['texts']} | {corpus['tokens_per_eojeol']} |" in (
        grown / "report.md"
    ).read_text(encoding="utf-8")
    report = {"documents": 10, "compare_with": str(grown)}
    options = TokenizerOptions(base=str(old), report=report)
    assert list(other_tokenizers(options, tmp_path)) == [old.name, grown.name]
    assert other_tokenizers(TokenizerOptions(report={"documents": 10}), tmp_path) == {}
    for name in ("a", "b"):
        shutil.copytree(old, tmp_path / name / "publish" / "mlm")
    options = TokenizerOptions(base="a/publish/mlm", report={"documents": 10, "compare_with": "b/publish/mlm"})
    assert list(other_tokenizers(options, tmp_path)) == ["a/publish/mlm", "b/publish/mlm"]


def test_of_a_model_that_needs_no_analyzer_the_report_sets_both_tokenizers_beside(tmp_path):
    options = TokenizerOptions(base=str(MODELS / "mini-nsmc"))
    assert list(other_tokenizers(options, tmp_path)) == ["mini-nsmc", "mini-nsmc/kiwi"]
    read = [path.relative_to(MODELS) for path in raw_files(options, tmp_path)]
    assert {"mini-nsmc/tokenizer.json", "mini-nsmc/kiwi/morphemes.json"} <= set(map(str, read))


def test_of_a_tokenizer_to_compare_with_its_own_files_are_read(tmp_path):
    for name in ("tokenizer.json", "model.safetensors", "notes.txt"):
        (tmp_path / name).touch()
    assert other_files(tmp_path) == [tmp_path / "tokenizer.json"]
    with pytest.raises(UserError, match=r"compare_with: .*gone is no folder"):
        other_files(tmp_path / "gone")
