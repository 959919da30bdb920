"""The variables of a program: what an operation will give, or several together. Knows neither states nor backends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import cached_property
from typing import Any

from sgframe_dsl import waiting
from sgframe_dsl.feeds import Feed


class Outcome:
    """What an operation gave: ``text``, what is known of it, and its ``value``, made when first read.

    Reading raises ProgramError for a text that cannot be read.
    """

    def __init__(self, text: str, meta: Any, read: Callable[[], Any]) -> None:
        self.text = text
        self.meta = meta
        self._read = read

    @cached_property
    def value(self) -> Any:
        return self._read()


class Variable:
    """Has its outcome one day; its text may be heard while it comes."""

    def __init__(self) -> None:
        self.future: Future[Outcome] = waiting.pending()
        self.feed = Feed()
        self._heard = 0

    def hear(self, piece: str) -> None:
        """A piece of the text has come."""
        self._heard += len(piece)
        self.feed.put(piece)

    def resolve(self, outcome: Outcome) -> None:
        """The text is complete."""
        self.feed.put(outcome.text[self._heard :])
        self.feed.end()
        waiting.resolve(self.future, outcome)

    def fail(self, error: BaseException) -> None:
        """There will be no outcome. Does nothing where there is one."""
        self.feed.end(error)
        waiting.fail(self.future, error)

    def follow(self, source: Variable) -> None:
        """Become what ``source`` becomes."""

        def heard(future: Future[Outcome]) -> None:
            if error := future.exception():
                self.fail(error)
            else:
                self.resolve(future.result())

        waiting.when_done(source.future, heard)


class Names:
    """Which variables a state has. Someone may wait for one that nothing sets yet, until ``end``."""

    def __init__(self, known: Mapping[str, Variable] | None = None) -> None:
        self.known = dict(known or {})
        self._expected: dict[str, tuple[Variable, Callable[[], BaseException]]] = {}
        self._ended = False
        self._lock = threading.Lock()

    def set(self, name: str | None) -> Variable:
        """A variable that ``name`` stands for from now on, or one without a name."""
        if name is None:
            return Variable()
        with self._lock:
            expected = self._expected.pop(name, None)
            self.known[name] = expected[0] if expected else Variable()
            return self.known[name]

    def expect(self, name: str, in_vain: Callable[[], BaseException]) -> Variable | None:
        """What ``name`` stands for, or will: if it never does, the variable fails with ``in_vain()``. None after ``end``."""
        with self._lock:
            if name in self.known or self._ended:
                return self.known.get(name)
            return self._expected.setdefault(name, (Variable(), in_vain))[0]

    def end(self) -> None:
        """Nothing more will be set."""
        with self._lock:
            self._ended = True
        for variable, in_vain in self._expected.values():
            variable.fail(in_vain())


def gathered(sources: Sequence[Variable | None]) -> Variable:
    """The list of what ``sources`` become, None for those that are. Has no text."""
    whole = Variable()
    present = [source for source in sources if source is not None]
    missing = len(present)
    lock = threading.Lock()

    def heard(future: Future[Outcome]) -> None:
        nonlocal missing
        if error := future.exception():
            whole.fail(error)
        with lock:
            missing -= 1
            complete = not missing
        if complete and not whole.future.done():
            whole.resolve(_together([source.future.result() if source else None for source in sources]))

    for source in present:
        waiting.when_done(source.future, heard)
    return whole


def chosen(choice: Future[int], sources: Sequence[Variable | None], missing: BaseException) -> Variable:
    """What the one of ``sources`` becomes that ``choice`` tells; fails with ``missing`` where that is None."""
    variable = Variable()

    def heard(future: Future[int]) -> None:
        if error := future.exception():
            variable.fail(error)
        elif (source := sources[future.result()]) is not None:
            variable.follow(source)
        else:
            variable.fail(missing)

    waiting.when_done(choice, heard)
    return variable


def _together(outcomes: Sequence[Outcome | None]) -> Outcome:
    def read() -> list[Any]:
        return [outcome and outcome.value for outcome in outcomes]

    return Outcome("", [outcome and outcome.meta for outcome in outcomes], read)
