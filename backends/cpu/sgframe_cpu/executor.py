"""The executor of the cpu backend: torch's executor with this machine's kernels."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path

import torch
from msgspec.structs import replace
from torch import Tensor

from sgframe.interfaces.backend import ExecutorSpec, Ranks
from sgframe.messages import Loaded
from sgframe_cpu import CpuSettings
from sgframe_cpu.attention import NumbaAttention, element_of
from sgframe_cpu.backend import preferred_dtypes
from sgframe_cpu.compiling import Helper, Sizes
from sgframe_cpu.fused import FusedOps
from sgframe_cpu.linear import PackedLinear, can_pack
from sgframe_cpu.memory import available_memory, cores
from sgframe_cpu.program import HeadProgram, StepProgram
from sgframe_cpu.quantizer import Quantizer
from sgframe_cpu.sampling import Sampling
from sgframe_cpu.team import Team
from sgframe_torch.config import read_config
from sgframe_torch.drawing import DrawTable
from sgframe_torch.executor import TorchExecutor
from sgframe_torch.kv import LayerKV
from sgframe_torch.loading import choose_dtype
from sgframe_torch.logprobs import Ranked
from sgframe_torch.models.rope import head_dim
from sgframe_torch.ops import DeviceOps, Head, Hidden, Linear, QKNorm
from sgframe_torch.rows import StepInputs

KV_SHARE = 0.25
KV_MOST = 2 * 2**30


class TorchCpuOps(DeviceOps):
    """Processor cores, with torch's own kernels."""

    device = torch.device("cpu")

    def __init__(self, settings: CpuSettings) -> None:
        self.dtypes = preferred_dtypes()
        self._asked_threads = settings.threads
        self._local_ranks = 1
        self._set_threads()

    def place(self, ranks: Ranks) -> None:
        self._local_ranks = ranks.local_size
        self._set_threads()

    def _set_threads(self) -> None:
        """Each rank takes its share of the cores."""
        self.threads = self._asked_threads or max(1, cores() // self._local_ranks)
        torch.set_num_threads(self.threads)

    def note(self) -> str:
        """What the ledger has to say of the weights, if anything."""
        return ""

    def available_memory(self) -> int:
        return available_memory() // self._local_ranks

    def kv_budget(self, available: int) -> int:
        return min(int(available * KV_SHARE), KV_MOST // self._local_ranks)


class NumbaCpuOps(TorchCpuOps):
    """Processor cores, with compiled kernels for all that a model is made of; ``helper`` may be at some of them."""

    def __init__(self, settings: CpuSettings, helper: Helper | None = None) -> None:
        self._helper = helper
        super().__init__(settings)

    def _set_threads(self) -> None:
        super()._set_threads()
        self._recordable = True
        self._team = Team(self.threads)
        self._attention = NumbaAttention(self._team)
        self._fused = FusedOps(self._team)
        self._sampling = Sampling(self._team)

    def packed_bytes(self, weight: Tensor, head: bool = False) -> int:
        return weight.nbytes if can_pack(weight) else 0

    def linear(self, weight: Tensor, bias: Tensor | None = None) -> Linear:
        if can_pack(weight):
            return PackedLinear(weight, bias, self._team)
        self._recordable = False  # what torch computes is in no recording
        return super().linear(weight, bias)

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        return torch.from_numpy(self._team.arena.bytes(prod(shape) * dtype.itemsize)).view(dtype).view(shape)

    def recorded(self, hidden: Hidden, like: StepInputs, most_tokens: int) -> Hidden:
        if not self._recordable:
            return hidden
        torch.set_num_threads(
            1
        )  # what is left to torch is small; its threads would go on looking for work on our cores
        return StepProgram(hidden, self._team, like, most_tokens)

    def recorded_head(self, head: Head, like: Tensor, most: int) -> Head:
        return HeadProgram(head, self._team, like, most) if self._recordable else head

    def begin(self, step: StepInputs) -> None:
        self._attention.begin(step)

    def attention(
        self, query: Tensor, kv: LayerKV, step: StepInputs, scale: float, window: int = 0, softcap: float = 0.0
    ) -> Tensor:
        return self._attention(query, kv, step, scale, window, softcap)

    def embed(self, tokens: Tensor, weight: Tensor) -> Tensor:
        return self._fused.embed(tokens, weight)

    def rotary(self, positions: Tensor, frequencies: Tensor, scaling: float) -> tuple[Tensor, Tensor]:
        return self._fused.rotary(positions, frequencies, scaling)

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        return self._fused.add(x, residual)

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        return self._fused.rms_norm(x, weight, eps)

    def add_rms_norm(self, x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> Tensor:
        return self._fused.add_rms_norm(x, residual, weight, eps)

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        return self._fused.silu_mul(gate_up)

    def rotate_and_store(
        self, qkv: Tensor, norm: QKNorm | None, rotary: tuple[Tensor, Tensor], slots: Tensor, kv: LayerKV
    ) -> Tensor:
        return self._fused.rotate_and_store(qkv, norm, rotary, slots, kv)

    def choose(self, logits: Tensor, words: Tensor | None, draws: DrawTable | None) -> Tensor:
        """Torch draws while the helper is at work: that kernel is its last, for which a start does not wait."""
        if draws is not None and self._helper is not None:
            if self._helper.at_work():
                return super().choose(logits, words, draws)
            self._helper = None
        return self._sampling.choose(logits, words, draws)

    def rank(self, logits: Tensor, tokens: Tensor, k: int) -> Ranked:
        return self._sampling.rank(logits, tokens, k)


class QuantizedCpuOps(NumbaCpuOps):
    """The same with linear layers of 8 or 4 bits."""

    def __init__(self, settings: CpuSettings, helper: Helper | None = None) -> None:
        self._format = settings.weights
        super().__init__(settings, helper)

    def _set_threads(self) -> None:
        super()._set_threads()
        self._quantizer = Quantizer(self._format, self._team)

    def note(self) -> str:
        return self._quantizer.note()

    def packed_bytes(self, weight: Tensor, head: bool = False) -> int:
        return self._quantizer.packed_bytes(weight, head)

    def linear(self, weight: Tensor, bias: Tensor | None = None) -> Linear:
        return self._quantizer.linear(weight, bias, head=False)

    def head(self, weight: Tensor, bias: Tensor | None = None) -> Linear:
        return self._quantizer.linear(weight, bias, head=True)


class CpuExecutor(TorchExecutor):
    """See Executor."""

    _ops: TorchCpuOps

    def __init__(self, settings: CpuSettings, helper: Helper | None = None) -> None:
        super().__init__(_ops(settings, helper))
        self._helper = helper

    def join(self, ranks: Ranks, give_up: Callable[[str], None]) -> None:
        if ranks.local_rank:  # one helper is enough for a machine
            self._dismiss_helper()
        super().join(ranks, give_up)

    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        if self._helper is not None:
            self._helper.tell(self._sizes(spec))
        loaded, said = super().load(spec, progress), self._ops.note()
        ledger = [
            replace(line, note=f"{line.note}; {said}") if line.name == "weights" else line for line in loaded.ledger
        ]
        return replace(loaded, ledger=ledger) if said else loaded

    def close(self) -> None:
        super().close()
        self._dismiss_helper()

    def _sizes(self, spec: ExecutorSpec) -> Sizes:
        config = read_config(Path(spec.checkpoint.folder))
        like = torch.empty(0, dtype=getattr(torch, choose_dtype(spec.dtype, self._ops)))
        inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
        return Sizes(element_of(like), head_dim(config), config.hidden_size, inner // self._group.size)

    def _dismiss_helper(self) -> None:
        if self._helper is not None:
            self._helper.end()
        self._helper = None


def _ops(settings: CpuSettings, helper: Helper | None) -> TorchCpuOps:
    if settings.kernels == "torch":
        return TorchCpuOps(settings)
    return NumbaCpuOps(settings, helper) if settings.weights == "as-stored" else QuantizedCpuOps(settings, helper)
