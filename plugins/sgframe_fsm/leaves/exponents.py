"""Numbers in scientific notation: a digit above zero before the point and an exponent (1.5e-07, 1e+22).

This is how programs print numbers far from 1. Owns the exponents that keep such a number within bounds.
"""

from __future__ import annotations

from decimal import Decimal

from sgframe_fsm.expressions.store import EMPTY, NOTHING, Expr, Store
from sgframe_fsm.leaves.decimals import ZERO, DecimalNotation, Interval, digit

_ONE, _TEN = Decimal(1), Decimal(10)
LEAST, MOST = -324, 308
"""The exponents of doubles (IEEE 754), which is what a JSON number is to most who read it (RFC 8259, section 6)."""


def any_exponent(store: Store, *, negative: bool) -> Expr:
    """An exponent, or none."""
    return store.union((EMPTY, _exponent(store, None if negative else 0, None)))


def scientific_between(store: Store, interval: Interval) -> Expr:
    """The numbers above zero of ``interval``, by exponent: all mantissas for those in the middle, else some."""
    low, high = interval.low, interval.high
    if interval.is_empty or high == ZERO:
        return NOTHING
    first = last = None
    if low:
        first = low.adjusted() + (interval.low_open or low != _ONE.scaleb(low.adjusted()))
    if high is not None:
        last = high.adjusted() - 1
    parts = []
    if first is None or last is None or first <= last:
        parts.append(_numbers(store, Interval(_ONE, high=_TEN, high_open=True), first, last))
    edges = {bound.adjusted() for bound in (low, high) if bound}
    for exponent in sorted(edges):
        if (first is None or exponent < first) or (last is not None and exponent > last):
            parts.append(_numbers(store, _mantissas(interval, exponent), exponent, exponent))
    return store.union(parts)


def _mantissas(interval: Interval, exponent: int) -> Interval:
    """What to multiply by 10^``exponent`` to come into ``interval``, out of 1 … 10."""
    low, low_open, high, high_open = _ONE, False, _TEN, True
    if interval.low and interval.low.adjusted() == exponent:
        low, low_open = _scaled(interval.low, -exponent), interval.low_open
    if interval.high is not None and interval.high.adjusted() == exponent:
        high, high_open = _scaled(interval.high, -exponent), interval.high_open
    return Interval(low, low_open, high, high_open)


def _scaled(value: Decimal, exponent: int) -> Decimal:
    """``value`` · 10^``exponent``, exactly: arithmetic on decimals would round."""
    sign, digits, own = value.as_tuple()
    return Decimal((sign, digits, int(own) + exponent))


def _numbers(store: Store, mantissas: Interval, first: int | None, last: int | None) -> Expr:
    places = max(0, *(-int(bound.as_tuple().exponent) for bound in (mantissas.low, mantissas.high or _TEN)))
    mantissa = DecimalNotation(store, places, "digits").between(mantissas)
    return store.sequence((mantissa, _exponent(store, first, last)))


def _exponent(store: Store, first: int | None, last: int | None) -> Expr:
    """``e`` and an integer from ``first`` to ``last``, as far as doubles go; a leading zero is allowed."""
    first = LEAST if first is None else max(first, LEAST)
    last = MOST if last is None else min(last, MOST)
    notation = DecimalNotation(store, 0, "nothing")
    zeros = store.repeat(digit(store, [0]), 0, 1)
    parts = []
    if last >= 0:
        sizes = Interval(Decimal(max(first, 0)), high=Decimal(last))
        plus = store.union((EMPTY, store.literal(b"+")))
        parts.append(store.sequence((plus, zeros, notation.between(sizes))))
    if first < 0:
        sizes = Interval(Decimal(max(1, -last)), high=Decimal(-first))
        parts.append(store.sequence((store.literal(b"-"), zeros, notation.between(sizes))))
    return store.sequence((store.byte_set(1 << 0x45 | 1 << 0x65), store.union(parts)))
