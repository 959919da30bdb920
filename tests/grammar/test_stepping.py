"""The stepper says what the store says: a state's derivative by one byte, and the bytes that are forced."""

from __future__ import annotations

import random

from expression_recipes import ALPHABET, Recipe, recipes
from hypothesis import given, settings
from hypothesis import strategies as st

from sgframe_fsm.automata.compression import forced
from sgframe_fsm.expressions.stepping import Stepper
from sgframe_fsm.expressions.store import NOTHING, Expr, Store


@settings(deadline=None)
@given(recipes, st.randoms(use_true_random=False))
def test_it_steps_and_runs_as_derivatives_do(recipe: Recipe, choose: random.Random) -> None:
    store = Store()
    stepper, state = Stepper(store), recipe(store)
    for _ in range(8):
        assert stepper.run(state) == forced(store, state)
        possible = [byte for byte in ALPHABET if store.derivative(state, byte) != NOTHING]
        assert [byte for byte in ALPHABET if stepper.step(state, byte) != NOTHING] == possible
        if not possible:
            break
        state = stepper.step(state, choose.choice(possible))


@settings(deadline=None)
@given(recipes, st.randoms(use_true_random=False))
def test_following_bytes_is_stepping_through_them(recipe: Recipe, choose: random.Random) -> None:
    store = Store()
    state = recipe(store)
    data = bytes(choose.choices(ALPHABET, k=choose.choice((1, 2, 3, 5))))
    wanted = state
    for byte in data:
        wanted = store.derivative(wanted, byte)
    assert are_equal(store, Stepper(store).follow(state, data), wanted)


def are_equal(store: Store, left: Expr, right: Expr, depth: int = 4) -> bool:
    """Whether two states go on alike: by their languages, or as far as ``depth`` bytes where they are not regular."""
    if left == right:
        return True
    if store.is_regular(left) and store.is_regular(right):
        return store.includes(left, right) and store.includes(right, left)
    if store.nullable(left) != store.nullable(right):
        return False
    return depth == 0 or all(
        are_equal(store, store.derivative(left, byte), store.derivative(right, byte), depth - 1) for byte in ALPHABET
    )


def test_an_intersection_with_one_way_on_is_followed() -> None:
    store = Store()
    words = store.union(map(store.literal, (b"abc", b"bcd", b"ccc")))
    state = store.intersection(
        (words, store.complement(store.literal(b"bcd")), store.complement(store.literal(b"ccc")))
    )
    assert Stepper(store).run(state)[0] == b"abc"


def test_what_is_forced_ends_where_it_may_be_all() -> None:
    store = Store()
    optional = store.sequence((store.literal(b"ab"), store.repeat(store.literal(b"c"), 0, 1)))
    assert Stepper(store).run(optional)[0] == b"ab"
