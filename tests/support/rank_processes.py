"""Processes that stand for the ranks of a model: started once, they run one function after another.

They are forked from a server that has torch, transformers and the runtime imported already, so that one starts in a tenth
of a second.
"""

from __future__ import annotations

import importlib.util
import inspect
import multiprocessing
import os
import pickle
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from sgframe.errors import RankLost
from sgframe.interfaces.backend import Ranks

PRELOAD = [
    "numba",
    "torch",
    "torch.distributed",
    "transformers.models.gemma2.modeling_gemma2",
    "transformers.models.gemma3.modeling_gemma3",
    "sgframe_torch.executor",
    "sgframe_torch.models",
    "pytest",
]
PATIENCE = 60.0
"""Seconds that a function may take."""


class RankDied(Exception):
    """A rank's process ended before its function returned; the argument is its exit code, negative for a signal."""


class RankProcesses:
    """``ranks(size, function, *args)`` returns what ``function(Ranks, *args)`` gives in each of ``size`` processes, by rank.

    ``function`` stands at the top level of its file; arguments and results must be picklable. The Ranks it gets are on
    one node and have a folder of this call's own: the function joins a group with them itself, and leaves it before it
    returns, since the processes stay for the next call. What a rank raises is raised here; ``outcomes`` returns it
    instead. Ranks that die, or take longer than ``patience`` seconds, are replaced.
    """

    def __init__(self) -> None:
        self._processes: list[_Process] = []

    def __call__(self, size: int, function: Callable[..., Any], *args: Any, patience: float = PATIENCE) -> list[Any]:
        outcomes = self.outcomes(size, function, *args, patience=patience)
        raised = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        for error in sorted(raised, key=lambda error: isinstance(error, RankLost)):  # which only follows from another's
            raise error
        return outcomes

    def outcomes(self, size: int, function: Callable[..., Any], *args: Any, patience: float = PATIENCE) -> list[Any]:
        """What the function returned or raised, by rank; RankDied where its process ended."""
        while len(self._processes) < size:
            self._processes.append(_Process())
        processes = self._processes[:size]
        with tempfile.TemporaryDirectory(prefix="ranks") as folder:
            for rank, process in enumerate(processes):
                process.start(Ranks(rank=rank, size=size, folder=folder), function, args)
            deadline = time.monotonic() + patience
            outcomes = [process.outcome(deadline) for process in processes]
        for process in processes:
            if process.lost:
                process.stop()
                self._processes.remove(process)
        return outcomes

    def close(self) -> None:
        for process in self._processes:
            process.stop()
        self._processes = []


class _Process:
    def __init__(self) -> None:
        _warm_server()
        context = multiprocessing.get_context("forkserver")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self.lost = False

    def start(self, ranks: Ranks, function: Callable[..., Any], args: Sequence[Any]) -> None:
        task = inspect.getfile(function), function.__qualname__, ranks, args
        self._connection.send_bytes(pickle.dumps(task))

    def outcome(self, deadline: float) -> Any:
        try:
            if self._connection.poll(max(0.0, deadline - time.monotonic())):
                return pickle.loads(self._connection.recv_bytes())
        except (EOFError, OSError):
            self.lost = True
            self._process.join()
            return RankDied(self._process.exitcode)
        self.lost = True
        return TimeoutError("the function did not return in time")

    def stop(self) -> None:
        self._connection.close()
        self._process.kill()
        self._process.join()


@cache
def _warm_server() -> None:
    """Start the server with this process's import path, which it would otherwise look up modules without."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    try:
        multiprocessing.get_context("forkserver").set_forkserver_preload(PRELOAD)
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def _serve(connection: Connection) -> None:
    """What a rank's process does until its other end is closed."""
    import torch

    torch.set_num_threads(1)
    while True:
        try:
            path, name, ranks, args = pickle.loads(connection.recv_bytes())
        except EOFError:
            return
        connection.send_bytes(_run(path, name, ranks, args))


def _run(path: str, name: str, ranks: Ranks, args: Sequence[Any]) -> bytes:
    from torch import distributed

    try:
        return pickle.dumps(getattr(_module(path), name)(ranks, *args))
    except BaseException as error:
        error.add_note(traceback.format_exc())
        try:
            return pickle.dumps(error)
        except Exception:
            return pickle.dumps(RuntimeError(traceback.format_exc()))
    finally:
        if distributed.is_initialized():  # by a function that failed before it left its group
            distributed.destroy_process_group()


@cache
def _module(path: str) -> Any:
    """The module in the file ``path``; tests have no importable names."""
    spec = importlib.util.spec_from_file_location(f"ranks_{Path(path).stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
