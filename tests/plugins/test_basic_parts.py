"""The plain parts: cache none, policy fcfs, grammar none, speculator none."""

from __future__ import annotations

import pytest

from sgframe import PluginSettings
from sgframe.constraints import Constraint
from sgframe.errors import RequestError
from sgframe.interfaces.cache import Clock
from sgframe.interfaces.grammar import Vocabulary
from sgframe.messages import ints
from sgframe.testing import CacheContract, PolicyContract, SpeculatorContract
from sgframe.testing.queue import HOT, WaitingRequest
from sgframe_basic.cache import NoCache
from sgframe_basic.grammar import NoGrammar
from sgframe_basic.policy import FirstComeFirstServed
from sgframe_basic.speculator import NoSpeculator


class TestNoCache(CacheContract):
    def make(self, page_size: int, clock: Clock) -> NoCache:
        return NoCache(PluginSettings(), page_size=page_size, clock=clock)


class TestFirstComeFirstServed(PolicyContract):
    max_overtaken = 0

    def make(self) -> FirstComeFirstServed:
        return FirstComeFirstServed(PluginSettings())


class TestNoSpeculator(SpeculatorContract):
    def make(self) -> NoSpeculator:
        return NoSpeculator(PluginSettings())


def test_fcfs_ignores_what_is_cached() -> None:
    cold, hot = WaitingRequest(1, ints([999])), WaitingRequest(2, ints(range(50)))
    assert FirstComeFirstServed(PluginSettings()).order([cold, hot], HOT) == [cold, hot]


def test_no_grammar_honours_no_kind() -> None:
    assert NoGrammar.kinds == frozenset()


def test_no_grammar_says_how_to_get_one() -> None:
    with pytest.raises(RequestError, match=r"json_schema.*without a grammar.*--grammar NAME"):
        NoGrammar(PluginSettings(), vocabulary=Vocabulary([b"a"], ())).compile(Constraint("json_schema", "{}"))
