"""A backend around executors that a test makes, for contracts over devices that are doubles."""

from __future__ import annotations

from collections.abc import Callable

from sgframe.interfaces.backend import Backend, Capabilities, Executor


class LentBackend(Backend):
    """Usable everywhere; ``make`` gives a fresh executor, not loaded."""

    def __init__(self, make: Callable[[], Executor], *, page_size: int = 1, dtype: str = "float32") -> None:
        self._make = make
        self._page_size = page_size
        self._dtype = dtype

    def probe(self) -> Capabilities:
        return Capabilities(
            usable=True,
            device="a double",
            memory_bytes=2**30,
            page_size=self._page_size,
            dtypes=(self._dtype,),
            verifies=True,
        )

    def executor(self) -> Executor:
        return self._make()
