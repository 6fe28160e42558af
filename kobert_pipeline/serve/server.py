"""The HTTP server around the application: its socket, its signals, and its end."""

import contextlib
import signal
import socket
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from pathlib import Path

import uvicorn

from kobert_pipeline.errors import UserError
from kobert_pipeline.serve.app import create_app
from kobert_pipeline.serve.limits import Limits
from kobert_pipeline.serve.service import Service

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def serve(checkpoints: Mapping[str, str], host: str, port: int, limits: Limits, api_key: bytes | None) -> None:
    """Serve checkpoints by name until SIGTERM or Ctrl-C. Requests that have arrived by then are still answered.

    Raises UserError where the address cannot be used, or a checkpoint does not load.
    """
    service = Service(checkpoints, limits)
    config = uvicorn.Config(
        create_app(service, api_key),
        # no names of files or people: neither access logs nor uvicorn's own logging, headers or trust in proxies
        access_log=False, log_config=None, log_level="error", server_header=False, proxy_headers=False,
        http="h11", loop="asyncio", ws="none", lifespan="on",
    )  # fmt: skip
    server = uvicorn.Server(config)
    with listen(host, port) as listener, stopped_by_signals(server):
        address = url(listener)
        print(f"{address}: loading {', '.join(checkpoints)}", flush=True)
        if api_key is None and not is_loopback(listener):
            print("whoever reaches this address may use it; --api-key-file FILE demands a key", flush=True)

        def on_change() -> None:
            if service.failure:
                server.should_exit = True
                return
            served = (f"{model.name} ({', '.join(model.endpoints)})" for model in service.models.values())
            print(f"{address}: ready: {'; '.join(served)}", flush=True)

        service.on_change = on_change
        server.run(sockets=[listener])
    if service.failure:
        raise service.failure


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises UserError where the address is taken or is not one of this machine."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
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

    def stop(number: int, frame: object) -> None:
        server.should_exit = True

    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def read_api_key(path: Path) -> bytes:
    """The key in a file of one line. Raises UserError for an empty file, or one of several lines."""
    lines = path.read_bytes().strip().splitlines()
    if len(lines) != 1 or b" " in lines[0]:
        raise UserError(f"{path}: one line with the key was expected; write one with `openssl rand -hex 32 > {path}`")
    return lines[0]
