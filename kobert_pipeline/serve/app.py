"""The routes: each checks its request, has the inputs computed, and returns the rows of `kobert predict --json` and its
like."""

import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from fastapi.security import HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from kobert_pipeline import __version__
from kobert_pipeline.errors import UserError
from kobert_pipeline.inference.vector_files import short_floats
from kobert_pipeline.serve import schema
from kobert_pipeline.serve.batching import Compute
from kobert_pipeline.serve.limits import Gate, error_response
from kobert_pipeline.serve.page import page
from kobert_pipeline.serve.reference import reference_page
from kobert_pipeline.serve.service import Service, service_of

HTTP_BEARER = Depends(HTTPBearer(auto_error=False))
models = APIRouter(prefix="/v1", responses=schema.ERRORS)
server = APIRouter()


class MetricsResponse(Response):
    """Prometheus' text format."""

    media_type = CONTENT_TYPE_LATEST


def create_app(service: Service, api_key: bytes | None = None, load_first: bool = False) -> FastAPI:
    """The application. It starts and closes the service, and with it the models. With `load_first` no connection is
    accepted before they are loaded."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # not earlier, because the thread of the models takes turns with the running event loop
        service.start()
        if load_first:
            await run_in_threadpool(service.loaded.wait)
        yield
        service.close()

    app = FastAPI(
        title="kobert serve",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,  # FastAPI's page would load its program from another server; `reference` needs none
        redoc_url=None,
        redirect_slashes=False,
        # shows the page's button for the key; `Gate` checks it, before a body is read
        dependencies=[] if api_key is None else [HTTP_BEARER],
        # OpenTelemetry's logs would quote the texts of refused requests
        telemetry={"logs": False},
    )
    app.state.service = service
    app.include_router(models)
    app.include_router(server)
    app.include_router(page)
    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    service.metrics.paths = frozenset(app.openapi()["paths"])
    app.add_middleware(Gate, limits=service.limits, api_key=api_key, on_response=service.metrics.on_response)
    return app


@models.post("/classify", response_model=schema.Results[schema.Label])
async def classify(body: schema.ClassifyBody, request: Request) -> Response:
    """Label texts, pairs of texts, or lists of token ids."""
    model = service_of(request).model(body.model, "/v1/classify")
    inputs = texts_or_ids(model, body.input)
    if isinstance(inputs[0], list) and not model.paired:
        return rows(model, await computed(request, model.label_ids, inputs, inputs, model.max_length))
    examples = []
    for item in inputs:
        if not (model.takes_pairs if isinstance(item, schema.Pair) else not model.paired):
            form = 'pairs of texts, {"text": ..., "text_pair": ...}' if model.paired else "single texts, no pairs"
            raise HTTPException(422, f"{model.name} labels {form}")
        text, pair = (item.text, item.text_pair) if isinstance(item, schema.Pair) else (item, None)
        try:
            examples.append(model.example(text, pair))
        except UserError as error:
            raise HTTPException(422, str(error)) from None
    texts = [example["text"] + example.get("text_pair", "") for example in examples]
    return rows(model, await computed(request, model.predict, examples, texts, model.longest_text))


@models.post("/answer", response_model=schema.Results[schema.Answer])
async def answer(body: schema.AnswerBody, request: Request) -> Response:
    """Answer a question from each text."""
    model = service_of(request).model(body.model, "/v1/answer")
    contexts = as_list(body.context)
    examples = [{"question": body.question, "context": context, "answers": []} for context in contexts]
    service_of(request).limits.refuse_too_much([body.question])
    return rows(model, await computed(request, model.predict, examples, contexts))


@models.post("/tag", response_model=schema.Results[schema.Tagged])
async def tag(body: schema.TextsBody, request: Request) -> Response:
    """Find the entities of texts."""
    model = service_of(request).model(body.model, "/v1/tag")
    texts = as_list(body.input)
    examples = [{"text": text, "entities": []} for text in texts]
    return rows(model, await computed(request, model.predict, examples, texts))


@models.post("/fill-mask", response_model=schema.Results[schema.Filled])
async def fill_mask(body: schema.FillBody, request: Request) -> Response:
    """The likeliest tokens for each [MASK] of texts."""
    model = service_of(request).model(body.model, "/v1/fill-mask")
    texts = as_list(body.input)
    without = next((index for index, text in enumerate(texts) if model.mask_token not in text), None)
    if without is not None:
        raise HTTPException(
            422, f"text {without} (from 0) has no {model.mask_token}; write one where a token is missing"
        )
    service_of(request).limits.refuse_too_many_tokens(body.top_k * sum(text.count(model.mask_token) for text in texts))
    inputs = [(text, body.top_k) for text in texts]
    return rows(model, await computed(request, model.fill, inputs, texts, model.max_length))


@models.post("/embeddings", response_model=schema.Embeddings)
async def embeddings(body: schema.EmbeddingsBody, request: Request) -> Response:
    """The vectors of texts, as OpenAI's clients ask for them."""
    model = service_of(request).model(body.model, "/v1/embeddings")
    inputs = texts_or_ids(model, body.input)
    compute = model.embed_ids if isinstance(inputs[0], list) else model.embed
    vectors = await computed(request, compute, inputs, inputs, model.longest_text)
    # in a thread, since the numbers of many vectors take long to print
    return await run_in_threadpool(embeddings_response, model.name, vectors, body.encoding_format)


@models.post("/similar", response_model=schema.Results[schema.Ranked])
async def similar(body: schema.SimilarBody, request: Request) -> Response:
    """Rank texts by their similarity to a query: those of the request, or else of the server's index."""
    from kobert_pipeline.serve.model import Ranking

    service = service_of(request)
    service.limits.refuse_too_much([body.query])
    if body.texts is None:
        service.limits.refuse_too_many_results(body.top_k)
    else:
        service.limits.refuse_too_much(body.texts)
    model = service.model(body.model, "/v1/similar", in_index=body.texts is None and service.index_folder is not None)
    ranking = Ranking(body.query, body.texts, body.by, body.top_k)
    if body.texts is None:
        # a search is a batch of its own, so that clients that have gone are noticed between searches
        tokens = service.limits.max_batch_tokens
    else:
        tokens = sum(min(len(text), model.longest_text) for text in [body.query, *body.texts])
    (ranked,) = await service.results(request, model.rank, [ranking], [tokens])
    # in a thread, since the texts of an index may be long
    return await run_in_threadpool(rows, model, ranked)


@models.post("/rerank", response_model=list[schema.Reranked] | schema.Reranking)
async def rerank(body: schema.RerankBody, request: Request) -> Response:
    """Order texts by their relevance to a query, most relevant first; the answer has the form of the request."""
    model = service_of(request).model(body.model, "/v1/rerank")
    if (body.texts is None) == (body.documents is None):
        raise HTTPException(422, "either texts, as in TEI's form, or documents, as in Jina's, were expected")
    texts = body.texts or [item if isinstance(item, str) else item.text for item in body.documents or ()]
    examples = [model.example(body.query, text) for text in texts]
    pairs = [body.query + text for text in texts]
    scored = await computed(request, model.relevance, examples, pairs, model.max_length)
    # not by probability: the sigmoid of large log-odds is 1 for all of them; equal ones keep their order
    order = sorted(range(len(texts)), key=lambda index: -scored[index].log_odds)
    if body.texts:
        return JSONResponse(
            [
                {"index": index, "score": scored[index].log_odds if body.raw_scores else scored[index].probability}
                | ({"text": texts[index]} if body.return_text else {})
                for index in order
            ]
        )
    results = [
        {"index": index, "relevance_score": scored[index].probability}
        | ({"document": {"text": texts[index]}} if body.return_documents else {})
        for index in order[: body.top_n]
    ]
    return JSONResponse({"model": model.name, "results": results, "usage": usage(scored)})


@models.post("/tokenize", response_model=schema.Results[schema.Tokens])
async def tokenize(body: schema.TextsBody, request: Request) -> Response:
    """The tokens of texts, with their ids and their places in the text."""
    model = service_of(request).model(body.model, "/v1/tokenize")
    texts = as_list(body.input)
    return rows(model, await computed(request, model.tokenize, texts, texts))


@server.get("/health", responses=schema.errors(503))
async def health(request: Request) -> Response:
    """Whether the process works; 503 once the thread of the models has ended."""
    if not service_of(request).alive:
        raise HTTPException(503, "the thread of the models has ended; start the server again")
    return JSONResponse({"status": "ok"})


@server.get("/ready", responses=schema.errors(503))
async def ready(request: Request) -> Response:
    """The models with the paths that they answer; 503 until they are loaded."""
    service = service_of(request)
    service.refuse_unready()
    return JSONResponse(
        {"status": "ready", "models": {model.name: model.endpoints for model in service.models.values()}}
    )


@server.get("/metrics", response_class=MetricsResponse)
async def metrics(request: Request) -> Response:
    """Counts and times in Prometheus' text format."""
    return MetricsResponse(service_of(request).metrics.text())


@server.get("/docs", include_in_schema=False)
async def docs(request: Request) -> Response:
    """All requests and answers, as a page to read."""
    return HTMLResponse(reference_page(request.app.openapi()))


def as_list(value: Any) -> list[Any]:
    """A list as it is, and anything else as a list of one."""
    return value if isinstance(value, list) else [value]


def texts_or_ids(model: Any, value: Any) -> list[Any]:
    """The inputs of a request as a list of texts, pairs or lists of token ids. Raises HTTPException for ids that the
    model cannot read."""
    inputs = [value] if isinstance(value, list) and isinstance(value[0], int) else as_list(value)
    try:
        model.refuse_unfit_ids([item for item in inputs if isinstance(item, list)])
    except UserError as error:
        raise HTTPException(422, str(error)) from None
    return inputs


async def computed(
    request: Request, compute: Compute, inputs: Sequence[Any], texts: Sequence[Any], max_length: int | None = None
) -> list[Any]:
    """The results of inputs that have these texts, or token ids, each truncated to `max_length` tokens."""
    service = service_of(request)
    service.limits.refuse_too_much(texts)
    # characters stand for tokens, since a text nearly always has fewer tokens: the exact number is known after the
    # analysis
    tokens = [min(len(text), max_length or len(text)) for text in texts]
    return await service.results(request, compute, inputs, tokens)


def rows(model: Any, data: list[Any]) -> JSONResponse:
    """The answer with a row per text."""
    return JSONResponse({"object": "list", "model": model.name, "data": data})


def embeddings_response(name: str, vectors: list[tuple[Any, int]], encoding_format: str) -> JSONResponse:
    """OpenAI's answer, from vectors (d,) with their numbers of tokens."""

    def encoded(vector: Any) -> str | list[float]:
        if encoding_format == "base64":
            return base64.b64encode(vector.astype("<f4").tobytes()).decode()
        return short_floats(vector)

    data = [{"object": "embedding", "index": n, "embedding": encoded(vector)} for n, (vector, _) in enumerate(vectors)]
    return JSONResponse({"object": "list", "model": name, "data": data, "usage": usage(vectors)})


def usage(results: list[Any]) -> dict[str, int]:
    """OpenAI's count of tokens, from results that each end with theirs."""
    tokens = sum(result[-1] for result in results)
    return {"prompt_tokens": tokens, "total_tokens": tokens}


async def refused(request: Request, error: Any) -> Response:
    """Answer every HTTP error, also the framework's own (no such path, no such method, bytes that are no text)."""
    path, paths = request.url.path, request.app.openapi()["paths"]
    # recognized by their texts, since our own errors may have the same status
    own = {
        (404, "Not Found"): f"there is no {path:.80}; the paths are {', '.join(paths)}",
        (405, "Method Not Allowed"): f"{path:.80} takes {', '.join(map(str.upper, paths.get(path, ['get'])))}, not "
        f"{request.method}",
        (400, "There was an error parsing the body"): "the body is not JSON in UTF-8, or is nested too "
        "deeply, or has an integer of too many digits",
    }
    message = own.get((error.status_code, error.detail), error.detail)
    return error_response(HTTPException(error.status_code, message, error.headers))


async def invalid(request: Request, error: Any) -> Response:
    """The first thing that is wrong with a body."""
    first = error.errors()[0]
    location, field = first["loc"][1:], ".".join(str(part)[:40] for part in first["loc"][1:])
    if first["type"] == "json_invalid":
        return error_response(
            HTTPException(400, f"the body is not JSON: {first['ctx']['error']} at character {location[0]}")
        )
    if first["type"] == schema.UNKNOWN_FIELD:
        message = first["msg"]
    elif not location:
        message = "a JSON object was expected, sent with the header Content-Type: application/json"
    else:
        message = f"{field}: {first['msg']}"
    return error_response(HTTPException(422, message))
