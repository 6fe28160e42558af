"""Answers are those of `kobert predict`, `embed`, `similar` and `tokenize`, alone and joined with others."""

import base64
import json
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import checkpoints, made
from held_model import wait_until
from starlette.testclient import TestClient
from transformers import BertModel

from kobert_pipeline.inference.checkpoint import Checkpoint
from kobert_pipeline.serve import schema
from kobert_pipeline.serve.app import create_app
from kobert_pipeline.serve.limits import Limits
from kobert_pipeline.serve.model import Ranking, ServedModel
from kobert_pipeline.serve.service import Service

TEXTS = ["정말 재밌다", "", "두 시간이 아까웠다. " * 40, "배우들 연기가 좋았다", "ㅋㅋ 😀", "뷁"]
CONTEXTS = ["한글은 세종대왕이 1443년에 만들었다. 처음 이름은 훈민정음이었다.", "서울은 한국의 수도이다. " * 60, ""]
QUESTION = "한글은 누가 만들었는가?"
MASKED = ["이 영화 [MASK] 재밌다", "[MASK] [MASK]"]
PAIRS = [{"text": "비가 온다", "text_pair": "날씨가 흐리다"}, {"text": "밥", "text_pair": "밥을 먹었다 " * 30}]
SCHEMAS: dict[str, Any] = {
    "classify": schema.Label, "answer": schema.Answer, "tag": schema.Tagged, "fill-mask": schema.Filled,
    "tokenize": schema.Tokens, "similar": schema.Ranked, "embeddings": schema.Embedding,
}  # fmt: skip


@pytest.fixture(scope="module")
def folders(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return checkpoints(tiny.run_dir, tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def client(folders: dict[str, str]) -> Iterator[TestClient]:
    service = Service(folders, Limits())
    with TestClient(create_app(service)) as client:
        wait_until(lambda: service.ready or not service.alive, 60)
        assert service.ready, service.failure
        yield client


@pytest.fixture(scope="module")
def ask(client: TestClient) -> Callable[..., Any]:
    """`ask(path, model, ...)`: the rows of an answer, which has the form that the OpenAPI page describes."""

    def post(path: str, model: str, **fields: Any) -> Any:
        response = client.post(f"/v1/{path}", json={"model": model, **fields})
        assert response.status_code == 200, response.text
        content = response.json()
        assert (content["object"], content["model"]) == ("list", model)
        for row in content["data"]:
            assert SCHEMAS[path].model_validate(row, extra="forbid").model_dump(exclude_unset=True) == row | (
                {"offset_mapping": [tuple(span) for span in row["offset_mapping"]]} if path == "tokenize" else {}
            )
        return content["data"]

    return post


def test_every_endpoint_gives_the_rows_of_its_command(ask: Any, folders: dict[str, str], kobert: Any) -> None:
    assert ask("classify", "nsmc", input=TEXTS) == Checkpoint.load(Path(folders["nsmc"])).predict(TEXTS)
    assert ask("classify", "nsmc", input=TEXTS[0]) == Checkpoint.load(Path(folders["nsmc"])).predict(TEXTS[:1])
    tabbed = [f"{pair['text']}\t{pair['text_pair']}" for pair in PAIRS]
    assert ask("classify", "pairs", input=PAIRS) == Checkpoint.load(Path(folders["pairs"])).predict(tabbed)
    assert ask("classify", "pairs", input=PAIRS[0]) == Checkpoint.load(Path(folders["pairs"])).predict(tabbed[:1])
    answers = ask("answer", "korquad", question=QUESTION, context=CONTEXTS)
    assert answers == Checkpoint.load(Path(folders["korquad"])).predict(CONTEXTS, QUESTION)
    tagged = ask("tag", "ner", input=TEXTS)
    assert tagged == Checkpoint.load(Path(folders["ner"])).predict(TEXTS) and any(row["entities"] for row in tagged)
    filled = [Checkpoint.load(Path(folders["mlm"])).predict([text], top_k=3)[0] for text in MASKED]
    assert ask("fill-mask", "mlm", input=MASKED, top_k=3) == filled
    printed = kobert("tokenize", folders["nsmc"], *TEXTS, "--json").out.splitlines()
    assert ask("tokenize", "nsmc", input=TEXTS) == [json.loads(line) for line in printed]


def test_embeddings_are_those_of_the_embedder_in_every_form(ask: Any, client: Any, folders: dict[str, str]) -> None:
    expected = Checkpoint.load(folders["mlm"]).embed(TEXTS)
    ids = [row["input_ids"][:256] for row in ask("tokenize", "mlm", input=TEXTS)]
    short = [n for n, row in enumerate(ids) if len(row) < 256]
    of_short = Checkpoint.load(folders["mlm"]).embed([TEXTS[n] for n in short])  # padded as their ids are
    for given, rows in ((TEXTS, expected), ([ids[n] for n in short], of_short)):
        found = ask("embeddings", "mlm", input=given)
        assert [row["index"] for row in found] == list(range(len(given)))
        np.testing.assert_array_equal(np.array([row["embedding"] for row in found], np.float32), rows)
        coded = ask("embeddings", "mlm", input=given, encoding_format="base64")
        decoded = [np.frombuffer(base64.b64decode(row["embedding"]), "<f4") for row in coded]
        np.testing.assert_array_equal(decoded, rows)
    for given in (TEXTS[0], ids[0]):
        (one,) = ask("embeddings", "mlm", input=given)
        np.testing.assert_allclose(one["embedding"], expected[0], atol=1e-6)
    usage = client.post("/v1/embeddings", json={"model": "mlm", "input": TEXTS, "user": "me"}).json()["usage"]
    assert usage == {"prompt_tokens": sum(map(len, ids)), "total_tokens": sum(map(len, ids))}


def test_token_ids_get_the_labels_of_their_texts(ask: Any, client: TestClient, folders: dict[str, str]) -> None:
    length = client.app.state.service.models["nsmc"].max_length
    ids = [row["input_ids"] for row in ask("tokenize", "nsmc", input=TEXTS)]
    short = [n for n, row in enumerate(ids) if len(row) <= length and TEXTS[n]]
    expected = Checkpoint.load(Path(folders["nsmc"])).predict([TEXTS[n] for n in short])
    expected = [{key: value for key, value in row.items() if key != "text"} for row in expected]
    assert ask("classify", "nsmc", input=[ids[n] for n in short]) == expected
    assert same(ask("classify", "nsmc", input=ids[0]), expected[:1])


def test_masks_and_rankings_of_several_requests_are_computed_together(client: TestClient) -> None:
    model, passes = client.app.state.service.models["mlm"], []
    masked = [(f"이 영화 [MASK] {word}다", top_k) for word, top_k in (("재밌", 1), ("좋", 5), ("지루하", 3))]
    rankings = [
        Ranking("음악", ["노래", "비", text], by, 2)
        for text, by in (("음악", "mean"), ("눈", "hybrid"), ("비", "mean"))
    ]
    hook = model.embedder.encoder.module.register_forward_pre_hook(lambda *_: passes.append(1))
    for compute, inputs in ((model.fill, masked), (model.rank, rankings)):
        alone = [compute([one])[0] for one in inputs]
        passes.clear()
        assert same(compute(inputs), alone)
        assert len(passes) == 1
    hook.remove()


@pytest.mark.parametrize("by", ["mean", "first-last", "bm25", "hybrid"])
def test_similar_texts_are_ranked_as_by_the_command(
    by: str, ask: Any, folders: dict[str, str], kobert: Any, tmp_path: Path
) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    words = (
        "similar",
        folders["nsmc"],
        "연기가 좋다",
        "--in",
        tmp_path / "texts.txt",
        "--by",
        by,
        "--top-k",
        3,
        "--json",
    )
    expected = [json.loads(line) for line in kobert(*words).out.splitlines()]
    rows = ask("similar", "nsmc", query="연기가 좋다", texts=TEXTS, by=by, top_k=3)
    assert len(rows) == (1 if by == "bm25" else 3), "one text has a word of the query"
    assert [(row["index"] + 1, row["text"].strip()) for row in rows] == [
        (row["line"], row["text"].strip()) for row in expected
    ]
    # both are rounded to four decimals, and batches of other lengths round otherwise
    assert [row["score"] for row in rows] == pytest.approx([row["score"] for row in expected], abs=2e-4)


def test_answers_do_not_depend_on_what_they_are_joined_with(
    ask: Any, client: TestClient, folders: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers may differ by the rounding of another padding; labels, answers and entities are the same."""
    rng = random.Random(1)
    words = " ".join(TEXTS + CONTEXTS).split()
    texts = [" ".join(rng.choices(words, k=rng.randint(1, 60))) for _ in range(48)]
    asked: list[tuple[str, str, dict[str, Any]]] = [
        *(("classify", "nsmc", {"input": texts[n : n + 3]}) for n in range(0, 48, 3)),
        *(("answer", "korquad", {"question": QUESTION, "context": text}) for text in texts[:12]),
        *(("tag", "ner", {"input": text}) for text in texts[:12]),
        *(("embeddings", "mlm", {"input": text}) for text in texts[:24]),
        *(("fill-mask", "mlm", {"input": f"{text} [MASK]", "top_k": k}) for k, text in enumerate(texts[:9], 1)),
        *(
            ("similar", "mlm", {"query": text, "texts": texts[:3], "by": by})
            for text in texts[:3]
            for by in ("mean", "bm25")
        ),
    ]
    alone = [ask(path, model, **fields) for path, model, fields in asked]
    rng.shuffle(order := list(range(len(asked))))

    batcher = client.app.state.service.batcher
    sizes: list[int] = []
    monkeypatch.setattr(batcher, "on_batch", lambda inputs, tokens, seconds: sizes.append(inputs))
    held, free = threading.Event(), threading.Event()
    batcher.submit(lambda inputs: [held.set() or free.wait(30)], [None], [1])
    assert held.wait(10)
    with ThreadPoolExecutor(len(asked)) as pool:
        together = {n: pool.submit(ask, asked[n][0], asked[n][1], **asked[n][2]) for n in order}
        wait_until(lambda: len(batcher) == 48 + 12 + 12 + 24 + 9 + 6)
        free.set()
    assert len(sizes) < 10 and max(sizes) > 20, sizes
    for n, rows in enumerate(alone):
        assert same(together[n].result(), rows), asked[n]


def same(found: Any, expected: Any) -> bool:
    """Whether JSON values are equal, but for the last digits of numbers."""
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    return found == (pytest.approx(expected, abs=2e-4) if isinstance(expected, float) else expected)


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("classify", {"model": "nsmc", "input": PAIRS}, "nsmc labels single texts, no pairs"),
        ("classify", {"model": "pairs", "input": "a"}, 'pairs labels pairs of texts, {"text"'),
        ("classify", {"model": "pairs", "input": [5]}, 'pairs labels pairs of texts, {"text"'),
        (
            "classify",
            {"model": "nsmc", "input": [[5], [10**9]]},
            "there is no token 1000000000: nsmc has ids from 0 to ",
        ),
        ("fill-mask", {"input": ["[MASK]", "없다"]}, "text 1 (from 0) has no [MASK]"),
        (
            "fill-mask",
            {"input": ["[MASK]" * 100] * 101, "top_k": 10},
            "101,000 tokens are asked for; a request may ask",
        ),
        ("fill-mask", {"input": "길다 " * 600 + "[MASK]"}, "beyond the model's 256 tokens"),
        ("embeddings", {"model": "mlm", "input": [5, 10**9]}, "there is no token 1000000000: mlm has ids from 0 to "),
        ("embeddings", {"model": "mlm", "input": [5] * 257}, "257 token ids are given; mlm reads at most 256"),
    ],
)
def test_input_that_does_not_fit_the_model_is_refused(path: str, body: Any, said: str, client: TestClient) -> None:
    response = client.post(f"/v1/{path}", json=body)
    assert response.status_code == 422 and said in response.json()["error"]["message"], response.text


def test_a_model_is_chosen_by_name_or_by_being_the_only_one(client: TestClient) -> None:
    answer = client.post("/v1/answer", json={"question": QUESTION, "context": CONTEXTS[0]})
    assert answer.json()["model"] == "korquad"
    several = client.post("/v1/classify", json={"input": "a"})
    assert several.status_code == 400 and several.json()["error"]["message"] == "name one of the models: nsmc, pairs"
    models = client.get("/ready").json()["models"]
    assert [models[name][0] for name in ("nsmc", "korquad", "mlm", "ner", "pairs")] == [
        "/v1/classify", "/v1/answer", "/v1/fill-mask", "/v1/tag", "/v1/classify",
    ]  # fmt: skip


def test_messages_name_the_model_and_not_its_folder(client: TestClient, folders: dict[str, str]) -> None:
    """Weights that give no numbers are found when the model is loaded, or else by the request."""
    model = client.app.state.service.models["pairs"].model
    before = model.classifier.bias.data.clone()
    model.classifier.bias.data[:] = float("nan")
    response = client.post("/v1/classify", json={"model": "pairs", "input": PAIRS})
    model.classifier.bias.data[:] = before
    message = response.json()["error"]["message"]
    assert message.startswith("pairs gives scores that are not finite") and folders["pairs"] not in message


def test_an_encoder_without_a_head_gives_vectors_whatever_it_was_trained_for(tiny: Any, tmp_path: Path) -> None:
    folder = made(BertModel, tiny.run_dir, tmp_path / "bare", {}, ["O"])
    model = ServedModel("bare", folder)
    assert model.task is None
    assert model.endpoints == ["/v1/embeddings", "/v1/similar", "/v1/tokenize", "/v1/attention"]
    folder = made(BertModel, tiny.run_dir, tmp_path / "other", {"tagging": {"max_length": 32}}, ["O"])
    assert ServedModel("other", folder).task is None, "as a model that lost its head to a further pretraining"
