"""How much memory the grammars of a process may take together. Knows nothing of what they are."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol
from weakref import ref


class Shrinkable(Protocol):
    """What can forget what it can find out again."""

    @property
    def size(self) -> int:
        """Bytes of memory, roughly."""

    def shrink(self) -> None:
        """Take less memory."""


class Shelf:
    """At more than ``limit`` bytes those that were touched longest ago shrink, all but the last. Keeps nothing alive."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: OrderedDict[int, ref[Shrinkable]] = OrderedDict()

    def touch(self, item: Shrinkable) -> None:
        key = id(item)
        self._items[key] = ref(item)
        self._items.move_to_end(key)
        alive = {key: one for key, reference in self._items.items() if (one := reference()) is not None}
        self._items = OrderedDict((key, self._items[key]) for key in alive)
        total = sum(one.size for one in alive.values())
        for former in list(alive.values())[:-1]:
            if total <= self._limit:
                break
            total -= former.size
            former.shrink()
            total += former.size
