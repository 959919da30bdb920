"""In the grammar contract a program goes from one object to the other as it does between two processes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sgframe.constraints import Constraint
from sgframe.interfaces.grammar import Grammar, Program
from sgframe.testing import VOCABULARY, GrammarContract
from sgframe.testing.constraints import CASES
from sgframe.testing.grammar import loaded
from sgframe_fsm import CompressedFsmSettings
from sgframe_fsm.grammar import CompressedFsm


class CompilesToText(CompressedFsm):
    def compile(self, constraint: Constraint) -> Program:
        text: Any = super().compile(constraint).data.hex()
        return Program(text)

    def load(self, data: bytes) -> Any:
        text: Any = data
        return super().load(bytes.fromhex(text))


class TextContract(GrammarContract):
    def make(self) -> Grammar:
        return CompilesToText(CompressedFsmSettings(kernels="numpy"), vocabulary=VOCABULARY)


def test_a_program_that_is_text_is_refused_though_its_own_grammar_could_load_it() -> None:
    with pytest.raises(msgspec.ValidationError, match="Expected `bytes`, got `str`"):
        loaded(TextContract, CASES[0])
