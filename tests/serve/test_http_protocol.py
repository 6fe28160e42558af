"""Requests on a socket to uvicorn with the server's settings."""

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from kobert_pipeline.serve.server import CONFIG

KILOBYTE = b"x" * 1024


async def count_bytes(scope: Any, receive: Any, send: Any) -> None:
    """Answers the number of bytes of the body."""
    read, more = 0, True
    while more:
        message = await receive()
        read, more = read + len(message["body"]), message["more_body"]
    content = str(read).encode()
    headers = [(b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    server = uvicorn.Server(uvicorn.Config(count_bytes, **CONFIG | {"lifespan": "off"}))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        with socket.create_connection(listener.getsockname()[:2], timeout=20) as client:
            yield client
        server.should_exit = True
        thread.join(20)


def answer(connection: socket.socket) -> bytes:
    """Status line, headers and body; what there is of it where the connection ends."""
    found = b""
    while b"\r\n\r\n" not in found or not found.rpartition(b"\r\n\r\n")[2]:
        more = connection.recv(65_536)
        if not more:
            break
        found += more
    return found


def test_headers_without_end_are_refused(connection: socket.socket) -> None:
    for start in (b"GET / HTTP/1.1\r\nHost: x\r\nA: ", b"GET /"):
        with socket.create_connection(connection.getpeername(), timeout=20) as client:
            client.sendall(start)
            with pytest.raises(ConnectionError):  # the server closes, long before it has read all this
                for _ in range(100_000):
                    client.sendall(KILOBYTE)
    connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nTrailer: ")
    with pytest.raises(ConnectionError):
        for _ in range(100_000):
            connection.sendall(KILOBYTE)


def test_the_refusal_says_what_is_wrong(connection: socket.socket) -> None:
    connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nA: " + 65 * KILOBYTE)
    assert answer(connection).startswith(b"HTTP/1.1 400 Bad Request\r\n")


def test_long_headers_bodies_and_connections_are_answered(connection: socket.socket) -> None:
    headers = b"".join(b"A%d: %b\r\n" % (number, KILOBYTE) for number in range(30))
    for size in (0, 1, 300_000, 3_000_000):
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\n%bContent-Length: %d\r\n\r\n" % (headers, size))
        connection.sendall(b"x" * size)
        assert answer(connection).endswith(b"\r\n\r\n%d" % size)
    for _ in range(5):  # 150 kB of headers in all
        connection.sendall(b"GET / HTTP/1.1\r\n%b\r\n" % headers.replace(b"A0", b"Host", 1))
        assert answer(connection).endswith(b"\r\n\r\n0")


def test_a_body_in_many_chunks_is_no_head(connection: socket.socket) -> None:
    connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(200):
        connection.sendall(b"400\r\n%b\r\n" % KILOBYTE)
        time.sleep(0)
    connection.sendall(b"0\r\n\r\n")
    assert answer(connection).endswith(b"\r\n\r\n204800")
