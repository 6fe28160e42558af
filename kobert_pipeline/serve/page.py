"""The page for people at `/`, one file that asks nobody but this server, and the two paths that it alone needs: which
models there are, and attention."""

import hashlib
import time
from base64 import b64encode
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, Field

from kobert_pipeline.serve import schema
from kobert_pipeline.serve.service import service_of

PAGES = Path(__file__).parent / "pages"
SCRIPTS = ("words.js", "tabs.js", "attention.js", "page.js")
STARTED = int(time.time())
"""When the server was started, for OpenAI's clients, in seconds since 1970."""
page = APIRouter()


class AttentionBody(schema.Body):
    """A text, or a pair of texts that the model reads together."""

    input: Annotated[schema.Text | schema.Pair, schema.expected('a text or a pair {"text": ..., "text_pair": ...}')]
    layer: int = -1
    """Number of the layer, from 1; -1 for the last."""
    head: int | None = Field(None, ge=1)
    """Number of the attention head, from 1; none for the mean of all."""


class Attention(BaseModel):
    """What each morpheme (of other tokenizers: word) of `units` reads from each: rows of weights that add up to 1."""

    units: list[str]
    weights: list[list[float]]
    layers: int
    heads: int
    truncated: bool


class Score(BaseModel):
    """A score on the model card."""

    dataset: str
    metric: str
    value: float


class Model(BaseModel):
    """A model, in OpenAI's form, with the paths that it answers and its scores."""

    id: str
    object: str
    created: int
    owned_by: str
    endpoints: list[str]
    paired: bool
    """Whether it labels pairs of texts."""
    example: str | None
    """A text in the form that the model reads, where it needs markers; null where any text will do."""
    mask_token: str | None
    """What texts for /v1/fill-mask have; null where the model does not answer that."""
    scores: list[Score]


class Models(BaseModel):
    """All served models."""

    object: str
    data: list[Model]


def content() -> tuple[str, str]:
    """The page, and its policy: browsers run its own script and style, known by their SHA-256, and let it ask this
    server alone."""
    style = (PAGES / "page.css").read_text(encoding="utf-8")
    script = "".join((PAGES / name).read_text(encoding="utf-8") for name in SCRIPTS)
    html = (PAGES / "page.html").read_text(encoding="utf-8").replace("STYLE", style).replace("SCRIPT", script)
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest(script)}'; style-src 'sha256-{digest(style)}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return html, policy


def digest(text: str) -> str:
    """The SHA-256 of a text in base64, as policies have it."""
    return b64encode(hashlib.sha256(text.encode()).digest()).decode()


HTML, POLICY = content()
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


@page.get("/", response_class=HTMLResponse)
async def show() -> Response:
    """The page on which people try the models."""
    return HTMLResponse(HTML, headers=HEADERS)


@page.get("/v1/models", response_model=Models, responses=schema.ERRORS)
async def models(request: Request) -> Response:
    """The models, and what each answers."""
    service = service_of(request)
    service.refuse_unready()
    data = [
        {"id": model.name, "object": "model", "created": STARTED, "owned_by": "kobert"}
        | {"endpoints": model.endpoints, "paired": model.paired, "scores": model.scores}
        | {"example": model.marked_example}
        | {"mask_token": model.mask_token if "/v1/fill-mask" in model.endpoints else None}
        for model in service.models.values()
    ]
    return JSONResponse({"object": "list", "data": data})


@page.post("/v1/attention", response_model=schema.Results[Attention], responses=schema.ERRORS)
async def attention(body: AttentionBody, request: Request) -> Response:
    """What each morpheme of a text reads from, in one layer and head."""
    service = service_of(request)
    model = service.model(body.model, "/v1/attention")
    texts = [body.input.text, body.input.text_pair] if isinstance(body.input, schema.Pair) else [body.input]
    service.limits.refuse_too_much(texts)
    tokens = sum(min(len(text), model.max_length) for text in texts)
    data: list[Any] = await service.results(request, model.attend, [(texts, body.layer, body.head)], [tokens])
    return JSONResponse({"object": "list", "model": model.name, "data": data})
