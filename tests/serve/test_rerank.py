"""Reranking: `kobert similar --rerank` and `/v1/rerank` order texts by what the model itself says of each pair."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import made
from held_model import wait_until
from starlette.testclient import TestClient
from transformers import AutoModelForSequenceClassification, BertForSequenceClassification

from kobert_pipeline.errors import UserError
from kobert_pipeline.inference.checkpoint import Checkpoint
from kobert_pipeline.inference.rerank import Reranker, relevant_index
from kobert_pipeline.inference.similar import contexts
from kobert_pipeline.publish.onnx_file import write_onnx
from kobert_pipeline.publish.verify import SAMPLES
from kobert_pipeline.serve import schema
from kobert_pipeline.serve.app import create_app
from kobert_pipeline.serve.limits import Limits
from kobert_pipeline.serve.model import ServedModel
from kobert_pipeline.serve.service import Service

JSON = {"Content-Type": "application/json"}
QUERY = "연기가 좋은 영화"
TEXTS = [
    "배우들의 연기가 정말 좋았다.", "이야기가 지루하다.", "음악이 아름다운 영화", "비가 온다", "연기, 연기!",
    "두 시간이 아까웠다.",
    "집에 갔다", "연기는 별로다", "눈이 내린다", "영화관에서 보았다", "책이 낫다", "또 보고 싶은 영화", "밥을 먹었다",
]  # fmt: skip
MODELS = {
    "pair": ({"pair": {"max_length": 32}}, ["different", "same"]),
    "sts": ({"sts": {"max_length": 32}}, ["score"]),
    "nli": ({"nli": {"max_length": 32}}, ["entailment", "neutral", "contradiction"]),
    # of other tools, which name no task
    "cross-encoder": ({}, ["LABEL_0"]),
    "numbered": ({}, ["LABEL_0", "LABEL_1"]),
}
"""{name: (the task in the config, the labels)}"""


@pytest.fixture(scope="module")
def folders(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("made")
    return {
        name: made(BertForSequenceClassification, tiny.run_dir, place / name, task, labels)
        for name, (task, labels) in MODELS.items()
    }


@pytest.fixture(scope="module")
def client(folders: dict[str, str], tiny: Any) -> Iterator[TestClient]:
    service = Service(folders | {"nsmc": str(tiny.run_dir / "publish" / "nsmc")}, Limits())
    with TestClient(create_app(service)) as client:
        wait_until(lambda: service.ready or not service.alive, 60)
        assert service.ready, service.failure
        yield client


def log_odds(folder: str, query: str, texts: list[str]) -> np.ndarray:
    """By `transformers` alone, a pair at a time: of labels the logarithm of p / (1 - p)."""
    from kobert_pipeline.inference.loading import load_tokenizer

    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer, values = load_tokenizer(Path(folder)), []
    relevant = {"pair": 1, "numbered": 1}.get(Path(folder).name, 0)
    for text in texts:
        encoded = tokenizer(query, text, truncation=True, max_length=tokenizer.model_max_length, return_tensors="pt")
        with torch.no_grad():
            logits = model(**encoded).logits[0].double()
        p = logits.softmax(0)[relevant]
        values.append((torch.log(p / (1 - p)) if len(logits) > 1 else logits[0]).item())
    return np.array(values)


@pytest.mark.parametrize("name", MODELS)
def test_the_score_of_a_pair_is_the_models_own(name: str, folders: dict[str, str], client: TestClient) -> None:
    expected = log_odds(folders[name], QUERY, TEXTS)
    order = np.argsort(-expected).tolist()
    body = {"model": name, "query": QUERY, "texts": TEXTS}
    raw = client.post("/v1/rerank", json=body | {"raw_scores": True, "return_text": True, "truncate": True}).json()
    assert [row["index"] for row in raw] == order
    assert [row["score"] for row in raw] == pytest.approx(sorted(expected, reverse=True), abs=1e-3)
    assert [row["text"] for row in raw] == [TEXTS[index] for index in order]
    scored = client.post("/v1/rerank", json=body).json()
    assert scored == [{"index": index, "score": pytest.approx(p)} for index, p in zip(order, odds(raw), strict=True)]
    assert [schema.Reranked.model_validate(row, extra="forbid").index for row in scored] == order


def odds(rows: list[dict[str, Any]]) -> list[float]:
    return [1 / (1 + np.exp(-row["score"])) for row in rows]


def test_the_answer_has_the_form_of_the_request(client: TestClient, folders: dict[str, str]) -> None:
    texts = {"model": "pair", "query": QUERY, "texts": TEXTS}
    rows = client.post("/v1/rerank", json=texts).json()
    documents = {"model": "pair", "query": QUERY, "documents": [TEXTS[0], *({"text": text} for text in TEXTS[1:])]}
    whole = client.post("/v1/rerank", json=documents).json()
    schema.Reranking.model_validate(whole, extra="forbid")
    assert whole["model"] == "pair"
    assert whole["results"] == [
        {"index": row["index"], "relevance_score": row["score"], "document": {"text": TEXTS[row["index"]]}}
        for row in rows
    ]
    tokenizer = Checkpoint.load(folders["pair"]).tokenizer
    tokens = sum(min(32, len(tokenizer(QUERY, text)["input_ids"])) for text in TEXTS)
    assert whole["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}
    best = client.post("/v1/rerank", json=documents | {"top_n": 2, "return_documents": False}).json()
    assert best["results"] == [{key: row[key] for key in ("index", "relevance_score")} for row in whole["results"][:2]]
    assert best["usage"] == whole["usage"]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"model": "pair"}, 422, "either texts, as in TEI's form, or documents, as in Jina's, were expected"),
        ({"model": "pair", "texts": ["a"], "documents": ["a"]}, 422, "either texts"),
        ({"model": "pair", "documents": []}, 422, 'documents: a list of texts, or of objects {"text": ...}'),
        ({"model": "pair", "documents": [3]}, 422, 'documents: a list of texts, or of objects {"text": ...}'),
        ({"model": "pair", "texts": []}, 422, "texts: "),
        ({"model": "pair", "texts": ["a"] * 1025}, 422, "there are 1,025 texts; a request may have 1,024"),
        ({"model": "pair", "texts": ["a"], "top_m": 3}, 422, "there is no field 'top_m' - did you mean 'top_n'?"),
        ({"model": "nsmc", "texts": ["a"]}, 400, "nsmc does not answer /v1/rerank, but /v1/classify"),
        ({"texts": ["a"]}, 400, "name one of the models: pair, sts, nli, cross-encoder, numbered"),
    ],
)
def test_what_is_no_request_is_refused(body: dict[str, Any], status: int, said: str, client: TestClient) -> None:
    response = client.post("/v1/rerank", content=json.dumps({"query": QUERY} | body), headers=JSON)
    assert response.status_code == status and said in response.json()["error"]["message"], response.text


def test_onnx_orders_as_torch_does(folders: dict[str, str]) -> None:
    write_onnx(Path(folders["pair"]), "AutoModelForSequenceClassification", SAMPLES)
    scores = []
    for backend in ("torch", "onnx"):
        model = ServedModel("pair", folders["pair"], backend=backend)
        assert model.backend == backend and "/v1/rerank" in model.endpoints
        scores.append([row.log_odds for row in model.relevance([model.example(QUERY, text) for text in TEXTS])])
    assert scores[0] == pytest.approx(scores[1], abs=1e-3)


@pytest.fixture
def place(beside_encoder: Path) -> Path:
    (beside_encoder / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    return beside_encoder


def test_the_first_texts_of_a_search_are_ordered_anew(
    place: Path, folders: dict[str, str], kobert: Callable[..., Any]
) -> None:
    """From files or an index: the first ten by the model, whatever their order was before."""
    reranker = ("--rerank", folders["pair"], "--rerank-top", 10, "--top-k", 4, "--json")
    assert kobert("index", "mlm", "texts.txt", "--out", "index").code == 0
    for by, searched in (
        ("hybrid", ("--index", "index")),
        ("hybrid", ("--in", "texts.txt")),
        ("mean", ("--index", "index")),
    ):
        queries = (QUERY, "비가 오는 날")
        first = kobert("similar", "mlm", *queries, *searched, "--by", by, "--top-k", 10, "--json").out
        found = [json.loads(line) for line in first.splitlines()]
        again = kobert("similar", "mlm", *queries, *searched, "--by", by, *reranker)
        rows = [json.loads(line) for line in again.out.splitlines()]
        assert len(found) == 20 and len(rows) == 8, again.err
        for query in queries:
            texts = [row["text"] for row in found if row["query"] == query]
            values = log_odds(folders["pair"], query, texts)
            ours = [row for row in rows if row["query"] == query]
            assert [row["text"] for row in ours] == [texts[index] for index in np.argsort(-values)[:4]]
            expected = 1 / (1 + np.exp(np.sort(-values)[:4]))
            assert [row["score"] for row in ours] == pytest.approx(expected.tolist(), abs=2e-4)
            assert {row["method"] for row in ours} == {f"{by}, reranked"}
    shown = kobert("similar", "mlm", QUERY, "--in", "texts.txt", "--by", "bm25", *reranker[:-1]).out
    assert f"{QUERY}  (by bm25, reranked)" in shown
    every = kobert("similar", "mlm", QUERY, "--in", "texts.txt", "--by", "bm25", *reranker[:4], "--top-k", 12, "--json")
    assert len({json.loads(line)["text"] for line in every.out.splitlines()}) == 12


def test_reranking_is_measured_beside_the_search(
    place: Path, folders: dict[str, str], kobert: Callable[..., Any], corpora: Path
) -> None:
    asked = ("similar", "mlm", "--gold", corpora / "qa_dev.json", "--by", "bm25")
    result = kobert(*asked, "--rerank", folders["pair"], "--rerank-top", 10, "--json").json
    before, after = result["methods"]["bm25"], result["methods"]["bm25, reranked"]
    assert kobert(*asked, "--json").json["methods"]["bm25"] == before
    # the first ten stay the first ten, in the order of random weights
    assert after["recall@10"] == before["recall@10"]
    assert after["mrr@10"] < before["mrr@10"]
    texts, queries, _ = contexts(corpora / "qa_dev.json")
    checkpoint, asked_again = Checkpoint.load(folders["pair"]), [queries[0], queries[5]]
    first_is_best = lambda queries: -np.tile(np.arange(len(texts)), (len(queries), 1))  # noqa: E731
    for count in (3, len(texts)):
        scores = Reranker(checkpoint, count).reranked(first_is_best, texts)
        for query, row in zip(asked_again, scores(asked_again), strict=True):
            expected = 1 / (1 + np.exp(-log_odds(folders["pair"], query, texts[:count])))
            assert row[:count] == pytest.approx(expected, abs=1e-4)
            assert (row[count:] == -np.inf).all()


def test_other_checkpoints_are_refused(
    place: Path, tiny: Any, folders: dict[str, str], kobert: Callable[..., Any], tmp_path: Path
) -> None:
    asked = ("similar", "mlm", QUERY, "--in", "texts.txt", "--by", "bm25", "--rerank")
    assert "does not read pairs of texts" in kobert(*asked, "mlm").complaint
    assert "does not read pairs of texts" in kobert(*asked, tiny.run_dir / "publish" / "nsmc").complaint
    task = {"classification": {"max_length": 32, "text_pair": "other"}}
    folder = made(BertForSequenceClassification, tiny.run_dir, tmp_path / "topics", task, ["날씨", "교통"])
    said = kobert(*asked, folder).complaint
    assert "labels pairs 날씨, 교통, none of which says that they belong together (relevant, same, entailment)" in said
    with pytest.raises(UserError, match="does not read pairs"):
        Reranker(Checkpoint.load(tiny.run_dir / "publish" / "korquad"))


@pytest.mark.parametrize(
    ("labels", "index"),
    [(["score"], 0), (["no", "Relevant"], 1), (["0", "1"], 1), (["LABEL_0", "LABEL_1", "LABEL_2"], None), ([], None)],
)
def test_the_label_of_texts_that_belong_together(labels: list[str], index: int | None) -> None:
    assert relevant_index(labels) == index
