"""The grammar ``llguidance`` under the contract of its seam."""

from __future__ import annotations

import pytest

from sgframe import PluginSettings
from sgframe.testing.grammar import GrammarContract
from sgframe.testing.tokens import VOCABULARY

pytest.importorskip("llguidance")

from sgframe_llguidance.grammar import LlguidanceGrammar


class TestLlguidance(GrammarContract):
    def make(self) -> LlguidanceGrammar:
        return LlguidanceGrammar(PluginSettings(), vocabulary=VOCABULARY)
