"""How requests are refused, limited, timed and abandoned, with a model that the tests hold."""

import asyncio
import json
import re
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from html import escape
from types import SimpleNamespace
from typing import Any

import pytest
from held_model import HeldModel, wait_until
from starlette.testclient import TestClient

from kobert_pipeline.errors import UserError
from kobert_pipeline.serve import schema, service
from kobert_pipeline.serve.limits import Gate, Limits

SECRET = "비밀스러운 글"
OPEN = ("/", "/health", "/ready", "/docs", "/openapi.json")


def refusal(response: Any) -> tuple[int, str, str]:
    """Status, type and sentence of an error; fails the test when it has another form."""
    content = response.json()
    assert list(content) == ["error"] and list(content["error"]) == ["message", "type"], content
    message = content["error"]["message"]
    assert "Traceback" not in message and "\n" not in message and len(message) < 300
    return response.status_code, content["error"]["type"], message


def tokenize(client: TestClient, *texts: str) -> Any:
    return client.post("/v1/tokenize", json={"input": list(texts)})


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("tokenize", b'{"input": ', 400, "the body is not JSON: "),
        ("tokenize", b"\xff\xfe", 400, "the body is not JSON"),
        ("tokenize", '{"input": "가"}'.encode("cp949"), 400, "the body is not JSON in UTF-8"),
        ("tokenize", b"[" * 100_000, 400, "the body is not JSON in UTF-8, or is nested too deeply"),
        ("tokenize", b'{"input": [%s]}' % (b"9" * 5000), 400, "or has an integer of too many digits"),
        ("tokenize", b"", 422, "a JSON object was expected"),
        ("tokenize", b"[]", 422, "a JSON object was expected"),
        ("tokenize", {}, 422, "input: "),
        ("tokenize", {"input": 5}, 422, "input: a text or a list of texts was expected"),
        ("tokenize", {"input": []}, 422, "input: a text or a list of texts was expected"),
        ("tokenize", {"input": [[]] * 200_000}, 422, "input: a text or a list of texts was expected"),
        ("embeddings", {"input": [1] * 200_000 + ["a"]}, 422, "and at most 10,000 elements"),
        ("tokenize", {"input": ["a", None]}, 422, "input: a text or a list of texts was expected"),
        ("tokenize", {"input": "a", "models": "held"}, 422, "there is no field 'models' - did you mean 'model'?"),
        ("tokenize", {"input": "a", "": 1}, 422, "there is no field ''"),
        ("tokenize", {f"k{n}": 1 for n in range(100_000)}, 422, "there is no field 'k0' (allowed: input, model)"),
        ("tokenize", b'{"input": "a", "\\ud800": 1}', 422, r"there is no field '\ud800'"),
        ("tokenize", {"input": "a", "model": "other"}, 404, "there is no model 'other'; served are held"),
        ("tokenize", {"input": ["a"] * 4}, 422, "there are 4 texts; a request may have 3"),
        ("tokenize", {"input": ["a", "a" * 21]}, 422, "text 1 (from 0) is longer than 20 characters"),
        ("classify", {"input": "a", "model": "held"}, 400, "held does not answer /v1/classify, but /v1/tokenize"),
        ("classify", {"input": "a"}, 400, "no served model answers /v1/classify"),
        (
            "classify",
            {"input": [{"text": "a"}]},
            422,
            'input: a text, a pair {"text": ..., "text_pair": ...}, a list of them, or token ids',
        ),
        ("fill-mask", {"input": "a", "top_k": 0}, 422, "top_k: "),
        ("embeddings", {"input": [[1], "a"]}, 422, "input: a text, a list of texts, a list of token ids"),
        ("embeddings", {"input": [-1]}, 422, "input: a text, a list of texts, a list of token ids"),
        ("embeddings", {"input": "a", "encoding_format": "int8"}, 422, "encoding_format: "),
        ("similar", {"query": "a", "texts": ["b"], "by": "weighted"}, 422, "by: "),
        ("similar", {"query": "a", "texts": ["b"] * 4}, 422, "there are 4 texts; a request may have 3"),
        ("similar", {"query": "a" * 21, "texts": ["b"] * 3}, 422, "longer than 20 characters"),
        ("nothing", {}, 404, "there is no /v1/nothing; the paths are /v1/classify, /v1/answer"),
    ],
)
def test_a_mistake_is_refused_in_one_sentence(
    path: str, body: Any, status: int, said: str, client_of: Any, held: HeldModel
) -> None:
    client = client_of(max_texts=3, max_characters=20)
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = client.post(f"/v1/{path}", content=content, headers={"Content-Type": "application/json"})
    kind = "not_found_error" if status == 404 else "invalid_request_error"
    assert refusal(response)[:2] == (status, kind)
    assert said in refusal(response)[2]
    assert not held.batches


def test_half_a_character_is_replaced_as_in_the_commands() -> None:
    body = json.loads('{"question": "\\ud800?", "context": ["a", "\\ud83d\\ude00"]}')
    asked = schema.AnswerBody.model_validate(body)
    assert (asked.question, asked.context) == ("\u200b?", ["a", "😀"])
    reranked = schema.RerankBody.model_validate({"query": "a", "documents": ["\udfff", {"text": "\ud800"}]})
    assert reranked.documents == ["\u200b", schema.Document(text="\u200b")]


def test_a_body_is_json_by_its_header_too(client_of: Any) -> None:
    """A page in a browser can send text to localhost without asking, but not JSON."""
    response = client_of().post("/v1/tokenize", content='{"input": "a"}', headers={"Content-Type": "text/plain"})
    assert refusal(response) == (
        422, "invalid_request_error", "a JSON object was expected, sent with the header Content-Type: application/json",
    )  # fmt: skip
    preflight = client_of().options(
        "/v1/tokenize", headers={"Origin": "http://x", "Access-Control-Request-Method": "POST"}
    )
    assert refusal(preflight)[0] == 405
    assert refusal(preflight)[2] == "/v1/tokenize takes POST, not OPTIONS"
    assert not [name for name in preflight.headers if name.startswith("access-control")]


def test_a_key_is_demanded_of_everything_that_touches_a_model(client_of: Any, held: HeldModel) -> None:
    held.free.set()
    client = client_of(api_key=b"right-key")
    for path in OPEN:
        assert client.get(path).status_code == 200
    for headers in (
        {},
        {"Authorization": "Bearer wrong-key"},
        {"Authorization": "right-key"},
        {"Authorization": "Basic right-key"},
    ):
        response = client.post("/v1/tokenize", json={"input": "a"}, headers=headers)
        assert refusal(response)[:2] == (401, "authentication_error")
        assert response.headers["WWW-Authenticate"] == "Bearer"
        assert client.get("/metrics", headers=headers).status_code == 401
        assert client.get("/nothing", headers=headers).status_code == 401
    assert not held.batches
    for scheme in ("Bearer", "bearer"):
        headers = {"Authorization": f"{scheme} right-key"}
        assert client.post("/v1/tokenize", json={"input": "a"}, headers=headers).status_code == 200
    assert client.get("/openapi.json").json()["components"]["securitySchemes"]


def test_a_body_over_the_limit_is_refused_whatever_its_header_says(client_of: Any, held: HeldModel) -> None:
    held.free.set()
    client = client_of(max_body=100)
    assert tokenize(client, "a" * 80).status_code == 200
    response = client.post(
        "/v1/tokenize", content=b" " * 101, headers={"Content-Type": "application/json", "Content-Length": "5"}
    )
    assert refusal(response) == (413, "request_too_large_error", "the body has more than 100 bytes; send fewer texts")


def test_a_full_queue_is_refused_with_a_time_to_wait_and_then_answered(client_of: Any, held: HeldModel) -> None:
    client = client_of(max_queue=2, max_batch_tokens=1)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(tokenize, client, "running")
        assert held.started.wait(10)
        waiting = pool.submit(tokenize, client, "a", "b")
        wait_until(lambda: len(client.app.state.service.batcher) == 2)
        response = tokenize(client, "c")
        assert refusal(response) == (429, "rate_limit_error", "too many texts are waiting; try again later")
        assert response.headers["Retry-After"] == "1"
        held.free.set()
        assert first.result().status_code == waiting.result().status_code == 200
    assert tokenize(client, "c").status_code == 200
    assert held.batches == [["running"], ["a"], ["b"], ["c"]]


def test_too_many_requests_at_once_are_refused_before_they_are_read(client_of: Any, held: HeldModel) -> None:
    client = client_of(max_requests=1)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(tokenize, client, "running")
        assert held.started.wait(10)
        response = tokenize(client, "b")
        assert refusal(response)[0] == 429 and "1 requests are being answered" in refusal(response)[2]
        assert response.headers["Retry-After"] == "1"
        assert client.get("/ready").status_code == 200
        held.free.set()
        assert first.result().status_code == 200


def test_a_request_that_takes_too_long_is_given_up_and_not_computed_later(client_of: Any, held: HeldModel) -> None:
    client = client_of(timeout=1, max_batch_tokens=1)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(tokenize, client, "running")
        assert held.started.wait(10)
        late = [pool.submit(tokenize, client, name) for name in ("x", "y")]
        for one in (first, *late):
            assert refusal(one.result())[:2] == (504, "timeout_error")
            assert "not answered within 1 seconds" in refusal(one.result())[2]
    held.free.set()
    assert tokenize(client, "z").status_code == 200
    assert held.batches == [["running"], ["z"]]


class StepLoop:
    """An event loop whose turns the test makes."""

    def __init__(self) -> None:
        self.ready: list[Any] = []

    def call_soon(self, callback: Any, *arguments: Any) -> None:
        self.ready.append(lambda: callback(*arguments))

    call_soon_threadsafe = call_soon

    def turn(self) -> None:
        now, self.ready = self.ready, []
        for callback in now:
            callback()


def test_a_batch_waits_until_what_has_arrived_is_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MAX_TURN", 10)
    loop = StepLoop()
    waiting = threading.Thread(target=service.wait_for_turn, args=[loop])
    waiting.start()
    wait_until(lambda: bool(loop.ready))
    for _ in ("reads", "queues"):
        loop.turn()
        assert waiting.is_alive()
    loop.turn()
    waiting.join(5)
    assert not waiting.is_alive()


def test_a_loop_that_is_busy_or_closed_holds_no_batch_up() -> None:
    service.wait_for_turn(StepLoop())  # type: ignore[arg-type]  # never makes a turn
    closed = asyncio.new_event_loop()
    closed.close()
    service.wait_for_turn(closed)


def test_results_after_the_loop_has_closed_wake_nobody(caplog: pytest.LogCaptureFixture) -> None:
    loop, result = asyncio.new_event_loop(), Future[int]()
    service.all_done([result], loop)
    loop.close()
    result.set_result(1)  # a callback that raises is logged
    assert not caplog.records


def test_a_client_that_goes_is_dropped_from_the_queue(client_of: Any, held: HeldModel) -> None:
    client = client_of(max_batch_tokens=1)
    gone = threading.Event()

    async def ask() -> list[Any]:
        messages = [{"type": "http.request", "body": json.dumps({"input": "gone"}).encode()}]

        async def receive() -> Any:
            if messages:
                return messages.pop()
            await asyncio.to_thread(gone.wait, 10)
            return {"type": "http.disconnect"}

        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": "/v1/tokenize", "headers": headers, "query_string": b""}
        await client.app(scope | {"raw_path": b"/v1/tokenize", "root_path": "", "scheme": "http"}, receive, send)
        return sent

    with ThreadPoolExecutor() as pool:
        first = pool.submit(tokenize, client, "running")
        assert held.started.wait(10)
        leaver = pool.submit(asyncio.run, ask())
        wait_until(lambda: len(client.app.state.service.batcher) == 1)
        gone.set()
        assert leaver.result()[0]["status"] == 499
        held.free.set()
        assert first.result().status_code == 200
    assert tokenize(client, "next").status_code == 200
    assert held.batches == [["running"], ["next"]]


def test_until_the_models_are_loaded_the_server_is_healthy_but_not_ready(client_of: Any, held: HeldModel) -> None:
    held.free.set()
    loaded = threading.Event()
    client = client_of(load=lambda name, folder: loaded.wait(10) and held)
    assert client.get("/health").json() == {"status": "ok"}
    for response in (client.get("/ready"), tokenize(client, "a")):
        assert refusal(response)[:2] == (503, "unavailable_error")
        assert response.headers["Retry-After"] == "1"
    loaded.set()
    wait_until(lambda: client.get("/ready").status_code == 200)
    assert client.get("/ready").json() == {"status": "ready", "models": {"held": ["/v1/tokenize"]}}
    assert tokenize(client, "a").status_code == 200


def test_without_its_thread_the_server_is_not_healthy(client_of: Any) -> None:
    client = client_of(load=lambda name, folder: 1 / 0)
    wait_until(lambda: client.get("/health").status_code == 503)
    assert refusal(client.get("/ready"))[0] == refusal(tokenize(client, "a"))[0] == 503


def test_what_waits_at_the_end_is_told_so(client_of: Any, held: HeldModel) -> None:
    client = client_of(max_batch_tokens=1)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(tokenize, client, "running")
        assert held.started.wait(10)
        second = pool.submit(tokenize, client, "waiting")
        wait_until(lambda: len(client.app.state.service.batcher) == 1)
        client.app.state.service.batcher.close()
        assert refusal(second.result())[:2] == (503, "unavailable_error")
        held.free.set()
        assert first.result().status_code == 200


def test_a_failure_of_ours_quotes_no_text_and_fails_nobody_else(
    client_of: Any, held: HeldModel, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    client = client_of()
    with ThreadPoolExecutor() as pool:
        first = pool.submit(tokenize, client, "running")
        assert held.started.wait(10)
        bad, good = pool.submit(tokenize, client, f"{SECRET} fail"), pool.submit(tokenize, client, "b")
        wait_until(lambda: len(client.app.state.service.batcher) == 2)
        held.free.set()
        assert first.result().status_code == good.result().status_code == 200
        assert refusal(bad.result()) == (500, "server_error", "the server failed; its log says where")
    assert "ValueError, raised at:" in caplog.text and "in tokenize" in caplog.text
    assert SECRET not in caplog.text + "".join(capfd.readouterr())


def test_metrics_count_requests_and_batches_under_known_paths(client_of: Any, held: HeldModel) -> None:
    held.free.set()
    client = client_of()
    assert tokenize(client, "a", "bc").status_code == 200
    assert client.get("/v1/secret").status_code == 404
    shown = client.get("/metrics")
    assert shown.headers["Content-Type"].startswith("text/plain")
    for line in (
        'kobert_requests_total{path="/v1/tokenize",status="200"} 1.0',
        'kobert_requests_total{path="other",status="404"} 1.0',
        'kobert_request_seconds_count{path="/v1/tokenize"} 1.0',
        "kobert_batch_inputs_sum 2.0",
        "kobert_batch_tokens_sum 3.0",
        "kobert_waiting_inputs 0.0",
    ):
        assert line in shown.text.splitlines(), line
    assert "secret" not in shown.text


def test_the_openapi_page_describes_every_path(client_of: Any) -> None:
    client = client_of()
    described = client.get("/openapi.json").json()
    assert "/v1/embeddings" in described["paths"] and "/metrics" in described["paths"]
    for path, methods in described["paths"].items():
        for name, method in methods.items():
            assert method["description"], path
            if name == "get":
                answer = client.get(path)
                (kind,) = method["responses"][str(answer.status_code)]["content"]
                assert answer.headers["Content-Type"].startswith(kind), path
    errors = described["paths"]["/v1/classify"]["post"]["responses"]
    assert {"401", "413", "422", "429", "504"} <= set(errors)
    assert all(
        content["content"]["application/json"]["schema"]["$ref"].endswith("/Error")
        for status, content in errors.items()
        if status != "200"
    )
    page = client.get("/docs").text
    for path, methods in described["paths"].items():
        for name, method in methods.items():
            assert f"<h2>{name.upper()} {path}</h2><p>{escape(method['description'])}</p>" in page
    assert "<td>input</td><td>string or list of string or list of integer or list of list of integer</td>" in page
    assert "<td>by</td><td>mean | cls | max | first-last | bm25 | hybrid or null</td>" in page
    assert not re.search("src=|//|@import", page), "nothing is loaded from elsewhere"


def test_what_the_task_refuses_is_refused_in_its_words(client_of: Any) -> None:
    class Picky(HeldModel):
        endpoints = ["/v1/classify"]

        def refuse_unfit_ids(self, rows: Any) -> None:
            assert not rows

        def example(self, text: str, pair: str | None) -> Any:
            raise UserError("the text does not mark one subject")

    client = client_of(load=lambda name, folder: Picky())
    wait_until(lambda: client.app.state.service.ready)
    status, _, message = refusal(client.post("/v1/classify", json={"input": "글"}))
    assert (status, message) == (422, "the text does not mark one subject")


def test_an_answer_that_has_begun_does_not_become_an_error() -> None:
    sent, counted = list[Any](), list[Any]()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ZeroDivisionError

    async def send(message: Any) -> None:
        sent.append(message["type"])

    gate = Gate(app, Limits(), None, lambda path, status, seconds: counted.append((path, status)))
    asyncio.run(gate({"type": "http", "path": "/v1/tag", "headers": []}, None, send))  # type: ignore[arg-type]
    assert sent == ["http.response.start"] and counted == [("/v1/tag", 200)] and gate.requests == 0


def test_a_client_is_gone_only_when_it_says_so() -> None:
    messages = [{"type": "http.disconnect"}, {"type": "http.request"}, {"type": "http.request"}]

    async def receive() -> Any:
        return messages.pop()

    asyncio.run(service.disconnected(SimpleNamespace(receive=receive)))  # type: ignore[arg-type]
    assert not messages
