"""Who watches over the ranks: a thread in each, which talks to the others' apart from all collectives, so that it works
while those block.

Rank 0 has a connection to every other rank. It names who died, who is silent, who holds up a step, and who has executed
something else; the others watch rank 0. Whoever finds something gives up, and rank 0 tells the others why.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from sgframe.interfaces.backend import Ranks
from sgframe_torch.parallel.digest import Comparison, History, PlanDigest, difference
from sgframe_torch.parallel.meeting import Store, meet
from sgframe_torch.parallel.pace import Pace, Standing, standstill
from sgframe_torch.parallel.wire import Beat, Goodbye, TellHistory, Verdict, Wire, WireMessage

BEAT_INTERVAL = 0.25
"""Seconds between two signs of life."""
SILENCE = 3.0
"""Seconds without a sign of life after which a rank counts as lost."""
FAREWELL = 5.0
"""Seconds in which all ranks have to end once one has said goodbye."""


@dataclass(slots=True)
class _Peer:
    """Another rank: when it was last ``heard``, and since when it is ``leaving`` (0: it is not)."""

    wire: Wire
    standing: Standing
    heard: float
    comparison: Comparison = field(default_factory=Comparison)
    leaving: float = 0.0

    def __str__(self) -> str:
        return self.standing.name


class Lifeline:
    """Made by ``start``. ``give_up`` is called once at most, from the lifeline's thread."""

    def __init__(
        self,
        ranks: Ranks,
        peers: list[_Peer],
        pace: Pace,
        digest: PlanDigest,
        give_up: Callable[[str], None],
    ) -> None:
        self._ranks = ranks
        self._peers = peers
        self._pace = pace
        self._digest = digest
        self._end = give_up
        self._standing = Standing(f"rank {ranks.rank} of {ranks.size} (this process)")
        self._verdict = ""
        self._judged = threading.Event()
        self._failure = ""
        self._closing, self._close = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._closing, selectors.EVENT_READ)
        for peer in peers:
            self._selector.register(peer.wire, selectors.EVENT_READ, peer)
        self._thread = threading.Thread(target=self._watch, name="lifeline", daemon=True)
        self._thread.start()

    @classmethod
    def start(
        cls, ranks: Ranks, store: Store, pace: Pace, digest: PlanDigest, give_up: Callable[[str], None]
    ) -> Lifeline:
        """Connect the ranks and watch from now on; returns once all are there. Raises ConfigError when some are not."""
        now = time.monotonic()
        peers = [
            _Peer(wire, Standing(f"rank {hello.rank} of {ranks.size} ({hello.place})"), now)
            for wire, hello in meet(ranks, store)
        ]
        return cls(ranks, peers, pace, digest, give_up)

    def verdict(self) -> str:
        """Why this rank has to give up, after a wait for that to be found out; empty when nobody is lost.

        For a rank whose collective has failed: the lifeline knows who is behind it.
        """
        self._judged.wait(SILENCE + 2 * BEAT_INTERVAL)
        return self._verdict

    def close(self, failure: str = "") -> None:
        """Say goodbye, so that nobody takes this rank's end for a death; with a ``failure`` the others give up for it.
        A second close does nothing."""
        self._failure = failure
        self._close.close()
        self._thread.join(FAREWELL)

    def _watch(self) -> None:
        beat_at = time.monotonic()
        while not self._verdict:
            ready = self._selector.select(max(beat_at - time.monotonic(), 0.0))
            for key, _ in ready:
                if key.data is None:
                    return self._leave()
                self._hear(key.data)
            if time.monotonic() >= beat_at:
                beat_at = time.monotonic() + BEAT_INTERVAL
                self._beat()
                self._judge(time.monotonic())
        return None

    def _beat(self) -> None:
        reports = self._digest.due()
        beat = Beat(self._pace.step, self._pace.entered, reports)
        for peer in list(self._peers):
            _say(peer, beat)
            if self._ranks.rank == 0 and peer.comparison.differs(reports, []):
                _say(peer, TellHistory())

    def _hear(self, peer: _Peer) -> None:
        try:
            messages = peer.wire.receive(SILENCE)
        except (OSError, EOFError):
            self._forget(peer)
            if not peer.leaving:
                self._give_up(f"{peer} died")
            return
        peer.heard = time.monotonic()
        for message in messages:
            self._take(peer, message)

    def _take(self, peer: _Peer, message: WireMessage) -> None:
        match message:
            case Beat():
                peer.standing.see(message.step, message.entered, peer.heard)
                if self._ranks.rank == 0 and peer.comparison.differs([], message.reports):
                    _say(peer, TellHistory())
            case TellHistory():
                _say(peer, self._digest.history())
            case History():
                self._give_up(difference(str(peer), self._digest.history(), message))
            case Verdict():
                self._give_up(message.reason)
            case Goodbye():
                peer.leaving = peer.heard
                if message.failure:
                    self._give_up(f"{peer} failed: {message.failure}")

    def _judge(self, now: float) -> None:
        """Give up on a rank that is silent, on a step that takes too long, and on those who stay when others have left."""
        self._standing.see(self._pace.step, self._pace.entered, now)
        for peer in self._peers:
            if now - peer.heard > SILENCE and not peer.leaving:
                self._give_up(
                    f"{peer} has been silent for {now - peer.heard:.1f} s: its process is stopped, or the network is lost"
                )
            if peer.leaving and now - peer.leaving > FAREWELL:
                self._give_up(f"{peer} has left {FAREWELL:g} s ago, and {self._standing} has not ended")
        if self._ranks.rank == 0:
            standings = [self._standing, *(peer.standing for peer in self._peers)]
            if late := standstill(standings, now, self._ranks.step_timeout):
                self._give_up(late)

    def _give_up(self, reason: str) -> None:
        if self._verdict:
            return
        self._verdict = reason
        for peer in self._peers:
            _say(peer, Verdict(reason))
        self._judged.set()
        self._end(reason)

    def _forget(self, peer: _Peer) -> None:
        self._selector.unregister(peer.wire)
        self._peers.remove(peer)
        peer.wire.close()

    def _leave(self) -> None:
        """Say goodbye and wait until all have heard it, so that no unread beat cuts off the connection before."""
        for peer in self._peers:
            _say(peer, Goodbye(self._failure))
            peer.wire.finish()
        ...


def _say(peer: _Peer, message: WireMessage) -> None:
    """That ``peer`` is gone is seen where it is heard, behind what it has said before."""
    with contextlib.suppress(OSError):
        peer.wire.send(message)
