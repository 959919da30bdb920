"""The benchmark of prefix caches runs, and does what its rows say. How fast anything is, no test says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from drive.trees import OurTree, our_trees

from sgframe.interfaces.cache import Clock
from sgframe.messages import ints
from sgframe_radix import RadixSettings
from sgframe_radix.cache import RadixCache

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "cache.py"
SMALL = ("--sequences", "80", "--leaves", "40", "--nodes", "100", "--rounds", "1", "--eviction", "lru,lfu")
ROWS = [
    "insert new, 512 cached + 512",
    "match, full hit",
    "match, half hit",
    "match, miss",
    "insert present",
    "lock + unlock",
    "evict 5,120 of 80 leaves",
    "evict 40 leaves at once",
    "evict 5,120 of 40 leaves",
    "100 nodes of 100 tokens",
]


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_every_row_has_a_figure_of_every_tree() -> None:
    report: dict[str, Any] = json.loads(run("--json", *SMALL))
    assert [row["row"] for row in report["rows"]] == ROWS
    assert [row["unit"] for row in report["rows"]] == ["µs"] * 9 + ["MB"]
    assert all(set(row["figures"]) >= {"radix lru", "radix lfu", "chain 64"} for row in report["rows"])
    assert all(figure > 0 for row in report["rows"][:5] for figure in row["figures"].values())


@pytest.mark.skipif(find_spec("sglang") is not None, reason="SGLang is installed here")
def test_without_a_peer_the_table_says_why() -> None:
    table = run(*SMALL, "--nodes", "0")
    assert "without SGLang (No module named 'sglang'); benchmarks/README.md says" in table
    assert "nodes of 100 tokens" not in table


class TestOurTree:
    """What each call leaves behind in the cache."""

    @pytest.fixture
    def cache(self) -> RadixCache:
        return RadixCache(RadixSettings(), page_size=1, clock=lambda: 0.0)

    @pytest.fixture
    def tree(self, cache: RadixCache) -> OurTree:
        def make(clock: Clock) -> RadixCache:
            return cache

        return OurTree(make)

    def test_insert_goes_on_from_what_was_cached(self, tree: OurTree, cache: RadixCache) -> None:
        tree.insert(ints([1, 2]), ints([10, 11]), covered=0)
        tree.insert(ints([1, 2, 3]), ints([20, 21, 22]), covered=2)
        assert list(cache.match_prefix(ints([1, 2, 3])).slots) == [10, 11, 22]

    def test_nothing_stays_locked(self, tree: OurTree, cache: RadixCache) -> None:
        tree.insert(ints([1, 2]), ints([10, 11]), covered=0)
        tree.match(ints([1, 2]))
        tree.lock(ints([1, 2]))
        assert (cache.stats().evictable, cache.stats().locked) == (2, 0)

    def test_an_eviction_that_gives_too_little_is_no_figure(self, tree: OurTree) -> None:
        tree.insert(ints([1, 2]), ints([10, 11]), covered=0)
        with pytest.raises(AssertionError):
            tree.evict(3)


def test_strategies_and_block_are_those_asked_for() -> None:
    assert list(our_trees(["lru", "slru"], block=32)) == ["radix lru", "radix slru", "chain 32"]
