"""The grammar ``none`` under the contract of its seam, which it keeps by refusing everything."""

from __future__ import annotations

from sgframe import PluginSettings
from sgframe.testing.grammar import GrammarContract
from sgframe.testing.tokens import VOCABULARY
from sgframe_basic.grammar import NoGrammar


class TestNone(GrammarContract):
    def make(self) -> NoGrammar:
        return NoGrammar(PluginSettings(), vocabulary=VOCABULARY)
