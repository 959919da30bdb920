"""Non-negative numbers in decimal notation between two bounds, digit by digit.

Owns how digits are compared with those of a bound. Knows neither signs nor exponents.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, NamedTuple

from sgframe_fsm.expressions.store import EMPTY, NOTHING, Expr, Store

ZERO = Decimal(0)
_ALL = 0x3FF << 0x30


@dataclass(frozen=True)
class Interval:
    """Numbers from ``low`` ≥ 0 to ``high``, None for no bound; ``…_open``: without the bound itself."""

    low: Decimal = ZERO
    low_open: bool = False
    high: Decimal | None = None
    high_open: bool = False

    @property
    def is_empty(self) -> bool:
        if self.high is None:
            return False
        return self.high < self.low or (self.high == self.low and (self.low_open or self.high_open))


def digit(store: Store, members: Iterable[int] = range(10)) -> Expr:
    """One decimal digit out of ``members``."""
    return store.byte_set(_ALL if members == range(10) else sum(1 << 0x30 + member for member in members))


def whole_number(store: Store) -> Expr:
    """Any number of digits without a leading zero, or zero."""
    more = store.repeat(digit(store), 0, None)
    return store.union((store.literal(b"0"), store.sequence((digit(store, range(1, 10)), more))))


class _Bounds(NamedTuple):
    """The digits of bounds that count, as many of each, without the point. One of the bounds may be missing."""

    low: str | None
    low_open: bool
    high: str | None
    high_open: bool

    @property
    def length(self) -> int:
        return len(self.low or self.high or "")

    def prefix(self, tight: _Tight, at: int) -> str:
        """The first ``at`` digits of a number that is ``tight``."""
        return ((self.low if tight[0] else self.high) or "")[:at]


_Tight = tuple[bool, bool]
"""Whether all digits so far are those of the low bound, and of the high bound."""


class DecimalNotation:
    """Texts ``I`` and ``I.F`` as JSON has them: no leading zeros, at least one digit after a point.

    Args:
        places: how many digits after the point count.
        beyond: what else may stand after the point: any digits, zeros only, or nothing. With the latter two, bounds are
            closed.
    """

    def __init__(self, store: Store, places: int, beyond: Literal["digits", "zeros", "nothing"]) -> None:
        self._store = store
        self._places = places
        self._exact = beyond != "digits"
        self._any = digit(store)
        self._zeros = NOTHING if beyond == "nothing" else store.repeat(digit(store, [0]), 1, None)

    def between(self, interval: Interval) -> Expr:
        """The numbers of ``interval``, whose bounds have no digits beyond ``places``."""
        if interval.is_empty:
            return NOTHING
        if interval == Interval():
            return self._any_number()
        low, low_open, high_open = self._counted(interval.low), interval.low_open, interval.high_open
        narrow = len(low) - self._places
        if interval.high is None:
            return self._store.union((self._width(_Bounds(low, low_open, None, False)), self._wider(narrow)))
        high = self._counted(interval.high)
        wide = len(high) - self._places
        if narrow == wide:
            return self._width(_Bounds(low, low_open, high, high_open))
        narrowest, widest = _Bounds(low, low_open, None, False), _Bounds(None, False, high, high_open)
        return self._store.union((self._width(narrowest), self._widths(narrow + 1, wide - 1), self._width(widest)))

    def _any_number(self) -> Expr:
        return self._store.sequence((whole_number(self._store), self._free(self._places)))

    def _counted(self, bound: Decimal) -> str:
        whole, _, fraction = f"{bound.copy_abs():f}".partition(".")
        return (whole.lstrip("0") or "0") + fraction[: self._places].ljust(self._places, "0")

    def _width(self, bounds: _Bounds) -> Expr:
        """Numbers with as many digits before the point as ``bounds`` have."""
        start = (bounds.low is not None, bounds.high is not None)
        states = [(True, False), (False, True), start] if all(start) else [start]
        more = {tight: self._beyond(bounds, tight) for tight in states}
        for at in reversed(range(bounds.length)):
            after = {tight: self._or_end(at + 1, bounds, tight, more[tight]) for tight in states}
            more = {tight: self._digit_at(at, bounds, tight, after) for tight in states}
        return more[start]

    def _beyond(self, bounds: _Bounds, tight: _Tight) -> Expr:
        """One digit or more, after all that count."""
        low_tight, high_tight = tight
        if high_tight:
            is_open = bounds.high_open or (low_tight and bounds.low_open)
            return NOTHING if is_open else self._zeros
        if self._exact or not bounds.low_open:
            return self._fraction(0)
        nonzero, digits = digit(self._store, range(1, 10)), self._store.repeat(self._any, 0, None)
        return self._store.sequence((self._store.repeat(digit(self._store, [0]), 0, None), nonzero, digits))

    def _or_end(self, at: int, bounds: _Bounds, tight: _Tight, more: Expr) -> Expr:
        """What may follow ``at`` digits: the end, or a point or no point and then ``more``."""
        width = bounds.length - self._places
        if at < width:
            return more
        if at == width:
            more = self._store.sequence((self._store.literal(b"."), more))
        enough = not tight[0] or not (bounds.low_open or (bounds.low or "")[at:].strip("0"))
        little = not tight[1] or not bounds.high_open or (bounds.high or "")[at:].strip("0")
        if enough and little and self._counts(bounds.length - at, bounds.prefix(tight, at)):
            return self._store.union((EMPTY, more))
        return more

    def _digit_at(self, at: int, bounds: _Bounds, tight: _Tight, after: dict[_Tight, Expr]) -> Expr:
        least = 0 if bounds.low or at else 1
        first = int(bounds.low[at]) if tight[0] and bounds.low else least
        last = int(bounds.high[at]) if tight[1] and bounds.high else 9
        branches, between = [], set(range(first, last + 1))
        for value, bound in ((first, 0), (last, 1)):
            if tight[bound] and value in between:
                still = (tight[0] and value == first, tight[1] and value == last)
                branches.append(self._store.sequence((digit(self._store, [value]), after[still])))
                between.remove(value)
        left, prefix = bounds.length - at - 1, bounds.prefix(tight, at)
        return self._store.union((*branches, self._free_digit(left, prefix, sorted(between))))

    def _counts(self, left: int, prefix: str) -> bool:
        """Whether the digits ``prefix`` and then ``left`` zeros are a number that is wanted, bounds aside."""
        return True

    def _free_digit(self, left: int, prefix: str, values: Collection[int]) -> Expr:
        """One of ``values`` after ``prefix``, from where on no bound matters, and ``left`` digits that count may follow."""
        return self._store.sequence((digit(self._store, values), self._free(left))) if values else NOTHING

    def _free(self, left: int) -> Expr:
        """What may follow where no bound matters any more and ``left`` digits that count may still come."""
        store, whole = self._store, left - self._places
        fraction = self._fraction(min(left, self._places))
        if whole >= 0:
            fraction = store.sequence((store.literal(b"."), fraction))
        needed = max(whole, 0)
        return store.sequence((store.repeat(self._any, needed, needed), store.union((EMPTY, fraction))))

    def _fraction(self, left: int) -> Expr:
        """One digit or more of a fraction of which ``left`` may still count."""
        if not self._exact:
            return self._store.repeat(self._any, 1, None)
        if left == 0:
            return self._zeros
        more = self._store.union((EMPTY, self._zeros))
        return self._store.sequence((self._store.repeat(self._any, 1, left), more))

    def _wider(self, width: int) -> Expr:
        """Numbers with more than ``width`` digits before the point."""
        more = self._store.repeat(self._any, width, None)
        return self._store.sequence((digit(self._store, range(1, 10)), more, self._free(self._places)))

    def _widths(self, least: int, most: int) -> Expr:
        """Numbers with ``least`` … ``most`` digits before the point, two or more."""
        more = self._store.repeat(self._any, least - 1, most - 1)
        return self._store.sequence((digit(self._store, range(1, 10)), more, self._free(self._places)))
