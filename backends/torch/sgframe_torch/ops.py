"""The operations a model is made of, in plain torch. A device backend subclasses DeviceOps and overrides what it has
a better kernel for; the plain versions stay the reference."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sgframe.interfaces.backend import Ranks
from sgframe_torch.attention import paged_attention
from sgframe_torch.drawing import INVALID, Draws, DrawTable, columns, draw, unpack_mask
from sgframe_torch.kv import LayerKV
from sgframe_torch.logprobs import Ranked, rank
from sgframe_torch.rows import StepInputs

Linear = Callable[[Tensor], Tensor]
"""[T, in] → [T, out]."""

Hidden = Callable[[StepInputs], Tensor]
"""A step's inputs → the last hidden state [T, hidden] of every token, its KV written."""

Head = Callable[[Tensor], Tensor]
"""Last hidden states [n, hidden] → logits [n, vocab]."""


class QKNorm(NamedTuple):
    """Weights [dim] of the norms of each query and key head (Qwen3)."""

    query: Tensor
    key: Tensor
    eps: float


class Download(Protocol):
    """A tensor on its way from the device to the host."""

    def done(self) -> bool:
        """Whether ``wait`` would return at once."""

    def wait(self) -> np.ndarray:
        """The values, once they are here."""


class HostCopy:
    """The Download of a device whose memory is the host's."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def done(self) -> bool:
        return True

    def wait(self) -> np.ndarray:
        return self._tensor.cpu().numpy()


class DeviceOps(ABC):
    """One device: its memory and its kernels. All activations are flat, [T, …], without a batch dimension.

    What is said of the device here is declared by its backend, and never guessed by the runtime.
    """

    device: torch.device
    dtypes: tuple[str, ...]
    """Names of the dtypes a model may have here, the preferred one first."""
    page_size: int = 1
    """Consecutive slots that belong together: position p of a row lies in a slot whose number is p modulo this."""
    collective: str = "gloo"
    """The backend of torch.distributed that carries tensors between the ranks."""
    graph_rows: int = 0
    """Most rows of the decode steps that are recorded by ``capture`` and played again; 0 for a device that cannot."""

    def place(self, ranks: Ranks) -> None:  # noqa: B027 (a machine's only device needs no choice)
        """Take the device, or the share of it, that is this rank's on its machine. Called before anything else."""

    @abstractmethod
    def available_memory(self) -> int:
        """Bytes that could be allocated now."""

    @abstractmethod
    def kv_budget(self, available: int) -> int:
        """Bytes to give to KV, out of ``available``, when the settings leave it open."""

    def packed_bytes(self, weight: Tensor, head: bool = False) -> int:
        """Bytes of what ``linear``, or ``head``, makes of ``weight`` [out, in] in a layout of its own; 0 if it keeps
        ``weight`` itself. Only the shape and the dtype are looked at."""
        return 0

    def linear(self, weight: Tensor, bias: Tensor | None = None) -> Linear:
        """A linear layer that takes over ``weight`` [out, in]; the caller drops its own reference."""
        return partial(F.linear, weight=weight, bias=bias)

    def head(self, weight: Tensor, bias: Tensor | None = None) -> Linear:
        """The same for the layer that gives the logits."""
        return self.linear(weight, bias)

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Memory for KV, which is kept for good and read in every step; what is in it is left open."""
        return torch.empty(shape, dtype=dtype, device=self.device)

    def upload(self, values: np.ndarray) -> Tensor:
        """``values`` on the device, for what is computed next. The caller leaves them as they are: a device that shares the
        host's memory reads them there."""
        return torch.from_numpy(values).to(self.device)

    def upload_all(self, values: Sequence[np.ndarray]) -> list[Tensor]:
        """Each of ``values`` on the device; in one go where a copy costs more to start than to do."""
        return [self.upload(each) for each in values]

    def download(self, tensor: Tensor) -> Download:
        """Start to copy ``tensor`` to the host, as it is once what was started before is done."""
        return HostCopy(tensor)

    def capture(self, run: Callable[[], None]) -> Callable[[], None]:
        """Record what ``run`` starts on the device; the result starts it all again, with the same tensors."""
        raise NotImplementedError(f"{type(self).__name__} has no graphs")

    def begin(self, step: StepInputs) -> None:  # noqa: B027 (most devices have nothing to plan)
        """Called once before the layers of a step, for work that all of them share."""

    def recorded(self, hidden: Hidden, like: StepInputs, most_tokens: int) -> Hidden:
        """What computes the same as ``hidden``, a model's, for steps of up to ``most_tokens`` tokens; a device that starts
        kernels more quickly from a recording makes one here. ``like`` has the page table of all steps."""
        return hidden

    def recorded_head(self, head: Head, like: Tensor, most: int) -> Head:
        """The same of ``head`` for up to ``most`` hidden states, which are of the kind of ``like`` [n, hidden]."""
        return head

    def embed(self, tokens: Tensor, weight: Tensor) -> Tensor:
        """The lines of ``weight`` [vocab, hidden] that ``tokens`` [T] name."""
        return F.embedding(tokens, weight)

    def rotary(self, positions: Tensor, frequencies: Tensor, scaling: float) -> tuple[Tensor, Tensor]:
        """Cosines and sines, each [T, n] float32, of ``positions`` [T] times ``frequencies`` [n], times ``scaling``."""
        angles = positions[:, None].float() * frequencies
        return angles.cos() * scaling, angles.sin() * scaling

    def attention(
        self, query: Tensor, kv: LayerKV, step: StepInputs, scale: float, window: int = 0, softcap: float = 0.0
    ) -> Tensor:
        """See ``sgframe_torch.attention.paged_attention``."""
        return paged_attention(query, kv, step, scale, window, softcap)

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        """Add ``x`` to ``residual`` in place, and return it."""
        return residual.add_(x)

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """Root mean square norm over the last dimension (Zhang & Sennrich 2019), computed in float32."""
        return (F.rms_norm(x.float(), (x.shape[-1],), eps=eps)).to(x.dtype) * weight

    def add_rms_norm(self, x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> Tensor:
        """Add ``x`` to ``residual`` in place, and return the norm of the sum."""
        residual += x
        return self.rms_norm(residual, weight, eps)

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        """SiLU(gate) · up, for [T, 2 · width] holding both side by side (Shazeer 2020, SwiGLU)."""
        gate, up = gate_up.chunk(2, dim=-1)
        return F.silu(gate) * up

    def rotate_and_store(
        self, qkv: Tensor, norm: QKNorm | None, rotary: tuple[Tensor, Tensor], slots: Tensor, kv: LayerKV
    ) -> Tensor:
        """Split ``qkv`` [T, (heads + 2 · KV heads) · dim] into queries, keys and values; normalise and turn queries and
        keys by ``rotary`` (cosines, sines: [T, dim / 2] float32); write keys and values to ``slots`` [T] of ``kv``.
        Returns the queries [T, heads, dim]."""
        kv_heads, dim = kv.keys.shape[1:]
        query, key, value = qkv.unflatten(-1, (-1, dim)).tensor_split([-2 * kv_heads, -kv_heads], dim=1)
        if norm:
            query, key = self.rms_norm(query, norm.query, norm.eps), self.rms_norm(key, norm.key, norm.eps)
        kv.store(slots, rotate(key, *rotary), value)
        return rotate(query, *rotary)

    def choose(self, logits: Tensor, words: Tensor | None, draws: DrawTable | None) -> Tensor:
        """int64 [n]: a token for each row of ``logits`` [n, vocab], which are left as they are.

        The largest allowed logit, the lower id among equals; or what ``draws`` say. ``words`` as in ``apply_mask``. INVALID
        for a row with NaN, +inf or no finite logit, or none that is allowed.
        """
        largest, chosen = logits.max(dim=-1)  # NaN wins a maximum, so one look at it judges the whole row
        finite = largest.isfinite()
        if words is None and draws is None:
            return torch.where(finite, chosen, INVALID)
        work = logits.to(torch.float32, copy=True)
        if words is not None:
            self.apply_mask(work, words)
            largest, chosen = work.max(dim=-1)
            finite &= largest.isfinite()
        if draws is not None:
            drawn = np.flatnonzero(draws[:, 0])
            rows, *parameters = self.upload_all([drawn, *columns(draws[drawn])])
            if len(drawn) == len(draws):
                chosen = self.draw(work, Draws(*parameters))
            else:
                chosen[rows] = self.draw(work[rows], Draws(*parameters))
        return torch.where(finite, chosen, INVALID)

    def rank(self, logits: Tensor, tokens: Tensor, k: int) -> Ranked:
        """See ``logprobs.rank``."""
        return rank(logits, tokens, k)

    def apply_mask(self, logits: Tensor, words: Tensor) -> None:
        """Set to -inf, in place, what ``words`` forbid in ``logits`` [n, vocab] float32.

        ``words`` [n, ceil(vocab / 32)] int32: token t is allowed if bit t % 32 of word t // 32 is set.
        """
        logits.masked_fill_(~unpack_mask(words, logits.shape[1]), -torch.inf)

    def draw(self, logits: Tensor, draws: Draws) -> Tensor:
        """A token for each row of ``logits`` [n, vocab] float32, which may be overwritten; see ``drawing.draw``."""
        return draw(logits, draws)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding (Su et al. 2021) of [T, heads, dim], whose halves hold the pairs."""
    cos, sin = cos[:, None], sin[:, None]
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)
