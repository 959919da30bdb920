"""This process as one of several ranks: whom it talks to, who watches it, what it has applied."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sgframe.errors import RankLost
from sgframe.interfaces.backend import Ranks
from sgframe.messages import ScheduleBatch, encode
from sgframe_torch.ops import DeviceOps
from sgframe_torch.parallel.group import Group
from sgframe_torch.rows import StepInputs


class Member:
    """Made when this process joins the others; see Executor.join for the arguments."""

    group: Group

    def __init__(self, ranks: Ranks, ops: DeviceOps, give_up: Callable[[str], None]) -> None:
        from sgframe_torch.parallel.digest import PlanDigest
        from sgframe_torch.parallel.distributed import join
        from sgframe_torch.parallel.lifeline import Lifeline
        from sgframe_torch.parallel.pace import Pace

        self._ranks = ranks
        self._pace = Pace()
        self._digest = PlanDigest(ranks.digest_interval)
        self.group = join(ranks, ops.collective, ops.device, self._pace)
        self._lifeline = Lifeline.start(ranks, self.group.store, self._pace, self._digest, give_up)
        self._lost = False

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """While this rank is in step ``number``: what goes wrong there ends it, since the others wait for it."""
        self._pace.step = number
        try:
            yield
        except Exception as error:
            self._lost = True
            if isinstance(error, RankLost):
                raise
            raise RankLost(
                f"rank {self._ranks.rank} of {self._ranks.size} failed in step {number}, and the others cannot go on without "
                f"it: {type(error).__name__}: {error}"
            ) from error
        finally:
            self._pace.step = -1

    def applied(self, batch: ScheduleBatch, inputs: StepInputs) -> None:
        """Note what this rank made of ``batch``, for the comparison with the others."""
        self._digest.update(batch.step, encode(batch), inputs.host_starts, inputs.host_lengths)

    def close(self) -> None:
        """Leave. Rank 0 sends the others home first, unless one of them is lost."""
        if self._ranks.rank == 0 and not self._lost:
            self.group.tell(b"")
        self._lifeline.close()
        self.group.close()
