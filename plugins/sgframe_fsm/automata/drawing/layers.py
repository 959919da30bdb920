"""Which layer each state stands in, and in what order within it: the layered drawing of Sugiyama, Tagawa and Toda (1981)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from sgframe_fsm.automata.automaton import Automaton
from sgframe_fsm.automata.drawing.labels import text_of

SWEEPS = 12
"""How often layers are put in order by where their neighbours stand."""
Place: TypeAlias = tuple[int, ...]
"""A state, ``(state,)``; or where an arrow passes a layer, ``(source, target, layer)``."""


@dataclass(frozen=True)
class Arrow:
    """All edges from one state to another. ``back``: it closes a circle."""

    source: int
    target: int
    labels: tuple[str, ...]
    back: bool


@dataclass
class Layers:
    """Layers from left to right, each from top to bottom; and what each place is linked with to its left and right."""

    places: list[list[Place]]
    left: dict[Place, list[Place]] = field(default_factory=dict)
    right: dict[Place, list[Place]] = field(default_factory=dict)
    routes: dict[tuple[int, int], list[Place]] = field(default_factory=dict)


def arrows_of(automaton: Automaton) -> list[Arrow]:
    """In the order of their sources."""
    back = set(_closing(automaton))
    grouped: dict[tuple[int, int], list[str]] = {}
    for source, edges in enumerate(automaton.edges):
        for label, target in edges.items():
            grouped.setdefault((source, target), []).append(text_of(label))
    return [Arrow(*ends, tuple(labels), ends in back) for ends, labels in grouped.items()]


def arrange(automaton: Automaton, arrows: Sequence[Arrow]) -> Layers:
    """Each state right of all that lead to it, but for arrows that close a circle; crossings kept few."""
    forward = [arrow for arrow in arrows if not arrow.back]
    depth = _depths(len(automaton), forward)
    layers = Layers([[] for _ in range(max(depth) + 1)])
    for state, layer in enumerate(depth):
        layers.places[layer].append((state,))
    for arrow in forward:
        route = [(arrow.source,), *_passed(arrow, depth), (arrow.target,)]
        layers.routes[arrow.source, arrow.target] = route
        for layer, place in enumerate(route[1:-1], depth[arrow.source] + 1):
            layers.places[layer].append(place)
        for place, follower in pairwise(route):
            layers.right.setdefault(place, []).append(follower)
            layers.left.setdefault(follower, []).append(place)
    _order(layers)
    return layers


def _passed(arrow: Arrow, depth: Sequence[int]) -> Iterator[Place]:
    for layer in range(depth[arrow.source] + 1, depth[arrow.target]):
        yield arrow.source, arrow.target, layer


def _closing(automaton: Automaton) -> Iterator[tuple[int, int]]:
    """The edges that lead back to a state on the way from the start, depth first."""
    entered, left = {0}, set()
    path = [(0, iter(automaton.edges[0].values()))]
    while path:
        state, targets = path[-1]
        target = next(targets, None)
        if target is None:
            left.add(state)
            path.pop()
        elif target not in entered:
            entered.add(target)
            path.append((target, iter(automaton.edges[target].values())))
        elif target not in left:
            yield state, target


def _depths(count: int, forward: Sequence[Arrow]) -> list[int]:
    """The longest way from the start to each state."""
    depth = [0] * count
    waiting = [0] * count
    outgoing: list[list[int]] = [[] for _ in range(count)]
    for arrow in forward:
        waiting[arrow.target] += 1
        outgoing[arrow.source].append(arrow.target)
    ready = [state for state in range(count) if not waiting[state]]
    while ready:
        state = ready.pop()
        for target in outgoing[state]:
            depth[target] = max(depth[target], depth[state] + 1)
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    return depth


def _order(layers: Layers) -> None:
    """Sort layers by the middle of their neighbours, to the right and back again."""
    for sweep in range(SWEEPS):
        rightwards = sweep % 2 == 0
        order = layers.places if rightwards else layers.places[::-1]
        linked = layers.left if rightwards else layers.right
        for fixed, moved in pairwise(order):
            rank = {place: index for index, place in enumerate(fixed)}
            moved.sort(key=_Middle(rank, linked))


@dataclass(frozen=True)
class _Middle:
    """Where a place wants to stand among the places of the layer beside it."""

    rank: Mapping[Place, int]
    linked: Mapping[Place, Sequence[Place]]

    def __call__(self, place: Place) -> float:
        ranks = [self.rank[neighbour] for neighbour in self.linked.get(place, ())]
        return sum(ranks) / len(ranks) if ranks else 0.0
