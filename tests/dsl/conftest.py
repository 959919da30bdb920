"""What programs run on here: a scripted backend, or a scripted endpoint for the backend that speaks OpenAI's protocol."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scripted_backend import ScriptedBackend, scripted_backend
from scripted_endpoint import Endpoint, scripted_endpoint


@pytest.fixture
def backend() -> Iterator[ScriptedBackend]:
    with scripted_backend() as backend:
        yield backend


@pytest.fixture(scope="module")
def served_endpoint() -> Iterator[Endpoint]:
    with scripted_endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def endpoint(served_endpoint: Endpoint) -> Endpoint:
    served_endpoint.forget()
    return served_endpoint
