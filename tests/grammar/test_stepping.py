"""The stepper says what the store says: a state's derivative by one byte, and the bytes that are forced."""

from __future__ import annotations

import random

from expression_recipes import ALPHABET, Recipe, recipes
from hypothesis import given, settings
from hypothesis import strategies as st

from sgframe_fsm.automata.compression import forced
from sgframe_fsm.expressions.stepping import Stepper
from sgframe_fsm.expressions.store import NOTHING, Store


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
