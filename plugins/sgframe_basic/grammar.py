"""The grammar ``none``: a request that asks for a constraint is refused, never answered without it."""

from __future__ import annotations

from collections.abc import Sequence

from sgframe.assembly.providers import PluginSettings
from sgframe.errors import RequestError
from sgframe.interfaces.grammar import CompiledGrammar, Constraint, Grammar
from sgframe.messages import Ints


class NoGrammar(Grammar):
    """Honours no constraint kind."""

    def __init__(self, settings: PluginSettings) -> None:
        """Has nothing to set."""

    def compile(self, constraint: Constraint, vocabulary: Sequence[bytes], stop_ids: Ints) -> CompiledGrammar:
        raise RequestError(
            f"the output cannot be constrained by {constraint.kind}: this server was started without a grammar; "
            "send the request without the constraint, or start the server with --grammar NAME "
            "(sgframe plugins lists the names)"
        )
