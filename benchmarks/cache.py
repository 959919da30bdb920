"""Measures what prefix caches cost, beside SGLang's in the same run: ``python benchmarks/cache.py --help``."""

from __future__ import annotations

import argparse
import gc
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import msgspec
import numpy as np
from drive.machine import Machine, this_machine
from drive.trees import PEER, Tree, find_tree, our_trees, sglang_trees

from sgframe.messages import Ints, ints
from sgframe_radix import STRATEGIES

SHARED = TAIL = 512
"""Tokens of a common prefix, and of what follows it in each sequence."""
PREFIXES = 20
VOCABULARY = 2**16

Trees = dict[str, Callable[[], Tree]]
Figures = dict[str, float]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """``figures``: by tree, the median of all rounds. ``ratios``: the same by the peer's."""

    row: str
    unit: str
    figures: Figures
    ratios: Figures

    @classmethod
    def of(cls, row: str, unit: str, figures: Figures, peer: str) -> Row:
        ratios = {name: figure / figures[peer] for name, figure in figures.items()} if peer else {}
        return cls(row=row, unit=unit, figures=figures, ratios=ratios)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """``peer`` is the tree that ratios refer to; where there is none it is empty, and ``no_peer`` says why."""

    machine: Machine
    rounds: int
    rows: list[Row]
    peer: str
    no_peer: str = ""


# ------------------------------------------------------------------------------------------ the work


class Work:
    """Sequences of 1,024 tokens, each with one of 20 shared prefixes: the same for every tree and round."""

    def __init__(self, sequences: int) -> None:
        self._random = np.random.default_rng(0)
        prefixes = [self._tokens(SHARED) for _ in range(PREFIXES)]
        self.sequences = [prefixes[number % PREFIXES] + self._tokens(TAIL) for number in range(sequences)]
        self.hits = self.sequences[:: max(1, sequences // 200)]
        self.half_hits = [tokens[:SHARED] + self._tokens(TAIL) for tokens in self.hits]
        self.misses = [self._tokens(SHARED + TAIL) for _ in self.hits]

    def build(self, tree: Tree) -> list[float]:
        """Insert every sequence; the seconds of each that found its prefix cached."""
        seconds = [
            tree.insert(tokens, _slots(number), covered=SHARED if number >= PREFIXES else 0)
            for number, tokens in enumerate(self.sequences)
        ]
        return seconds[PREFIXES:]

    def _tokens(self, count: int) -> Ints:
        return ints(self._random.integers(0, VOCABULARY, count, dtype=np.int32).tobytes())


def _slots(number: int) -> Ints:
    """For the whole of a sequence; what was cached before keeps its own."""
    length = SHARED + TAIL
    return ints(range(number * length, (number + 1) * length))


def operations(work: Work, tree: Tree) -> dict[str, list[float]]:
    """Every operation on a new tree: seconds by row."""
    leaves = len(work.sequences)
    return {
        "insert new, 512 cached + 512": work.build(tree),
        "match, full hit": [tree.match(tokens) for tokens in work.hits],
        "match, half hit": [tree.match(tokens) for tokens in work.half_hits],
        "match, miss": [tree.match(tokens) for tokens in work.misses],
        "insert present": [tree.insert(tokens, _slots(leaves), covered=0) for tokens in work.hits],
        "lock + unlock": [tree.lock(tokens) for tokens in work.hits],
        f"evict 5,120 of {leaves:,} leaves": [tree.evict(10 * TAIL) for _ in range(leaves // 40)],
        f"evict {leaves // 2:,} leaves at once": [tree.evict(leaves // 2 * TAIL)],
    }


def evictions(work: Work, tree: Tree) -> dict[str, list[float]]:
    leaves = len(work.sequences)
    work.build(tree)
    return {f"evict 5,120 of {leaves:,} leaves": [tree.evict(10 * TAIL) for _ in range(min(10, leaves // 20))]}


# ------------------------------------------------------------------------------------------ measuring


@contextmanager
def no_collector() -> Iterator[None]:
    """The scheduler's process freezes what it holds; here nothing is collected while times are taken."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def by_turns(
    trees: Trees, rounds: int, measure: Callable[[Tree], dict[str, list[float]]]
) -> Iterator[tuple[str, Figures]]:
    """Each row's medians in µs. In each round every tree is built anew and measured in its turn."""
    rows: dict[str, dict[str, list[float]]] = {}
    for _ in range(rounds):
        for name, make in trees.items():
            with no_collector():
                for row, seconds in measure(make()).items():
                    rows.setdefault(row, {}).setdefault(name, []).extend(seconds)
    for row, seconds_by_tree in rows.items():
        yield row, {name: 1e6 * median(seconds) for name, seconds in seconds_by_tree.items()}


def memories(trees: Iterable[str], find: Callable[[str], Tree], nodes: int) -> Figures:
    """MB of resident memory that ``nodes`` of 100 tokens take: what a new process grows by."""
    figures = {}
    for name in trees:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            figures[name] = process.submit(memory, name, find, nodes).result()
    return figures


def memory(name: str, find: Callable[[str], Tree], nodes: int) -> float:
    tree = find(name)
    random = np.random.default_rng(0)
    _grow(tree, random, range(nodes, nodes + 100))
    before = _resident()
    _grow(tree, random, range(nodes))
    return (_resident() - before) / 1e6


def _grow(tree: Tree, random: np.random.Generator, numbers: range) -> None:
    for number in numbers:
        tokens = ints([number]) + ints(random.integers(0, VOCABULARY, 99, dtype=np.int32).tobytes())
        tree.insert(tokens, ints(range(100 * number, 100 * (number + 1))), covered=0)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# ------------------------------------------------------------------------------------------ the program


def main() -> None:
    options = _parser().parse_args()
    find = partial(find_tree, strategies=options.eviction, block=options.block)
    trees, no_peer = our_trees(options.eviction, options.block), ""
    try:
        trees |= sglang_trees()
    except ImportError as error:
        no_peer = str(error)
    measured = [*by_turns(trees, options.rounds, partial(operations, Work(options.sequences)))]
    for leaves in options.leaves:
        measured += by_turns(trees, 1, partial(evictions, Work(leaves)))
    peer = "" if no_peer else PEER
    rows = [Row.of(row, "µs", figures, peer) for row, figures in measured]
    if options.nodes:
        rows.append(Row.of(f"{options.nodes:,} nodes of 100 tokens", "MB", memories(trees, find, options.nodes), peer))
    report = Report(machine=this_machine(), rounds=options.rounds, rows=rows, peer=peer, no_peer=no_peer)
    print(msgspec.json.encode(report).decode() if options.json else _table(report))


def _table(report: Report) -> str:
    names = list(report.rows[0].figures)
    by = f"; in brackets by {report.peer}'s" if report.peer else ""
    lines = [
        f"{report.machine}",
        f"medians of {report.rounds} rounds by turns, page size 1{by}",
        f"{'':<32}" + "".join(f"{name:>16}" for name in names),
        *(f"{row.row + ', ' + row.unit:<32}" + "".join(_cell(row, name) for name in names) for row in report.rows),
    ]
    if report.no_peer:
        lines.append(f"without SGLang ({report.no_peer}); benchmarks/README.md says how to have it in the same run")
    return "\n".join(lines)


def _cell(row: Row, name: str) -> str:
    ratio = f" ({row.ratios[name]:.2f})" if row.ratios else ""
    return f"{f'{row.figures[name]:,.1f}{ratio}':>16}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Time what the scheduler asks of a prefix cache, on sequences of 512 shared and 512 own tokens with 20 "
        "shared prefixes: radix with each eviction strategy, hash-chain, and SGLang's trees where it is installed."
    )
    add = parser.add_argument
    add("--sequences", type=int, default=2000, help="in the tree (%(default)s)")
    add("--leaves", type=_numbers, default=[200, 20000], help="trees in which eviction is timed again (200,20000)")
    add("--nodes", type=int, default=10_000, help="nodes whose memory is taken; 0: none (%(default)s)")
    add("--rounds", type=int, default=5, help="how often (%(default)s)")
    add("--eviction", type=_names, default=list(STRATEGIES), help=f"strategies of radix ({','.join(STRATEGIES)})")
    add("--block", type=int, default=64, help="tokens in a block of hash-chain (%(default)s)")
    add("--json", action="store_true", help="print JSON")
    return parser


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


def _names(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    main()
