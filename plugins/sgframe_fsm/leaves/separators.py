"""What stands between the tokens of a JSON text, by whitespace policy. Knows nothing of schemas and values."""

from __future__ import annotations

from dataclasses import dataclass

from sgframe.constraints import Whitespace
from sgframe_fsm.expressions.store import EMPTY, Expr, Store

LONGEST_GAP = 20
"""Most whitespace characters in one place under ``free``: enough for indentation, too few to run on for ever."""


@dataclass(frozen=True)
class Separators:
    """An object is ``{ gap (key colon value gap (comma key colon value gap)*)? }``, an array likewise.

    Attributes:
        gap: after an opening bracket and after each value.
        comma: between members or items.
        colon: between a key and its value.
    """

    gap: Expr
    comma: Expr
    colon: Expr

    @classmethod
    def of(cls, store: Store, whitespace: Whitespace) -> Separators:
        """``fixed`` is what ``json.dumps`` writes; ``free`` is RFC 8259's whitespace, of bounded length in each place."""
        if whitespace == "fixed":
            return cls(EMPTY, store.literal(b", "), store.literal(b": "))
        if whitespace == "compact":
            return cls(EMPTY, store.literal(b","), store.literal(b":"))
        blank = store.byte_set(sum(1 << byte for byte in b" \t\n\r"))
        gap = store.repeat(blank, 0, LONGEST_GAP)
        comma, colon = store.literal(b","), store.literal(b":")
        return cls(gap, store.sequence((comma, gap)), store.sequence((gap, colon, gap)))
