"""Runs the cases of a contract by hand, to see which of them a faulty part fails."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

import pytest

Given = Callable[[list[str]], Mapping[str, Any]]
"""Gives the fixtures of these names, afresh for one test."""
Chosen = Callable[[Any], bool]
"""Whether a value of a parameter is worth the time."""


def _all(value: Any) -> bool:
    return True


def cases_of(contract: type) -> list[str]:
    """The names of its tests; the parameters of one make no further cases."""
    return sorted(name for name, _ in inspect.getmembers(contract, inspect.isfunction) if name.startswith("test_"))


def failed_cases(contract: object, given: Given, chosen: Chosen = _all) -> set[str]:
    """The cases that fail for any of their parameters. One that is skipped does not."""
    return {case for case in cases_of(type(contract)) if fails(contract, case, given, chosen)}


def fails(contract: object, case: str, given: Given, chosen: Chosen = _all) -> bool:
    """Whether ``case`` fails for any of its parameters that are ``chosen``."""
    test = getattr(contract, case)
    return any(_fails(test, parameters, given) for parameters in _parameters(test, chosen))


def _fails(test: Callable[..., object], parameters: dict[str, Any], given: Given) -> bool:
    wanted = [name for name in inspect.signature(test).parameters if name not in parameters]
    try:
        outcome = test(**parameters, **given(wanted))
        if inspect.iscoroutine(outcome):
            asyncio.run(outcome)
    except pytest.skip.Exception:
        return False
    except (Exception, pytest.fail.Exception):
        return True
    return False


def _parameters(test: Callable[..., None], chosen: Chosen) -> Iterator[dict[str, Any]]:
    """Every combination of what the test is parametrised with."""
    choices = []
    for mark in getattr(test, "pytestmark", []):
        names, values = mark.args
        names = [names] if isinstance(names, str) else list(names)
        rows = [(value,) if len(names) == 1 else tuple(value) for value in values]
        choices.append([dict(zip(names, row, strict=True)) for row in rows if all(map(chosen, row))])
    for combination in product(*choices):
        yield {name: value for chosen in combination for name, value in chosen.items()}
