"""Where in a document given patterns stand, for messages. Looks into everything, whatever it means."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any

from sgframe_fsm.errors import place
from sgframe_fsm.schema.references import step

MOST_SHOWN = 3


def name_patterns(document: Any, patterns: Collection[str]) -> str:
    """The first places of ``patterns`` in ``document``, in words."""
    found = list(islice(_places(document, frozenset(patterns)), MOST_SHOWN + 1))
    places = ", ".join(found[:MOST_SHOWN]) + (" …" if len(found) > MOST_SHOWN else "")
    return f"the pattern{'s' if len(found) > 1 else ''} at {places}"


def _places(document: Any, patterns: frozenset[str]) -> Iterator[str]:
    pending = [("", document)]
    while pending:
        pointer, value = pending.pop()
        if isinstance(value, dict):
            pattern, keys = value.get("pattern"), value.get("patternProperties")
            if isinstance(pattern, str) and pattern in patterns:
                yield place(pointer, "pattern")
            if isinstance(keys, dict) and not patterns.isdisjoint(keys):
                yield place(pointer, "patternProperties")
            pending += [(step(pointer, key), inner) for key, inner in reversed(value.items())]
        elif isinstance(value, list):
            pending += [(step(pointer, str(index)), inner) for index, inner in reversed(list(enumerate(value)))]
