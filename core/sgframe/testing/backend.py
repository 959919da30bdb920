"""What every executor must get right, for its author's own tests: ``class TestMine(BackendContract)``.

It asks for nothing that depends on the model: it compares an executor with itself. It knows no device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import pytest

from sgframe.interfaces.backend import Executor, ExecutorSpec
from sgframe.testing.driver import Driver
from sgframe.testing.execution import ExecutionContract
from sgframe.testing.outputs import OutputContract
from sgframe.testing.sampling import SamplingContract
from sgframe.testing.trees import TreeContract


class LoadingContract(ABC):
    """What is tested and how it is loaded: ``make_executor`` and ``make_spec``. The other contracts go beside it.

    The spec must allow 8 rows, 128 tokens in a step and in a request, and 512 KV slots; where a page has more than 16
    tokens, 3 pages in a step and in a request, and 16 pages. The model knows at least 128 tokens.
    """

    @abstractmethod
    def make_executor(self) -> Executor:
        """A fresh executor, not loaded."""

    @abstractmethod
    def make_spec(self) -> ExecutorSpec:
        """What the executor is to load."""

    @pytest.fixture
    def driver(self) -> Iterator[Driver]:
        """Drives a fresh executor, loaded."""
        executor = self.make_executor()
        try:
            yield Driver(executor, self.make_spec())
        finally:
            executor.close()

    def test_load_announces_what_there_is(self, driver: Driver) -> None:
        spec = self.make_spec()
        loaded = driver.loaded
        assert loaded.vocab_size > 0
        assert loaded.slots > 0
        assert loaded.page_size > 0
        assert loaded.context_length > 0
        assert loaded.dtype not in ("", "auto")
        assert loaded.slots == (spec.kv_slots or loaded.slots)
        assert loaded.context_length == (spec.context_length or loaded.context_length)
        assert all(line.bytes >= 0 and line.origin for line in loaded.ledger)

    def test_closing_twice_is_harmless(self) -> None:
        executor = self.make_executor()
        executor.load(self.make_spec(), lambda what, done, total: None)
        executor.close()
        executor.close()


class BackendContract(LoadingContract, ExecutionContract, OutputContract, SamplingContract, TreeContract):
    """All of it. Subclass it in a test module, name the subclass ``Test…``, and give what LoadingContract asks for.

    Tokens are compared exactly: where a device's arithmetic depends on the shape of a batch, load the model in float32. A
    device that makes its tokens up leaves SamplingContract out, by subclassing the others.
    """
