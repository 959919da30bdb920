"""Multiples of a number in decimal notation: an automaton that keeps what is left over from the division.

Owns ``multipleOf``. Knows no signs and no exponents.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, gcd, lcm
from typing import Literal, NamedTuple

from sgframe_fsm.errors import Unsupported
from sgframe_fsm.expressions.memoising import per_store
from sgframe_fsm.expressions.store import EMPTY, NOTHING, Expr, Store
from sgframe_fsm.leaves.decimals import DecimalNotation, Interval, digit

MOST_REMAINDERS = 5000


class Step(NamedTuple):
    """The multiples of ``modulus`` / 10^``places``."""

    modulus: int
    places: int

    @classmethod
    def of(cls, multiples: Iterable[Decimal]) -> Step:
        """The numbers that are multiples of each of ``multiples``, decimal fractions above zero."""
        fractions = [Fraction(multiple) for multiple in multiples]
        places = 0
        while any(fraction * 10**places % 1 for fraction in fractions):
            places += 1
        modulus = lcm(*(int(fraction * 10**places) for fraction in fractions))
        while places and modulus % 10 == 0:
            modulus, places = modulus // 10, places - 1
        return cls(modulus, places)

    def within(self, interval: Interval) -> Interval:
        """The least interval, closed, with the same multiples in it."""
        low = ceil(self._count(interval.low))
        low += interval.low_open and self._value(low) == interval.low
        if interval.high is None:
            return Interval(self._value(low))
        high = floor(self._count(interval.high))
        high -= interval.high_open and self._value(high) == interval.high
        return Interval(self._value(low), high=self._value(high))

    def _count(self, value: Decimal) -> Fraction:
        return Fraction(value) * Fraction(10**self.places, self.modulus)

    def _value(self, count: int) -> Decimal:
        return Decimal(f"{count * self.modulus}E-{self.places}")


def multiples_between(store: Store, step: Step, interval: Interval, beyond: Literal["zeros", "nothing"]) -> Expr:
    """The multiples of ``step`` in ``interval``; ``beyond`` as DecimalNotation has it.

    Raises Unsupported, without a pointer, for a modulus above MOST_REMAINDERS.
    """
    if step.modulus > MOST_REMAINDERS:
        reason = f"{step.modulus} different remainders, more than {MOST_REMAINDERS}; use one with fewer digits"
        raise Unsupported("", "multipleOf", f"a multiple has to be told from {reason}")
    if step.modulus == 1:
        return DecimalNotation(store, step.places, beyond).between(step.within(interval))
    return _MultipleNotation(store, step, beyond).between(step.within(interval))


class _MultipleNotation(DecimalNotation):
    """The digits that count, as one integer, are a multiple of the modulus. A residue is what is left over so far."""

    def __init__(self, store: Store, step: Step, beyond: Literal["zeros", "nothing"]) -> None:
        super().__init__(store, step.places, beyond)
        self._step = step
        self._after = beyond
        self._levels: list[list[Expr]] = []

    def _counts(self, left: int, prefix: str) -> bool:
        return bool(int(prefix or 0) * 10**left % self._step.modulus == 0)

    def _free_digit(self, left: int, prefix: str, values: Collection[int]) -> Expr:
        return self._branch(self._rest(left), int(prefix or 0) % self._step.modulus, values)

    def _any_number(self) -> Expr:
        store, wider = self._store, self._branch(_any_width(self._store, self._step, self._after), 0, range(1, 10))
        return store.union((store.sequence((store.literal(b"0"), self._rest(self._places)[0])), wider))

    def _wider(self, width: int) -> Expr:
        rest = _any_width(self._store, self._step, self._after)
        for _ in range(width):
            rest = self._before(rest)
        return self._branch(rest, 0, range(1, 10))

    def _widths(self, least: int, most: int) -> Expr:
        tables = (self._rest(width - 1 + self._places) for width in range(least, most + 1))
        return self._store.union(self._branch(rest, 0, range(1, 10)) for rest in tables)

    def _rest(self, left: int) -> list[Expr]:
        """By residue: what may follow where ``left`` digits that count may still come."""
        while len(self._levels) <= left:
            at = len(self._levels)
            more = self._before(self._levels[-1]) if at else [self._zeros] + [NOTHING] * (self._step.modulus - 1)
            self._levels.append(more if at > self._places else [self._ending(at, *pair) for pair in enumerate(more)])
        return self._levels[left]

    def _ending(self, left: int, residue: int, more: Expr) -> Expr:
        if left == self._places:
            more = self._store.sequence((self._store.literal(b"."), more))
        ends = residue * 10**left % self._step.modulus == 0
        return self._store.union((EMPTY, more)) if ends else more

    def _before(self, rest: list[Expr]) -> list[Expr]:
        """By residue: one digit, and then what ``rest`` says. Residues with the same tenfold have the same future."""
        modulus = self._step.modulus
        distinct = modulus // gcd(modulus, 10)
        return [self._branch(rest, residue) for residue in range(distinct)] * (modulus // distinct)

    def _branch(self, rest: list[Expr], residue: int, values: Iterable[int] = range(10)) -> Expr:
        followers: defaultdict[Expr, list[int]] = defaultdict(list)
        for value in values:
            followers[rest[(residue * 10 + value) % self._step.modulus]].append(value)
        store = self._store
        return store.union(store.sequence((digit(store, group), follower)) for follower, group in followers.items())

    def define_any_width(self) -> list[Expr]:
        """By residue: what may follow where any number of digits may still come before the point."""
        store, (modulus, places) = self._store, self._step
        distinct, ended = modulus // gcd(modulus, 10), self._rest(places)
        states = [(ended[residue], residue % distinct) for residue in range(modulus)]
        name = "after {1} the rest of a multiple of {2}e-{3}, then {4}, or {0}"
        rest = [store.reference(name.format(*state, modulus, places, self._after)) for state in states]
        for reference, (may_end, residue) in dict(zip(rest, states, strict=True)).items():
            store.define(store.node(reference)[1], store.union((may_end, self._branch(rest, residue))))
        return rest


@per_store
def _any_width(store: Store, step: Step, beyond: Literal["zeros", "nothing"]) -> list[Expr]:
    return _MultipleNotation(store, step, beyond).define_any_width()
