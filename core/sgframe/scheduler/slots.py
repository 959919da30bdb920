"""The pool of free KV slots. Owns the free ones and knows which are out, but not who has them."""

from __future__ import annotations

import numpy as np

from sgframe.messages import Ints, ints


class SlotPool:
    """Hands out slots 0 … size - 1, as consecutive as what was given back allows."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._free = ints(range(size - 1, -1, -1))  # a stack whose top gives ascending slots
        self._out = np.zeros(size, dtype=bool)

    @property
    def free(self) -> int:
        """How many slots are free."""
        return len(self._free)

    def take(self, count: int) -> Ints:
        """Take ``count`` slots; raises ValueError, taking none, when fewer are free."""
        if count > len(self._free):
            raise ValueError(f"{count} slots asked, {len(self._free)} free")
        if count == 0:
            return ints()
        taken = self._free[-count:]
        del self._free[-count:]
        taken.reverse()
        self._out[np.frombuffer(taken, dtype=np.int32)] = True
        return taken

    def give_back(self, slots: Ints) -> None:
        """Free ``slots``; raises ValueError, freeing none, when one of them is free already."""
        if not slots:
            return
        indices = np.frombuffer(slots, dtype=np.int32)
        if not self._out[indices].all():
            twice = indices[~self._out[indices]].tolist()
            raise ValueError(f"slots {twice[:8]} were freed twice")
        self._out[indices] = False
        self._free.extend(reversed(slots))

    def check(self) -> None:
        """Raise AssertionError unless every slot is either free once or out."""
        out = int(self._out.sum())
        assert len(self._free) + out == self.size, f"{len(self._free)} free + {out} out != {self.size} slots"
        assert not self._out[np.frombuffer(self._free, dtype=np.int32)].any(), "a free slot is marked as out"
