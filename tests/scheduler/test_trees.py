"""Continuations scored together: one request, each common beginning computed once, and nothing of it in the cache."""

from __future__ import annotations

import pytest
from scheduler_bench import Bench, expected_output, score

from sgframe.front.scoring import TokenTree
from sgframe.messages import Finish, StepOutput, TreeScores, ints

PROMPT = [3, 1, 4, 1, 5]
PATHS = [[7, 8, 9], [7, 8], [7, 2, 6], [11]]


def add(
    bench: Bench, number: int, paths: list[list[int]] = PATHS, prompt: list[int] = PROMPT, **options: object
) -> TokenTree:
    tree = TokenTree(paths)
    bench.add(number, [*prompt, *tree.nodes], max_tokens=0, tree=tree.tree, **options)
    return tree


def expected(paths: list[list[int]] = PATHS, prompt: list[int] = PROMPT) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(score([*prompt, *path[:i]], token) for i, token in enumerate(path)) for path in paths)


def found(bench: Bench, tree: TokenTree, number: int = 1) -> tuple[tuple[float, ...], ...]:
    scores = next(output.scores for output in bench.taken if output.id == number and output.finish)
    assert scores is not None
    return tree.by_path(scores)


def test_a_common_beginning_is_one_node_and_last_tokens_are_none() -> None:
    tree = TokenTree(PATHS)
    assert list(tree.nodes) == [7, 8, 2]
    assert list(tree.tree.parents) == [-1, 0, 0]
    assert list(zip(tree.tree.places, tree.tree.tokens, strict=True)) == [
        (-1, 7),
        (0, 8),
        (1, 9),
        (0, 2),
        (2, 6),
        (-1, 11),
    ]


def test_a_path_that_begins_another_ends_at_one_of_its_nodes() -> None:
    assert TokenTree([[1], [1, 2]]).by_path([-0.5, -0.25]) == ((-0.5,), (-0.5, -0.25))


def test_each_path_gets_the_logprobs_of_its_own_tokens() -> None:
    bench = Bench()
    tree = add(bench, 1)
    bench.run()
    assert found(bench, tree) == expected()
    assert bench.finished[1] == Finish("length")
    assert bench.outputs[1] == []


def test_prompt_and_tree_are_computed_in_one_step_and_each_node_once() -> None:
    bench = Bench()
    add(bench, 1)
    batch = bench.step()
    assert batch is not None
    assert list(batch.counts) == [5 + 3]
    assert bench.scheduler.idle


def test_single_tokens_are_scored_without_computing_any() -> None:
    bench = Bench()
    tree = add(bench, 1, [[7], [8], [9], [10]])
    bench.run()
    assert bench.worker.computed == 5
    assert found(bench, tree) == expected([[7], [8], [9], [10]])


@pytest.mark.parametrize("budget", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("overlap", [False, True])
def test_a_tree_may_be_cut_over_steps_anywhere(budget: int, overlap: bool) -> None:
    bench = Bench(max_running=1, max_step_tokens=budget, overlap=overlap)
    tree = add(bench, 1)
    bench.run()
    assert found(bench, tree) == expected()


@pytest.mark.parametrize("page_size", [1, 4])
def test_the_prompt_is_shared_and_the_nodes_are_not(page_size: int) -> None:
    prompt = [*PROMPT, 9, 2, 6]
    bench = Bench(page_size=page_size)
    bench.add(1, prompt, max_tokens=1)
    bench.run()
    tree = add(bench, 2, prompt=prompt)
    bench.run()
    assert found(bench, tree, 2) == expected(prompt=prompt)
    assert bench.taken[-1].cached_tokens == {1: 7, 4: 4}[page_size]
    assert bench.scheduler.stats().slots_cached == 8
    chain = [*prompt, *tree.nodes]
    bench.add(3, [*chain, 5], max_tokens=2)
    bench.run()
    assert bench.outputs[3] == expected_output([*chain, 5], 2)


def test_what_a_tree_computed_of_its_prompt_is_leased_for_its_program() -> None:
    bench = Bench()
    add(bench, 1, lease=7)
    bench.run()
    assert bench.scheduler.stats().lease_tokens == 5


def test_others_decode_beside_a_tree() -> None:
    bench = Bench()
    bench.add(1, [5, 6], max_tokens=6)
    bench.step()
    tree = add(bench, 2)
    bench.run()
    assert found(bench, tree, 2) == expected()
    assert bench.outputs[1] == expected_output([5, 6], 6)


def test_a_tree_that_is_retracted_starts_again() -> None:
    bench = Bench(slots=24, max_step_tokens=24)
    bench.add(1, [5] * 8, max_tokens=16)
    bench.step()
    tree = add(bench, 2, [[i, i + 1, i + 2] for i in range(0, 30, 3)][:4], prompt=[6])
    bench.run()
    assert found(bench, tree, 2) == expected([[i, i + 1, i + 2] for i in range(0, 30, 3)][:4], prompt=[6])
    assert bench.outputs[1] == expected_output([5] * 8, 16)


def test_a_request_like_a_trees_chain_of_nodes_does_not_wait_for_them() -> None:
    bench = Bench(slots=256, max_step_tokens=8)
    paths = [[i, 40 + i] for i in range(20)]
    tree = add(bench, 1, paths)
    bench.step()
    chain = [*PROMPT, *tree.nodes]
    bench.add(2, chain, max_tokens=1)
    bench.run()
    assert found(bench, tree) == expected(paths)
    assert bench.outputs[2] == expected_output(chain, 1)


def test_logits_that_are_not_finite_end_the_tree_with_an_error() -> None:
    bench = Bench()
    add(bench, 1, [[7], [8]])
    batch = bench.scheduler.plan(1.0)
    assert batch is not None
    scores = [TreeScores(batch.rows[0], ints([0, 1]), [float("nan"), -1.0])]
    bench.scheduler.apply(StepOutput(batch.step, ints(), ints(), scores=scores))
    bench.collect()
    assert bench.finished[1].reason == "error"
    assert "not finite" in bench.finished[1].detail
