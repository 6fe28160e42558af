"""docs/serving.md: its commands parse, its requests are answered in the form that it shows, its tables are complete."""

import json
import re
import shlex
import subprocess
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from checkpoints import checkpoints
from held_model import wait_until
from starlette.testclient import TestClient

from kobert_pipeline.cli import main
from kobert_pipeline.cli.serve import by_name
from kobert_pipeline.serve.app import create_app
from kobert_pipeline.serve.limits import ERROR_TYPES, Limits
from kobert_pipeline.serve.service import Service

REPO = Path(__file__).resolve().parents[2]
GUIDE = (REPO / "docs" / "serving.md").read_text(encoding="utf-8")
DOCKERFILE = re.search(r"^```dockerfile\n(.*?)^```", GUIDE, re.M | re.S)[1]  # type: ignore[index]
EXAMPLE = re.compile(r"^```console\n\$ curl (.*?)\n```\n\n```(json|text)\n(.*?)^```", re.M | re.S)


def test_the_folder_without_kiwi_is_complete(tiny: Any, tmp_path: Path) -> None:
    """The commands that make it run in a shell, and what they make loads without any code of ours."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    published = tiny.run_dir / "publish" / "nsmc"
    (tmp_path / "runs" / "quickstart" / "publish").mkdir(parents=True)
    (tmp_path / "runs" / "quickstart" / "publish" / "nsmc").symlink_to(published)
    commands = re.findall(r"^\$ ((?:mkdir|cp runs).*)$", GUIDE, re.M)
    assert len(commands) == 3
    for command in commands:
        subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "tei")
    plain = AutoTokenizer.from_pretrained(published / "plain")
    text = "배우들 연기가 정말 좋았고, 또 보고싶다"
    assert tokenizer(text)["input_ids"] == plain(text)["input_ids"]
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "tei")
    with torch.no_grad():
        assert model(**tokenizer(text, return_tensors="pt")).logits.shape == (1, 2)


def test_the_commands_of_the_guide_parse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("key.txt").write_text("key", encoding="utf-8")
    command: Any = typer.main.get_command(main.app)
    lines = re.findall(r"^\$ kobert serve (.*)$", GUIDE, re.M)
    assert len(lines) == 7
    docker = json.loads(re.search(r"^CMD (.*)$", DOCKERFILE, re.M)[1])  # type: ignore[index]
    assert docker[:2] == ["kobert", "serve"]
    docker[docker.index("/run/key.txt")] = "key.txt"
    for words in (*map(shlex.split, lines), docker[2:]):
        given = command.commands["serve"].make_context("serve", list(words)).params
        assert by_name(given["checkpoints"])
        for name in ("max_batch_tokens", "max_queue", "timeout"):
            assert given[name] == getattr(Limits(), name)


def test_the_dockerfile_fits_the_package() -> None:
    """What it installs is what the tests run with; the server's command is parsed above."""
    extras = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    pinned = (REPO / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert {*re.findall(r"torch==\S+", DOCKERFILE)} <= {*pinned}
    assert {*re.search(r'"/source\[(.*?)\]"', DOCKERFILE)[1].split(",")} <= {*extras}  # type: ignore[index]
    check, serve = (json.loads(command) for command in re.findall(r"CMD (\[.*\])$", DOCKERFILE, re.M))
    options = typer.main.get_command(main.app).commands["serve"].make_context("serve", [serve[2]]).params  # type: ignore[attr-defined]
    compile(check[2], "HEALTHCHECK", "exec")
    url = re.fullmatch(r"import urllib.request as r; r.urlopen\('http://127.0.0.1:(\d+)(\S+)'\)", check[2])
    assert url and url[2] in create_app(Service({}, Limits())).openapi()["paths"]
    (exposed,) = re.findall(r"^EXPOSE (\d+)$", DOCKERFILE, re.M)
    assert int(url[1]) == int(exposed) == options["port"]
    assert serve[2] in re.findall(r"^COPY \S+ (\S+)$", DOCKERFILE, re.M)
    last = [line for line in DOCKERFILE.splitlines() if line.startswith(("RUN", "COPY", "USER"))][-1]
    assert last == "USER nobody", "nothing is left to do for root"


def test_the_requests_of_the_guide_are_answered_in_the_form_that_it_shows(
    tiny: Any, tmp_path: Path, corpora: Path, kobert: Any
) -> None:
    (line,) = re.findall(r"^\$ kobert (index .*)$", GUIDE, re.M)
    smaller = {"corpora/nsmc/ratings_test.txt.zst": corpora / "reviews_test.txt", "nsmc-words": tmp_path / "index"}
    assert kobert(*(smaller.get(word, word) for word in shlex.split(line))).code == 0
    folders = checkpoints(tiny.run_dir, tmp_path)
    names = {"mini-nsmc": "nsmc", "qa": "korquad", "visits": "ner", "encoder": "mlm", "reranker": "pairs"}
    served = {name: folders[folder] for name, folder in names.items()}
    service = Service(served, Limits(), index=tmp_path / "index")
    with TestClient(create_app(service)) as client:
        wait_until(lambda: service.ready, 60)
        examples = EXAMPLE.findall(GUIDE)
        for arguments, kind, shown in examples:
            url, *body = shlex.split(arguments.replace("\\\n", ""))
            path = url.removeprefix("http://127.0.0.1:8000")
            response = client.post(path, json=json.loads(body[1])) if body else client.get(path)
            assert response.status_code == 200, (body, response.text)
            if kind == "json":  # a vector is shown in part
                assert form(response.json()) == form(json.loads(shown)), url
    assert {re.match(r"\S+:8000(\S+)", arguments)[1] for arguments, _, _ in examples} == {  # type: ignore[index]
        path for path in create_app(service).openapi()["paths"] if path.startswith("/v1/")
    }


def form(value: Any) -> Any:
    """The keys of objects without those that are tokens or numbers, and the types of all else; lists by one element."""
    if isinstance(value, dict) and "input_ids" not in value:
        return {key: form(inner) for key, inner in value.items() if key not in ("masks", "entities")}
    if isinstance(value, dict):
        return sorted(value)
    return [form(value[0])] if isinstance(value, list) and value else type(value).__name__


def test_the_tables_of_both_guides_are_complete() -> None:
    app = create_app(Service({}, Limits()))
    paths = {*app.openapi()["paths"], "/docs", "/openapi.json"}
    for folder in ("docs", "docs/ko"):
        guide = (REPO / folder / "serving.md").read_text(encoding="utf-8")
        table = re.findall(r"^\| (`/.*?) \|", guide, re.M)
        assert set(re.findall(r"`(/\S*)`", " ".join(table))) == paths
        statuses = {status for row in re.findall(r"^\| ([\d, ]+) \|", guide, re.M) for status in row.split(", ")}
        assert statuses == {"400", "422", *map(str, ERROR_TYPES)}
        types = set(re.findall(r"^\| [\d, ]+ \| `(\w+)` \|", guide, re.M))
        assert types == {"invalid_request_error", *ERROR_TYPES.values()}
        numbers = re.findall(r"^\| [^|]* \| ([\d,]+) \|", guide, re.M)
        assert sorted(int(number.replace(",", "")) for number in numbers) == sorted(asdict(Limits()).values())
