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
from sgframe_torch.parallel.contact import Store, contact
from sgframe_torch.parallel.digest import Comparison, History, PlanDigest, Report, difference
from sgframe_torch.parallel.pace import Pace, Standing, standstill
from sgframe_torch.parallel.roll import place
from sgframe_torch.parallel.wire import Beat, Goodbye, TellHistory, Verdict, Wire, WireMessage

BEAT_INTERVAL = 0.25
"""Seconds between two signs of life."""
SILENCE = 3.0
"""Seconds without a sign of life after which a rank counts as lost."""
FAREWELL = 5.0
"""Seconds in which all ranks have to end once one has said goodbye."""
GOODBYE_TIMEOUT = 1.0
"""Seconds that a rank waits for its goodbye to be heard."""


@dataclass(slots=True)
class _Peer:
    """Another rank, which has given no sign of life while this one sent ``unheard`` beats.

    Counted in beats and not in seconds, so that a machine that stood still as a whole accuses nobody when it goes on.
    """

    wire: Wire
    standing: Standing
    unheard: int = 0
    comparison: Comparison = field(default_factory=Comparison)

    def __str__(self) -> str:
        return str(self.standing)


class Lifeline:
    """Made by ``start``. Calls ``give_up`` once at most, from its own thread."""

    def __init__(
        self, ranks: Ranks, peers: list[_Peer], pace: Pace, digest: PlanDigest, give_up: Callable[[str], None]
    ) -> None:
        self._ranks = ranks
        self._peers = peers
        self._pace = pace
        self._digest = digest
        self._end = give_up
        self._standing = Standing(_name(ranks.rank, ranks, place()))
        self._left: tuple[str, float] | None = None  # who said goodbye first, and when
        self._failure = ""
        self._verdict = ""
        self._judged = threading.Event()
        self._closing, self._close = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._closing, selectors.EVENT_READ)
        for peer in peers:
            self._selector.register(peer.wire, selectors.EVENT_READ, peer)
        self._thread = threading.Thread(target=self._run, name="lifeline", daemon=True)
        self._thread.start()

    @classmethod
    def start(
        cls, ranks: Ranks, store: Store, pace: Pace, digest: PlanDigest, give_up: Callable[[str], None]
    ) -> Lifeline:
        """Connect the ranks and watch from now on; returns once all are there. Raises ConfigError when some are not."""
        found = contact(ranks, store)
        peers = [_Peer(wire, Standing(_name(hello.rank, ranks, hello.place))) for wire, hello in found]
        return cls(ranks, peers, pace, digest, give_up)

    def verdict(self) -> str:
        """Why this rank has to give up, after a wait for that to be found out; empty when nobody is lost.

        For a rank whose collective has failed: the lifeline knows who is behind it.
        """
        self._judged.wait(SILENCE + 2 * BEAT_INTERVAL)
        return self._verdict

    def close(self, failure: str = "") -> None:
        """Say goodbye, so that nobody takes this rank's end for a death; for a ``failure`` the others give up.

        A second close does nothing.
        """
        self._failure = failure
        self._close.close()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._watch()
        except Exception as error:
            if self._verdict:  # giving up is what has failed
                raise
            self._give_up(f"the lifeline of {self._standing} failed: {type(error).__name__}: {error}")
        finally:
            for peer in list(self._peers):
                self._forget(peer)
            self._selector.close()
            self._closing.close()

    def _watch(self) -> None:
        beat_at = 0.0
        while not self._verdict:
            for key, _ in self._selector.select(max(beat_at - time.monotonic(), 0.0)):
                if key.fileobj is self._closing:
                    self._leave()
                    return
                self._hear(key.data)
            if time.monotonic() >= beat_at:
                beat_at = time.monotonic() + BEAT_INTERVAL
                self._beat()
                self._judge(time.monotonic())

    def _beat(self) -> None:
        reports = self._digest.due()
        beat = Beat(self._pace.step, self._pace.entered, reports)
        for peer in self._peers:
            _say(peer, beat)
            peer.unheard += 1
            self._compare(peer, reports, [])

    def _hear(self, peer: _Peer) -> None:
        try:
            messages = peer.wire.receive(SILENCE)
        except (OSError, EOFError, ValueError):
            self._give_up(f"{peer} died")
            return
        peer.unheard = 0
        for message in messages:
            self._take(peer, message)

    def _take(self, peer: _Peer, message: WireMessage) -> None:
        match message:
            case Beat():
                peer.standing.see(message.step, message.entered, time.monotonic())
                self._compare(peer, [], message.reports)
            case TellHistory():
                _say(peer, self._digest.history())
            case History():
                self._give_up(difference(str(peer), self._digest.history(), message))
            case Verdict():
                self._give_up(message.reason)
            case Goodbye() if message.failure:
                self._give_up(f"{peer} failed: {message.failure}")
            case Goodbye():
                self._left = self._left or (str(peer), time.monotonic())
                self._forget(peer)

    def _compare(self, peer: _Peer, mine: list[Report], theirs: list[Report]) -> None:
        if self._ranks.rank == 0 and peer.comparison.differs(mine, theirs):
            _say(peer, TellHistory())

    def _judge(self, now: float) -> None:
        """Give up on a rank that is silent, on a step that takes too long, and when others have left but not this rank."""
        self._standing.see(self._pace.step, self._pace.entered, now)
        for peer in self._peers:
            if (silent := peer.unheard * BEAT_INTERVAL) > SILENCE:
                self._give_up(
                    f"{peer} has been silent for {silent:.1f} s: its process is stopped, or the network is lost"
                )
        if self._left and now - self._left[1] > FAREWELL:
            self._give_up(f"{self._left[0]} has left {FAREWELL:g} s ago, and {self._standing} has not ended")
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

    def _leave(self) -> None:
        """Say goodbye, and stay until all have heard it: a connection that is closed on what it has not read may lose what
        it has sent."""
        self._selector.unregister(self._closing)
        for peer in self._peers:
            _say(peer, Goodbye(self._failure))
            peer.wire.finish()
        until = time.monotonic() + GOODBYE_TIMEOUT
        while self._peers and (ready := self._selector.select(until - time.monotonic())):
            for key, _ in ready:
                try:
                    key.data.wire.receive(SILENCE)
                except (OSError, EOFError, ValueError):
                    self._forget(key.data)

    def _forget(self, peer: _Peer) -> None:
        self._selector.unregister(peer.wire)
        self._peers.remove(peer)
        peer.wire.close()


def _name(rank: int, ranks: Ranks, where: str) -> str:
    return f"rank {rank} of {ranks.size} ({where})"


def _say(peer: _Peer, message: WireMessage) -> None:
    """That ``peer`` is gone is found out where it is heard, behind what it has said before."""
    with contextlib.suppress(OSError):
        peer.wire.send(message)
