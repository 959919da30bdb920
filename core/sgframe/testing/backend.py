"""The contract of the backend seam as tests: subclass ``BackendContract`` as ``TestMine`` and give ``make``.

    class TestMyBackend(BackendContract):
        def make(self):
            return MyBackend(MySettings())

It asks for nothing that depends on the model: it compares an executor with itself. It knows no device.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import pytest

from sgframe.interfaces.backend import Backend, ExecutorSpec
from sgframe.interfaces.source import Checkpoint
from sgframe.messages import Loaded
from sgframe.testing.contract import Contract
from sgframe.testing.driver import Driver
from sgframe.testing.execution import ExecutionContract
from sgframe.testing.models import tiny_llama
from sgframe.testing.outputs import OutputContract
from sgframe.testing.sampling import SamplingContract
from sgframe.testing.speculation import SpeculationContract
from sgframe.testing.trees import TreeContract

KIB = 2**10


class LoadingContract(Contract):
    """What ``probe`` says, and what becomes of an executor: the part of BackendContract that needs no step.

    Where the backend cannot run, the other tests are skipped with its reason.
    """

    dtype: ClassVar[str] = "float32"
    """What the model is loaded in. Tokens are compared exactly, so the arithmetic must not depend on a batch's shape."""

    draws: ClassVar[bool] = True
    """False for a device that makes its tokens up: then no test asks what sampling parameters do."""

    @abstractmethod
    def make(self) -> Backend:
        """The backend under test."""

    @pytest.fixture
    def backend(self) -> Backend:
        """One that can run here."""
        backend = self.make()
        found = backend.probe()
        if not found.usable:
            pytest.skip(found.reason)
        return backend

    @pytest.fixture(scope="class")
    @classmethod
    def checkpoint(cls, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
        """What is loaded: a tiny Llama. To be overridden for another model, of at least 128 tokens."""
        return tiny_llama(tmp_path_factory.mktemp("tiny-llama"))

    @pytest.fixture
    def spec(self, backend: Backend, checkpoint: Checkpoint) -> ExecutorSpec:
        """Room for what the tests do: 8 rows, 128 tokens or 3 pages of a request and in a step, 512 slots or 16 pages."""
        page = backend.probe().page_size
        tokens = max(128, 3 * page)
        return ExecutorSpec(checkpoint, self.dtype, 8, tokens, context_length=tokens, kv_slots=max(512, 16 * page))

    @pytest.fixture
    def driver(self, backend: Backend, spec: ExecutorSpec) -> Iterator[Driver]:
        """Drives a fresh executor, loaded."""
        executor = backend.executor()
        try:
            yield Driver(executor, spec)
        finally:
            executor.close()

    @pytest.fixture
    def sampler(self, driver: Driver) -> Driver:
        """A driver of an executor that heeds sampling parameters."""
        if not self.draws:
            pytest.skip("draws is False: it makes its tokens up")
        return driver

    @pytest.fixture
    def verifier(self, backend: Backend, driver: Driver) -> Driver:
        """A driver of an executor that heeds guesses."""
        if not backend.probe().verifies:
            pytest.skip("it does not verify guesses")
        return driver

    def test_a_probe_says_what_there_is_or_what_is_missing(self) -> None:
        found = self.make().probe()
        assert found.usable is not bool(found.reason), "usable, or a reason why not"
        if found.usable:
            assert found.device
            assert isinstance(found.dtypes, tuple) and found.dtypes
            assert found.memory_bytes > 0
            assert found.page_size >= 1
            assert found.max_ranks >= 1

    def test_load_announces_what_was_asked_for(self, backend: Backend, spec: ExecutorSpec, driver: Driver) -> None:
        loaded, found = driver.loaded, backend.probe()
        assert loaded.vocab_size >= 128
        assert loaded.slots == spec.kv_slots
        assert loaded.page_size == found.page_size
        assert loaded.context_length == spec.context_length
        assert loaded.dtype in found.dtypes
        assert spec.dtype in ("auto", loaded.dtype)
        assert all(line.name and line.origin and line.bytes >= 0 for line in loaded.ledger)

    def test_twice_the_memory_for_kv_gives_twice_the_slots(self, backend: Backend, spec: ExecutorSpec) -> None:
        once, twice = (_load(backend, replace(spec, kv_slots=0, kv_bytes=size)) for size in (128 * KIB, 256 * KIB))
        assert once.slots > 0
        assert abs(twice.slots - 2 * once.slots) <= 2 * once.page_size

    def test_closing_twice_is_harmless(self, backend: Backend, spec: ExecutorSpec) -> None:
        executor = backend.executor()
        executor.load(spec, lambda what, done, total: None)
        executor.close()
        executor.close()


def _load(backend: Backend, spec: ExecutorSpec) -> Loaded:
    executor = backend.executor()
    try:
        return executor.load(spec, lambda what, done, total: None)
    finally:
        executor.close()


class BackendContract(
    LoadingContract, ExecutionContract, OutputContract, SamplingContract, TreeContract, SpeculationContract
):
    """What every backend must do, the sum of its parts. Collected by pytest in a subclass named ``Test…``.

    Guesses are tested if the backend ``verifies`` them, and sampling parameters if it ``draws``.
    """
