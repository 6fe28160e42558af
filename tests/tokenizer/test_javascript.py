"""The tokenizer `plain/` in JavaScript: transformers.js, from npm, gives the ids that `tokenizers` gives in Python."""

import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from kobert_pipeline.tables.open_text import open_lines

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (shutil.which("node") and shutil.which("npm")), reason="there is no node and npm"),
]
RELEASES = ["4.2.0", "4.3.1"]
"""The newest release and the one before; their regular expressions and `Metaspace` are not the same."""
UNUSUAL = (
    "안녕 재밌다 가 각 ᆨ 한 \u1112\u1161\u11ab ㅋㅋㅋ ㅏㅏ ᄒᆞᆫ 漢字 カナ ﾊﾝ e\u0301 ﬁ Ⅳ ½ ① 𝕏 𠀀 İ ẞ abc A.B. 1,234 "
    "2024년 0 (주) [1] http://a.kr/b?c=d&e=f#g a@b.co.kr #해시 @멘션 !!! ... … ~ ?! · ・ “ ” 「 」 $ € % + - < > _ ▁ "
    "▁▁ <s> [CLS] [SEP] [MASK] 😀 👨\u200d👩\u200d👧 ❤\ufe0f 🇰🇷 \u200b \u200d \ufeff \u00ad \x07 \ue000"
)
PARTS = UNUSUAL.split(" ")
BLANKS = ["", " ", "  ", "\t", "\n", "\u3000", "\xa0", "\x1c", "\x1f", "\x85", "\u2028"]
LONG = ["9" * 20, "가" * 70, "ㅋ" * 50, "가나" * 150]


@pytest.fixture(scope="module")
def texts(repo: Path) -> list[tuple[str, str | None]]:
    """10,000 reviews, 2,000 texts of unusual characters, and 500 pairs."""
    with open_lines(repo / "corpora" / "nsmc" / "ratings_test.txt.zst") as lines:
        reviews = [line.rstrip("\n").split("\t")[1] for _, line in zip(range(10_001), lines, strict=False)][1:]
    draw = random.Random(1)
    hostile = [
        "".join(draw.choice([*PARTS, *LONG]) + draw.choice(BLANKS) for _ in range(draw.randint(1, 8)))
        for _ in range(2000)
    ]
    alone: list[tuple[str, str | None]] = [(text, None) for text in reviews + hostile]
    return alone + list(zip(hostile, reviews[:500], strict=False))


@pytest.mark.parametrize("model", ["mini-nsmc", "mini-korquad/plain"])
@pytest.mark.parametrize("release", RELEASES)
def test_transformers_js_gives_the_same_ids(
    release: str, model: str, repo: Path, texts: list[tuple[str, str | None]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    packages = tmp_path_factory.getbasetemp() / f"transformers-{release}"
    if not packages.is_dir():
        packages.mkdir()
        install = ["npm", "install", "--ignore-scripts", "--no-audit", f"@huggingface/transformers@{release}"]
        subprocess.run(install, cwd=packages, check=True, timeout=600, capture_output=True)
    plain = repo / "models" / model
    given, answer = packages / "texts.json", packages / f"{model.replace('/', '-')}.json"
    given.write_text(json.dumps(texts), encoding="utf-8")
    node = ["node", str(Path(__file__).with_name("ids.mjs")), *map(str, (packages, plain, given, answer))]
    subprocess.run(node, check=True, timeout=600)
    tokenizer = Tokenizer.from_file(str(plain / "tokenizer.json"))
    expected = [tokenizer.encode(*(text for text in pair if text is not None)).ids for pair in texts]
    unlike = [
        (pair, theirs, ours)
        for pair, theirs, ours in zip(texts, json.loads(answer.read_text()), expected, strict=True)
        if theirs != ours
    ]
    assert not unlike, f"{len(unlike)} of {len(texts)}; the first: {unlike[0]}"
