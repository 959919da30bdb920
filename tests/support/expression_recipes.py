"""Random expressions over a small alphabet, as recipes: what to build in a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hypothesis import strategies as st

from sgframe_fsm.expressions.store import Expr, Store

ALPHABET = b'abcd"'
CHARACTERS = sum(1 << byte for byte in b"abcd")
QUOTE = b'"'
Recipe = Callable[[Store], Expr]


def literals(store: Store, words: Iterable[bytes]) -> Expr:
    return store.union(map(store.literal, words))


def key(words: list[bytes], most: int | None, marked: bool) -> Recipe:
    """A quoted string that is none of ``words``, marked as a lexeme with the base that has no exclusions."""

    def build(store: Store) -> Expr:
        content = store.repeat(store.byte_set(CHARACTERS), 0, most)
        base = store.sequence((content, store.literal(QUOTE)))
        others = store.intersection((content, store.complement(literals(store, words))))
        key = store.sequence((others, store.literal(QUOTE)))
        return store.lexeme(key, base if marked else None)

    return build


def recursive(store: Store) -> Expr:
    """a, or itself between b and c or d; under one name, however often it is asked for."""
    name = store.reference("nested")
    if not list(store.children(name)):
        closing = store.byte_set(1 << ord("c") | 1 << ord("d"))
        store.define("nested", store.union((store.literal(b"a"), store.sequence((store.literal(b"b"), name, closing)))))
    return name


def _combined(parts: st.SearchStrategy[Recipe]) -> st.SearchStrategy[Recipe]:
    several = st.lists(parts, min_size=2, max_size=3)
    bounds = st.tuples(st.sampled_from((0, 0, 1, 2, 20)), st.sampled_from((None, 0, 1, 3, 9)))

    def repeated(part: Recipe, bounds: tuple[int, int | None]) -> Recipe:
        least, more = bounds
        return lambda store: store.repeat(part(store), least, None if more is None else least + more)

    def both(left: Recipe, other: Recipe, negated: bool) -> Recipe:
        def build(store: Store) -> Expr:
            one, two = left(store), other(store)
            if not (store.is_regular(one) and store.is_regular(two)):
                return one
            return store.intersection((one, store.complement(two) if negated else two))

        return build

    def lexeme(part: Recipe) -> Recipe:
        return lambda store: store.lexeme(expr) if store.is_regular(expr := part(store)) else expr

    return st.one_of(
        several.map(lambda recipes: lambda store: store.sequence([recipe(store) for recipe in recipes])),
        several.map(lambda recipes: lambda store: store.union([recipe(store) for recipe in recipes])),
        st.builds(repeated, parts, bounds),
        st.builds(both, parts, parts, st.booleans()),
        parts.map(lexeme),
    )


words = st.text("abcd", max_size=4).map(str.encode)
leaves = st.one_of(
    st.text('abcd"', min_size=1, max_size=6).map(lambda text: lambda store: store.literal(text.encode())),
    st.integers(1, 31).map(
        lambda some: lambda store: store.byte_set(sum(1 << ALPHABET[bit] for bit in range(5) if some >> bit & 1))
    ),
    st.builds(key, st.lists(words, min_size=1, max_size=4), st.sampled_from((None, None, 3, 9)), st.booleans()),
    st.just(recursive),
)
recipes = st.recursive(leaves, _combined, max_leaves=8)
