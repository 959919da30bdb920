"""Masks: exactly the tokens whose bytes the grammar allows, whichever walker and whatever is kept, shared or dropped."""

from __future__ import annotations

import random
import sys

import pytest
from expression_recipes import ALPHABET, CHARACTERS, QUOTE, Recipe, key, literals, recipes, recursive
from hypothesis import given, settings
from hypothesis import strategies as st

from sgframe.errors import ConfigError
from sgframe_fsm.expressions.stepping import Stepper
from sgframe_fsm.expressions.store import EMPTY, NOTHING, Expr, GrammarTooLarge, Store
from sgframe_fsm.tokens.masks import Masks
from sgframe_fsm.tokens.tables import Tables


def vocabulary() -> list[bytes]:
    """Every byte, many longer tokens, one that has no bytes and two that are alike."""
    choose = random.Random(5)
    longer = [bytes(choose.choices(ALPHABET, k=choose.choice((2, 2, 3, 4, 5, 7, 12)))) for _ in range(300)]
    return [bytes((byte,)) for byte in ALPHABET] + longer + [b"", longer[0]]


TOKENS = vocabulary()


def tables(kernels: str = "numba", tokens: list[bytes] = TOKENS, rows: int = 2**20, masks: int = 2**20) -> Tables:
    return Tables(tokens, kernels=kernels, row_bytes=rows, mask_bytes=masks)


def allowed(masks: Masks, state: Expr) -> set[int]:
    words = masks.mask(state)
    return {token for token in range(32 * len(words)) if words[token // 32] >> token % 32 & 1}


def follow(store: Store, state: Expr, data: bytes) -> Expr:
    for byte in data:
        state = store.derivative(state, byte)
    return state


def right(store: Store, state: Expr, tokens: list[bytes] = TOKENS) -> set[int]:
    return {token for token, data in enumerate(tokens) if data and follow(store, state, data) != NOTHING}


# --------------------------------------------------------------------------------------- any expression, any walker


@settings(max_examples=40, deadline=None)
@given(recipes, st.randoms(use_true_random=False), st.sampled_from(("numba", "numpy")))
def test_a_mask_holds_exactly_the_tokens_that_fit(recipe: Recipe, choose: random.Random, kernels: str) -> None:
    store = Store()
    state = recipe(store)
    masks = Masks(store, tables(kernels))
    for _ in range(3):
        wanted = right(store, state)
        if not wanted:
            break
        assert allowed(masks, state) == wanted
        state = follow(store, state, TOKENS[choose.choice(sorted(wanted))])


def test_what_never_ends_is_not_begun() -> None:
    store = Store()
    endless = store.reference("endless")
    store.define("endless", store.sequence((store.literal(b"a"), endless)))
    state = store.union((endless, store.sequence((store.literal(b"b"), endless)), store.literal(b"c")))
    assert allowed(Masks(store, tables()), state) == {TOKENS.index(b"c")}
    assert [Stepper(store).follow(state, data) for data in (b"a", b"b", b"c")] == [NOTHING, NOTHING, EMPTY]


# ------------------------------------------------------------------------------------------------ what is shared


class Counting(Tables):
    """Counts the walks of the vocabulary."""

    def __init__(self) -> None:
        super().__init__(TOKENS, kernels="numpy", row_bytes=2**20, mask_bytes=2**20)
        self.walks = 0
        begin = self.walker.begin

        def counted(base: object) -> None:
            self.walks += 1
            begin(base)  # type: ignore[arg-type]

        self.walker.begin = counted  # type: ignore[method-assign]


def string(store: Store, most: int | None = None) -> Expr:
    """The rest of a string of ``most`` characters or fewer, as a lexeme."""
    content = store.repeat(store.byte_set(CHARACTERS), 0, most)
    return store.lexeme(store.sequence((content, store.literal(QUOTE))))


def test_a_lexeme_is_walked_once_whatever_follows_it() -> None:
    counting, store = Counting(), Store()
    masks = Masks(store, counting)
    masks.mask(store.sequence((string(store), store.literal(b"a"))))
    first = counting.walks
    masks.mask(store.sequence((string(store), store.literal(b"b"))))
    assert (first, counting.walks) == (2, 3)  # the string and what follows; what follows


def test_a_lexeme_is_walked_once_for_all_grammars() -> None:
    counting = Counting()
    for _ in range(3):
        store = Store()
        Masks(store, counting).mask(string(store))
    assert counting.walks == 1


def test_bounds_beyond_the_longest_token_are_no_walks_of_their_own() -> None:
    counting, store = Counting(), Store()
    masks = Masks(store, counting)
    for most in range(500, 13, -7):
        assert allowed(masks, string(store, most)) == right(store, string(store))
    assert counting.walks == 1


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 4), st.integers(0, 24), st.sampled_from((1, 2, 9)), st.randoms(use_true_random=False))
def test_a_bound_on_the_length_of_a_pattern_binds(least: int, more: int, times: int, choose: random.Random) -> None:
    store = Store()
    pair = store.sequence((store.byte_set(CHARACTERS), store.literal(b"d")))
    pattern = store.sequence((store.repeat(pair, 0, None), store.literal(b"a"), store.repeat(pair, 0, times)))
    content = store.intersection((pattern, store.repeat(store.byte_set(CHARACTERS), least, least + more)))
    state = store.lexeme(store.sequence((content, store.literal(QUOTE))))
    masks = Masks(store, tables())
    while wanted := right(store, state):
        assert allowed(masks, state) == wanted
        state = follow(store, state, TOKENS[choose.choice(sorted(wanted))])


def test_a_bound_far_away_costs_no_product_of_pattern_and_length() -> None:
    counting, store = Counting(), Store()
    masks = Masks(store, counting)
    pattern = store.repeat(store.sequence((store.byte_set(CHARACTERS), store.literal(b"d"))), 0, None)
    for most in range(500, 400, -7):
        content = store.intersection((pattern, store.repeat(store.byte_set(CHARACTERS), 0, most)))
        state = store.lexeme(store.sequence((content, store.literal(QUOTE))))
        assert allowed(masks, state) == right(store, state)
    assert counting.walks == 1


def test_a_recursion_has_one_mask_at_every_depth() -> None:
    counting, store = Counting(), Store()
    masks = Masks(store, counting)
    state = recursive(store)
    for _ in range(20):
        state = follow(store, state, b"b")
    mask, walks = masks.mask(state), counting.walks
    for _ in range(1000):
        state = follow(store, state, b"b")
        assert masks.mask(state) is mask
    assert counting.walks == walks


def test_excluded_words_cost_no_walk() -> None:
    counting, store = Counting(), Store()
    masks = Masks(store, counting)
    masks.mask(string(store))
    other = key([b"ab", b"abc", b"d", b""], None, marked=True)(store)
    assert allowed(masks, other) == right(store, other) != right(store, string(store))
    assert counting.walks == 1


# ------------------------------------------------------------------------------------------------ what is bounded


def test_masks_that_were_dropped_come_again() -> None:
    store, small = Store(), tables(masks=2000)
    masks = Masks(store, small)
    states = [store.sequence((string(store), store.literal(word))) for word in (b"a", b"ab", b"abc", b"b", b"bc")]
    for state in states * 2:
        assert allowed(masks, state) == right(store, state)
        assert small.cache.size <= 2000


def test_rows_that_were_dropped_come_again() -> None:
    small = tables(rows=6 * 1024)
    grammars = []
    for word in (b"abca", b"bcab", b"cabc", b"dcba"):
        store = Store()
        state = store.sequence((store.byte_set(CHARACTERS), literals(store, (word, word[::-1], b"cc"))))
        grammars.append((store, state, Masks(store, small)))
    for store, state, masks in grammars * 2:
        small.cache = type(small.cache)(2**20)
        assert allowed(masks, state) == right(store, state)
    assert small.rows.epoch > 0


def test_a_token_that_leads_to_more_states_than_there_are_rows_is_refused() -> None:
    store = Store()
    masks = Masks(store, tables(rows=2 * 1024))
    with pytest.raises(GrammarTooLarge, match="row_table"):
        masks.mask(store.repeat(store.union((store.literal(b"ab"), store.byte_set(CHARACTERS))), 11, 12))


def many_tokens() -> list[bytes]:
    return [b"%d" % number for number in range(5000)]


def test_numba_is_taken_where_it_can_be_had() -> None:
    walkers = [type(tables(kernels, many_tokens()).walker).__name__ for kernels in ("auto", "numba", "numpy")]
    assert walkers == ["NumbaWalker", "NumbaWalker", "NumpyWalker"]


def test_for_a_small_vocabulary_numba_is_not_loaded() -> None:
    assert type(tables("auto").walker).__name__ == "NumpyWalker"


def test_numpy_stands_in_for_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "sgframe_fsm.tokens.walking_numba", raising=False)
    monkeypatch.setitem(sys.modules, "numba", None)
    assert type(tables("auto", many_tokens()).walker).__name__ == "NumpyWalker"
    with pytest.raises(ConfigError, match=r"install it, or set compressed-fsm.kernels"):
        tables("numba")
