"""The HTTP server around the application: its socket, its processes, its signals, and its end."""

import codecs
import contextlib
import gc
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
import uvicorn.supervisors.multiprocess
from fastapi import FastAPI
from uvicorn.config import STARTUP_FAILURE

from kobert_pipeline.errors import UserError
from kobert_pipeline.serve import metrics
from kobert_pipeline.serve.app import create_app
from kobert_pipeline.serve.limits import Limits
from kobert_pipeline.serve.service import Service, load_model

if TYPE_CHECKING:
    from kobert_pipeline.serve.model import ServedModel

SIGNALS = (signal.SIGTERM, signal.SIGINT)


CONFIG: dict[str, Any] = {
    # no names of files or people: neither access logs nor uvicorn's own logging, headers or trust in proxies
    "access_log": False, "log_config": None, "log_level": "error", "server_header": False, "proxy_headers": False,
    # longer than the 60 s after which clients and proxies close idle connections: it is they who know if one is in use
    "timeout_keep_alive": 75,
    # h11 limits the size of headers, which httptools does not; uvloop would bring nothing (docs/results/serving.md)
    "http": "h11", "loop": "asyncio", "ws": "none", "lifespan": "on",
}  # fmt: skip
"""The settings of uvicorn."""
HEALTHCHECK_SECONDS = 60
"""How long a worker may not answer its supervisor before it is killed: importing torch keeps it busy for seconds."""


def serve(
    checkpoints: Mapping[str, str],
    host: str,
    port: int,
    limits: Limits,
    api_key: bytes | None,
    long: str = "truncate",
    workers: int = 1,
    backend: str = "torch",
    tokenizer: str | None = None,
    index: Path | None = None,
) -> None:
    """Serve checkpoints by name until SIGTERM or Ctrl-C. Requests that have arrived by then are still answered.

    Raises UserError where the address cannot be used, or a checkpoint does not load.
    """
    load = partial(load_model, long=long, backend=backend, tokenizer=tokenizer)
    if workers > 1:
        with begun(checkpoints, host, port, api_key) as listener:
            app = partial(worker_app, url(listener), dict(checkpoints), limits, api_key, load, index)
            supervise(listener, workers, app)
        return
    service = Service(checkpoints, limits, load, index)
    server = uvicorn.Server(uvicorn.Config(create_app(service, api_key), **CONFIG))
    with begun(checkpoints, host, port, api_key) as listener, stopped_by_signals(server):

        def on_change() -> None:
            if service.failure:
                server.should_exit = True
            else:
                keep_what_is_loaded()
                print(f"{url(listener)}: {ready_line(service)}", flush=True)

        service.on_change = on_change
        server.run(sockets=[listener])
    if service.failure:
        raise service.failure


@contextlib.contextmanager
def begun(checkpoints: Mapping[str, str], host: str, port: int, api_key: bytes | None) -> Iterator[socket.socket]:
    """A listening socket; its address is printed, with a warning where anybody may use it."""
    with listen(host, port) as listener:
        print(f"{url(listener)}: loading {', '.join(checkpoints)}", flush=True)
        if api_key is None and not is_loopback(listener):
            print("whoever reaches this address may use it; --api-key-file FILE demands a key", flush=True)
        yield listener


def ready_line(service: Service) -> str:
    """What is printed once the models are loaded."""
    served = [f"{model.name} ({', '.join(model.endpoints)})" for model in service.models.values()]
    if service.index_folder:
        by_words = [model.name for model in service.models.values() if model.index and not model.pooling_of_index]
        served += [f"{name} searches in {service.index_folder} by words alone" for name in by_words]
    return f"ready: {'; '.join(served)}"


def keep_what_is_loaded() -> None:
    """Exempt all objects of now from garbage collection. Looking through the objects of torch and of a model again and
    again takes a quarter of a second each time, in which no request is answered."""
    # first, because garbage that is frozen is never freed
    gc.collect()
    gc.freeze()


def supervise(listener: socket.socket, workers: int, app: Callable[[], FastAPI]) -> None:
    """Serve `app()` by several processes, each with its own models, and replace those that die, until SIGTERM or
    Ctrl-C. Raises UserError where a worker cannot start."""
    config = uvicorn.Config(
        app, factory=True, workers=workers, timeout_worker_healthcheck=HEALTHCHECK_SECONDS, **CONFIG
    )
    # torch starts a thread per core in each worker, which would then compete for the cores
    os.environ.setdefault("OMP_NUM_THREADS", str(max((os.cpu_count() or 1) // workers, 1)))
    # uvicorn's supervisor replaces these handlers and does not restore them
    before = {signum: signal.getsignal(signum) for signum in uvicorn.supervisors.multiprocess.SIGNALS}
    with tempfile.TemporaryDirectory() as folder:
        # before the workers start: prometheus_client looks for the folder when they import it
        os.environ[metrics.FOLDER] = folder
        try:
            supervisor = uvicorn.supervisors.Multiprocess(config, [listener])
            supervisor.run()
        finally:
            del os.environ[metrics.FOLDER]
            for signum, handler in before.items():
                signal.signal(signum, handler)
    if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
        raise UserError("a worker could not load the models; its message is above")


def worker_app(
    address: str,
    checkpoints: Mapping[str, str],
    limits: Limits,
    api_key: bytes | None,
    load: Callable[[str, str], "ServedModel"],
    index: Path | None = None,
) -> FastAPI:
    """The application of a worker, which accepts connections once its models are loaded: a request that arrives earlier
    is answered by another worker, or waits."""
    service = Service(checkpoints, limits, load, index)

    def on_change() -> None:
        if service.failure:
            message = str(service.failure) if isinstance(service.failure, UserError) else repr(service.failure)
            print(f"worker {os.getpid()}: {message}", file=sys.stderr, flush=True)
            # called by the thread of the models, in which sys.exit would end the thread alone
            os._exit(STARTUP_FAILURE)  # which tells the supervisor not to try again
        keep_what_is_loaded()
        print(f"{address}: worker {os.getpid()} {ready_line(service)}", flush=True)

    service.on_change = on_change
    return create_app(service, api_key, load_first=True)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises UserError where the address is taken or is not one of this machine."""
    try:
        # `create_server` takes every host for IPv4 where no family is given
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=1024)
        # asyncio sets it only on sockets that name their protocol; without it the body of an answer waits until the
        # client has acknowledged its headers, which takes 40 ms on a connection that is used again
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        reason = str(error.strerror).partition(" (while")[0]  # Python adds the address once more
        raise UserError(f"{host} port {port}: {reason}; choose another --host or --port") from None


def url(listener: socket.socket) -> str:
    """The address of a listening socket, as one types it."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(listener: socket.socket) -> bool:
    """Whether only this machine reaches the socket."""
    return ip_address(listener.getsockname()[0]).is_loopback


@contextlib.contextmanager
def stopped_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """Let SIGTERM and Ctrl-C stop the server, also before and after uvicorn handles them; it raises them again at its
    end, which would otherwise kill the process."""

    def stop(signum: int, frame: object) -> None:
        server.should_exit = True

    before = {signum: signal.signal(signum, stop) for signum in SIGNALS}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def read_api_key(path: Path) -> bytes:
    """The key in a file of one line. Raises UserError for an empty file, or one of several lines."""
    lines = path.read_bytes().removeprefix(codecs.BOM_UTF8).strip().splitlines()
    if len(lines) != 1 or b" " in lines[0]:
        raise UserError(f"{path}: one line with the key was expected; write one with `openssl rand -hex 32 > {path}`")
    return lines[0]
