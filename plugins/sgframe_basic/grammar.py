"""The grammar ``none``: a request that asks for a constraint is refused, never answered without it."""

from __future__ import annotations

from sgframe.assembly.providers import PluginSettings
from sgframe.constraints import Constraint
from sgframe.errors import RequestError
from sgframe.interfaces.grammar import CompiledGrammar, Grammar, Program, Vocabulary


class NoGrammar(Grammar):
    """Honours no constraint kind."""

    def __init__(self, settings: PluginSettings, *, vocabulary: Vocabulary) -> None:
        """Has nothing to set."""

    def compile(self, constraint: Constraint) -> Program:
        raise RequestError(
            f"the output cannot be constrained by {constraint.kind}: this server was started without a grammar; "
            "send the request without the constraint, or start the server with --grammar NAME "
            "(sgframe plugins lists the names)"
        )

    def load(self, data: bytes) -> CompiledGrammar:
        raise AssertionError("nothing was compiled that could be loaded")
