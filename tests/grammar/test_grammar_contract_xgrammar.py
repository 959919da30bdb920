"""The grammar ``xgrammar`` under the contract of its seam."""

from __future__ import annotations

import pytest

from sgframe import PluginSettings
from sgframe.testing.grammar import GrammarContract
from sgframe.testing.tokens import VOCABULARY

pytest.importorskip("xgrammar")

from sgframe_xgrammar.grammar import XgrammarGrammar


class TestXgrammar(GrammarContract):
    def make(self) -> XgrammarGrammar:
        return XgrammarGrammar(PluginSettings(), vocabulary=VOCABULARY)
