"""The page is served with a policy that forbids all but itself; scores of cards, attention and the list of models."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from canned_model import CannedModel
from held_model import HeldModel, wait_until
from starlette.testclient import TestClient

from kobert_pipeline.publish.card_facts import CardFacts, Results
from kobert_pipeline.publish.model_card import model_card
from kobert_pipeline.serve import page
from kobert_pipeline.serve.app import create_app
from kobert_pipeline.serve.limits import Limits
from kobert_pipeline.serve.model import ServedModel
from kobert_pipeline.serve.model_facts import card_scores
from kobert_pipeline.serve.service import Service
from kobert_pipeline.visualize.attention import Attention

TEXT = "배우들 연기가 정말 좋았다"


def test_page_is_served_with_a_policy_that_lets_it_ask_this_server_alone(client_of: Any) -> None:
    for client in (client_of(), client_of(api_key=b"key")):  # it asks for the key itself
        response = client.get("/")
        assert response.status_code == 200 and response.headers["content-type"] == "text/html; charset=utf-8"
        policy = dict(part.strip().split(" ", 1) for part in response.headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'" and policy["connect-src"] == "'self'"
        for tag in ("script", "style"):
            (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", response.text, re.S)
            assert policy[f"{tag}-src"] == f"'sha256-{page.digest(content)}'"


def test_the_canned_model_has_all_that_the_server_asks_of_one() -> None:
    """The browser tests, which need a Chromium and run seldom, would find it out late."""
    source = (Path(page.__file__).parent / "app.py").read_text(encoding="utf-8")
    asked = set(re.findall(r"\bmodel\.(\w+)", source)) - {"embed", "embed_ids", "label_ids", "relevance"}
    assert {"predict", "rank", "longest_text"} < asked
    assert not {name for name in asked if not hasattr(CannedModel("canned", "a"), name)}


def test_page_has_no_reference_to_elsewhere_and_makes_no_html_of_texts(client_of: Any) -> None:
    html = client_of().get("/").text
    assert not re.search(r"https?:|//\w|@import|url\(|\bsrc=|import\(|XMLHttpRequest|WebSocket", html.replace("</", ""))
    assert re.findall(r'href="(.*?)"', html) == ["data:,"], "the icon, which browsers would ask for"
    for words in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "localStorage", "cookie"):
        assert words not in html
    assert not re.search(r"<[^>]+ (on\w+|style)=", html), "the policy would stop them"


@pytest.mark.skipif(shutil.which("node") is None, reason="node runs the script of the page; it is missing")
def test_similar_texts_are_ranked_as_the_model_was_trained_and_may_be_none() -> None:
    words, tabs = ((page.PAGES / name).read_text(encoding="utf-8") for name in ("words.js", "tabs.js"))
    stubs = "const [setUpAttention, forgetAttention, showAttention] = [], say = (word) => WORDS.ko[word];"
    asked = (
        "const { choices, body, show } = TABS.similar;"
        "const sent = choices.by.map((by) => body({ query: '눈', texts: '비', by }).by);"
        "console.log(JSON.stringify([sent, choices.by.map(say), show({ data: [] })]));"
    )
    run = subprocess.run(["node", "-e", words + stubs + tabs + asked], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == [
        [None, "hybrid", "bm25"],
        ["문장 벡터", "둘 다", "같은 단어 (BM25)"],
        ["단어나 단어의 일부라도 같은 문장이 없습니다."],
    ]


def test_both_languages_have_the_same_words(client_of: Any) -> None:
    script = (page.PAGES / "words.js").read_text(encoding="utf-8")
    english, korean = re.findall(r"^  (?:en|ko): \{\n(.*?)^  \}", script, re.S | re.M)
    words = [re.findall(r'([\w-]+)"?: "((?:[^"\\]|\\.)*)"', part) for part in (english, korean)]
    named = [{name: sorted(re.findall(r"\{\w+\}", text)) for name, text in part} for part in words]
    assert named[0] == named[1] and len(named[0]) > 50
    html = client_of().get("/").text
    assert set(re.findall(r'data-(?:word|label)="(\w+)"', html)) <= set(named[0])
    assert set(re.findall(r'(?:say|Refusal)\("([\w-]+)"', html)) <= set(named[0])


def test_models_are_listed_with_their_paths_and_scores() -> None:
    service = Service({"nsmc": "a", "pairs": "b"}, Limits(), CannedModel)  # type: ignore[arg-type]
    with TestClient(create_app(service)) as client:
        wait_until(lambda: service.ready)
        content = client.get("/v1/models").json()
        assert page.Models.model_validate(content).object == "list"
        first, second = content["data"]
        assert (first["id"], first["object"], first["paired"]) == ("nsmc", "model", False)
        assert first["scores"] == [{"dataset": "nsmc (test)", "metric": "accuracy", "value": 84.73}]
        assert (first["mask_token"], second["mask_token"]) == ("[MASK]", None)
        assert (second["endpoints"], second["paired"], second["scores"]) == (["/v1/classify"], True, [])


def test_models_are_not_listed_without_the_key_or_before_they_are_loaded(client_of: Any, held: HeldModel) -> None:
    assert client_of(api_key=b"key").get("/v1/models").status_code == 401

    def load(name: str, folder: str) -> HeldModel:
        held.free.wait(10)
        return held

    response = client_of(load=load).get("/v1/models")
    assert response.status_code == 503 and response.headers["retry-after"] == "1"


def test_scores_are_those_of_the_card(tiny: Any) -> None:
    (found,) = card_scores(tiny.run_dir / "publish" / "nsmc")
    manifest = tiny.manifests()["finetune/nsmc/1"]
    assert (found["dataset"], found["metric"]) == ("reviews_test.txt (test)", "accuracy")
    assert found["value"] == pytest.approx(manifest["counts"]["test"]["accuracy"], abs=0.01)


def test_of_several_trainings_the_score_is_that_of_the_served_weights(tmp_path: Path) -> None:
    scores = {"accuracy": [89.0, 90.0, 91.0]}
    results = Results("mood", "classification", "test", scores, seed="2", seed_scores={"accuracy": 90.5})
    facts = CardFacts("m", "r", "A model.", "mit", "AutoModelForSequenceClassification", [], {}, results=results)
    (tmp_path / "README.md").write_text(model_card(facts), encoding="utf-8")
    assert card_scores(tmp_path) == [{"dataset": "mood (test)", "metric": "accuracy", "value": 90.5}]


@pytest.mark.parametrize(
    "card",
    [
        None, b"\xff", b"", b"# no metadata", b"---\n- a\n---\n", b"---\n{a: &a [*a], b: [\n---\n",
        b"---\nmodel-index: 5\n---\n",
        b"---\nmodel-index: [{results: [{dataset: {name: x}, metrics: [{type: f1, value: [1]}]}]}]\n---\n",
        b"---\nmodel-index: [{results: [{dataset: {name: x}, metrics: [{type: f1, value: .nan}]}]}]\n---\n",
        b"---\n" + b"[" * 5000 + b"\n---\n",
        b"---\nmodel-index: [{results: {a: 1}}]\n---\n",
    ],
)  # fmt: skip
def test_a_card_without_scores_gives_none(card: bytes | None, tmp_path: Path) -> None:
    if card is not None:
        (tmp_path / "README.md").write_bytes(card)
    assert card_scores(tmp_path) == []


def test_attention_is_that_of_visualize_and_leaves_the_model_as_it_was(tiny: Any) -> None:
    folder = tiny.run_dir / "publish" / "nsmc"
    served = ServedModel("nsmc", str(folder))
    before = served.embed([TEXT])[0][0]
    (row, pair) = served.attend([([TEXT], -1, 2), ([TEXT, "정말?"], 1, None)])
    expected = Attention.load(folder, [TEXT])
    np.testing.assert_allclose(row["weights"], expected.matrix(0, 1, "morphemes"), atol=1e-4)
    assert row["units"] == [unit.label for unit in expected.units["morphemes"]]
    assert (row["layers"], row["heads"], row["truncated"]) == (1, 2, False)
    assert len(pair["units"]) > len(row["units"])
    np.testing.assert_array_equal(served.embed([TEXT])[0][0], before)
    service = Service({"nsmc": "folder"}, Limits(), lambda name, folder: served)
    with TestClient(create_app(service)) as client:
        wait_until(lambda: service.ready)
        answer = client.post("/v1/attention", json={"input": TEXT, "layer": 1, "head": 2}).json()
        assert answer == {"object": "list", "model": "nsmc", "data": [row]}
        wrong = client.post("/v1/attention", json={"input": [TEXT]})
        assert wrong.status_code == 422 and "input: a text or a pair" in wrong.json()["error"]["message"]
        for body, said in (({"layer": 7}, "layer 7: the model has the layers 1 to 1"), ({"head": 3}, "heads 1 to 2")):
            response = client.post("/v1/attention", json={"input": TEXT, **body})
            assert response.status_code == 422 and said in response.json()["error"]["message"]
