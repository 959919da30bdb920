"""What every executor must get right of token trees: the tests that BackendContract has of them. Knows no device."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sgframe.messages import Tree, ints
from sgframe.sampling import TokenSampling
from sgframe.testing.driver import Driver, DriverRow

ROOT = -1
"""The place of what follows the prompt directly."""

ALL_PROMPT_LOGPROBS = TokenSampling(seed=0, temperature=0.0, prompt_logprobs=0)

Path = tuple[int, ...]

SHAPES: dict[str, list[Path]] = {
    "one path": [(1, 2, 3, 4)],
    "forked at the root": [(1, 2, 3), (4, 2, 3), (5, 6)],
    "forked below": [(1, 2, 3, 4), (1, 2, 5, 6, 7), (1, 2, 5, 8, 9)],
    "a path within another": [(1, 2), (1, 2, 3, 4), (1,)],
    "equal tokens": [(1, 1, 1, 1), (1, 1, 2, 1), (2, 1, 1, 1)],
    "deep": [tuple(range(40)), (*range(20), *range(50, 70)), tuple(range(70, 110))],
    "a comb": [(*range(depth), 99, 98) for depth in range(6)],
}
FORKED = SHAPES["forked below"]


class PathTree:
    """``paths`` put together where they are equal, with each token of each path asked for.

    The nodes, the tokens that others follow, come path by path, or in ``level_order`` those of one depth together.
    ``prefixes[i]`` is the part of a path that ends with what the tree asks for as its token i.
    """

    def __init__(self, paths: Sequence[Path], *, level_order: bool = False) -> None:
        self.paths = paths
        self.prefixes = list(dict.fromkeys(path[:end] for path in paths for end in range(1, len(path) + 1)))
        if level_order:
            self.prefixes.sort(key=len)
        followed = {prefix[:-1] for prefix in self.prefixes}
        inner = [prefix for prefix in self.prefixes if prefix in followed]
        place = {(): ROOT} | {prefix: node for node, prefix in enumerate(inner)}
        self.nodes = [prefix[-1] for prefix in inner]
        self.tree = Tree(
            parents=ints(place[prefix[:-1]] for prefix in inner),
            places=ints(place[prefix[:-1]] for prefix in self.prefixes),
            tokens=ints(prefix[-1] for prefix in self.prefixes),
        )

    def admit(self, driver: Driver, prompt: Sequence[int], cached: Sequence[int] = ()) -> DriverRow:
        return driver.admit(prompt, output=self.nodes, tree=self.tree, cached=cached)

    def asked_at(self, place: int) -> list[int]:
        """What is asked for right after ``place``."""
        return [asked for asked, other in enumerate(self.tree.places) if other == place]


class TreeContract:
    """A tree's scores are those of each of its paths alone. The model knows at least 128 tokens.

    Part of BackendContract; by itself a subclass gives the fixture ``driver``, a Driver of a fresh
    executor.
    """

    def path_logprobs(self, driver: Driver, prompt: Sequence[int], path: Path) -> list[float]:
        """The right scores of ``path`` after ``prompt``: the prompt logprobs of both, computed alone. To be overridden
        for a model whose prompt logprobs are made up."""
        row = driver.admit([*prompt, *path], ALL_PROMPT_LOGPROBS)
        driver.prefill(row)
        driver.release(row)
        return [row.prompt_logprobs[len(prompt) + depth].logprob for depth in range(len(path))]

    def expected(self, driver: Driver, prompt: Sequence[int], paths: PathTree) -> object:
        """The right score of each token that ``paths`` ask for, to a thousandth."""
        alone = {}
        for path in paths.paths:
            for end, score in enumerate(self.path_logprobs(driver, prompt, path), 1):
                alone[path[:end]] = score
        return pytest.approx({asked: alone[prefix] for asked, prefix in enumerate(paths.prefixes)}, abs=1e-3)

    # -------------------------------------------------------------------------------------------------- shapes

    @pytest.mark.parametrize("level_order", [False, True], ids=["path by path", "level by level"])
    @pytest.mark.parametrize("shape", SHAPES)
    def test_a_tree_scores_each_path_as_if_it_were_alone(self, driver: Driver, shape: str, level_order: bool) -> None:
        prompt, paths = driver.prompt(11), PathTree(SHAPES[shape], level_order=level_order)
        expected = self.expected(driver, prompt, paths)
        row = paths.admit(driver, prompt)
        output = driver.step({row: row.pending})
        assert row.scores == expected
        assert list(output.tokens) == []

    def test_a_tree_without_nodes_asks_for_what_follows_the_prompt(self, driver: Driver) -> None:
        prompt, paths = driver.prompt(6), PathTree([(4,), (7,), (9,)])
        assert paths.nodes == []
        expected = self.expected(driver, prompt, paths)
        row = paths.admit(driver, prompt)
        driver.step({row: 6})
        assert row.scores == expected

    def test_a_prompt_of_one_token_bears_a_tree(self, driver: Driver) -> None:
        paths = PathTree(FORKED)
        expected = self.expected(driver, [3], paths)
        row = paths.admit(driver, [3])
        driver.step({row: row.pending})
        assert row.scores == expected

    def test_only_what_is_asked_for_is_scored(self, driver: Driver) -> None:
        prompt = driver.prompt(6)
        right = self.path_logprobs(driver, prompt, (1, 2, 8))
        row = driver.admit(prompt, output=[1, 2, 5], tree=Tree(ints([-1, 0, 0]), ints([1]), ints([8])))
        driver.step({row: row.pending})
        assert row.scores == pytest.approx({0: right[2]}, abs=1e-3)

    # ------------------------------------------------------------------------------------ one model of progress

    @pytest.mark.parametrize("level_order", [False, True], ids=["path by path", "level by level"])
    def test_a_tree_may_be_cut_anywhere(self, driver: Driver, level_order: bool) -> None:
        prompt, paths = driver.prompt(5), PathTree(FORKED, level_order=level_order)
        expected = self.expected(driver, prompt, paths)
        total = len(prompt) + len(paths.nodes)
        for first in range(1, total):
            row = paths.admit(driver, prompt)
            driver.step({row: first})
            driver.step({row: total - first})
            driver.release(row)
            assert row.scores == expected, f"cut after {first} tokens"

    def test_scores_come_with_the_token_that_they_follow(self, driver: Driver) -> None:
        prompt, paths = driver.prompt(4), PathTree(FORKED)
        expected = self.expected(driver, prompt, paths)
        row = paths.admit(driver, prompt)
        for place in range(-len(prompt), len(paths.nodes)):
            output = driver.step({row: 1})
            given = [list(scores.asked) for scores in output.scores]
            assert given == ([paths.asked_at(place)] if place >= ROOT else [])
        assert row.scores == expected

    @pytest.mark.parametrize("cached", [1, 7, 8])
    def test_a_cached_part_of_the_prompt_changes_no_score(self, driver: Driver, cached: int) -> None:
        cached = driver.aligned(cached)
        prompt, paths = driver.prompt(max(9, cached + 1)), PathTree(FORKED)
        expected = self.expected(driver, prompt, paths)
        first = driver.admit(prompt)
        driver.prefill(first)
        row = paths.admit(driver, prompt, cached=driver.release(first, keep=cached))
        driver.step({row: row.pending})
        assert row.scores == expected

    def test_cached_nodes_are_not_scored_again(self, driver: Driver) -> None:
        cached = driver.aligned(6 + 3)
        prompt, paths = driver.prompt(cached - 3), PathTree(FORKED)
        whole = paths.admit(driver, prompt)
        driver.step({whole: whole.pending})
        row = paths.admit(driver, prompt, cached=driver.release(whole, keep=cached))
        driver.step({row: row.pending})
        later = {asked for place in range(3, len(paths.nodes)) for asked in paths.asked_at(place)}
        assert row.scores == pytest.approx({asked: whole.scores[asked] for asked in later}, abs=1e-3)

    def test_a_tree_reads_the_other_copy_of_a_rewritten_prompt(self, driver: Driver) -> None:
        start = driver.aligned(2)
        end = start + driver.aligned(6)
        prompt, paths = driver.prompt(end), PathTree(FORKED)
        expected = self.expected(driver, prompt, paths)
        kept, row = driver.admit(prompt), paths.admit(driver, prompt)
        driver.prefill(kept)
        driver.step({row: end + 2})
        driver.rewrite(row, start, kept.slots[start:end])
        other = driver.admit(driver.prompt(20, 1))  # takes the slots that this freed
        driver.step({other: 20, row: row.pending})
        assert row.scores == expected

    # ---------------------------------------------------------------------------------------------- neighbours

    def test_trees_beside_a_decode_and_a_prefill_change_none_of_them(self, driver: Driver) -> None:
        prompts = [driver.prompt(length, length) for length in (8, 14, 5, 7)]
        outputs = [driver.generate(prompt, 4) for prompt in prompts[:2]]
        trees = [PathTree(FORKED), PathTree(SHAPES["a comb"], level_order=True)]
        expected = [self.expected(driver, prompt, paths) for prompt, paths in zip(prompts[2:], trees, strict=True)]
        decoding, late = (driver.admit(prompt) for prompt in prompts[:2])
        driver.prefill(decoding)
        rows = [paths.admit(driver, prompt) for prompt, paths in zip(prompts[2:], trees, strict=True)]
        driver.step({rows[0]: 7, decoding: 1, late: 6, rows[1]: 9})
        output = driver.step({late: 8, rows[1]: rows[1].pending, rows[0]: rows[0].pending, decoding: 1})
        driver.decode([decoding, late], 1)
        assert list(output.rows) == [late.row, decoding.row]
        assert [row.scores for row in rows] == expected
        assert [decoding.output, late.output] == [outputs[0], outputs[1][:2]]

    def test_a_released_tree_leaves_nothing_to_the_next_row(self, driver: Driver) -> None:
        prompt, paths = driver.prompt(6), PathTree(FORKED)
        output = driver.generate(prompt, 4)
        row = paths.admit(driver, prompt)
        driver.step({row: row.pending})
        driver.release(row)
        assert driver.generate(prompt, 4) == output
