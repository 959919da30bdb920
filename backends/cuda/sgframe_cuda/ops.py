"""The operations of a model by this package's Triton kernels, and one NVIDIA GPU with its memory, streams and graphs."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from sgframe.errors import BackendUnavailable
from sgframe.interfaces.backend import Ranks
from sgframe_cuda import CudaSettings, fused
from sgframe_cuda.attention import TritonAttention
from sgframe_cuda.backend import DTYPES
from sgframe_cuda.memory import available_memory
from sgframe_cuda.streams import Coming, Streams
from sgframe_torch.attention import paged_attention
from sgframe_torch.drawing import Draws
from sgframe_torch.kv import LayerKV
from sgframe_torch.ops import DeviceOps, QKNorm
from sgframe_torch.rows import StepInputs


class Attention(Protocol):
    """Attention over paged KV, planned once a step."""

    def begin(self, step: StepInputs) -> None:
        """Before the layers of ``step``."""

    def __call__(
        self, query: Tensor, kv: LayerKV, step: StepInputs, scale: float, window: int = 0, softcap: float = 0.0
    ) -> Tensor:
        """See ``sgframe_torch.attention.paged_attention``."""


class TorchAttention:
    """The plain reference."""

    def begin(self, step: StepInputs) -> None:
        """There is nothing to plan."""

    __call__ = staticmethod(paged_attention)


class TritonOps(DeviceOps):
    """The kernels, on any device that Triton serves."""

    dtypes = DTYPES
    _attention: Attention

    def begin(self, step: StepInputs) -> None:
        self._attention.begin(step)

    def attention(
        self, query: Tensor, kv: LayerKV, step: StepInputs, scale: float, window: int = 0, softcap: float = 0.0
    ) -> Tensor:
        return self._attention(query, kv, step, scale, window, softcap)

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        return fused.rms_norm(x, weight, eps)

    def add_rms_norm(self, x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> Tensor:
        return fused.add_rms_norm(x, residual, weight, eps)

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        return fused.silu_mul(gate_up)

    def rotate_and_store(
        self, qkv: Tensor, norm: QKNorm | None, rotary: tuple[Tensor, Tensor], slots: Tensor, kv: LayerKV
    ) -> Tensor:
        return fused.rotate_and_store(qkv, norm, rotary, slots, kv)

    def apply_mask(self, logits: Tensor, words: Tensor) -> None:
        fused.apply_mask(logits, words)

    def draw(self, logits: Tensor, draws: Draws) -> Tensor:
        return fused.draw(logits, draws)


class CudaOps(TritonOps):
    """One GPU. Of no use before ``place``."""

    collective = "nccl"
    _streams: Streams

    def __init__(self, settings: CudaSettings) -> None:
        self._settings = settings
        self.graph_rows = settings.graph_rows if settings.records else 0

    def place(self, ranks: Ranks) -> None:
        """Take the GPU of this rank's number among those that CUDA_VISIBLE_DEVICES shows. Raises BackendUnavailable."""
        for name in ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ENABLE_MONITORING"):
            os.environ.setdefault(name, "0")  # its watchdog would end the process before anybody has said why
        count = torch.cuda.device_count()
        if ranks.local_rank >= count:
            raise BackendUnavailable(
                f"rank {ranks.rank} needs GPU {ranks.local_rank} of its machine, but there are {count}; "
                f"lower tp_size, or see CUDA_VISIBLE_DEVICES"
            )
        self.device = torch.device("cuda", ranks.local_rank)
        try:
            torch.cuda.set_device(self.device)
            self._streams = Streams(self.device)
        except RuntimeError as error:
            raise BackendUnavailable(
                f"{self.device} cannot be opened: {error}; see in nvidia-smi whether another process holds it"
            ) from error
        self._attention = choose_attention(self._settings, self.device)
        self._graph_memory = torch.cuda.graph_pool_handle()

    def available_memory(self) -> int:
        return available_memory(self.device)

    def kv_budget(self, available: int) -> int:
        return int(available * self._settings.memory_share)

    def upload(self, values: np.ndarray) -> Tensor:
        return self._streams.upload([values])[0]

    def upload_all(self, values: Sequence[np.ndarray]) -> list[Tensor]:
        return self._streams.upload(values)

    def download(self, tensor: Tensor) -> Coming:
        return self._streams.download(tensor)

    def capture(self, run: Callable[[], None]) -> Callable[[], None]:
        """See DeviceOps. The scratch memory of all graphs is one pool, since they never play at the same time.

        Only this thread must keep from what a capture forbids: NCCL's watchdog asks its events from another.
        """
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._graph_memory, capture_error_mode="thread_local"):
            run()
        return graph.replay


def choose_attention(settings: CudaSettings, device: torch.device) -> Attention:
    """The attention that ``settings`` ask for."""
    match settings.attention:
        case "torch":
            return TorchAttention()
        case "triton":
            return TritonAttention(device)
        case "flashinfer":
            from sgframe_cuda.flashinfer import FlashInferAttention  # noqa: PLC0415 (is optional)

            return FlashInferAttention(device, TritonAttention(device))
