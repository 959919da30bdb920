"""An executor that stands in rank 0 of rank processes: what is called here is done there."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from rank_processes import RankProcesses

from sgframe.interfaces.backend import Executor, ExecutorSpec, Ranks, Ready
from sgframe.messages import Loaded, Masks, ScheduleBatch
from sgframe_cpu import CpuSettings
from sgframe_cpu.executor import CpuExecutor


class RemoteExecutor(Executor):
    """``size`` ranks of the cpu backend."""

    def __init__(self, ranks: RankProcesses, size: int) -> None:
        self._ranks, self._size = ranks, size
        self._connection: Connection | None = None

    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        with (
            tempfile.TemporaryDirectory(prefix="t") as folder,
            Listener(str(Path(folder) / "s"), "AF_UNIX") as listener,
        ):
            arguments = self._size, execute, listener.address, spec
            self._thread = threading.Thread(target=self._ranks.outcomes, args=arguments, daemon=True)
            self._thread.start()
            self._connection = listener.accept()
        return self._ask()

    def forward(self, batch: ScheduleBatch) -> None:
        self._ask("forward", batch)

    def sample(self, masks: Masks | None) -> Ready:
        return self._ask("sample", masks)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._thread.join()

    def _ask(self, *request: Any) -> Any:
        assert self._connection is not None, "not loaded"
        if request:
            self._connection.send(request)
        answer = self._connection.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer


def execute(ranks: Ranks, address: str, spec: ExecutorSpec) -> None:
    """What each rank does, until the connection ends."""
    executor = CpuExecutor(CpuSettings(threads=1))
    try:
        executor.join(ranks, lambda reason: None)
        if ranks.rank:
            executor.load(spec, lambda what, done, total: None)
            executor.follow()
        else:
            with Client(address, "AF_UNIX") as connection:
                _obey(executor, spec, connection)
    finally:
        executor.close()


def _obey(executor: Executor, spec: ExecutorSpec, connection: Connection) -> None:
    request: tuple[str, Any] = ("load", None)
    while True:
        try:
            connection.send(_do(executor, spec, *request))
            request = connection.recv()
        except (EOFError, OSError):
            return


def _do(executor: Executor, spec: ExecutorSpec, name: str, argument: Any) -> Any:
    try:
        match name:
            case "load":
                return executor.load(spec, lambda what, done, total: None)
            case "forward":
                return executor.forward(argument)
            case _:
                return Ready(executor.sample(argument).result())
    except Exception as error:
        return error
