"""Fixtures for those who import them: ``from sgframe.testing.fixtures import clock``. Nothing registers them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from sgframe.clock import StepClock
from sgframe.interfaces.backend import ExecutorSpec
from sgframe.interfaces.source import Checkpoint
from sgframe.interfaces.transport import Transport
from sgframe.testing import models
from sgframe.testing.doubles import EchoBackend, InprocTransport
from sgframe.testing.driver import Driver


@pytest.fixture
def clock() -> StepClock:
    """A clock that stands at 0 until the test moves it: ``clock.now += 2``."""
    return StepClock()


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """An empty folder whose path leaves room for the names of sockets, as ``tmp_path`` does not everywhere."""
    with TemporaryDirectory(prefix="t") as folder:
        yield Path(folder)


@pytest.fixture
def inproc(short_folder: Path) -> Iterator[Transport]:
    """A transport between threads; both ends of its channels may be opened by the test."""
    transport = InprocTransport(None, folder=short_folder)
    yield transport
    transport.close()


@pytest.fixture
def echo() -> Iterator[Driver]:
    """Drives an executor of the echo backend: 8 rows, 128 tokens in a step, 512 slots, 256 token ids."""
    executor = EchoBackend().executor()
    checkpoint = Checkpoint("echo", "", context_length=128, vocab_size=256, eos_ids=())
    yield Driver(executor, ExecutorSpec(checkpoint, "float32", max_rows=8, max_step_tokens=128, kv_slots=512))
    executor.close()


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """See ``sgframe.testing.tiny_llama``; written once."""
    return models.tiny_llama(tmp_path_factory.mktemp("tiny-llama"))
