"""What a rank says to the others. The models and the executor know this, and nothing of torch.distributed."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Group(Protocol):
    """The ranks that share one model. Every rank makes the same calls in the same order.

    Tensors travel by the device's own collectives, everything else on the CPU. Any call raises RankLost when another rank
    is gone.
    """

    rank: int
    size: int

    def all_reduce(self, x: Tensor) -> Tensor:
        """The sum of every rank's ``x``; in place where that is quicker."""

    def all_gather(self, x: Tensor) -> Tensor:
        """Every rank's ``x`` [n, width] side by side, by rank: [n, size · width]."""

    def broadcast(self, x: Tensor) -> Tensor:
        """Rank 0's ``x``, in place."""

    def tell(self, frame: bytes) -> None:
        """Rank 0: hand ``frame`` to the others, who ``hear`` it."""

    def hear(self) -> bytes:
        """The other ranks: wait, for however long, for what rank 0 tells next."""

    def exchange(self, frame: bytes) -> list[bytes]:
        """Every rank's ``frame``, by rank."""

    def close(self) -> None:
        """Leave the group; the others may still be in it."""


class Alone:
    """The group of a model that one rank has for itself."""

    rank = 0
    size = 1

    def all_reduce(self, x: Tensor) -> Tensor:
        return x

    def all_gather(self, x: Tensor) -> Tensor:
        return x

    def broadcast(self, x: Tensor) -> Tensor:
        return x

    def tell(self, frame: bytes) -> None:
        """Nobody listens."""

    def hear(self) -> bytes:
        raise AssertionError("rank 0 hears the scheduler")

    def exchange(self, frame: bytes) -> list[bytes]:
        return [frame]

    def close(self) -> None:
        """There is nothing to leave."""


ALONE = Alone()
