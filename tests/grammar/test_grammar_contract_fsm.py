"""The grammar ``compressed-fsm`` under the contract of its seam."""

from __future__ import annotations

from sgframe.testing.grammar import GrammarContract
from sgframe.testing.tokens import VOCABULARY
from sgframe_fsm import CompressedFsmSettings
from sgframe_fsm.grammar import CompressedFsm


class TestCompressedFsm(GrammarContract):
    def make(self) -> CompressedFsm:
        return CompressedFsm(CompressedFsmSettings(), vocabulary=VOCABULARY)
