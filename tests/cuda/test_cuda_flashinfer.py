"""Attention by FlashInfer, on a double whose methods are declared as flashinfer-python 0.7.4 declares them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from late_cuda import LateCuda
from torch import Tensor

from sgframe_cuda.flashinfer import FlashInferAttention
from sgframe_torch.attention import paged_attention
from sgframe_torch.graphs import FixedStep
from sgframe_torch.kv import LayerKV
from sgframe_torch.rows import StepInputs

SLOTS, CONTEXT, DIM = 96, 24, 64
LOG: list[str] = []


class Wrapper:
    """What both wrappers have in common: attention over slots in lists, as documented."""

    def remember(self, queries: Tensor, starts: Tensor, indices: Tensor, last: Tensor, **of: Any) -> None:
        for host in (queries, starts, last):
            assert (host.dtype, host.device.type) == (torch.int32, "cpu")
        assert (indices.dtype, len(indices)) == (torch.int32, int(starts[-1]))
        assert last.tolist() == [1] * (len(starts) - 1), "a page of one slot is full"
        assert of["page_size"] == 1
        self.queries, self.starts, self.indices, self.of = queries.tolist(), starts.tolist(), indices, of

    def run(
        self,
        q: Tensor,
        paged_kv_cache: Tensor | tuple[Tensor, Tensor],
        *args: Any,
        q_scale: float | None = None,
        k_scale: float | None = None,
        v_scale: float | None = None,
        out: Tensor | None = None,
        lse: Tensor | None = None,
        return_lse: bool = False,
        enable_pdl: bool | None = None,
        window_left: int | None = None,
        sinks: Tensor | None = None,
    ) -> Tensor:
        LOG.append(f"run {type(self).__name__}")
        keys, values = (each[:, 0] for each in paged_kv_cache)
        assert paged_kv_cache[0].shape == (SLOTS, 1, self.of["kv_heads"], self.of["dim"])
        assert (q.dtype, keys.dtype) == (self.of["q_dtype"], self.of["kv_dtype"])
        output = torch.empty_like(q)
        for row in range(len(self.starts) - 1):
            here = slice(self.queries[row], self.queries[row + 1])
            slots = self.indices[self.starts[row] : self.starts[row + 1]]
            output[here] = self.attend(q[here].float(), keys[slots].float(), values[slots].float())
        return output

    def attend(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        group = query.shape[1] // keys.shape[1]
        keys, values = keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)
        scores = torch.einsum("qhd,khd->hqk", query, keys) * self.of["scale"]
        if cap := self.of["cap"]:
            scores = cap * torch.tanh(scores / cap)
        back = torch.arange(len(keys) - len(query), len(keys))[:, None] - torch.arange(len(keys))
        seen = back >= 0
        if self.of["left"] >= 0:
            seen &= back <= self.of["left"]
        return torch.einsum("hqk,khd->qhd", scores.masked_fill(~seen, -torch.inf).softmax(-1), values)


class BatchDecodeWithPagedKVCacheWrapper(Wrapper):
    def __init__(
        self,
        float_workspace_buffer: Tensor,
        kv_layout: str = "NHD",
        use_cuda_graph: bool = False,
        use_tensor_cores: bool = False,
        paged_kv_indptr_buffer: Tensor | None = None,
        paged_kv_indices_buffer: Tensor | None = None,
        paged_kv_last_page_len_buffer: Tensor | None = None,
        backend: str = "auto",
        jit_args: list[Any] | None = None,
        jit_kwargs: dict[str, Any] | None = None,
    ) -> None:
        assert (float_workspace_buffer.dtype, kv_layout) == (torch.uint8, "NHD")
        assert not float_workspace_buffer.any(), "it must be zero at first"
        self.tensor_cores = use_tensor_cores

    def plan(
        self,
        indptr: Tensor,
        indices: Tensor,
        last_page_len: Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        page_size: int,
        *,
        pos_encoding_mode: str = "NONE",
        window_left: int = -1,
        window_right: int = 0,
        logits_soft_cap: float | None = None,
        q_data_type: torch.dtype = torch.float16,
        kv_data_type: torch.dtype | None = None,
        o_data_type: torch.dtype | None = None,
        sm_scale: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
        non_blocking: bool = True,
    ) -> None:
        LOG.append("plan decode")
        assert self.tensor_cores == (num_qo_heads > num_kv_heads)
        queries = torch.arange(len(indptr), dtype=torch.int32)
        of = {"kv_heads": num_kv_heads, "dim": head_dim, "page_size": page_size, "left": window_left}
        of |= {"cap": logits_soft_cap, "scale": sm_scale, "q_dtype": q_data_type, "kv_dtype": kv_data_type}
        self.remember(queries, indptr, indices, last_page_len, **of)


class BatchPrefillWithPagedKVCacheWrapper(Wrapper):
    def __init__(
        self,
        float_workspace_buffer: Tensor,
        kv_layout: str = "NHD",
        use_cuda_graph: bool = False,
        qo_indptr_buf: Tensor | None = None,
        paged_kv_indptr_buf: Tensor | None = None,
        paged_kv_indices_buf: Tensor | None = None,
        paged_kv_last_page_len_buf: Tensor | None = None,
        custom_mask_buf: Tensor | None = None,
        mask_indptr_buf: Tensor | None = None,
        backend: str = "auto",
        jit_args: list[Any] | None = None,
        jit_kwargs: dict[str, Any] | None = None,
    ) -> None:
        assert (float_workspace_buffer.dtype, kv_layout) == (torch.uint8, "NHD")

    def plan(
        self,
        qo_indptr: Tensor,
        paged_kv_indptr: Tensor,
        paged_kv_indices: Tensor,
        paged_kv_last_page_len: Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim_qk: int,
        page_size: int,
        head_dim_vo: int | None = None,
        custom_mask: Tensor | None = None,
        packed_custom_mask: Tensor | None = None,
        causal: bool = False,
        pos_encoding_mode: str = "NONE",
        use_fp16_qk_reduction: bool = False,
        sm_scale: float | None = None,
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
        q_data_type: torch.dtype = torch.float16,
        kv_data_type: torch.dtype | None = None,
        o_data_type: torch.dtype | None = None,
        non_blocking: bool = True,
    ) -> None:
        LOG.append("plan prefill")
        assert causal
        of = {"kv_heads": num_kv_heads, "dim": head_dim_qk, "page_size": page_size, "left": window_left}
        of |= {"cap": logits_soft_cap, "scale": sm_scale, "q_dtype": q_data_type, "kv_dtype": kv_data_type}
        self.remember(qo_indptr, paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len, **of)


class Other:
    """The attention that FlashInfer's leaves to."""

    def begin(self, step: StepInputs) -> None:
        """There is nothing to plan."""

    def __call__(self, *given: Any) -> Tensor:
        LOG.append("other")
        return paged_attention(*given)


@pytest.fixture
def attention(monkeypatch: pytest.MonkeyPatch) -> Iterator[FlashInferAttention]:
    wrappers = (BatchDecodeWithPagedKVCacheWrapper, BatchPrefillWithPagedKVCacheWrapper)
    monkeypatch.setitem(sys.modules, "flashinfer", SimpleNamespace(**{each.__name__: each for each in wrappers}))
    monkeypatch.setattr("sgframe_cuda.flashinfer._WORKSPACE", 1024)
    cuda = LateCuda()
    cuda.patch(monkeypatch)
    with cuda:
        yield FlashInferAttention(torch.device("cpu"), Other())
    LOG.clear()


def step_of(counts: list[int], lengths: list[int]) -> StepInputs:
    """Rows 2, 1, 0 … of a page table with scattered slots, each with its last ``counts`` tokens of ``lengths``."""
    table = torch.randperm(SLOTS, generator=torch.Generator().manual_seed(0)).int().view(-1, CONTEXT)
    starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    spans = zip(counts, lengths, strict=True)
    return StepInputs(
        tokens=torch.zeros(int(starts[-1]), dtype=torch.int64),
        positions=torch.cat([torch.arange(length - count, length) for count, length in spans]),
        slots=torch.zeros(int(starts[-1]), dtype=torch.int64),
        rows=torch.arange(len(counts) - 1, -1, -1, dtype=torch.int32),
        query_starts=torch.from_numpy(starts),
        kv_lengths=torch.tensor(lengths, dtype=torch.int32),
        page_table=table,
        host_starts=starts,
        host_lengths=np.array(lengths, np.int32),
    )


MIXED, DECODES = ([1, 5, 3], [9, 5, 20]), ([1, 1, 1], [1, 24, 7])


def tensors(step: StepInputs, heads: int, kv_heads: int, dtype: torch.dtype, dim: int = DIM) -> tuple[Tensor, LayerKV]:
    random = torch.Generator().manual_seed(1)
    query = torch.randn(len(step.tokens), heads, dim, generator=random).to(dtype)
    keys, values = (torch.randn(SLOTS, kv_heads, dim, generator=random).to(dtype) for _ in range(2))
    return query, LayerKV(keys, values)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("window", "softcap"), [(0, 0.0), (4, 0.0), (0, 2.0)])
@pytest.mark.parametrize("heads", [(4, 2), (2, 2)])
@pytest.mark.parametrize("shape", [MIXED, DECODES])
def test_it_agrees_with_the_reference(
    attention: FlashInferAttention,
    shape: Any,
    heads: tuple[int, int],
    window: int,
    softcap: float,
    dtype: torch.dtype,
) -> None:
    step = step_of(*shape)
    query, kv = tensors(step, *heads, dtype)
    attention.begin(step)
    found = attention(query, kv, step, 0.2, window, softcap)
    torch.testing.assert_close(found, paged_attention(query, kv, step, 0.2, window, softcap), rtol=0.01, atol=0.01)
    assert LOG[0] == ("plan prefill" if shape is MIXED else "plan decode")


def test_layers_that_are_alike_share_a_plan_for_one_step(attention: FlashInferAttention) -> None:
    step = step_of(*DECODES)
    query, kv = tensors(step, 4, 2, torch.float16)
    for _ in range(2):
        attention.begin(step)
        for window in (0, 4, 0, 4):
            attention(query, kv, step, 0.2, window)
    assert LOG.count("plan decode") == 4
    assert LOG.count("run BatchDecodeWithPagedKVCacheWrapper") == 8


def test_a_layer_has_a_wrapper_for_decode_steps_and_one_for_others(attention: FlashInferAttention) -> None:
    for shape in (MIXED, DECODES, MIXED):
        step = step_of(*shape)
        query, kv = tensors(step, 4, 2, torch.float16)
        attention.begin(step)
        attention(query, kv, step, 0.2)
    assert [entry for entry in LOG if "plan" in entry] == ["plan prefill", "plan decode", "plan prefill"]


def test_it_does_not_plan_again_before_the_device_has_read_the_plan(
    attention: FlashInferAttention, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("late_cuda.LateEvent.record", lambda event: LOG.append("record"))
    monkeypatch.setattr("late_cuda.LateEvent.synchronize", lambda event: LOG.append("wait"))
    step = step_of(*MIXED)
    query, kv = tensors(step, 4, 2, torch.float16)
    for _ in range(2):
        attention.begin(step)
        attention(query, kv, step, 0.2)
    assert [entry for entry in LOG if "run" not in entry] == ["wait", "plan prefill", "record"] * 2


@pytest.mark.parametrize(("dtype", "dim"), [(torch.float32, 64), (torch.float16, 96)])
def test_what_it_has_no_kernel_for_is_left_to_the_other(
    attention: FlashInferAttention, dtype: torch.dtype, dim: int
) -> None:
    step = step_of(*MIXED)
    query, kv = tensors(step, 4, 2, dtype, dim)
    attention.begin(step)
    attention(query, kv, step, 0.2)
    assert LOG == ["other"]


def test_values_of_another_size_than_keys_are_left_to_the_other(attention: FlashInferAttention) -> None:
    step = step_of(*MIXED)
    query, kv = tensors(step, 4, 2, torch.float16)
    attention.begin(step)
    attention(query, kv._replace(values=kv.values[..., :32]), step, 0.2)
    assert LOG == ["other"]


def test_recorded_steps_are_left_to_the_other(attention: FlashInferAttention) -> None:
    plain = step_of(*DECODES)
    step = FixedStep(**{field.name: getattr(plain, field.name) for field in fields(plain)})
    query, kv = tensors(step, 4, 2, torch.float16)
    attention.begin(step)
    attention(query, kv, step, 0.2)
    assert LOG == ["other"]


def test_branches_of_a_tree_are_rows_like_others(attention: FlashInferAttention) -> None:
    step = replace(step_of(*MIXED), paged=False)
    query, kv = tensors(step, 4, 2, torch.float16)
    attention.begin(step)
    found = attention(query, kv, step, 0.2)
    torch.testing.assert_close(found, paged_attention(query, kv, step, 0.2), rtol=0.01, atol=0.01)
