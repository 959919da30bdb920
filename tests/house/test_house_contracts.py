"""Every built-in part is under the contract of its seam: a test module subclasses it and names the part's class."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from sgframe.assembly.discovery import BUILTIN
from sgframe.assembly.plugins import Offer, Plugin, load_plugins
from sgframe.assembly.providers import Seam

TESTS = Path(__file__).parents[1]
CONTRACTS = {
    Seam.CACHE: "CacheContract",
    Seam.POLICY: "PolicyContract",
    Seam.GRAMMAR: "GrammarContract",
    Seam.SPECULATOR: "SpeculatorContract",
    Seam.TRANSPORT: "TransportContract",
    Seam.SOURCE: "SourceContract",
    Seam.BACKEND: "BackendContract",
    Seam.LAUNCHER: "LauncherContract",
}
ON_A_DOUBLE = {
    "cuda": ("CudaExecutor", "needs a GPU; its executor runs on a double of torch.cuda, with Triton's interpreter"),
    "ascend": ("npu_executors", "needs an NPU; its executor runs on a double of torch_npu"),
}
"""Backends whose device is not on every machine: what stands for their class in a test, and why."""
OFFERS = load_plugins(plugins=[Plugin(name, module) for name, module in BUILTIN.items()]).offers()


@cache
def contract_modules() -> list[ast.Module]:
    texts = (file.read_text() for file in sorted(TESTS.rglob("test_*.py")) if file != Path(__file__))
    return [ast.parse(text) for text in texts if "Contract" in text]


def subclassed(module: ast.Module) -> set[str]:
    """The contracts that the module's test classes subclass, through classes of its own if need be."""
    bases = {
        node.name: [base.id for base in node.bases if isinstance(base, ast.Name)]
        for node in module.body
        if isinstance(node, ast.ClassDef)
    }

    def roots(name: str) -> Iterator[str]:
        for base in bases.get(name, []):
            yield from roots(base) if base in bases else [base]

    return {root for name in bases if name.startswith("Test") for root in roots(name)}


def names_in(module: ast.Module) -> set[str]:
    return {node.id for node in ast.walk(module) if isinstance(node, ast.Name)}


def part_of(offer: Offer) -> str:
    """What a test of the part must name."""
    on_a_double = offer.seam is Seam.BACKEND and offer.name in ON_A_DOUBLE
    return ON_A_DOUBLE[offer.name][0] if on_a_double else offer.provider.target.partition(":")[2]


def test_every_seam_has_a_contract() -> None:
    assert set(CONTRACTS) == set(Seam)


@pytest.mark.parametrize("offer", OFFERS, ids=lambda offer: f"{offer.seam.value} {offer.name}")
def test_a_built_in_part_is_under_the_contract_of_its_seam(offer: Offer) -> None:
    contract, part = CONTRACTS[offer.seam], part_of(offer)
    assert any(contract in subclassed(module) and part in names_in(module) for module in contract_modules()), (
        f"no test of {offer} subclasses sgframe.testing.{contract} in a class Test… and gives it a {part}; write one"
    )
