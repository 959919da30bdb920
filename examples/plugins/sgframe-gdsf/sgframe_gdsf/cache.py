"""The cache ``gdsf``: sgframe's radix tree, with the strategy of this package."""

from __future__ import annotations

from sgframe.interfaces.cache import Clock
from sgframe_gdsf import GdsfSettings
from sgframe_radix import RadixSettings
from sgframe_radix.cache import RadixCache


class GdsfCache(RadixCache):
    """As ``radix`` with ``eviction = "sgframe_gdsf.strategy:GDSF"``."""

    def __init__(self, settings: GdsfSettings, *, page_size: int, clock: Clock) -> None:
        radix = RadixSettings(eviction="sgframe_gdsf.strategy:GDSF", ghost_tokens=settings.ghost_tokens)
        super().__init__(radix, page_size=page_size, clock=clock)
