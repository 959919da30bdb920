"""Calls of a DSL backend from a test's thread, each on a new state."""

from __future__ import annotations

from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from sgframe.sampling import SamplingParams
from sgframe_dsl.backend import Backend
from sgframe_programs.parts import Begin, End, Generated, Method, Part, Selected, Text

T = TypeVar("T")
GREEDY = SamplingParams(temperature=0.0, max_tokens=8)
QUESTION = (Begin("user"), Text("Capital of France?"), End(), Begin("assistant"))


def run(backend: Backend, work: Coroutine[Any, Any, T]) -> T:
    """What ``work`` gives, in the backend's loop."""
    return backend.schedule(work).result(10)


def start(backend: Backend, *parts: Part, params: SamplingParams = GREEDY, **options: Any) -> Future[Generated]:
    """A generation that runs."""
    state = run(backend, backend.open())
    return backend.schedule(backend.generate(state, parts, params, **options))


def generate(backend: Backend, *parts: Part, params: SamplingParams = GREEDY, **options: Any) -> Generated:
    """A generation that is done."""
    return start(backend, *parts, params=params, **options).result(10)


def select(backend: Backend, text: str, choices: list[str], method: Method = "token_length_normalized") -> Selected:
    """A choice after ``text``."""
    state = run(backend, backend.open())
    return run(backend, backend.select(state, [Text(text)], choices, method))
