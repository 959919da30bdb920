"""Leases on what states have behind them: how many states stand on each. Knows no tokens; the engine keeps the KV."""

from __future__ import annotations

from sgframe.front.async_engine import AsyncEngine


class Prefix:
    """A lease of the engine, held by one state and by every fork of it until that has moved on."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.lease = engine.new_lease()
        self._engine = engine
        self._holders = 1

    def share(self) -> Prefix:
        """The same, for one more holder."""
        self._holders += 1
        return self

    def let_go(self) -> None:
        """One holder has left; with the last the lease ends."""
        self._holders -= 1
        if self._holders == 0:
            self._engine.release_leases([self.lease])
