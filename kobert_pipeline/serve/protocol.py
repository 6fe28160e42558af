"""HTTP over httptools, Node's parser in C, for which a small request costs the server much less than for h11."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD = 64 * 2**10
"""Bytes of a request's headers at most, as uvicorn allows h11. httptools has no limit, so a client could send headers
without end until the memory is full."""


class LimitedHead(HttpToolsProtocol):
    """uvicorn's protocol, which answers 400 to headers, or trailers, of more than `MAX_HEAD` bytes."""

    unparsed = 0
    """Bytes since the last end of headers, piece of a body, or end of a request."""

    def data_received(self, data: bytes) -> None:
        """What has arrived, of one or of several requests."""
        self.unparsed += len(data)
        super().data_received(data)
        if self.unparsed > MAX_HEAD and not self.transport.is_closing():
            self.send_400_response("The headers are too long.")

    def on_headers_complete(self) -> None:
        """The headers are parsed."""
        self.unparsed = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of the body is parsed."""
        self.unparsed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self.unparsed = 0
        super().on_message_complete()
