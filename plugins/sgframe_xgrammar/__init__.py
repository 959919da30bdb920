"""Offers the grammar ``xgrammar``: the library of that name (mlc-ai/xgrammar), under the house's rules."""

from __future__ import annotations

from sgframe import Provider, hookimpl


@hookimpl
def sgframe_grammars() -> list[Provider]:
    return [
        Provider(
            name="xgrammar",
            target="sgframe_xgrammar.grammar:XgrammarGrammar",
            summary="the xgrammar library; what it would weaken in silence is refused",
            requires=("xgrammar",),
            extra="xgrammar",
        )
    ]
