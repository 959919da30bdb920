"""Who waits for which match to change. Knows places and tokens; holds stamps weakly."""

from __future__ import annotations

from weakref import ref

from sgframe.interfaces.cache import Stamp
from sgframe_hash_chain.block import Place


class Watchers:
    """Stamps by the place where a match ended and by the tokens of the block that was missing there.

    A match changes only when just that block comes, or when the block at the place goes: tails go first.
    """

    def __init__(self) -> None:
        self._places: dict[Place, dict[bytes, ref[Stamp]]] = {}

    def stamp(self, place: Place, missing: bytes) -> Stamp:
        """One for all who wait for the same."""
        stamps = self._places.setdefault(place, {})
        stamp = stamps[missing]() if missing in stamps else None
        if stamp is None:
            stamp = Stamp()
            stamps[missing] = ref(stamp, lambda _: self._forget(place, missing))
        return stamp

    def came(self, place: Place, tokens: bytes) -> None:
        """The block ``tokens`` is cached at ``place`` from now on."""
        stamps = self._places.get(place)
        if stamps is not None and tokens in stamps:
            _turn(stamps[tokens])
            self._forget(place, tokens)

    def gone(self, place: Place) -> None:
        """The block that ended at ``place`` is cached no more."""
        stamps = self._places.pop(place, None)
        if stamps is not None:
            for stamp in stamps.values():
                _turn(stamp)

    def places(self) -> list[Place]:
        return list(self._places)

    def _forget(self, place: Place, missing: bytes) -> None:
        stamps = self._places[place]
        del stamps[missing]
        if not stamps:
            del self._places[place]


def _turn(reference: ref[Stamp]) -> None:
    stamp = reference()
    if stamp is not None:
        stamp.current = False
