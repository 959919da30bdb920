"""Offers the grammar ``llguidance``: the library of that name (guidance-ai/llguidance), under the house's rules."""

from __future__ import annotations

from sgframe import Provider, hookimpl


@hookimpl
def sgframe_grammars() -> list[Provider]:
    return [
        Provider(
            name="llguidance",
            target="sgframe_llguidance.grammar:LlguidanceGrammar",
            summary="the llguidance library: quick, and strict about what it cannot honour",
            requires=("llguidance",),
            extra="llguidance",
        )
    ]
