"""The Group of several processes, by torch.distributed: a gloo group for what they say to each other, and the device's own
collectives for tensors."""

from __future__ import annotations

from datetime import timedelta
from types import TracebackType

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed.distributed_c10d import _set_pg_timeout

from sgframe.errors import ConfigError, RankLost
from sgframe.interfaces.backend import Ranks
from sgframe_torch.parallel.meeting import meet
from sgframe_torch.parallel.pace import Pace

JOIN_SECONDS = 300.0
"""How long a rank waits for the others to start."""
FOREVER = timedelta(days=365)
"""An idle server waits for its next request; who stands still is found out otherwise."""
FRAME = 8192
"""Bytes of the one broadcast that carries a frame, its length included; what is longer takes a second one."""

_all_gather = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)  # its name since torch 2.13, and before
_LENGTH = 8
_ROOM = FRAME - _LENGTH


def join(
    ranks: Ranks, collective: str, device: torch.device, pace: Pace, patience: float = JOIN_SECONDS
) -> DistributedGroup:
    """Form the group of ``ranks``, whose tensors are on ``device`` and travel by torch.distributed's ``collective``.

    ``pace.entered`` counts the collectives from then on. Raises ConfigError when the others are not there after
    ``patience`` seconds, or cannot be reached.
    """
    store = meet(ranks, patience)
    try:
        group = DistributedGroup(ranks, collective, store, pace, patience)
        group.all_reduce(torch.zeros(1, device=device))  # the first collective is slow: some connect only then
    except (RuntimeError, ValueError, RankLost) as error:
        if dist.is_initialized():
            dist.destroy_process_group()
        names = " or ".join(f"{library}_SOCKET_IFNAME" for library in sorted({"GLOO", collective.upper()}))
        raise ConfigError(
            f"rank {ranks.rank} of {ranks.size} met the others, but cannot talk to them by {collective} on {device}: "
            f"{error}; let them reach each other on every port, or name the interface that does in {names}"
        ) from error
    return group


class DistributedGroup:
    """See Group. There is one of these in a process; ``store`` is what all ranks can read and write."""

    def __init__(self, ranks: Ranks, collective: str, store: Store, pace: Pace, patience: float) -> None:
        self.rank, self.size, self.store = ranks.rank, ranks.size, store
        self._entering = _Entering(ranks, pace)
        self._frame = torch.empty(FRAME, dtype=torch.uint8)
        limit, meeting = timedelta(seconds=patience), PrefixStore("group", store)
        dist.init_process_group("gloo", store=meeting, rank=ranks.rank, world_size=ranks.size, timeout=limit)
        _set_pg_timeout(FOREVER)
        self._tensors = None if collective == "gloo" else dist.new_group(backend=collective, timeout=FOREVER)

    def all_reduce(self, x: Tensor) -> Tensor:
        if self._tensors is None:  # gloo's takes 2.4 times as long, and what its ranks get may differ in the last bit
            return self._gathered(x).sum(0)
        with self._entering:
            dist.all_reduce(x, group=self._tensors)
        return x

    def all_gather(self, x: Tensor) -> Tensor:
        return self._gathered(x).movedim(0, 1).flatten(1)

    def _gathered(self, x: Tensor) -> Tensor:
        """Every rank's ``x``: [size, …]."""
        gathered = x.new_empty(self.size * len(x), *x.shape[1:])
        with self._entering:
            _all_gather(gathered, x.contiguous(), group=self._tensors)
        return gathered.view(self.size, *x.shape)

    def broadcast(self, x: Tensor) -> Tensor:
        with self._entering:
            dist.broadcast(x, 0, group=self._tensors)
        return x

    def tell(self, frame: bytes) -> None:
        content = np.frombuffer(frame, dtype=np.uint8)
        packed = self._frame.numpy()
        packed[:_LENGTH] = np.frombuffer(len(frame).to_bytes(_LENGTH, "little"), dtype=np.uint8)
        packed[_LENGTH : _LENGTH + len(frame)] = content[:_ROOM]
        with self._entering:
            dist.broadcast(self._frame, 0)
        if len(frame) > _ROOM:
            with self._entering:
                dist.broadcast(torch.from_numpy(content[_ROOM:].copy()), 0)

    def hear(self) -> bytes:
        with self._entering:
            dist.broadcast(self._frame, 0)
        packed = self._frame.numpy()
        length = int.from_bytes(packed[:_LENGTH].tobytes(), "little")
        first = packed[_LENGTH : _LENGTH + length].tobytes()
        if length <= _ROOM:
            return first
        rest = torch.empty(length - _ROOM, dtype=torch.uint8)
        with self._entering:
            dist.broadcast(rest, 0)
        return first + rest.numpy().tobytes()

    def exchange(self, frame: bytes) -> list[bytes]:
        lengths = self._gather(torch.tensor([len(frame)])).tolist()
        padded = torch.zeros(max(1, *lengths), dtype=torch.uint8)
        padded.numpy()[: len(frame)] = np.frombuffer(frame, dtype=np.uint8)
        frames = self._gather(padded).view(self.size, -1)
        return [row[:length].numpy().tobytes() for row, length in zip(frames, lengths, strict=True)]

    def close(self) -> None:
        dist.destroy_process_group()

    def _gather(self, x: Tensor) -> Tensor:
        """Every rank's ``x`` [n] on the CPU, one after the other."""
        gathered = x.new_empty(self.size * len(x))
        with self._entering:
            _all_gather(gathered, x)
        return gathered


class _Entering:
    """Around each collective: counts it before it may block, and makes of its failure that a rank is lost."""

    def __init__(self, ranks: Ranks, pace: Pace) -> None:
        self._ranks, self._pace = ranks, pace

    def __enter__(self) -> None:
        self._pace.entered += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, RuntimeError):
            raise RankLost(
                f"rank {self._ranks.rank} of {self._ranks.size} lost another rank in its collective number "
                f"{self._pace.entered}: {error}"
            ) from error
