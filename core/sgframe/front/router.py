"""Which replica a prompt goes to: the one where it is done soonest, by what each was sent and what lies before it there.

Pure: no clock, no randomness, no message. It hears what was sent and what has ended, and knows no cache, only what one of
that size would hold.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from sgframe.messages import Ints, Namespace

BLOCK = 32
"""Tokens that are remembered together. What a prompt shares beyond whole blocks is not seen."""
PATIENCE = 4
"""Tokens that a prompt lets go first for each of its own that then need not be computed. More than one, since a prefix that
is computed once more takes the room of another, which will be missed."""
TYPICAL_OUTPUT = 256
"""Tokens that an output counts as at most while it lasts: ``max_tokens`` says what it may become, rarely what it does."""


@dataclass(slots=True)
class Route:
    """A request on its way. ``rest`` tokens of its prompt were to be computed, and ``output`` after them."""

    replica: int
    rest: int
    output: int


class Router:
    """Routes prompts among replicas 0 … n - 1, whose caches hold ``sizes`` tokens.

    Load is what a replica was sent and has not computed yet, in tokens. A prompt goes where load and, times PATIENCE, the
    rest of the prompt that is not cached there are least together (see Preble, Srivatsa et al. 2024): a replica that holds m
    tokens of it is chosen only while its load is at most PATIENCE m above that of any other. Among equals it goes where what
    has to make room was sent longest ago, so that together the caches keep what one big LRU cache would; then rendezvous
    hashing decides (Thaler and Ravishankar 1998).
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sent: dict[int, _Sent] = {}
        self._loads: dict[int, int] = {}
        self._routed = 0
        for replica, size in enumerate(sizes):
            self.add(replica, size)

    @property
    def loads(self) -> dict[int, int]:
        """By replica, those that were removed left out."""
        return dict(self._loads)

    def route(self, tokens: Ints, max_tokens: int, namespace: Namespace = ()) -> Route:
        """The way of a new request, which from now on is a load. There must be a replica left."""
        keys = _keys(tokens, namespace)
        rests = {replica: len(tokens) - BLOCK * sent.match(keys) for replica, sent in self._sent.items()}
        costs = {replica: self._loads[replica] + PATIENCE * rest for replica, rest in rests.items()}
        least = min(costs.values())
        equals = [replica for replica, cost in costs.items() if cost == least]
        beginning = crc32(tokens[:BLOCK].tobytes())
        chosen = min(equals, key=lambda replica: (self._sent[replica].warmth, _weight(beginning, replica)))
        self._routed += 1
        self._sent[chosen].take(keys, self._routed)
        route = Route(chosen, rests[chosen], min(max_tokens, TYPICAL_OUTPUT))
        self._loads[chosen] += route.rest + route.output
        return route

    def answered(self, route: Route) -> None:
        """The first token has come: the prompt is computed."""
        self._relieve(route, route.rest)
        route.rest = 0

    def ended(self, route: Route) -> None:
        """The request is over, however it ended."""
        self._relieve(route, route.rest + route.output)
        route.rest = route.output = 0

    def add(self, replica: int, size: int) -> None:
        """Its cache is empty, and can hold ``size`` tokens."""
        self._sent[replica] = _Sent(max(1, size // BLOCK))
        self._loads[replica] = 0

    def remove(self, replica: int) -> None:
        """Send no more there. Its routes are of no use any more, not even to a replica that is added by its number."""
        del self._sent[replica], self._loads[replica]

    def forget(self) -> None:
        """All caches were emptied."""
        for sent in self._sent.values():
            sent.blocks.clear()

    def _relieve(self, route: Route, tokens: int) -> None:
        if route.replica in self._loads:
            self._loads[route.replica] -= tokens


class _Sent:
    """What one replica was sent: at most ``most`` blocks, by key, each with the number of the route that sent it last. In
    their order, least recent first, a block stands before those that it follows in a prompt, and so goes before them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.blocks: OrderedDict[int, int] = OrderedDict()

    def match(self, keys: Sequence[int]) -> int:
        """How many of the first blocks are there."""
        for count, key in enumerate(keys):
            if key not in self.blocks:
                return count
        return len(keys)

    def take(self, keys: Sequence[int], number: int) -> None:
        for key in reversed(keys[: self._most]):
            self.blocks[key] = number
            self.blocks.move_to_end(key)
        while len(self.blocks) > self._most:
            self.blocks.popitem(last=False)

    @property
    def warmth(self) -> int:
        """When what must make room next was sent; -1 while there is room."""
        return next(iter(self.blocks.values())) if len(self.blocks) >= self._most else -1


def _keys(tokens: Ints, namespace: Namespace) -> list[int]:
    """A key for each whole block, which stands for all before it, too."""
    data, width = tokens.tobytes(), BLOCK * tokens.itemsize
    key, keys = hash(namespace), []
    for end in range(width, len(data) + 1, width):
        key = hash((key, data[end - width : end]))
        keys.append(key)
    return keys


def _weight(beginning: int, replica: int) -> int:
    return crc32(b"%d %d" % (beginning, replica))
