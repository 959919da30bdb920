"""The vocabulary trie: every token is found where its bytes lead, and a subtree is one stretch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sgframe_fsm.expressions.partitions import members_of
from sgframe_fsm.tokens.trie import DEEPEST, END, FIRST, STEP, Trie, build_trie

texts = st.lists(st.text("abc", max_size=12).map(str.encode), max_size=40)


def edges(trie: Trie) -> list[tuple[int, int]]:
    """Of each node but the root: its depth, and the byte that leads to it."""
    return [(int(step) >> 8, int(step) & 255) for step in trie.nodes[1:-1, STEP]]


def tokens_at(trie: Trie, node: int) -> list[int]:
    return list(map(int, trie.ids[trie.nodes[node, FIRST] : trie.nodes[node + 1, FIRST]]))


def test_nodes_stand_in_preorder() -> None:
    trie = build_trie([b"ab", b"b", b"abc"])
    assert edges(trie) == [(1, ord("a")), (2, ord("b")), (3, ord("c")), (1, ord("b"))]
    assert trie.nodes[:-1, END].tolist() == [5, 4, 4, 4, 5]
    assert trie.nodes[:-1, DEEPEST].tolist() == [3, 3, 3, 3, 1]
    assert [tokens_at(trie, node) for node in range(5)] == [[], [], [0], [2], [1]]


def test_tokens_with_equal_bytes_share_a_node() -> None:
    trie = build_trie([b"a", b"x", b"a"])
    assert tokens_at(trie, 1) == [0, 2]


def test_tokens_without_bytes_are_not_in_it() -> None:
    trie = build_trie([b"", b"a", b""])
    assert trie.ids.tolist() == [1]
    assert trie.words == 1


def test_a_vocabulary_of_no_bytes_is_a_bare_root() -> None:
    trie = build_trie([b"", b""])
    assert (len(trie.nodes) - 1, trie.longest, trie.span(b"a")) == (1, 0, None)


def test_a_mask_has_a_bit_for_every_id() -> None:
    assert [build_trie([b"a"] * count).words for count in (1, 32, 33)] == [1, 1, 2]


@given(texts)
def test_there_is_a_node_for_every_prefix(tokens: list[bytes]) -> None:
    prefixes = {token[:length] for token in tokens for length in range(len(token) + 1)}
    assert len(build_trie(tokens).nodes) - 1 == len(prefixes | {b""})


@given(texts, st.text("abc", max_size=4).map(str.encode))
def test_the_span_of_a_prefix_holds_all_that_begins_with_it(tokens: list[bytes], prefix: bytes) -> None:
    trie = build_trie(tokens)
    span = trie.span(prefix)
    found = [] if span is None else trie.ids[trie.nodes[span[0], FIRST] : trie.nodes[span[1], FIRST]].tolist()
    assert sorted(found) == [id for id, token in enumerate(tokens) if token and token.startswith(prefix)]


@given(texts, st.text("abc", max_size=10).map(str.encode))
def test_it_knows_what_follows_a_prefix_in_tokens(tokens: list[bytes], prefix: bytes) -> None:
    longer = [token for token in tokens if token.startswith(prefix) and token != prefix]
    following, last = build_trie(tokens).after(prefix)
    assert set(members_of(following)) == {token[len(prefix)] for token in longer}
    assert set(members_of(last)) == {token[-1] for token in longer if len(token) == len(prefix) + 1}


@given(texts, st.text("abc", max_size=8).map(str.encode), st.integers(0, 40))
def test_it_finds_the_tokens_along_a_text(tokens: list[bytes], data: bytes, place: int) -> None:
    trie = build_trie(tokens)
    node = place % (len(trie.nodes) - 1)
    before = trie.text(node)
    wanted = {before + data[:length] for length in range(1, len(data) + 1)}
    found, end = trie.along(node, data)
    assert sorted(found) == [token for token, text in enumerate(tokens) if text in wanted]
    assert (end is not None) == any(text.startswith(before + data) and text != before + data for text in tokens)
    assert end is None or trie.text(end) == before + data
