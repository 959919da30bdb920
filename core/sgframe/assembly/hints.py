"""Words of advice for error messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, known: Iterable[str], prefix: str = "") -> str:
    """``"; did you mean 'port'?"`` for the known word closest to ``word``, or nothing when none is close.

    ``prefix`` is put before the known word.
    """
    close = get_close_matches(word, sorted(known), n=1)
    return f"; did you mean '{prefix}{close[0]}'?" if close else ""
