"""The contracts take no list for what the core reads as memory, and no word for a tuple of words: duck typing ends there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from contract_cases import fails
from faulty_caches import Sound

from sgframe.interfaces.backend import Backend, Capabilities
from sgframe.messages import ints
from sgframe.testing import BackendContract, EchoBackend, SlotBook
from sgframe_radix import RadixSettings
from sgframe_radix.cache import RadixCache


class EvictsAList(Sound):
    def evict(self, count: int) -> Any:
        return list(self.inner.evict(count))


class NamesOneType(EchoBackend):
    def probe(self) -> Capabilities:
        one: Any = "float32"
        return replace(super().probe(), dtypes=one)


class OneTypeContract(BackendContract):
    def make(self) -> Backend:
        return NamesOneType()


def test_slots_in_a_list_are_refused() -> None:
    book = SlotBook(
        lambda size, clock: EvictsAList(RadixCache(RadixSettings(), page_size=size, clock=clock)), page_size=2
    )
    book.serve(ints(range(4)))
    with pytest.raises(AssertionError, match=r"slots are given as sgframe.messages.ints, found list"):
        book.evict(2)


def test_a_word_for_the_data_types_is_refused() -> None:
    assert fails(OneTypeContract(), "test_a_probe_says_what_there_is_or_what_is_missing", lambda names: {})
