"""The small kernels compile for the GPUs they are meant for, as large as they are run there, and keep to registers."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("triton", reason="Triton is for Linux")

from ptx import Job, compile_all

from sgframe_cuda.fused import MASK_WORDS, ROTARY_HEADS, SAMPLING_BLOCK, SILU_BLOCK, options
from sgframe_cuda.kernels import activation, mask, norm, rotary, sampling

TYPES = {
    **dict.fromkeys(("logits", "temperatures", "top_ps", "min_ps", "largests", "shorts", "cosines", "sines"), "*fp32"),
    **dict.fromkeys(("top_ks", "lengths", "leasts", "words"), "*i32"),
    **dict.fromkeys(("totals", "tokens", "slots"), "*i64"),
    **dict.fromkeys(("vocab", "inner"), "i32"),
    "uniforms": "*fp64",
    "eps": "fp32",
}
SAMPLING = {"CAPACITY": 2 * SAMPLING_BLOCK, "BLOCK": SAMPLING_BLOCK}


def job(kernel: Any, capability: int, element: str, constants: dict[str, Any], elements: int, each: int = 8) -> Job:
    """Strides are int32, and what has no type of its own are activations and weights."""
    types = {name: TYPES.get(name, "i32" if name.endswith("stride") else f"*{element}") for name in kernel.arg_names}
    return Job(kernel, types, constants, capability, options(elements, each))


def jobs(capability: int, element: str = "bf16", width: int = 4096, half: int = 64, normed: bool = True) -> list[Job]:
    def made(kernel: Any, constants: dict[str, Any], elements: int) -> Job:
        return job(kernel, capability, element, constants, elements)

    block, half_block = 1 << (width - 1).bit_length(), 1 << (half - 1).bit_length()
    heads = {
        "HEADS": 32,
        "KV_HEADS": 8,
        "HALF": half,
        "BLOCK": ROTARY_HEADS,
        "HALF_BLOCK": half_block,
        "NORMED": normed,
    }
    weights = {} if normed else {"query_weight": None, "key_weight": None}
    return [
        made(norm.rms_norm, {"WIDTH": width, "BLOCK": block}, block),
        made(norm.add_rms_norm, {"WIDTH": width, "BLOCK": block}, block),
        made(activation.silu_mul, {"WIDTH": 7 * width // 2, "BLOCK": SILU_BLOCK}, SILU_BLOCK),
        made(rotary.rotate_and_store, heads | weights, ROTARY_HEADS * half_block),
    ]


def jobs_of_logits(capability: int) -> list[Job]:
    return [
        job(mask.apply_mask, capability, "fp32", {"BLOCK": MASK_WORDS}, 32 * MASK_WORDS),
        job(sampling.survey, capability, "fp32", SAMPLING, SAMPLING_BLOCK, each=16),
        job(sampling.choose, capability, "fp32", SAMPLING, SAMPLING_BLOCK, each=16),
    ]


def assert_compile(wanted: list[Job]) -> None:
    for each, compiled in zip(wanted, compile_all(wanted), strict=True):
        assert f".visible .entry {each.kernel.__name__}(" in compiled.ptx
        assert compiled.spilled == 0


def test_the_operations_of_a_model_compile():
    assert_compile(jobs(90))


@pytest.mark.slow
@pytest.mark.parametrize("capability", [80, 90])
def test_what_is_done_to_logits_compiles(capability):
    assert_compile(jobs_of_logits(capability))


@pytest.mark.slow
@pytest.mark.parametrize("normed", [False, True], ids=["plain", "normed"])
@pytest.mark.parametrize("element", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("capability", [80, 90])
def test_all_dtypes_and_sizes_compile(capability, element, normed):
    sizes = (576, 32), (5120, 40), (16384, 128)
    assert_compile([each for width, half in sizes for each in jobs(capability, element, width, half, normed)])
