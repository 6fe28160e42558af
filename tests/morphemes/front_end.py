"""Shared by the tests of the first rooms: the stages up to shards on the bundled corpora, run once per session, and
texts."""

import functools
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from kobert_pipeline.analysis.stage import AnalysisOptions
from kobert_pipeline.analysis.stage import run as analyse
from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.readers.nsmc import Nsmc
from kobert_pipeline.corpus.readers.squad import Squad
from kobert_pipeline.corpus.readers.text import Text
from kobert_pipeline.corpus.stage import CorpusOptions
from kobert_pipeline.corpus.stage import run as gather
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer
from kobert_pipeline.morphemes.normalization import remove_invisible
from kobert_pipeline.morphemes.segmenter import Segmenter
from kobert_pipeline.shards.stage import ShardsOptions
from kobert_pipeline.shards.stage import run as shard
from kobert_pipeline.tokenizer.stage import TokenizerOptions
from kobert_pipeline.tokenizer.stage import run as train
from kobert_pipeline.tokenizer.subwords.wordpiece import WordPiece

CORPORA = Path(__file__).resolve().parents[2] / "kobert_pipeline" / "pipeline" / "recipes" / "tiny"
VOCAB_SIZE = 3000
PARTS = 30_000

PROPERTY = settings(
    max_examples=40, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
"""The same examples in every run, and no database in the working folder."""

WORDS = [
    "했다",
    "갔다",
    "무대",
    "사랑했었다",
    "아름다워",
    "읽혔다",
    "ㅋㅋㅋ",
    "ㅠㅠ",
    "3.14%",
    "e-mail@a.kr",
    "大韓民國",
    "漢字를",
    "Ａ１",
    "끝.",
    "뭐?!",
]
ODD = [
    "😀",
    "👨‍👩‍👧‍👦",
    "🇰🇷",
    "❤️",
    "ᄒᆞᆫ글",
    "나〮랏〮",
    "か゚",
    "が",
    "e\u0301",
    "가\u0301",
    "\u200b",
    "\u200d",
    "\ufeff",
    "\u00ad",
    "\x00",
    "\x1c",
    "▁",
    "##",
    "\ufffd",
    "\U0010ffff",
]
BLANKS = [" ", "  ", "\t", "\n", "\r\n", "\u3000", "\xa0", "\u2028", "\x85"]

fragments = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from(ODD),
    st.sampled_from(BLANKS),
    st.characters(exclude_categories=["Cs"]),
    st.text("가-힣ㄱㅏ각힣", max_size=4),
)
any_text = st.lists(fragments, max_size=25).map("".join)
"""Any text without lone surrogates: Korean words, Hanja, emoji, jamo, zero-width characters, all kinds of white
space."""

visible_text = any_text.map(remove_invisible)
"""Any text of characters that have tokens, and of white space."""

marks = st.lists(
    st.tuples(
        st.integers(0, 60), st.sampled_from("\0\x1c\x7f\xad\u034f\u200b\u200c\u200e\u2060\ufe0f\ufeff\U000e0101")
    ),
    min_size=1,
    max_size=8,
)
"""Invisible characters, each with where to put it."""


def sprinkle(text: str, marks: list[tuple[int, str]]) -> tuple[str, list[int]]:
    """`text` with marks in it, and how many characters of `text` are before each place of the result."""
    characters = [(character, True) for character in text]
    for place, mark in marks:
        characters.insert(place, (mark, False))
    before = [sum(own for _, own in characters[:place]) for place in range(len(characters) + 1)]
    return "".join(character for character, _ in characters), before


composed_text = visible_text.map(lambda text: unicodedata.normalize("NFC", text))


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


def solid(text: str) -> list[int]:
    """The places of `text` that are not white space."""
    return [i for i, character in enumerate(text) if not character.isspace()]


@dataclass(frozen=True)
class FrontEnd:
    """Folders of finished stages, which tests must not change."""

    corpus: Path
    analysis: Path
    tokenizer: Path
    shards: Path


def folders_in(place: Path) -> FrontEnd:
    return FrontEnd(*(place / stage for stage in ("corpus", "analysis", "tokenizer", "shards")))


def make(place: Path) -> None:
    folders = folders_in(place)
    gather(CorpusOptions(sources=[Text(path="documents/*.txt")], part_characters=PARTS), CORPORA, folders.corpus)
    analyse(AnalysisOptions(), folders.corpus, CORPORA, folders.analysis, num_workers=1)
    folders.tokenizer.mkdir()
    train(TokenizerOptions(subword=WordPiece(vocab_size=VOCAB_SIZE)), folders.analysis, CORPORA, folders.tokenizer)
    shard(ShardsOptions(held_out=0.1), folders.analysis, folders.tokenizer, folders.shards)


@pytest.fixture(scope="session")
def front_end(made_once) -> FrontEnd:
    return folders_in(made_once("front_end", make))


@functools.cache
def loaded(folder: Path) -> MorphemeTokenizer:
    return MorphemeTokenizer.from_pretrained(folder)


@pytest.fixture(scope="session")
def tokenizer(front_end) -> MorphemeTokenizer:
    """The trained tokenizer, shared: a test that changes one loads its own."""
    return loaded(front_end.tokenizer)


@pytest.fixture(scope="session")
def bundled() -> list[Document]:
    """Every bundled text: documents, reviews and contexts."""
    readers = [
        Text(path="documents/*.txt"),
        Nsmc(path=["reviews_train.txt", "reviews_test.txt"]),
        Squad(path=["qa_train.json", "qa_dev.json"]),
    ]
    documents = [document for reader in readers for document in reader.read(CORPORA)]
    assert len(documents) > 300
    return documents


@pytest.fixture(scope="session")
def kiwi() -> Segmenter:
    return Segmenter()


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The real data of a clone: NSMC, raw reviews, a part of Wikipedia, questions."""
    return Path(__file__).resolve().parents[2] / "corpora"
