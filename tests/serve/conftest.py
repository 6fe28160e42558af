"""An application with a model that tests control, and a client of it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from chromium import CHROMIUM
from held_model import HeldModel, wait_until
from starlette.testclient import TestClient

from kobert_pipeline.serve.app import create_app
from kobert_pipeline.serve.limits import Limits
from kobert_pipeline.serve.service import Service


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium; modules that use it are skipped where there is none, or no playwright."""
    from playwright import sync_api

    with sync_api.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def held() -> Iterator[HeldModel]:
    model = HeldModel()
    yield model
    model.free.set()


@pytest.fixture
def client_of(held: HeldModel) -> Iterator[Callable[..., TestClient]]:
    """`client_of(limits..., api_key=...)`: a client of a server with the model `held`, which `load` may replace."""
    clients: list[TestClient] = []

    def start(api_key: bytes | None = None, load: Any = None, **limits: Any) -> TestClient:
        service = Service({"held": "folder"}, Limits(**limits), load or (lambda name, folder: held))
        client = TestClient(create_app(service, api_key), raise_server_exceptions=False)
        clients.append(client)
        client.__enter__()
        if load is None:
            wait_until(lambda: service.ready)
        return client

    yield start
    held.free.set()
    for client in clients:
        client.__exit__(None, None, None)
