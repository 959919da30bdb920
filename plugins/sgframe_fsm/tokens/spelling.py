"""Which bytes a vocabulary can spell, whatever stands before and after them.

Runs where constraints are compiled: what an output could not be written without is then not in the automaton, and no
state is a dead end.
"""

from __future__ import annotations

from collections.abc import Iterable

from sgframe.errors import RequestError
from sgframe.interfaces.grammar import Vocabulary

SHOWN = 8
"""Missing bytes that an error names."""


def texts(vocabulary: Vocabulary) -> list[bytes]:
    """The bytes of each token. A stop id has none, though with some models it has text elsewhere."""
    tokens = list(vocabulary.tokens)
    for token in vocabulary.stop_ids:
        tokens[token] = b""
    return tokens


def alphabet(tokens: Iterable[bytes]) -> int:
    """The bytes that have a token of their own, as a set.

    A byte that only stands inside longer tokens is left out: a token may end just before it, and then there is no way
    to it. So a character is spelled if each of its bytes can be.
    """
    return sum(1 << byte for byte in {token[0] for token in tokens if len(token) == 1})


class Unspelled(RequestError):
    """Every output needs a byte that is not in ``alphabet``."""

    def __init__(self, alphabet: int) -> None:
        missing = [f"0x{byte:02X}" for byte in range(256) if not alphabet >> byte & 1]
        shown = ", ".join(missing[:SHOWN]) + (" …" if len(missing) > SHOWN else "")
        super().__init__(
            f"no output of the constraint can be spelled by this model: its vocabulary has no token for the bytes {shown}; "
            "ask for other characters, or choose another model",
            code="unsupported_constraint",
        )
