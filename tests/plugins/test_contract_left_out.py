"""A contract without what its author has to write is an error, where pytest would run none of its tests and say nothing."""

from __future__ import annotations

import pytest

from sgframe.testing import (
    BackendContract,
    CacheContract,
    GrammarContract,
    LauncherContract,
    PolicyContract,
    SourceContract,
    SpeculatorContract,
    TransportContract,
)

CONTRACTS = [
    BackendContract,
    CacheContract,
    GrammarContract,
    LauncherContract,
    PolicyContract,
    SourceContract,
    SpeculatorContract,
    TransportContract,
]


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_test_class_without_make_is_refused(contract: type) -> None:
    with pytest.raises(TypeError, match=r"^TestMine has no make, without which none"):
        type("TestMine", (contract,), {"mkae": lambda self: None})


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_class_for_others_to_complete_may_leave_it_out(contract: type) -> None:
    common = type("CommonContract", (contract,), {})
    assert type("TestMine", (common,), {"make": lambda self: None})
