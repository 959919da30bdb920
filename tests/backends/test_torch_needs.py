"""A model that does not fit is refused before it is read, with the arithmetic; and what is proposed instead does fit."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from plain_ops import PlainOps

from sgframe.errors import ModelError
from sgframe.interfaces.backend import ExecutorSpec
from sgframe.interfaces.source import Checkpoint
from sgframe_torch import loading
from sgframe_torch.executor import TorchExecutor
from sgframe_torch.kv import choose_slots

MIB = 2**20
WEIGHTS = 0.5 * MIB
"""More than those of the tiny model, less than anything else that it needs by these settings."""


class SmallOps(PlainOps):
    """A device with ``memory`` bytes, of which what is loaded takes nothing."""

    def __init__(self, memory: int) -> None:
        self.memory = memory

    def available_memory(self) -> int:
        return self.memory


@pytest.fixture
def spec(checkpoint: Callable[[str], Checkpoint]) -> ExecutorSpec:
    return ExecutorSpec(checkpoint("llama"), "float32", max_rows=512, max_step_tokens=4096)


def refusal(spec: ExecutorSpec, memory: float) -> str:
    with pytest.raises(ModelError) as caught:
        TorchExecutor(SmallOps(int(memory))).load(spec, lambda *_: pytest.fail("it was read"))
    return str(caught.value)


def test_each_part_is_told_with_the_setting_that_it_hangs_on(spec: ExecutorSpec) -> None:
    told = refusal(spec, 2 * MIB)
    assert re.match(
        r"the model does not fit: weights 1 MiB \+ activations \(max_step_tokens\) \d+ MiB \+ "
        r"logits \(max_running\) \d+ MiB \+ page table \(max_running × context_length\) \d+ MiB \+ "
        r"KV \(context_length, kv_slots or kv_memory\) 1 MiB = \d+ MiB are needed on each rank, 2 MiB are available; ",
        told,
    )


@pytest.mark.parametrize(
    ("asked", "remedy"), [({"kv_slots": 100_000}, "kv_slots to 2730"), ({"kv_bytes": 2**26}, "kv_memory to 2096640")]
)
def test_kv_beyond_what_the_loaded_model_leaves_is_refused(
    spec: ExecutorSpec, asked: dict[str, int], remedy: str
) -> None:
    with pytest.raises(ModelError, match=rf"but 2 MiB are left after weights and workspace; set {remedy} or less"):
        choose_slots(replace(spec, **asked), context=128, per_slot=768, available=2 * MIB, budget=0)


@pytest.mark.parametrize("memory", [1, 1.25, 1.5, 2, 4, 8])
@pytest.mark.parametrize("asked", [{}, {"kv_slots": 4096}, {"kv_bytes": 8 * MIB}], ids=["auto", "slots", "bytes"])
def test_what_is_proposed_fits(spec: ExecutorSpec, asked: dict[str, int], memory: float) -> None:
    told = refusal(replace(spec, **asked), memory * MIB)
    found = re.search(
        r"max_running (\d+), max_step_tokens (\d+) and context_length (\d+)(?: with (kv_slots|kv_memory) (\d+))? would fit",
        told,
    )
    assert found, told
    rows, tokens, context, key, value = found.groups()
    kv = {{"kv_slots": "kv_slots", "kv_memory": "kv_bytes"}[key]: int(value)} if key else {}
    proposed = replace(spec, max_rows=int(rows), max_step_tokens=int(tokens), context_length=int(context), **kv)
    executor = TorchExecutor(SmallOps(int(memory * MIB)))
    executor.load(proposed, lambda *_: None)
    executor.close()


def test_where_nothing_fits_that_is_said(spec: ExecutorSpec) -> None:
    told = refusal(spec, WEIGHTS / 2)
    assert "not even max_running 1, max_step_tokens 1 and context_length 128 would fit: choose a smaller model" in told


def test_a_device_that_has_less_than_it_said_is_no_traceback(
    spec: ExecutorSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise torch.OutOfMemoryError("tried to allocate 3.00 GiB\nand more")

    monkeypatch.setattr(loading, "allocate", fail)
    with pytest.raises(
        ModelError, match=r"ran out of memory while the model was loaded \(tried to allocate 3.00 GiB\); "
    ):
        TorchExecutor(PlainOps()).load(spec, lambda *_: None)


def test_another_error_passes_as_it_is(spec: ExecutorSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "allocate", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        TorchExecutor(PlainOps()).load(spec, lambda *_: None)
