"""The commands of docs/visualizing.md work one after the other, and it names every unit."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kobert_pipeline.visualize.attention import UNITS

REPO = Path(__file__).resolve().parents[2]
GUIDE = (REPO / "docs" / "visualizing.md").read_text(encoding="utf-8")


def test_the_guide_does_what_it_says(
    tiny: Any, corpora: Path, tmp_path: Path, kobert: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [line.split("\t") for line in (corpora / "reviews_test.txt").read_text(encoding="utf-8").splitlines()]
    Path("reviews.tsv").write_text("\n".join(f"{text}\t{label}" for _, text, label in rows[1:21]), encoding="utf-8")
    Path("runs").mkdir()
    for name in ("quickstart", "mini"):
        Path("runs", name).symlink_to(tiny.run_dir)
    for block in re.findall(r"^```console\n(.*?)^```", GUIDE, re.M | re.S):
        for line in block.splitlines():
            result = kobert(*shlex.split(line.removeprefix("$ kobert ")))
            assert result.code == 0, (line, result.err)
    written = {path.name for path in tmp_path.iterdir()} - {"runs", "reviews.tsv"}
    assert written == set(re.findall(r"--(?:out|projector) (\S+)", GUIDE))


@pytest.mark.parametrize("folder", ("docs", "docs/ko"))
def test_the_guide_names_every_unit(folder: Any) -> None:
    guide = (REPO / folder / "visualizing.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", guide, re.M) == list(UNITS), folder
