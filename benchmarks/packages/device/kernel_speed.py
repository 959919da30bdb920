"""What the kernels achieve, by what the device was measured to do at most. Works with the kernels of any device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor

from device.cases import make_kv, make_query, make_step
from device.clock import Clock, Limits
from device.rows import Row, compared
from device.target import Heads, Sizes
from sgframe_torch.drawing import Draws
from sgframe_torch.kv import LayerKV
from sgframe_torch.ops import DeviceOps

Timer = Callable[[Callable[[], object]], float]
"""Seconds that a run takes."""
DECODE_AIM, PREFILL_AIM = 0.8, 0.5
COPY, MATMUL = "copy bandwidth", "matmul rate"


def kernel_rows(ops: DeviceOps, sizes: Sizes, limits: Limits, dtype: torch.dtype) -> Iterator[Row]:
    """All figures of the kernels in ``ops``; on a GPU those of FlashInfer beside them, where it is installed. The aims are
    those of a GPU."""
    on_gpu, clock = ops.device.type == "cuda", Clock(ops.device, sizes.seconds)
    bench = Bench(ops, sizes, limits, dtype, clock, aims=on_gpu)
    yield from bench.attention_rows()
    if on_gpu and find_spec("flashinfer") is not None:
        beside = Bench(_flashinfer(ops.device), sizes, limits, dtype, clock, aims=False)
        yield from (replace(row, what=f"{row.what}, FlashInfer") for row in beside.attention_rows())
    yield from bench.small_rows()


def _flashinfer(device: torch.device) -> DeviceOps:
    from device.kernel_ops import KernelOps  # noqa: PLC0415
    from sgframe_cuda.attention import TritonAttention  # noqa: PLC0415 (brings Triton)
    from sgframe_cuda.flashinfer import FlashInferAttention  # noqa: PLC0415

    return KernelOps(device, FlashInferAttention(device, TritonAttention(device)))


class Bench:
    """Times the kernels of ``ops`` at ``sizes``, with or without ``aims``."""

    def __init__(
        self, ops: DeviceOps, sizes: Sizes, limits: Limits, dtype: torch.dtype, clock: Timer, *, aims: bool
    ) -> None:
        self._ops, self._sizes, self._limits, self._dtype, self._clock = ops, sizes, limits, dtype, clock
        self._decode_aim = DECODE_AIM if aims else None
        self._prefill_aim = PREFILL_AIM if aims else None

    def attention_rows(self) -> Iterator[Row]:
        """Decoding is bound by reading the KV, prefilling by the products."""
        sizes = self._sizes
        yield self.decode_row("decode attention")
        yield self._decode("decode attention, one long row", *sizes.long)
        yield self.prefill_row("prefill attention")
        yield self._prefill("extend attention", *sizes.extend)

    def decode_row(self, what: str) -> Row:
        """The figure of decoding that has an aim."""
        return self._decode(what, *self._sizes.decode, least=self._decode_aim)

    def prefill_row(self, what: str) -> Row:
        """The figure of prefilling that has an aim."""
        return self._prefill(what, *self._sizes.prefill, least=self._prefill_aim)

    def small_rows(self) -> Iterator[Row]:
        """All are bound by what they read and write."""
        model, ops = self._sizes.model, self._ops
        tokens, hidden, inner = self._sizes.tokens, model.hidden, model.intermediate
        x, residual = self._random(2, tokens, hidden)
        weight, gate_up = self._random(hidden), self._random(tokens, 2 * inner)
        yield self._bandwidth("rms norm", 2 * x.nbytes, lambda: ops.rms_norm(x, weight, 1e-5))
        yield self._bandwidth("add and rms norm", 4 * x.nbytes, lambda: ops.add_rms_norm(x, residual, weight, 1e-5))
        yield self._bandwidth("SiLU · up", gate_up.nbytes * 3 // 2, lambda: ops.silu_mul(gate_up))
        yield self._rotate(model.heads, tokens)
        yield from self._sampling(model.vocab)

    def _decode(self, what: str, rows: int, cached: int, count: int, least: float | None = None) -> Row:
        run, kv, lengths = self._attend(rows, cached, count)
        read = int(lengths.sum()) * sum(each[0].nbytes for each in kv)
        seconds = self._clock(run)
        limit = self._limits.copy
        what = f"{what}, {rows} × {cached + count:,}"
        return compared(what, read / seconds / 1e9, "GB/s", limit / 1e9, COPY, least, _time(seconds))

    def _prefill(self, what: str, rows: int, cached: int, count: int, least: float | None = None) -> Row:
        run, _, _ = self._attend(rows, cached, count)
        heads = self._sizes.model.heads
        pairs = rows * (count * cached + count * (count + 1) // 2)  # of a query and a key that it sees
        operations = 2 * pairs * heads.query * (heads.key_dim + heads.value_dim)
        seconds = self._clock(run)
        limit = self._limits.matmul
        what = f"{what}, {rows} × {count:,}" + (f" after {cached:,}" if cached else "")
        return compared(what, operations / seconds / 1e12, "TFLOP/s", limit / 1e12, MATMUL, least, _time(seconds))

    def _attend(self, rows: int, cached: int, count: int) -> tuple[Callable[[], Tensor], LayerKV, np.ndarray]:
        ops, heads = self._ops, self._sizes.model.heads
        step = make_step((count,) * rows, (cached,) * rows, ops.page_size, ops.device)
        kv, query = make_kv(step, heads, self._dtype, ops.page_size), make_query(step, heads, self._dtype)
        ops.begin(step)
        return lambda: ops.attention(query, kv, step, heads.key_dim**-0.5), kv, step.host_lengths

    def _rotate(self, heads: Heads, tokens: int) -> Row:
        ops = self._ops
        qkv = self._random(tokens, (heads.query + 2 * heads.kv) * heads.key_dim)
        kv = LayerKV(*self._random(2, tokens, heads.kv, heads.key_dim))
        slots = torch.randperm(tokens, device=ops.device)
        angles = torch.randn(tokens, heads.key_dim // 2, device=ops.device)
        rotary = angles.cos(), angles.sin()
        moved = 2 * qkv.nbytes + 2 * angles.nbytes
        return self._bandwidth("rotate and store", moved, lambda: ops.rotate_and_store(qkv, None, rotary, slots, kv))

    def _sampling(self, vocab: int) -> Iterator[Row]:
        ops, n = self._ops, self._sizes.sampled
        logits = torch.randn(n, vocab, device=ops.device)
        words = torch.full((n, -(-vocab // 32)), -1, dtype=torch.int32, device=ops.device)
        yield self._bandwidth("mask", words.nbytes + logits.nbytes, lambda: ops.apply_mask(logits, words))
        plain, filtered = self._draws(0, 1.0), self._draws(50, 0.9)
        moved = 3 * logits.nbytes  # with the copy, since the kernel may write over what it is given
        yield self._bandwidth("draw", moved, lambda: ops.draw(logits.clone(), plain))
        yield self._bandwidth("draw, top-k and top-p", moved, lambda: ops.draw(logits.clone(), filtered))

    def _draws(self, top_k: int, top_p: float) -> Draws:
        n, device = self._sizes.sampled, self._ops.device
        return Draws(
            torch.ones(n, device=device),
            torch.full((n,), top_k, dtype=torch.int32, device=device),
            torch.full((n,), top_p, device=device),
            torch.zeros(n, device=device),
            torch.rand(n, dtype=torch.float64, device=device),
        )

    def _bandwidth(self, what: str, moved: int, run: Callable[[], object]) -> Row:
        seconds = self._clock(run)
        return compared(what, moved / seconds / 1e9, "GB/s", self._limits.copy / 1e9, COPY, note=_time(seconds))

    def _random(self, *shape: int) -> Tensor:
        return torch.randn(shape, device=self._ops.device).to(self._dtype)


def limit_rows(limits: Limits) -> list[Row]:
    """What the ratios are taken by."""
    return [
        Row(f"measured {COPY}", value=limits.copy / 1e9, unit="GB/s", note="bytes read and written"),
        Row(f"measured {MATMUL}", value=limits.matmul / 1e12, unit="TFLOP/s"),
    ]


def _time(seconds: float) -> str:
    return f"{1e6 * seconds:,.0f} µs"
