"""What walks the vocabulary trie and the automaton side by side: the contract of the two walkers, and which one to take.

A walk knows codes (see rows.py) and trie nodes only. It comes back with the states whose rows it lacks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sgframe.errors import ConfigError
from sgframe_fsm.tokens.rows import RowTable
from sgframe_fsm.tokens.trie import Int32s, Trie

SPARSE = 64
"""A result of at most so many tokens is kept as their ids; one of more as a mask."""
FEW_NODES = 4096
"""A trie of no more nodes is walked by numpy in less time than numba takes to be loaded."""


class Reached(NamedTuple):
    """What a walk found.

    ``ids`` or ``mask``, the other being None: the tokens along whose bytes the automaton goes on. ``ends``: the nodes
    with others below at which what was walked may be all, but for those it started from; int32 bytes, so that they can
    be a key, in no order.
    """

    ids: Int32s | None
    mask: NDArray[np.uint32] | None
    ends: bytes

    @property
    def goes_on(self) -> bool:
        """Whether there is any token."""
        return self.ids is None or len(self.ids) > 0

    @property
    def size(self) -> int:
        """Bytes of memory, roughly."""
        arrays = (array for array in (self.ids, self.mask) if array is not None)
        return 200 + len(self.ends) + sum(array.nbytes for array in arrays)


def spelled(data: bytes, nodes: bytes, trie: Trie) -> Reached:
    """What ``data`` reaches from ``nodes``, looked up."""
    ids: set[int] = set()
    ends = []
    for start in np.frombuffer(nodes, np.int32).tolist():
        tokens, end = trie.along(start, data)
        ids.update(tokens)
        if end is not None:
            ends.append(end)
    return Reached(np.array(sorted(ids), np.int32), None, np.array(ends, np.int32).tobytes())


def united(parts: Sequence[Reached], words: int) -> Reached:
    """What any of ``parts`` reached; a mask has so many ``words``."""
    ends = np.unique(np.frombuffer(b"".join([found.ends for found in parts]), np.int32)).tobytes()
    sparse = [found.ids for found in parts if found.ids is not None]
    dense = [found.mask for found in parts if found.mask is not None]
    ids = np.unique(np.concatenate(sparse)) if sparse else np.zeros(0, np.int32)
    if not dense and len(ids) <= SPARSE:
        return Reached(ids, None, ends)
    mask = np.bitwise_or.reduce(dense) if dense else np.zeros(words, np.uint32)
    np.bitwise_or.at(mask, ids >> 5, np.uint32(1) << (ids & 31).astype(np.uint32))
    return Reached(None, mask, ends)


class Walker(ABC):
    """Walks in three steps: ``begin``, ``walk`` until no rows are missing, ``finish``. One walk at a time."""

    def __init__(self, trie: Trie, table: RowTable) -> None:
        self.trie = trie
        self.table = table

    @abstractmethod
    def begin(self, base: Reached | None) -> None:
        """Begin with nothing, or with what ``base`` found, to be corrected where the walk differs from it."""

    @abstractmethod
    def walk(self, starts: Int32s, horizon: int) -> Int32s:
        """Walk on from ``starts``, ``[n, 3]``: a node, the code there, and the code there of the walk that ``base`` came
        from (STUCK without one).

        Where both codes are equal, and in subtrees no deeper than ``horizon`` bytes, ``base`` is right and stays.
        Returns the starts that are left to do once the states in their codes are expanded.
        """

    @abstractmethod
    def finish(self) -> Reached:
        """What was found since ``begin``."""


def make_walker(kernels: str, trie: Trie, table: RowTable) -> Walker:
    """``kernels``: ``numba``, ``numpy``, or ``auto`` for the first that can be had and is worth loading."""
    if kernels == "numba" or (kernels == "auto" and len(trie.nodes) > FEW_NODES):
        try:
            from sgframe_fsm.tokens.walking_numba import NumbaWalker  # noqa: PLC0415  # a second to import, and optional

            return NumbaWalker(trie, table)
        except ImportError as error:
            if kernels == "numba":
                raise ConfigError(
                    f"compressed-fsm is to walk with numba, which cannot be imported: {error}; install it, or set "
                    "compressed-fsm.kernels to auto or numpy"
                ) from error
    from sgframe_fsm.tokens.walking_numpy import NumpyWalker  # noqa: PLC0415

    return NumpyWalker(trie, table)
