"""The masks of a batch in flight: filled while the worker computes it."""

from __future__ import annotations

from sgframe.messages import Masks, ints
from sgframe.scheduler.batch import InFlight
from sgframe.scheduler.guides import GuideFault
from sgframe.scheduler.request import Request


def fill_masks(batch: InFlight, words: int) -> tuple[Masks, list[tuple[Request, GuideFault]]]:
    """The masks of ``batch``, each of ``words`` 32-bit words, and who cannot go on.

    All batches before it have been applied, so that every token its masks depend on is known.
    """
    rows, filled, faults = ints(), bytearray(), []
    for request, stint, count, samples in batch:
        if not samples or request.guide is None or request.row < 0 or request.stint != stint:
            continue
        mask = bytearray(4 * words)
        try:
            _fill(memoryview(mask).cast("I"), request, request.computed + count)
        except GuideFault as fault:
            faults.append((request, fault))
        else:
            rows.append(request.row)
            filled += mask
    return Masks(batch.step, rows, bytes(filled)), faults


def _fill(mask: memoryview, request: Request, position: int) -> None:
    """Write the mask of the token at ``position``. Raises GuideFault."""
    assert request.guide is not None
    if request.foreseen:
        token = request.tokens[position]
        mask[token >> 5] = 1 << (token & 31)
    else:
        request.guide.fill(mask)
