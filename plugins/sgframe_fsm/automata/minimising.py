"""The smallest automaton of a language. Derivatives are near it by construction; this takes the last step, on demand."""

from __future__ import annotations

from sgframe_fsm.automata.automaton import Automaton, Label


def minimise(automaton: Automaton) -> Automaton:
    """Merge the states that nothing tells apart, by refining a partition until it holds (Moore 1956).

    ``automaton`` is not compressed, and every state of it is reachable and leads to a match.
    """
    blocks = [int(accepting) for accepting in automaton.accepting]
    count = len(set(blocks))
    while True:
        numbers: dict[tuple[int, frozenset[tuple[int, int]]], int] = {}
        blocks = [
            numbers.setdefault((blocks[state], _signature(automaton, state, blocks)), len(numbers))
            for state in range(len(automaton))
        ]
        if len(numbers) == count:
            return _quotient(automaton, blocks)
        count = len(numbers)


def _signature(automaton: Automaton, state: int, blocks: list[int]) -> frozenset[tuple[int, int]]:
    """Which bytes lead into which block."""
    return frozenset(_by_block(automaton, state, blocks).items())


def _by_block(automaton: Automaton, state: int, blocks: list[int]) -> dict[int, int]:
    sets: dict[int, int] = {}
    for (members,), target in automaton.edges[state].items():
        sets[blocks[target]] = sets.get(blocks[target], 0) | members
    return sets


def _quotient(automaton: Automaton, blocks: list[int]) -> Automaton:
    """One state for each block. Blocks are numbered by their first state, so the start keeps its number."""
    edges: list[dict[Label, int]] = []
    accepting: list[bool] = []
    for state, block in enumerate(blocks):
        if block == len(edges):
            edges.append({(members,): target for target, members in _by_block(automaton, state, blocks).items()})
            accepting.append(automaton.accepting[state])
    return Automaton(tuple(edges), tuple(accepting))
