"""The operations of the ascend backend over the double, against the plain versions of torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from npu_device import GIB
from npu_double import double
from npu_steps import KVPool, step_of
from torch import Tensor
from torch.overrides import TorchFunctionMode

from sgframe.errors import BackendUnavailable
from sgframe.interfaces.backend import Ranks
from sgframe_ascend import AscendSettings
from sgframe_ascend.ops import AscendOps
from sgframe_torch.attention import paged_attention
from sgframe_torch.drawing import Draws, draw
from sgframe_torch.kv import LayerKV
from sgframe_torch.ops import QKNorm
from sgframe_torch.rows import StepInputs

TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 1e-5}
MIXED = [(1, 33), (40, 40), (1, 1), (7, 200), (1, 130), (7, 7)]
DECODE = [(1, 5), (1, 129), (1, 64)]


@pytest.fixture
def npu() -> ModuleType:
    return double()


@pytest.fixture
def ops(npu: ModuleType) -> AscendOps:
    return over(npu, 128)


def over(npu: ModuleType, page_size: int) -> AscendOps:
    ops = AscendOps(AscendSettings(page_size=page_size), npu, "cpu")
    ops.place(Ranks())
    return ops


def attend(ops: AscendOps, query: Tensor, kv: LayerKV, step: StepInputs, **options: float) -> Tensor:
    ops.begin(step)
    return ops.attention(query, kv, step, query.shape[-1] ** -0.5, **options)


def check(
    ops: AscendOps,
    rows: Sequence[tuple[int, int]],
    *,
    paged: bool = True,
    heads: tuple[int, int] = (4, 2),
    dim: int = 16,
    dtype: torch.dtype = torch.float16,
    **options: float,
) -> None:
    """Attention of ``rows``, each (tokens computed, tokens in KV), is that of the reference."""
    step = step_of(rows, ops.page_size, paged=paged)
    pool = KVPool(step, heads[1], dim, dtype)
    query = torch.randn(int(step.host_starts[-1]), heads[0], dim, dtype=dtype)
    expected = paged_attention(query, pool.kv, step, dim**-0.5, **options)
    torch.testing.assert_close(
        attend(ops, query, pool.kv, step, **options), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]
    )


# --------------------------------------------------------------------------------------------------- attention


@pytest.mark.parametrize("page_size", [16, 128, 256])
@pytest.mark.parametrize("window", [0, 1, 6, 100])
@pytest.mark.parametrize("rows", [DECODE, MIXED, [(40, 40)], [(9, 140)]])
def test_attention_is_that_of_the_reference(
    npu: ModuleType, page_size: int, window: int, rows: list[tuple[int, int]]
) -> None:
    check(over(npu, page_size), rows, window=window)


@pytest.mark.parametrize("window", [0, 6])
def test_a_branching_row_is_read_slot_by_slot(npu: ModuleType, ops: AscendOps, window: int) -> None:
    check(ops, MIXED, paged=False, window=window)
    assert all("block_table" not in call for call in npu.npu_fused_infer_attention_score.calls)


@pytest.mark.parametrize("heads", [(1, 1), (8, 1), (9, 3), (64, 1)])
@pytest.mark.parametrize("dim", [16, 64, 128])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.slow
def test_attention_of_many_shapes(ops: AscendOps, heads: tuple[int, int], dim: int, dtype: torch.dtype) -> None:
    for window in (0, 5):
        check(ops, MIXED, heads=heads, dim=dim, dtype=dtype, window=window)


def test_rows_that_compute_equally_many_tokens_share_a_call(npu: ModuleType, ops: AscendOps) -> None:
    check(ops, MIXED)
    queries = [tuple(call["query"].shape[:2]) for call in npu.npu_fused_infer_attention_score.calls]
    assert queries == [(3, 1), (2, 7), (1, 40)]


def test_pages_and_host_side_lengths_reach_the_operator(npu: ModuleType, ops: AscendOps) -> None:
    step = step_of(DECODE, 128)
    pool = KVPool(step, 2, 16, torch.float16)
    attend(ops, torch.randn(3, 4, 16, dtype=torch.float16), pool.kv, step)
    (call,) = npu.npu_fused_infer_attention_score.calls
    assert call["actual_seq_lengths_kv"] == [5, 129, 64]
    assert call["block_size"] == 128
    assert call["key"].data_ptr() == pool.kv.keys.data_ptr()
    first_slots = step.page_table[step.rows.long(), 0]
    assert call["block_table"][:, 0].tolist() == (first_slots // 128).tolist()


def test_a_window_that_hides_nothing_reads_pages(npu: ModuleType, ops: AscendOps) -> None:
    check(ops, DECODE, window=129)
    (call,) = npu.npu_fused_infer_attention_score.calls
    assert "block_table" in call


def test_a_window_reads_no_more_than_it_shows(npu: ModuleType, ops: AscendOps) -> None:
    check(ops, DECODE, window=6)
    (call,) = npu.npu_fused_infer_attention_score.calls
    assert call["actual_seq_lengths_kv"] == [5, 6, 6]
    assert call["key"].shape[1] == 6


@pytest.mark.parametrize("count", [1, 2])
def test_rows_over_one_prefix_share_a_call_as_far_as_the_pool_has_pages_for_each(
    npu: ModuleType, ops: AscendOps, count: int
) -> None:
    """Three rows of two pages each, the first of which is the same: four pages in all."""
    step = step_of([(count, 140), (count, 256), (count, 200)], 128)
    table = torch.arange(128, dtype=torch.int32).repeat(len(step.page_table), 2)
    table[step.rows, 128:] += torch.tensor([[128], [256], [384]], dtype=torch.int32)
    step = replace(step, page_table=table)
    kv = LayerKV(*torch.randn(2, 4 * 128, 2, 16).half())
    query = torch.randn(3 * count, 4, 16).half()
    expected = paged_attention(query, kv, step, 0.25)
    torch.testing.assert_close(attend(ops, query, kv, step), expected, rtol=2e-3, atol=2e-3)
    assert [len(call["query"]) for call in npu.npu_fused_infer_attention_score.calls] == [2, 1]


def test_queries_that_lie_apart_are_put_together(ops: AscendOps) -> None:
    step = step_of([(1, 9), (1, 5)], 128)
    pool = KVPool(step, 2, 16, torch.float16)
    query = torch.randn(2, 8, 16).half()[:, ::2]
    expected = paged_attention(query, pool.kv, step, 0.25)
    torch.testing.assert_close(attend(ops, query, pool.kv, step), expected, rtol=2e-3, atol=2e-3)


def test_copies_are_made_for_as_many_rows_as_fit(
    npu: ModuleType, ops: AscendOps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sgframe_ascend.attention.MOST_COPIED", 300)
    check(ops, DECODE, paged=False)
    assert [call["key"].shape[:2] for call in npu.npu_fused_infer_attention_score.calls] == [(2, 129), (1, 129)]


@pytest.mark.parametrize(
    ("reason", "options"),
    [
        ("soft cap", {"softcap": 2.0}),
        ("float32", {"dtype": torch.float32}),
        ("heads of 24", {"dim": 24}),
        ("heads of 528", {"dim": 528}),
        ("65 heads that share 1", {"heads": (65, 1)}),
    ],
)
def test_what_the_operator_lacks_is_said_and_computed_in_plain_torch(
    npu: ModuleType, ops: AscendOps, caplog: pytest.LogCaptureFixture, reason: str, options: dict[str, object]
) -> None:
    for _ in range(2):
        check(ops, [(1, 9), (3, 5)], **options)  # type: ignore[arg-type]
    assert not npu.npu_fused_infer_attention_score.calls
    assert [reason in record.getMessage() for record in caplog.records] == [True]


def test_values_of_another_size_than_keys_are_computed_in_plain_torch(npu: ModuleType, ops: AscendOps) -> None:
    step = step_of([(1, 9)], 128)
    kv = LayerKV(KVPool(step, 2, 32, torch.float16).kv.keys, KVPool(step, 2, 16, torch.float16).kv.values)
    query = torch.randn(1, 4, 32, dtype=torch.float16)
    assert torch.equal(attend(ops, query, kv, step), paged_attention(query, kv, step, 32**-0.5))
    assert not npu.npu_fused_infer_attention_score.calls


# ------------------------------------------------------------------------------------------- the small operations


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_norms_are_those_of_the_reference(ops: AscendOps, dtype: torch.dtype) -> None:
    x, residual, weight = (torch.randn(5, 32).to(dtype), torch.randn(5, 32).to(dtype), torch.randn(32).to(dtype))
    close = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    reference = super(AscendOps, ops)
    normed, summed = x.float() * (x.float().pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt() * weight.float(), x + residual
    torch.testing.assert_close(ops.rms_norm(x, weight, 1e-5).float(), normed, **close)
    expected = reference.rms_norm(summed, weight, 1e-5)
    torch.testing.assert_close(ops.add_rms_norm(x, residual, weight, 1e-5), expected, **close)
    torch.testing.assert_close(residual, summed, **close)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_silu_mul_is_that_of_the_reference(ops: AscendOps, dtype: torch.dtype) -> None:
    gate_up = torch.randn(5, 64).to(dtype)
    expected = super(AscendOps, ops).silu_mul(gate_up)
    torch.testing.assert_close(ops.silu_mul(gate_up), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("dim", [16, 64])
def test_rotate_and_store_is_that_of_the_reference(ops: AscendOps, dtype: torch.dtype, normed: bool, dim: int) -> None:
    qkv, slots = torch.randn(5, 8 * dim).to(dtype), torch.tensor([7, 300, 2, 128, 511])
    angles = torch.rand(5, dim // 2) * 6
    weights = torch.randn(2, dim).to(dtype)
    norm = QKNorm(weights[0], weights[1], 1e-6) if normed else None
    kv, expected_kv = (LayerKV(*torch.zeros(2, 512, 2, dim, dtype=dtype)) for _ in range(2))
    query = ops.rotate_and_store(qkv.clone(), norm, (angles.cos(), angles.sin()), slots, kv)
    expected = super(AscendOps, ops).rotate_and_store(qkv, norm, (angles.cos(), angles.sin()), slots, expected_kv)
    close = {"rtol": 2 * TOLERANCE[dtype], "atol": 4 * TOLERANCE[dtype]}
    torch.testing.assert_close(query, expected, **close)
    torch.testing.assert_close(kv.keys, expected_kv.keys, **close)
    assert torch.equal(kv.values, expected_kv.values)


def test_the_angles_of_a_step_are_prepared_once(npu: ModuleType, ops: AscendOps) -> None:
    kv = LayerKV(*torch.zeros(2, 128, 2, 64, dtype=torch.float16))
    steps = [(torch.rand(3, 32), torch.rand(3, 32)) for _ in range(2)]
    for rotary in (steps[0], steps[0], steps[1]):
        ops.rotate_and_store(torch.randn(3, 8 * 64).half(), None, rotary, torch.arange(3), kv)
    first, second, third = (call["cos"] for call in npu.npu_apply_rotary_pos_emb.calls)
    assert first is second
    assert torch.equal(third[:, 0, 32:], steps[1][0].half())


def test_tokens_are_drawn_as_the_reference_draws_them(ops: AscendOps) -> None:
    logits = torch.randn(3, 50)
    draws = Draws(
        temperature=ops.upload(np.array([1.0, 0.5, 2.0], np.float32)),
        top_k=ops.upload(np.array([0, 5, 0], np.int32)),
        top_p=ops.upload(np.array([1.0, 1.0, 0.7], np.float32)),
        min_p=ops.upload(np.zeros(3, np.float32)),
        uniform=ops.upload(np.array([0.1, 0.9, 0.5])),
    )
    assert torch.equal(ops.draw(logits.clone(), draws), draw(logits.clone(), draws))


# ------------------------------------------------------------------------------------------------------ the device


def test_a_rank_takes_the_device_of_its_number_on_its_machine(npu: ModuleType) -> None:
    ops = AscendOps(AscendSettings(), npu, "cpu")
    ops.place(Ranks(rank=5, size=8, nodes=2, address="127.0.0.1:1"))
    assert npu.npu.chosen == [1]
    assert ops.device == torch.device("cpu", 1)


def test_more_ranks_than_devices_are_refused_with_the_numbers(ops: AscendOps) -> None:
    with pytest.raises(BackendUnavailable, match="rank 4 needs NPU 4 of its machine, but there are 4; lower tp_size"):
        ops.place(Ranks(rank=4, size=5))


def test_a_device_that_cannot_be_opened_is_told(
    npu: ModuleType, ops: AscendOps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npu.npu, "device_count", lambda: 9)
    with pytest.raises(BackendUnavailable, match="NPU 7 cannot be opened: invalid device; see npu-smi"):
        ops.place(Ranks(rank=7, size=8))


def test_memory_that_torch_only_keeps_is_available_but_for_a_reserve(ops: AscendOps) -> None:
    assert ops.available_memory() == (64 - 11 - 2 - 1) * GIB
    assert ops.kv_budget(1000) == 900


def test_tensors_travel_over_hccl_and_nothing_is_recorded(ops: AscendOps) -> None:
    assert ops.collective == "hccl"
    assert ops.graph_rows == 0
    with pytest.raises(NotImplementedError):
        ops.capture(lambda: None)


def test_a_download_is_done_when_the_device_is(ops: AscendOps) -> None:
    download = ops.download(torch.tensor([3, 1, 2]))
    assert not download.done()
    assert download.wait().tolist() == [3, 1, 2]
    assert download.done()


VALUES = [
    np.array([[3, 1], [2, 5]]),
    np.array([7, 8, 9], np.int32)[::2],
    np.zeros(0, np.int32),
    np.array([0.1, 0.2]),
    np.array([True, False, True]),
    np.array([1.5], np.float32),
]


def test_what_is_uploaded_together_arrives_in_its_types_and_shapes(ops: AscendOps) -> None:
    tensors = ops.upload_all(VALUES)
    for tensor, values in zip(tensors, VALUES, strict=True):
        assert tensor.dtype == torch.from_numpy(values).dtype
        assert np.array_equal(tensor.numpy(), values)
        assert tensor.storage_offset() * tensor.itemsize % 512 == 0


def test_what_was_uploaded_no_longer_depends_on_its_source(ops: AscendOps) -> None:
    values = np.array([1, 2])
    tensor = ops.upload(values)
    values[0] = 7
    assert tensor.tolist() == [1, 2]


def test_float64_stays_on_the_host(ops: AscendOps) -> None:
    whole, wide = ops.upload_all([np.array([1, 2]), np.array([0.5])])
    assert wide.tolist() == [0.5]
    assert wide.untyped_storage().data_ptr() != whole.untyped_storage().data_ptr()


class Copies(TorchFunctionMode):
    """Those to the device: the stream that was current, and the options."""

    def __init__(self, npu: ModuleType) -> None:
        super().__init__()
        self._npu = npu
        self.seen: list[tuple[torch.Stream, dict[str, Any]]] = []

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function is Tensor.to and args[1:] == (torch.device("cpu", 0),):
            self.seen.append((self._npu.npu.current_stream(), kwargs or {}))
        return function(*args, **kwargs or {})


@pytest.mark.parametrize(
    "upload",
    [
        lambda ops: ops.upload_all(VALUES),
        lambda ops: ops.begin(step_of(MIXED, 128)),
    ],
    ids=["values", "the plan of a mixed step"],
)
def test_an_upload_is_one_blocking_copy_on_a_stream_where_nothing_is_computed(
    npu: ModuleType, ops: AscendOps, upload: Callable[[AscendOps], Any]
) -> None:
    with Copies(npu) as copies:
        upload(ops)
    ((stream, options),) = copies.seen
    assert stream != npu.npu.current_stream()
    assert options == {}


def test_what_was_uploaded_is_kept_until_the_computing_stream_has_read_it(npu: ModuleType, ops: AscendOps) -> None:
    tensor = ops.upload(np.array([1, 2]))
    assert npu.npu.kept == [(tensor.data_ptr(), npu.npu.current_stream())]


def test_the_plan_of_a_step_whose_rows_are_alike_uploads_nothing(npu: ModuleType, ops: AscendOps) -> None:
    with Copies(npu) as copies:
        ops.begin(step_of(DECODE, 128))
    assert copies.seen == []
