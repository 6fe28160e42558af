"""The served models and the thread that loads and runs them, seen from the event loop."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from kobert_pipeline.errors import UserError
from kobert_pipeline.serve.batching import Batcher, Closed, Compute, QueueFull
from kobert_pipeline.serve.limits import CLIENT_GONE, RETRY, Limits
from kobert_pipeline.serve.metrics import Metrics

if TYPE_CHECKING:
    from kobert_pipeline.serve.model import ServedModel

PATIENCE = 0.5
"""Seconds after which it is watched whether a client still waits: most are answered sooner, and watching costs."""

MAX_TURN = 0.01
"""Seconds that a batch waits at most for the requests that have already arrived. Where the loop and the model share a
core, fewer and larger batches cost less: 32 clients with single texts had 12 texts in a batch without, 15 with it."""


def load_model(
    name: str, checkpoint: str, long: str = "truncate", backend: str = "torch", tokenizer: str | None = None
) -> "ServedModel":
    """The checkpoint, under this name, which errors give, too."""
    from kobert_pipeline.serve.model import ServedModel  # imports torch, which takes seconds

    try:
        return ServedModel(name, checkpoint, long, backend, tokenizer)
    except UserError as error:
        raise UserError(f"{name} does not load: {error}") from error


class Service:
    """Checkpoints by name, and the index that they may search in, loaded and run by one thread of their own.

    `on_change` is called by that thread once the models are loaded, or when loading has failed with `failure`.
    """

    def __init__(
        self,
        checkpoints: Mapping[str, str],
        limits: Limits,
        load: Callable[[str, str], "ServedModel"] = load_model,
        index: Path | None = None,
    ) -> None:
        self.checkpoints, self.limits, self.load, self.metrics = checkpoints, limits, load, Metrics()
        self.index_folder = index
        self.batcher = Batcher(limits.max_batch_tokens, limits.max_queue, self.metrics.on_batch)
        self.metrics.queue_length = lambda: len(self.batcher)
        self.models: dict[str, ServedModel] = {}
        self.failure: Exception | None = None
        self.on_change: Callable[[], None] = lambda: None
        self.loaded = threading.Event()
        """Set once the models are loaded, or have failed to."""
        # a daemon, so that a model that takes long to load does not keep a process that is to end
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def ready(self) -> bool:
        """Whether all models are loaded, and requests are answered."""
        return self.loaded.is_set() and self.failure is None and self.alive

    def start(self) -> None:
        """Load the models, in the background."""
        # here, since the constructor is called before the loop runs
        loop = asyncio.get_running_loop()
        self.batcher.before_batch = partial(wait_for_turn, loop)
        self._thread.start()

    def close(self) -> None:
        """Finish the running batch, refuse what waits, and end the thread."""
        self.batcher.close()
        if self.alive:
            self._thread.join(self.limits.timeout)

    def _run(self) -> None:
        try:
            self.models = {name: self.load(name, checkpoint) for name, checkpoint in self.checkpoints.items()}
            if self.index_folder:
                self._search_in(self.index_folder)
        except Exception as error:
            self.failure = error
        self.loaded.set()
        # a server that was stopped while it loaded reports no models
        if not self.batcher.closed:
            self.on_change()
        if self.failure is None:
            self.batcher.run()

    def _search_in(self, folder: Path) -> None:
        """Give the models the index in a folder. Raises UserError where it has vectors of none of them."""
        from kobert_pipeline.inference.text_index import TextIndex

        index = TextIndex(folder)
        index.open_files()
        similar, models = "/v1/similar", list(self.models.values())
        # words are searched without a model's vectors
        searching = [model for model in models if similar in model.endpoints] or ([] if index.pooling else models)
        if not searching:
            by_torch = any(similar in model.torch_only for model in models)
            advice = "start the server with --backend torch" if by_torch else "serve that model as well"
            raise UserError(
                f"no served model makes vectors, but the index in {folder} has those of a model; {advice}, or make the "
                "index with --by bm25"
            )
        refusals = []
        for model in searching:
            try:
                model.search_in(index)
            except UserError as refusal:
                refusals.append(refusal)
        if len(refusals) == len(searching):
            raise refusals[0]

    def refuse_unready(self) -> None:
        """Raise HTTPException until the models are loaded."""
        if not self.ready:
            raise HTTPException(503, "the models are being loaded, or the server shuts down; try again later", RETRY)

    def model(self, name: str | None, endpoint: str, in_index: bool = False) -> "ServedModel":
        """The model of a request; without a name the only one that answers the endpoint, or for a search `in_index` the
        one that made the vectors of the index. Raises HTTPException where there is none."""
        self.refuse_unready()
        if name is not None and name not in self.models:
            raise HTTPException(404, f"there is no model {name!r:.80}; served are {', '.join(self.models)}")
        named = [model for model in self.models.values() if name in (None, model.name)]
        fit = [model for model in named if endpoint in model.endpoints]
        if not fit and any(endpoint in model.torch_only for model in named):
            raise HTTPException(400, f"{endpoint} needs torch; start the server with --backend torch")
        if not fit and name is not None:
            raise HTTPException(400, f"{name} does not answer {endpoint}, but {', '.join(self.models[name].endpoints)}")
        if not fit:
            raise HTTPException(400, f"no served model answers {endpoint}")
        if in_index:
            # without vectors an index is searched by words, and all models find the same
            fit = [model for model in fit if model.pooling_of_index] or fit[:1]
        if len(fit) > 1:
            raise HTTPException(400, f"name one of the models: {', '.join(model.name for model in fit)}")
        return fit[0]

    async def results(
        self, request: Request, compute: Compute, inputs: Sequence[Any], tokens: Sequence[int]
    ) -> list[Any]:
        """The results of `compute`, which may join the inputs with other requests' inputs. Raises HTTPException where
        the queue is full, an input cannot be computed, or nobody waits for the answer any more."""
        try:
            return await self._unless_gone(request, self.batcher.submit(compute, inputs, tokens))
        except QueueFull:
            raise HTTPException(429, "too many texts are waiting; try again later", RETRY) from None
        except Closed:
            raise HTTPException(503, "the server shuts down; try again later", RETRY) from None
        except UserError as error:
            raise HTTPException(422, str(error)) from None

    async def _unless_gone(self, request: Request, futures: list[Future[Any]]) -> list[Any]:
        """The results of the futures. What still waits is cancelled when the client goes, when its time is over, or
        when another text of the request fails."""
        finished, gone = all_done(futures, asyncio.get_running_loop()), None
        try:
            # not wait_for, which would cancel `finished` when the time is over
            await asyncio.wait({finished}, timeout=PATIENCE)
            if not finished.done():
                gone = asyncio.ensure_future(disconnected(request))
                await asyncio.wait({finished, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not finished.done():
                raise HTTPException(CLIENT_GONE, "the client has gone")
            if error := next((future.exception() for future in futures if future.done() and future.exception()), None):
                raise error
            return [future.result() for future in futures]
        finally:
            finished.cancel()
            if gone:
                gone.cancel()
            for future in futures:
                future.cancel()


def all_done(futures: Sequence[Future[Any]], loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
    """A future of that event loop, done as soon as all of these are, or one of them has failed."""
    # asyncio.wrap_future would wake the loop for each text, not once for all (docs/results/serving.md)
    finished: asyncio.Future[None] = loop.create_future()
    left = len(futures)

    def finish() -> None:
        if not finished.done():
            finished.set_result(None)

    def count(future: Future[Any]) -> None:
        nonlocal left
        left -= 1
        # `exception` raises CancelledError for a cancelled future, so that is asked first
        if not left or future.cancelled() or future.exception():
            with contextlib.suppress(RuntimeError):  # the server has ended, and nobody waits
                loop.call_soon_threadsafe(finish)

    for future in futures:
        future.add_done_callback(count)
    return finished


def wait_for_turn(loop: asyncio.AbstractEventLoop) -> None:
    """Wait, from another thread and for `MAX_TURN` seconds at most, until the event loop has read the requests that
    have arrived, and queued their texts."""
    done = threading.Event()
    with contextlib.suppress(RuntimeError):  # the server has ended
        # the first turn of the loop reads, the second queues, the third is this one's
        loop.call_soon_threadsafe(loop.call_soon, loop.call_soon, done.set)
        done.wait(MAX_TURN)


def service_of(request: Request) -> Service:
    """The service of the application."""
    service: Service = request.app.state.service
    return service


async def disconnected(request: Request) -> None:
    """Return when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
