"""The simulated KV: what was last written to each slot, and who reads it. Knows hashes of prefixes, not how they are made.

A slot's content is right for a reader if it is the hash of the reader's own tokens up to that position, so a slot that
holds another row's tokens, another position, or nothing any more cannot pass. Checking every slot at every step would
cost the context's length. Instead a row's slots are checked once, and from then on nobody may write to them.
"""

from __future__ import annotations

from collections.abc import Sequence

from sgframe.errors import SgframeError

_NEVER = -1
_POISON = -2
_CONTENT = {_NEVER: "nothing, it was never written", _POISON: "poison, it was freed"}


class SlotFault(SgframeError):
    """A row read a slot that does not hold its KV, or wrote to one that somebody reads. The scheduler is at fault."""


class SlotMemory:
    """``size`` slots, each with the hash, position and step of its last write, and the number of rows that read it."""

    def __init__(self, size: int) -> None:
        self._hashes = [_NEVER] * size
        self._origins = [(0, 0)] * size  # position and step of the last write
        self._readers = [0] * size

    def __len__(self) -> int:
        return len(self._hashes)

    def add_readers(self, slots: Sequence[int]) -> None:
        self._require(slots)
        for slot in slots:
            self._readers[slot] += 1

    def remove_readers(self, slots: Sequence[int]) -> None:
        for slot in slots:
            self._readers[slot] -= 1

    def write(self, slots: Sequence[int], hashes: Sequence[int], row: int, position: int, step: int) -> None:
        """Write ``hashes`` of ``row``'s prefixes that end at ``position`` …, and make the row a reader of ``slots``.

        Raises SlotFault, having written nothing, when a row reads one of them already.
        """
        self._require(slots)
        readers = self._readers
        for offset, slot in enumerate(slots):
            if readers[slot]:
                raise SlotFault(
                    f"step {step}: row {row} writes position {position + offset} to slot {slot}, which {readers[slot]} "
                    f"row(s) still read; it holds {self._describe(slot)}"
                )
        for offset, (slot, value) in enumerate(zip(slots, hashes, strict=True)):
            readers[slot] += 1
            self._hashes[slot] = value
            self._origins[slot] = (position + offset, step)

    def read(self, slot: int, expected: int, row: int, position: int, step: int) -> None:
        """Raise SlotFault unless ``slot`` holds ``expected``, the hash of ``row``'s prefix that ends at ``position``."""
        if self._hashes[slot] != expected:
            raise SlotFault(
                f"step {step}: row {row} reads position {position} from slot {slot}: expected hash {expected:#x} of its "
                f"prefix, found {self._describe(slot)}"
            )

    def poison(self, slots: Sequence[int]) -> None:
        """Spoil ``slots``: whoever reads them before they are written again fails."""
        for slot in slots:
            self._hashes[slot] = _POISON

    def _require(self, slots: Sequence[int]) -> None:
        if slots and not 0 <= min(slots) <= max(slots) < len(self):
            raise SlotFault(f"slots {min(slots)} to {max(slots)} were given; there are slots 0 to {len(self) - 1}")

    def _describe(self, slot: int) -> str:
        value = self._hashes[slot]
        position, step = self._origins[slot]
        return _CONTENT.get(value) or f"hash {value:#x}, written at position {position} in step {step}"
