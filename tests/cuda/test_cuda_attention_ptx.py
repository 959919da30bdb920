"""The attention kernels compile for the GPUs they are meant for, as large as they are run there."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("triton", reason="Triton is for Linux")

from ptx import Compiled, Job, compile_all

from sgframe_cuda.kernels.decode import decode, merge, plan
from sgframe_cuda.kernels.extend import extend
from sgframe_cuda.tiles import Tile, choose_tiles

TYPES = {
    **dict.fromkeys(("page_table", "rows", "starts", "lengths", "tasks", "parts", "order"), "*i32"),
    **dict.fromkeys(("means", "weights"), "*fp32"),
    **dict.fromkeys(("table_stride", "width", "count", "most", "target"), "i32"),
    **dict.fromkeys(("inner", "outer"), "fp32"),
}
BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}
SHARED = {80: 163, 89: 99, 90: 227}
"""KiB of shared memory that a block may have, by compute capability (CUDA C++ programming guide, technical
specifications)."""

SPILLED = 32
"""Bytes a thread: what the largest heads leave over around the loop."""


def job(
    kernel: Any, capability: int, tile: Tile, dim: int = 128, element: str = "bf16", vectors: int = 0, **constants: int
) -> Job:
    """One of the two kernels that attend, for 8 KV heads and groups of 4."""
    types = TYPES | dict.fromkeys(("output", "query", "keys", "values"), f"*{element}")
    sizes = {"BLOCK_M": vectors or tile.vectors, "BLOCK_N": tile.keys, "PACK": 4, "KEY_DIM": dim, "VALUE_DIM": dim}
    constants = {"KV_HEADS": 8, "GROUP": 4, "WINDOW": 0, "SOFTCAP": False} | sizes | constants
    return Job(kernel, types, constants, capability, {"num_warps": tile.warps, "num_stages": tile.stages})


def jobs(capability: int, dim: int = 128, element: str = "bf16", **constants: int) -> list[Job]:
    """Both, as large as they are run."""
    tiles = choose_tiles(divmod(capability, 10), BYTES[element], dim)
    few = job(decode, capability, tiles.decode, dim, element, vectors=16, **constants)
    return [job(extend, capability, tiles.extend, dim, element, **constants), few]


def assert_fits(compiled: Compiled, capability: int) -> None:
    assert compiled.spilled <= SPILLED
    assert compiled.shared <= SHARED[capability] * 1024


@pytest.fixture(scope="module")
def compiled() -> dict[str, Compiled]:
    sizes, shape = {"LEAST": 128, "UNIT": 64, "WINDOW": 0}, {"KV_HEADS": 8, "GROUP": 4, "PACK": 4, "VALUE_DIM": 128}
    around = [Job(plan, TYPES, sizes, 80), Job(merge, TYPES | {"output": "*bf16"}, shape, 80)]
    names = ("extend on Hopper", "decode on Ampere", "plan", "merge")
    return dict(zip(names, compile_all([jobs(90)[0], jobs(80)[1], *around]), strict=True))


def test_many_tokens_are_multiplied_by_warpgroups_on_hopper(compiled):
    assert "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16" in compiled["extend on Hopper"].ptx
    assert_fits(compiled["extend on Hopper"], 90)


def test_few_tokens_are_multiplied_by_tensor_cores_too(compiled):
    assert "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32" in compiled["decode on Ampere"].ptx
    assert_fits(compiled["decode on Ampere"], 80)


@pytest.mark.parametrize("kernel", ["extend on Hopper", "decode on Ampere"])
def test_keys_and_values_are_read_ahead_sixteen_bytes_a_thread(compiled, kernel):
    copies = re.findall(r"cp\.async\.\S+ \[.*?\], \[.*?\], 0x(\w+)", compiled[kernel].ptx)
    assert copies.count("10") > len(copies) / 2


@pytest.mark.parametrize("kernel", ["plan", "merge"])
def test_the_kernels_around_them_compile(compiled, kernel):
    assert f".visible .entry {kernel}(" in compiled[kernel].ptx
    assert_fits(compiled[kernel], 80)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capability", "element"), [(80, "bf16"), (89, "bf16"), (90, "bf16"), (90, "fp16"), (90, "fp32")]
)
def test_all_sizes_of_heads_fit(capability, element):
    wanted = [each for dim in (64, 80, 256, 512) for each in jobs(capability, dim, element)]
    for each in compile_all(wanted):
        assert_fits(each, capability)


@pytest.mark.slow
@pytest.mark.parametrize("capability", [80, 90])
def test_windows_and_softcaps_fit(capability):
    wanted = [each for dim in (128, 256) for each in jobs(capability, dim, WINDOW=4096, SOFTCAP=True)]
    for each in compile_all(wanted):
        assert_fits(each, capability)
