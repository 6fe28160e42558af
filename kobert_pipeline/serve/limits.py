"""What a request may cost, who may send one, and the one form in which it is refused."""

import asyncio
import hmac
import logging
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

OPEN_PATHS = ("/", "/health", "/ready", "/docs", "/openapi.json")
"""What is answered without an API key: nothing in them depends on the models' texts."""
ERROR_TYPES = {
    401: "authentication_error", 404: "not_found_error", 413: "request_too_large_error", 429: "rate_limit_error",
    500: "server_error", 503: "unavailable_error", 504: "timeout_error",
}  # fmt: skip
RETRY = {"Retry-After": "1"}
"""The header of a refusal that may soon be over: the seconds after which to try again."""
CLIENT_GONE = 499
"""The status in the metrics of a request whose client did not wait for the answer."""
logger = logging.getLogger("kobert_pipeline.serve")


@dataclass(frozen=True)
class Limits:
    """What the server accepts."""

    max_batch_tokens: int = 16_384
    """Tokens that are computed together."""
    max_queue: int = 2048
    """Texts that wait at most."""
    timeout: float = 30
    """Seconds for a request: to be read, to wait, to be computed and to be sent."""
    max_body: int = 4 * 2**20
    """Bytes of a request's body."""
    max_requests: int = 256
    """Requests at the same time, so that at most `max_requests` bodies are in memory."""
    max_texts: int = 1024
    """Texts of a request."""
    max_characters: int = 100_000
    """Characters of a text."""
    # without it, 1,024 texts with 254 masks each could ask for 260 million numbers
    max_filled: int = 100_000
    """Tokens in an answer of /v1/fill-mask: `top_k` for each [MASK]."""

    def refuse_too_much(self, texts: Sequence[Sequence[object]]) -> None:
        """Raise HTTPException for too many texts (or lists of token ids), or one that is too long."""
        if len(texts) > (allowed := min(self.max_texts, self.max_queue)):
            raise HTTPException(422, f"there are {len(texts):,} texts; a request may have {allowed:,}, so send several")
        too_long = next((n for n, text in enumerate(texts) if len(text) > self.max_characters), None)
        if too_long is not None:
            raise HTTPException(
                422, f"text {too_long} (from 0) is longer than {self.max_characters:,} characters; split it"
            )

    def refuse_too_many_results(self, top_k: int) -> None:
        """Raise HTTPException for more texts of an index than a request may have."""
        if top_k > self.max_texts:
            raise HTTPException(
                422, f"top_k: {top_k:,} texts of the index are asked for; a request may ask for {self.max_texts:,}"
            )

    def refuse_too_many_tokens(self, tokens: int) -> None:
        """Raise HTTPException for masks with too many tokens for each."""
        if tokens > self.max_filled:
            raise HTTPException(
                422, f"{tokens:,} tokens are asked for; a request may ask for {self.max_filled:,}, top_k for each mask"
            )


def error_response(error: HTTPException) -> JSONResponse:
    """The answer to a request that is refused: `{"error": {"message", "type"}}`."""
    kind = ERROR_TYPES.get(error.status_code, "invalid_request_error")
    return JSONResponse({"error": {"message": error.detail, "type": kind}}, error.status_code, headers=error.headers)


class Gate:
    """ASGI middleware around everything: the API key, the size of the body, the number of requests, and the time.

    Whatever goes wrong inside is answered in the form of `error_response` and logged without any text of the request.

    Args:
        on_response: called with path, status and seconds of each request.
    """

    def __init__(
        self, app: ASGIApp, limits: Limits, api_key: bytes | None, on_response: Callable[[str, int, float], None]
    ) -> None:
        self.app, self.limits, self.api_key, self.on_response = app, limits, api_key, on_response
        self.requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the application, or answer with an error where it breaks a limit."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status, read = perf_counter(), 0, 0

        async def send_watched(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        async def receive_limited() -> Message:
            # counted as it arrives: the header Content-Length may be missing or wrong
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self.limits.max_body:
                # an HTTPException, since FastAPI, which reads the body, makes a 400 of any other error
                raise HTTPException(413, f"the body has more than {self.limits.max_body:,} bytes; send fewer texts")
            return message

        self.requests += 1
        try:
            async with asyncio.timeout(self.limits.timeout):
                self._refuse(scope)
                await self.app(scope, receive_limited, send_watched)
        except Exception as error:
            refusal = self._refusal(error)
            # an answer that has begun cannot become an error
            if not status:
                await error_response(refusal)(scope, receive, send_watched)
        finally:
            self.requests -= 1
            self.on_response(scope["path"], status or CLIENT_GONE, perf_counter() - started)

    def _refuse(self, scope: Scope) -> None:
        """Raise HTTPException for a request without the key, or one too many."""
        if self.api_key and scope["path"] not in OPEN_PATHS and not has_key(scope["headers"], self.api_key):
            message = "the API key is missing or wrong; send it as the header Authorization: Bearer KEY"
            raise HTTPException(401, message, {"WWW-Authenticate": "Bearer"})
        if self.requests > self.limits.max_requests and scope["method"] == "POST":  # health and metrics stay visible
            raise HTTPException(429, f"{self.limits.max_requests} requests are being answered; try again later", RETRY)

    def _refusal(self, error: Exception) -> HTTPException:
        if isinstance(error, HTTPException):
            return error
        if isinstance(error, TimeoutError):
            return HTTPException(504, f"not answered within {self.limits.timeout:g} seconds; send less, or try later")
        log_without_text(error)
        return HTTPException(500, "the server failed; its log says where")


def has_key(headers: Iterable[tuple[bytes, bytes]], api_key: bytes) -> bool:
    """Whether the headers hold the key, compared in a time that does not depend on how much of it is right."""
    authorization = next((value for name, value in headers if name == b"authorization"), b"")
    scheme, _, key = authorization.partition(b" ")
    return hmac.compare_digest(key.strip(), api_key) and scheme.lower() == b"bearer"


def log_without_text(error: BaseException) -> None:
    """Log the type of an error and where it was raised, without its message, which may quote a text."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    logger.error("%s, raised at:\n%s", type(error).__name__, frames)
