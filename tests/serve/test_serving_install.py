"""`requirements-serve.txt` is enough to serve: an environment without torch, transformers and the analyzer gives the
answers that torch gives here."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import requests

import kobert_pipeline as kobert_package
from kobert_pipeline.inference.loading import TORCH

TEXTS = ["정말 재밌다", "두 시간이 아까웠다. " * 40, "배우들 연기가 좋았다", ""]


@pytest.fixture(scope="module")
def environment(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment as docs/serving.md makes it."""
    folder = tmp_path_factory.mktemp("serving") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--requirement", repo / "requirements-serve.txt"], check=True, timeout=600)
    source = tmp_path_factory.mktemp("source")
    # pip builds in the folder that it is given
    subprocess.run(["git", "clone", "--quiet", repo, source / "clone"], check=True)
    subprocess.run([*pip, "--no-deps", source / "clone"], check=True, timeout=600)
    listed = subprocess.run([folder / "bin" / "pip", "list"], capture_output=True, text=True, check=True).stdout
    assert not {"torch", "transformers", "kiwipiepy", "scikit-learn"} & {
        line.split()[0] for line in listed.splitlines()
    }
    return folder


@pytest.mark.slow
def test_a_server_without_torch_gives_its_answers(environment: Path, light: dict[str, Path], tmp_path: Path) -> None:
    words = [environment / "bin" / "kobert", "serve", light["mood"], "--port", "0"]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=tmp_path, env=env, text=True
    ) as process:
        assert process.stdout is not None
        try:
            began, line = time.monotonic(), ""
            while "ready" not in line:
                assert process.poll() is None and time.monotonic() - began < 120, line
                line = process.stdout.readline()
            address = line.split(": ready")[0].strip()

            def ask(path: str) -> list[dict[str, object]]:
                response = requests.post(f"{address}/v1/{path}", json={"input": TEXTS}, timeout=60)
                assert response.status_code == 200, response.text
                rows: list[dict[str, object]] = response.json()["data"]
                return rows

            expected = kobert_package.load(light["mood"], backend=TORCH)
            answers = expected.predict(TEXTS)
            assert [row["label"] for row in ask("classify")] == [row["label"] for row in answers]
            vectors = np.array([row["embedding"] for row in ask("embeddings")])
            np.testing.assert_allclose(vectors, expected.embed(TEXTS), atol=1e-5)
        finally:
            process.terminate()
