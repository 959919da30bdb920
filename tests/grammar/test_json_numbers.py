"""A number spec allows exactly the numbers that it names, in the notations that are offered."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgframe_fsm.errors import GrammarTooLarge, Unsupported
from sgframe_fsm.expressions.store import NOTHING, Store
from sgframe_fsm.leaves.numbers import NumberSpec, number_expression


def allows(spec: NumberSpec, *texts: str) -> bool:
    """Whether all of ``texts`` are allowed; where some but not all are, that is a failure."""
    store = Store(budget=10**6)
    expression = number_expression(store, spec)
    verdicts = {text: store.accepts(expression, text.encode()) for text in texts}
    assert len(set(verdicts.values())) == 1, verdicts
    return verdicts[texts[0]]


def between(low: str | None, high: str | None, **rest: Any) -> NumberSpec:
    return NumberSpec(low=None if low is None else Decimal(low), high=None if high is None else Decimal(high), **rest)


def test_any_number_is_json() -> None:
    assert allows(NumberSpec(), "0", "-0", "10", "-1.50", "1e5", "1E+05", "12.5e-7", "0e0")
    assert not allows(NumberSpec(), "01", "-01", "1.", ".5", "+1", "1e", "1e+", "--1", "", "-", "NaN", "0x1", "1 ")


def test_a_whole_number_may_end_in_zeros_and_grow_by_an_exponent() -> None:
    assert allows(NumberSpec(integer=True), "0", "-0", "12", "1.0", "-3.000", "1e22", "1.0E+5")
    assert not allows(NumberSpec(integer=True), "1.5", "1e-1", "0.01", "1.5e1")


def test_a_bound_is_allowed_unless_it_is_open() -> None:
    assert allows(between("0.1", "2.75"), "0.1", "0.10", "1", "2.7499", "2.75", "2.750", "1e-1", "2.75e0")
    assert not allows(between("0.1", "2.75"), "0.09", "0", "2.7501", "3", "-1", "9e-2", "2.76e0", "1e1")
    opened = between("0.1", "2.75", low_open=True, high_open=True)
    assert allows(opened, "0.1000001", "2.7499999", "1.1e-1")
    assert not allows(opened, "0.1", "0.10", "2.75", "2.7500", "1e-1", "2.75e0")


def test_a_negative_range_mirrors_a_positive_one() -> None:
    assert allows(between("-5.5", "-1"), "-5.5", "-1", "-1.0", "-5.4999", "-2e0", "-5.5e0")
    assert not allows(between("-5.5", "-1"), "-5.51", "-0.9", "0", "1", "-6", "-5.6e0")


def test_zero_is_on_both_sides() -> None:
    assert allows(between("0", None), "0", "-0", "-0.0", "0.5", "1e-9", "1e300")
    assert not allows(between("0", None), "-0.1", "-1e-9", "-1")
    assert not allows(between("0", None, low_open=True), "0", "-0", "0.0", "0e5")
    assert allows(between("0", None, low_open=True), "0.001", "1e-300", "0.5e-5")


def test_scientific_notation_is_held_to_the_bounds() -> None:
    assert allows(between("0", "1"), "1e-05", "9.99e-1", "1e0", "1E-300")
    assert not allows(between("0", "1"), "1.1e0", "2e0", "1e1", "1e22")
    assert allows(between("1e-5", "2.5e20"), "1e-5", "1.5e-5", "2.5e+20", "1e020", "9e19")
    assert not allows(between("1e-5", "2.5e20"), "9.9e-6", "2.51e20", "1e21")


def test_a_whole_range_counts_its_digits() -> None:
    assert allows(between("1", "100", integer=True), "1", "9", "10", "99", "100", "7.0")
    assert not allows(between("1", "100", integer=True), "0", "101", "110", "200", "1000", "5.5", "1e1", "-5")
    large = between(str(-(2**63)), str(2**63 - 1), integer=True)
    assert allows(large, "9223372036854775807", "-9223372036854775808", "0")
    assert not allows(large, "9223372036854775808", "-9223372036854775809")


def test_bounds_of_a_whole_range_may_be_fractions() -> None:
    assert allows(between("0.5", "3.5", integer=True), "1", "3", "2.0")
    assert not allows(between("0.5", "3.5", integer=True), "0", "4")


def test_no_number_between_bounds_is_nothing() -> None:
    store = Store()
    assert number_expression(store, between("3", "2")) == NOTHING
    assert number_expression(store, between("3", "3", low_open=True)) == NOTHING
    assert number_expression(store, between("0.1", "0.9", integer=True)) == NOTHING


def test_a_range_of_doubles_is_built_in_few_steps() -> None:
    store = Store(budget=5000)
    expression = number_expression(store, between("-1.7976931348623157e308", "1.7976931348623157e308"))
    assert store.accepts(expression, b"-1.7976931348623157e308")
    assert not store.accepts(expression, b"1.7976931348623158e+308")


def test_multiples() -> None:
    cents = NumberSpec(multiples=(Decimal("0.01"),))
    assert allows(cents, "0", "1", "1.2", "-1.23", "1.2300", "1.5e3")
    assert not allows(cents, "0.001", "1.234", "1e-3")
    halves = NumberSpec(multiples=(Decimal("2.5"),))
    assert allows(halves, "0", "2.5", "5", "-7.50", "100")
    assert not allows(halves, "1", "2.4", "2.51", "1.5")
    thousands = NumberSpec(multiples=(Decimal(1000),))
    assert allows(thousands, "0", "1000", "25000.0")
    assert not allows(thousands, "100", "1500", "1000.5")


def test_multiples_of_several_numbers_and_between_bounds() -> None:
    spec = replace(between("5", "1000", integer=True), multiples=(Decimal(4), Decimal("1.5")))
    assert allows(spec, "12", "24.0", "996")
    assert not allows(spec, "0", "4", "6", "1008", "13")


def test_a_multiple_of_a_fraction_may_have_to_be_whole() -> None:
    assert allows(NumberSpec(integer=True, multiples=(Decimal("0.5"),)), "3", "4.0", "1e308")
    assert not allows(NumberSpec(integer=True, multiples=(Decimal("0.5"),)), "3.5")


def test_numbers_that_are_not_whole() -> None:
    assert allows(NumberSpec(not_integer=True), "0.5", "-1.50", "1e-5", "1.5e-1")
    assert not allows(NumberSpec(not_integer=True), "0", "1.0", "1e5", "-2", "1e0")
    assert allows(replace(between("1", "2"), not_integer=True), "1.5")
    assert not allows(replace(between("1", "2"), not_integer=True), "1", "2.0", "0.5")


def test_multiples_that_are_not_whole_need_bounds() -> None:
    halves = NumberSpec(multiples=(Decimal("2.5"),), not_integer=True)
    assert allows(replace(halves, low=Decimal(0), high=Decimal(10)), "2.5", "7.50")
    assert not allows(replace(halves, low=Decimal(0), high=Decimal(10)), "5", "5.0", "0", "3.5", "12.5")
    with pytest.raises(Unsupported, match="add bounds"):
        number_expression(Store(), halves)


def test_what_is_too_long_to_write_out_is_refused() -> None:
    with pytest.raises(GrammarTooLarge, match=r"1e\+1000000 has more than 400 digits"):
        number_expression(Store(), between(None, "1e1000000"))
    with pytest.raises(Unsupported, match=r"'multipleOf': .* 1000000007 different remainders"):
        number_expression(Store(), NumberSpec(multiples=(Decimal(10**9 + 7),)))


BOUNDS = st.none() | st.decimals(-200, 200, places=2) | st.integers(-1200, 1200).map(Decimal)
SPECS = st.builds(
    NumberSpec,
    st.booleans(),
    BOUNDS,
    st.booleans(),
    BOUNDS,
    st.booleans(),
    st.sampled_from([(), (), ("0.1",), ("0.5",), ("0.25",), ("3",), ("12",), ("7", "0.2")]).map(
        lambda steps: tuple(map(Decimal, steps))
    ),
)
PLAIN = st.decimals(-1300, 1300, places=3).map(lambda number: f"{number:f}") | st.integers(-1300, 1300).map(str)
SCIENTIFIC = st.builds(
    "{}{}e{}".format, st.sampled_from(["", "-"]), st.sampled_from(["1", "2.5", "9.99"]), st.integers(-4, 4)
)


@given(SPECS, st.lists(PLAIN, max_size=10))
@settings(max_examples=120, deadline=None)
def test_decimal_notation_agrees_with_arithmetic(spec: NumberSpec, texts: list[str]) -> None:
    near = [bound + step for bound in (spec.low, spec.high) if bound is not None for step in map(Decimal, NEAR)]
    store = Store(budget=10**6)
    expression = number_expression(store, spec)
    for text in [*texts, *(f"{number:f}" for number in near)]:
        assert store.accepts(expression, text.encode()) == within(spec, Decimal(text)), text
        assert spec.admits(Decimal(text)) == within(spec, Decimal(text))


NEAR = ["-1", "-0.01", "-0.001", "0", "0.001", "0.01", "1"]


@given(SPECS.filter(lambda spec: not spec.integer and not spec.multiples), st.lists(SCIENTIFIC, max_size=10))
@settings(max_examples=80, deadline=None)
def test_scientific_notation_agrees_with_arithmetic(spec: NumberSpec, texts: list[str]) -> None:
    store = Store()
    expression = number_expression(store, spec)
    for text in texts:
        assert store.accepts(expression, text.encode()) == within(spec, Decimal(text)), text


def within(spec: NumberSpec, value: Decimal) -> bool:
    above = spec.low is None or value > spec.low or (value == spec.low and not spec.low_open)
    below = spec.high is None or value < spec.high or (value == spec.high and not spec.high_open)
    steps = (*spec.multiples, Decimal(1)) if spec.integer else spec.multiples
    return above and below and all(value % step == 0 for step in steps)
