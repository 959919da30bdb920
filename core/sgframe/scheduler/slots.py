"""The pool of free KV slots. Owns the free ones and knows which are out, but not who has them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sgframe.messages import Ints, ints


class SlotPool:
    """Hands out slots 0 … size - 1 in whole pages of consecutive slots; ``size`` leaves out an incomplete last page."""

    def __init__(self, slots: int, page_size: int = 1) -> None:
        pages = slots // page_size
        self.page_size = page_size
        self.size = pages * page_size
        self._free = ints(range(pages - 1, -1, -1))  # pages, a stack whose top gives ascending ones
        self._out = np.zeros(pages, dtype=bool)
        self._offsets = np.arange(page_size, dtype=np.int32)

    @property
    def free(self) -> int:
        """How many slots are free."""
        return len(self._free) * self.page_size

    def take(self, count: int) -> Ints:
        """Take ``count`` slots, a multiple of the page size; raises ValueError, taking none, when fewer are free."""
        if count > self.free:
            raise ValueError(f"{count} slots asked, {self.free} free")
        pages = count // self.page_size
        if pages == 0:
            return ints()
        numbers = np.frombuffer(self._free[-pages:], dtype=np.int32)[::-1]
        del self._free[-pages:]
        self._out[numbers.astype(np.intp)] = True  # by int32 it takes three times as long
        return ints(numbers.tobytes()) if self.page_size == 1 else self._slots(numbers)

    def give_back(self, slots: Ints) -> None:
        """Free ``slots``, whole pages; raises ValueError, freeing none, for a slot that is free already or a torn page."""
        if not slots:
            return
        numbers = self._pages(slots)
        places = numbers.astype(np.intp)  # once, and not in each of the look-ups
        if np.count_nonzero(self._out[places]) < len(places):
            twice = (numbers[~self._out[places]] * self.page_size).tolist()
            raise ValueError(f"slots {twice[:8]} were freed twice")
        self._out[places] = False
        self._free.frombytes(numbers[::-1].tobytes())

    def check(self) -> None:
        """Raise AssertionError unless every slot is either free once or out."""
        out = int(self._out.sum()) * self.page_size
        assert self.free + out == self.size, f"{self.free} free + {out} out != {self.size} slots"
        assert not self._out[np.frombuffer(self._free, dtype=np.int32)].any(), "a free slot is marked as out"

    def _slots(self, pages: npt.NDArray[np.int32]) -> Ints:
        return ints((pages[:, None] * np.int32(self.page_size) + self._offsets).tobytes())

    def _pages(self, slots: Ints) -> npt.NDArray[np.int32]:
        numbers = np.frombuffer(slots, dtype=np.int32)
        if self.page_size == 1:
            return numbers
        pages: npt.NDArray[np.int32] = numbers[:: self.page_size] // np.int32(self.page_size)
        if self._slots(pages) != slots:
            raise ValueError(f"{len(slots)} slots from {slots[0]} on are not whole pages of {self.page_size}")
        return pages
