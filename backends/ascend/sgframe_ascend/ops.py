"""An Ascend NPU: its memory, its collectives, and which operators of torch_npu stand for those of a model.

What their documentation leaves out is computed in plain torch; docs/ascend.md has the rules. Knows no model.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from sgframe.errors import BackendUnavailable
from sgframe.interfaces.backend import Ranks
from sgframe_ascend import AscendSettings
from sgframe_ascend.attention import HALF, FusedAttention
from sgframe_ascend.backend import DTYPES
from sgframe_ascend.memory import available_memory
from sgframe_ascend.streams import Coming, Streams
from sgframe_torch.drawing import Draws, draw
from sgframe_torch.kv import LayerKV
from sgframe_torch.ops import DeviceOps, QKNorm, rotate
from sgframe_torch.rows import StepInputs

ROTARY_DIMS = (64, 128)

log = logging.getLogger(__name__)


class AscendOps(DeviceOps):
    """One NPU, by ``npu``: the module torch_npu. Of no use before ``place``.

    ``graph_rows`` stays 0: a graph of the NPU has to be told every step's lengths anew through its own update call, which
    has not been tried on a device.
    """

    dtypes = DTYPES
    collective = "hccl"
    _streams: Streams

    def __init__(self, settings: AscendSettings, npu: ModuleType, device: str = "npu") -> None:
        self.device = torch.device(device)
        self.page_size = settings.page_size
        self._memory_share = settings.memory_share
        self._npu = npu
        self._fused_attention = FusedAttention(npu.npu_fused_infer_attention_score, settings.page_size, self.upload_all)
        self._angles: tuple[Tensor, Tensor, Tensor] | None = None
        self._told: set[str] = set()

    # -------------------------------------------------------------------------------------------- the device

    def place(self, ranks: Ranks) -> None:
        """Take the NPU of this rank's number among those that ASCEND_RT_VISIBLE_DEVICES shows. Raises
        BackendUnavailable."""
        count = self._npu.npu.device_count()
        if ranks.local_rank >= count:
            raise BackendUnavailable(
                f"rank {ranks.rank} needs NPU {ranks.local_rank} of its machine, but there are {count}; "
                f"lower tp_size, or see ASCEND_RT_VISIBLE_DEVICES"
            )
        try:
            self._npu.npu.set_device(ranks.local_rank)
            self.device = torch.device(self.device.type, ranks.local_rank)
            self._streams = Streams(self._npu, self.device)
        except RuntimeError as error:
            raise BackendUnavailable(
                f"NPU {ranks.local_rank} cannot be opened: {error}; see npu-smi info for who holds it"
            ) from error

    def available_memory(self) -> int:
        return available_memory(self._npu)

    def kv_budget(self, available: int) -> int:
        return int(available * self._memory_share)

    def upload(self, values: np.ndarray) -> Tensor:
        return self.upload_all([values])[0]

    def upload_all(self, values: Sequence[np.ndarray]) -> list[Tensor]:
        """See DeviceOps; float64 stays on the host, since the device would make it float32."""
        wide = [each.dtype == np.float64 for each in values]
        there = iter(self._streams.upload([each for each, stays in zip(values, wide, strict=True) if not stays]))
        return [torch.tensor(each) if stays else next(there) for each, stays in zip(values, wide, strict=True)]

    def download(self, tensor: Tensor) -> Coming:
        return self._streams.download(tensor)

    # --------------------------------------------------------------------------------------------- the model

    def begin(self, step: StepInputs) -> None:
        self._fused_attention.begin(step)

    def attention(
        self, query: Tensor, kv: LayerKV, step: StepInputs, scale: float, window: int = 0, softcap: float = 0.0
    ) -> Tensor:
        if reason := self._fused_attention.obstacle(query, kv, softcap):
            self._tell(reason)
            return super().attention(query, kv, step, scale, window, softcap)
        return self._fused_attention(query, kv, scale, window)

    def _tell(self, reason: str) -> None:
        """Say once that attention is slow, and why."""
        if reason not in self._told:
            self._told.add(reason)
            log.warning("attention runs in plain torch, which is slow: the NPU's operator has no %s", reason)

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        return self._npu.npu_rms_norm(x, weight, epsilon=eps)[0]  # type: ignore[no-any-return]

    def add_rms_norm(self, x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> Tensor:
        if x.dtype not in HALF:
            return super().add_rms_norm(x, residual, weight, eps)
        output, _, total = self._npu.npu_add_rms_norm(x, residual, weight, epsilon=eps)
        residual.copy_(total)
        return output  # type: ignore[no-any-return]

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        return self._npu.npu_swiglu(gate_up, dim=-1)  # type: ignore[no-any-return]

    def rotate_and_store(
        self, qkv: Tensor, norm: QKNorm | None, rotary: tuple[Tensor, Tensor], slots: Tensor, kv: LayerKV
    ) -> Tensor:
        kv_heads, dim = kv.keys.shape[1:]
        parts = qkv.unflatten(-1, (-1, dim)).tensor_split([-2 * kv_heads, -kv_heads], dim=1)
        query, key, value = (part.contiguous() for part in parts)
        if norm:
            query, key = self.rms_norm(query, norm.query, norm.eps), self.rms_norm(key, norm.key, norm.eps)
        query, key = self._rotate(query, key, rotary)
        pages = (self.page_size, kv_heads, dim)
        self._npu.npu_scatter_pa_kv_cache(
            key, value, kv.keys.view(-1, *pages), kv.values.view(-1, *pages), slots, cache_mode="Norm"
        )
        return query

    def _rotate(self, query: Tensor, key: Tensor, rotary: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        if query.shape[-1] not in ROTARY_DIMS:
            return rotate(query, *rotary), rotate(key, *rotary)
        cos, sin = self._doubled(rotary, query.dtype)
        return self._npu.npu_apply_rotary_pos_emb(query, key, cos, sin, layout="TND")  # type: ignore[no-any-return]

    def _doubled(self, rotary: tuple[Tensor, Tensor], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Cosines and sines [T, 1, dim] as the operator wants them. All layers of a step hand in the same two tensors."""
        if self._angles is None or self._angles[0] is not rotary[0]:
            cos, sin = (torch.cat((angle, angle), dim=-1).to(dtype).unsqueeze(1) for angle in rotary)
            self._angles = rotary[0], cos, sin
        return self._angles[1:]

    def draw(self, logits: Tensor, draws: Draws) -> Tensor:
        """See DeviceOps; on the host, whose float64 the cumulative sums need."""
        return draw(logits.cpu(), Draws(*(each.cpu() for each in draws))).to(self.device)
