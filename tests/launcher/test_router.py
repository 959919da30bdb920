"""The router: affinity to what was sent, bounded by load; evenly spread otherwise; and nothing lost in its books."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings

from sgframe.front.router import BLOCK, PATIENCE, TYPICAL_OUTPUT, Route, Router
from sgframe.messages import ints

SIZE = 100 * BLOCK


def prompt(first: int, blocks: int, more: int = 1) -> object:
    """``blocks`` whole blocks that begin alike for equal ``first``, and ``more`` tokens after them."""
    return ints([first] * (blocks * BLOCK) + [first + 1] * more)


def done(router: Router, *routes: Route) -> None:
    for route in routes:
        router.ended(route)


def test_a_prefix_goes_where_it_was_sent_before() -> None:
    router = Router([SIZE] * 4)
    before = router.route(prompt(7, 10), 1)
    done(router, before)
    after = router.route(prompt(7, 12), 1)
    assert (after.replica, after.rest) == (before.replica, 2 * BLOCK + 1)


def test_the_same_tokens_in_another_namespace_are_another_prefix() -> None:
    router = Router([SIZE])
    done(router, router.route(prompt(7, 10), 1))
    assert router.route(prompt(7, 10), 1, (("salt", "x"),)).rest == 10 * BLOCK + 1


def test_new_prefixes_spread_over_all() -> None:
    router = Router([SIZE] * 4)
    assert {router.route(prompt(first, 10), 1).replica for first in range(0, 8, 2)} == {0, 1, 2, 3}


def test_a_prefix_attracts_until_waiting_for_it_costs_more_than_computing_it() -> None:
    router = Router([SIZE] * 2)
    first = router.route(prompt(7, 4, more=0), 0)
    router.answered(first)
    worth = PATIENCE * 4 * BLOCK  # tokens that wait is better than to compute 4 blocks again
    assert router.route(prompt(7, 4, more=worth - 1), 0).replica == first.replica
    assert router.route(prompt(7, 4, more=2), 0).replica == first.replica
    assert router.route(prompt(7, 4, more=1), 0).replica != first.replica


def test_an_answer_takes_the_prompt_off_the_load_and_the_end_all() -> None:
    router = Router([SIZE])
    route = router.route(prompt(7, 2), 10_000)
    assert router.loads == {0: 2 * BLOCK + 1 + TYPICAL_OUTPUT}
    router.answered(route)
    assert router.loads == {0: TYPICAL_OUTPUT}
    router.ended(route)
    assert router.loads == {0: 0}


def test_what_was_sent_longest_ago_is_forgotten_first() -> None:
    router = Router([10 * BLOCK])
    for first in (1, 3, 1, 5):
        done(router, router.route(prompt(first, 4), 0))
    assert router.route(prompt(1, 4), 0).rest == 1
    assert router.route(prompt(3, 4), 0).rest == 2 * BLOCK + 1  # of which the end went first


def test_among_idle_replicas_the_coldest_takes_what_is_new() -> None:
    router = Router([4 * BLOCK] * 2)
    old, warm = router.route(prompt(1, 4), 0), router.route(prompt(3, 4), 0)
    assert old.replica != warm.replica
    done(router, old, warm)
    done(router, router.route(prompt(1, 4), 0))  # now ``warm`` is the colder one
    assert router.route(prompt(5, 4), 0).replica == warm.replica


def test_a_removed_replica_gets_nothing_and_late_news_of_it_do_no_harm() -> None:
    router = Router([SIZE] * 2)
    route = router.route(prompt(7, 10), 1)
    router.remove(route.replica)
    router.ended(route)
    other = router.route(prompt(7, 10), 1)
    assert (other.replica, other.rest) == (1 - route.replica, 10 * BLOCK + 1)


def test_emptied_caches_attract_nobody() -> None:
    router = Router([SIZE])
    done(router, router.route(prompt(7, 10), 1))
    router.forget()
    assert router.route(prompt(7, 10), 1).rest == 10 * BLOCK + 1


requests = st.tuples(
    st.integers(0, 5), st.integers(0, 12), st.integers(1, 40), st.sampled_from(("open", "answer", "end"))
)


@settings(max_examples=60, deadline=None)
@given(replicas=st.integers(1, 5), steps=st.lists(requests, max_size=40), size=st.integers(1, 12))
def test_whatever_comes_the_load_is_bounded_and_the_books_are_right(
    replicas: int, steps: list[tuple[int, int, int, str]], size: int
) -> None:
    router, still_open = Router([size * BLOCK] * replicas), []
    for first, blocks, more, what in steps:
        tokens, before = prompt(first, blocks, more), router.loads
        route = router.route(tokens, 10)
        saved = len(tokens) - route.rest
        assert saved % BLOCK == 0
        assert saved <= size * BLOCK
        assert before[route.replica] <= min(before.values()) + PATIENCE * saved
        if what == "answer":
            router.answered(route)
        (done(router, route) if what == "end" else still_open.append(route))
        expected = dict.fromkeys(range(replicas), 0)
        for each in still_open:
            expected[each.replica] += each.rest + each.output
        assert router.loads == expected
    done(router, *still_open)
    assert set(router.loads.values()) == {0}


@settings(max_examples=20, deadline=None)
@given(steps=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 12)), max_size=30))
def test_the_same_requests_are_routed_alike(steps: list[tuple[int, int]]) -> None:
    one, other = Router([SIZE] * 3), Router([SIZE] * 3)
    for first, blocks in steps:
        assert one.route(prompt(first, blocks), 5) == other.route(prompt(first, blocks), 5)
