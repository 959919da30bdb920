"""JSON numbers within a spec, as expressions.

Owns signs and which notations are offered. Knows nothing of schemas.

Every number of a spec can be written, in decimal notation at least. An exponent may follow wherever any exponent keeps the
number within the spec, and in scientific notation (one digit above zero before the point) where the number itself is within
bounds. Not offered: exponents in whole numbers and multiples that are bounded above or whose exponent is below zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from sgframe_fsm.errors import GrammarTooLarge, Unsupported
from sgframe_fsm.expressions.memoising import per_store
from sgframe_fsm.expressions.store import EMPTY, Expr, Store
from sgframe_fsm.leaves.decimals import ZERO, DecimalNotation, Interval, digit
from sgframe_fsm.leaves.exponents import any_exponent, scientific_between
from sgframe_fsm.leaves.multiples import Step, multiples_between

MOST_DIGITS = 400
"""Of a bound or a multiple, written out; a double has up to 309 before the point."""


@dataclass(frozen=True)
class NumberSpec:
    """Numbers for which all of this holds.

    Attributes:
        integer: whole numbers only; 1.0 is one.
        low, high: bounds; None is no bound. ``low_open``, ``high_open``: the bound itself is excluded.
        multiples: numbers above zero of each of which it is an integer multiple.
        not_integer: whole numbers are excluded.
        plain: of an integer nothing but digits is written, as draft 4 has it, to which 1.0 is none.
    """

    integer: bool = False
    low: Decimal | None = None
    low_open: bool = False
    high: Decimal | None = None
    high_open: bool = False
    multiples: tuple[Decimal, ...] = ()
    not_integer: bool = False
    plain: bool = False

    def admits(self, value: Decimal) -> bool:
        """Whether ``value`` is a number of this spec. Raises GrammarTooLarge for one of too many digits."""
        if self.low is not None and (value < self.low or (self.low_open and value == self.low)):
            return False
        if self.high is not None and (value > self.high or (self.high_open and value == self.high)):
            return False
        whole = value == value.to_integral_value()
        if (self.integer and not whole) or (self.not_integer and whole):
            return False
        _check_digits(*self.multiples, *([value] if self.multiples else []))
        return all((Fraction(value) / Fraction(multiple)).denominator == 1 for multiple in self.multiples)


@per_store
def number_expression(store: Store, spec: NumberSpec) -> Expr:
    """The numbers of ``spec``; NOTHING when there is none. A lexeme, but for multiples without a bound.

    Raises GrammarTooLarge for bounds and multiples of too many digits, and Unsupported, without a pointer, for multiples
    that cannot be told from other numbers, and those without a bound that must not be whole.
    """
    _check_digits(*(bound for bound in (spec.low, spec.high) if bound is not None), *spec.multiples)
    positive = _above_zero(spec.low, spec.low_open, spec.high, spec.high_open)
    negative = _above_zero(_negated(spec.high), spec.high_open, _negated(spec.low), spec.low_open)
    minus, sizes = store.literal(b"-"), _sizes(store, spec, positive)
    if positive == negative:
        numbers = store.sequence((store.union((EMPTY, minus)), sizes))
    else:
        numbers = store.union((sizes, store.sequence((minus, _sizes(store, spec, negative)))))
    if spec.not_integer and not store.is_regular(numbers):
        raise Unsupported(
            "", "multipleOf", "without bounds it cannot go with numbers that must not be whole; add bounds"
        )
    if spec.not_integer:
        numbers = store.intersection((numbers, _fractional(store)))
    return store.lexeme(numbers) if store.is_regular(numbers) else numbers


def _check_digits(*values: Decimal) -> None:
    for value in values:
        if max(value.adjusted(), -int(value.as_tuple().exponent)) > MOST_DIGITS:
            reason = f"has more than {MOST_DIGITS} digits before or after the point; use smaller bounds and multiples"
            raise GrammarTooLarge(f"the number {value:.6g} {reason}")


def _negated(value: Decimal | None) -> Decimal | None:
    return None if value is None else value.copy_negate()


def _above_zero(low: Decimal | None, low_open: bool, high: Decimal | None, high_open: bool) -> Interval:
    """The numbers from zero on between two bounds."""
    if low is None or low < ZERO:
        return Interval(high=high, high_open=high_open)
    return Interval(low, low_open, high, high_open)


def _sizes(store: Store, spec: NumberSpec, interval: Interval) -> Expr:
    """The numbers of ``interval`` that are multiples as ``spec`` has it."""
    multiples = (*spec.multiples, Decimal(1)) if spec.integer else spec.multiples
    if multiples:
        plain = spec.plain and spec.integer
        numbers = multiples_between(store, Step.of(multiples), interval, "nothing" if plain else "zeros")
        return _with_exponent(store, numbers, negative=False) if interval.high is None and not plain else numbers
    bounds = [bound for bound in (interval.low, interval.high) if bound is not None]
    places = max(0, *(-int(bound.as_tuple().exponent) for bound in bounds))
    numbers = DecimalNotation(store, places, "digits").between(interval)
    if interval.high is None and interval.low == ZERO:
        return _with_exponent(store, numbers, negative=True)
    return store.union((numbers, scientific_between(store, interval)))


def _with_exponent(store: Store, numbers: Expr, *, negative: bool) -> Expr:
    return store.sequence((numbers, any_exponent(store, negative=negative)))


def _fractional(store: Store) -> Expr:
    """Texts of numbers that are not whole: a digit above zero after the point, or a mantissa below ten made smaller."""
    sign, digits = store.union((EMPTY, store.literal(b"-"))), store.repeat(digit(store), 0, None)
    some = store.sequence((digits, digit(store, range(1, 10)), digits))
    point = store.literal(b".")
    decimal = store.sequence((store.repeat(digit(store), 1, None), point, some))
    mantissa = store.sequence((digit(store, range(1, 10)), store.repeat(store.sequence((point, digits)), 0, 1)))
    minus = store.sequence((store.byte_set(1 << 0x45 | 1 << 0x65), store.literal(b"-"), some))
    return store.sequence((sign, store.union((decimal, store.sequence((mantissa, minus))))))
