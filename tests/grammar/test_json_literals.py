"""A value that is known in full is written in as few ways as serve."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgframe.constraints import Whitespace
from sgframe_fsm.automata.compression import forced
from sgframe_fsm.errors import GrammarTooLarge
from sgframe_fsm.expressions.store import Store
from sgframe_fsm.leaves.literals import literal_expression
from sgframe_fsm.leaves.separators import Separators


def allows(value: object, text: str, whitespace: Whitespace = "fixed") -> bool:
    store = Store()
    expression = literal_expression(store, value, Separators.of(store, whitespace))
    return store.accepts(expression, text.encode())


NUMBERS = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False).filter(bool).map(repr).map(
    Decimal
)
LEAVES = st.none() | st.booleans() | NUMBERS | st.text(max_size=5)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)


def printable(value: Any) -> Any:
    """``value`` with floats for decimals, as ``json.dumps`` takes them."""
    if isinstance(value, list):
        return [printable(item) for item in value]
    if isinstance(value, dict):
        return {name: printable(item) for name, item in value.items()}
    return float(value) if isinstance(value, Decimal) else value


@given(VALUES)
@settings(max_examples=60, deadline=None)
def test_what_json_dumps_writes_is_allowed(value: Any) -> None:
    assert allows(value, json.dumps(printable(value), ensure_ascii=False))
    assert allows(value, json.dumps(printable(value)))
    compact = json.dumps(printable(value), separators=(",", ":"))
    assert allows(value, compact, "compact")
    assert allows(value, compact, "free")


def test_a_whole_number_may_end_in_one_zero() -> None:
    for value in (100, Decimal("100.00"), Decimal("1E+2")):
        assert allows(value, "100")
        assert allows(value, "100.0")
        assert not allows(value, "1e2")
        assert not allows(value, "100.00")


def test_a_fraction_has_its_shortest_form() -> None:
    assert allows(Decimal("-1.50"), "-1.5")
    assert not allows(Decimal("-1.50"), "-1.50")
    assert not allows(Decimal("-1.50"), "1.5")


@pytest.mark.parametrize("text", ["0.00000015", "1.5e-7", "1.5e-07"])
def test_a_number_far_from_one_may_have_an_exponent(text: str) -> None:
    assert allows(Decimal("1.5E-7"), text)


def test_a_number_too_long_to_write_out_has_an_exponent() -> None:
    assert allows(Decimal("1E+999999"), "1e999999")
    assert allows(Decimal("1E+999999"), "1e+999999")


def test_members_keep_their_order() -> None:
    assert allows({"b": 1, "a": []}, '{"b": 1, "a": []}')
    assert not allows({"b": 1, "a": []}, '{"a": [], "b": 1}')


def test_blanks_stand_where_the_whitespace_policy_has_them() -> None:
    assert allows([1, {"a": 2}], '[ 1\n,{ "a" : 2 } ]', "free")
    assert not allows([1, {"a": 2}], "[ 1]", "fixed")


def test_ascii_text_is_forced_to_its_last_byte() -> None:
    store = Store()
    expression = literal_expression(store, 'say "hi"', Separators.of(store, "fixed"))
    assert forced(store, expression)[0] == b'"say \\"hi\\""'


def test_deep_nesting_is_refused_not_a_crash() -> None:
    value: object = []
    for _ in range(1000):
        value = [value]
    with pytest.raises(GrammarTooLarge, match="over 200 levels"):
        allows(value, "[]")
