"""Stacks of threads as py-spy writes them (``--format raw --threads --native``), and what a thread in each of them does."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

KERNELS = "compiled kernels"
ONEDNN = "oneDNN linear layers"
TORCH = "other operations of torch"
PLANNING = "Python, planning"
SAMPLING = "Python, sampling"
PYTHON = "Python, the rest"
THREADS = "waiting for other threads"
SCHEDULER = "waiting for the scheduler"
KINDS = (KERNELS, ONEDNN, TORCH, PLANNING, SAMPLING, PYTHON, THREADS, SCHEDULER)

MAIN, COMPUTING = "MainThread", "compute"
"""Threads of a worker that compute, as Python calls them. Those of OpenMP it does not know, so py-spy does not see them."""

_LINE = re.compile(r"thread \(\d+\): (?P<thread>[^;]+);(?P<frames>.+) (?P<samples>\d+)")
_PYTHON_FRAME = re.compile(r" \((<[^)]*>|[^)]*\.pyx?):\d+\)$")
_UNNAMED = re.compile(r"0x([0-9a-f]+) \(\?\)$")
_NEAR = 2048
"""Bytes within which unnamed code belongs to one function."""

_RECEIVING = re.compile(r"\.recv \(sgframe")
_PLANS = re.compile(r"\(sgframe_(torch/(rows|trees)|cpu/attention)")
_SAMPLES = re.compile(r"TorchExecutor\._?sample |\(sgframe_(torch/(sampler|samples|drawing|logprobs)|cpu/sampling)")
_TORCH_LIBRARIES = ("(libtorch", "(libc10")


@dataclass(frozen=True, slots=True)
class Stack:
    """What ``thread`` was found at so many times; the outermost of the ``frames`` comes first."""

    thread: str
    frames: tuple[str, ...]
    samples: int

    @property
    def native(self) -> tuple[str, ...]:
        """The frames that the innermost of Python's called."""
        inner = next(
            (n for n, frame in enumerate(reversed(self.frames)) if _PYTHON_FRAME.search(frame)), len(self.frames)
        )
        return self.frames[len(self.frames) - inner :]


def parse(text: str) -> Iterator[Stack]:
    """The stacks of py-spy's raw format. Raises ValueError for a line that is none."""
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        if found is None:
            raise ValueError(f"not a stack as `py-spy record --format raw --threads` writes it: {line[:200]!r}")
        yield Stack(found["thread"], tuple(found["frames"].split(";")), int(found["samples"]))


def shares(stacks: Iterable[Stack]) -> dict[str, dict[str, float]]:
    """By thread of those that compute, by kind: its share of the thread's samples."""
    kept = [stack for stack in stacks if stack.thread in (MAIN, COMPUTING)]
    kinds = Kinds(kept)
    counts: dict[str, Counter[str]] = {}
    for stack in kept:
        counts.setdefault(stack.thread, Counter())[kinds.of(stack)] += stack.samples
    return {
        thread: {kind: counted[kind] / counted.total() for kind in KINDS if counted[kind]}
        for thread, counted in sorted(counts.items(), key=lambda each: each[0] != MAIN)
    }


class Kinds:
    """Tells what a thread does by its stack. Our compiled code has no names; the part of it in which threads wait for each
    other is known by giving up the processor now and then (``sched_yield``), so all of ``stacks`` are looked at first."""

    def __init__(self, stacks: Sequence[Stack]) -> None:
        pairs = (pair for stack in stacks for pair in zip(stack.frames, stack.frames[1:], strict=False))
        self._waits = {_address(caller) for caller, callee in pairs if callee.startswith("sched_yield")} - {None}

    def of(self, stack: Stack) -> str:
        """One of KINDS."""
        inner = [frame for frame in stack.native if not frame.endswith("(libc.so.6)")]
        if inner and self._is_waiting(inner[-1]):
            return THREADS
        if inner and _through(stack, "sgframe_cpu/linear.py") and _through(stack, "torch/_ops.py"):
            return ONEDNN
        if any(_UNNAMED.search(frame) for frame in inner):
            return KERNELS
        if any(library in frame for frame in inner for library in _TORCH_LIBRARIES):
            return TORCH
        return _python_kind(stack)

    def _is_waiting(self, frame: str) -> bool:
        address = _address(frame)
        if address is None:
            return "(libgomp" in frame
        return any(abs(address - wait) < _NEAR for wait in self._waits if wait is not None)


def _python_kind(stack: Stack) -> str:
    for kind, pattern in ((SCHEDULER, _RECEIVING), (SAMPLING, _SAMPLES), (PLANNING, _PLANS)):
        if any(pattern.search(frame) for frame in stack.frames):
            return kind
    return PYTHON


def _through(stack: Stack, file: str) -> bool:
    return any(f"({file}:" in frame for frame in stack.frames)


def _address(frame: str) -> int | None:
    found = _UNNAMED.search(frame)
    return int(found[1], 16) if found else None
