"""This process as one of several ranks: whom it talks to, who watches over it, what it has applied."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from sgframe.errors import RankLost
from sgframe.interfaces.backend import Ranks
from sgframe.messages import encode
from sgframe_torch.ops import DeviceOps
from sgframe_torch.parallel.digest import PlanDigest
from sgframe_torch.parallel.distributed import DistributedGroup, join
from sgframe_torch.parallel.lifeline import Lifeline
from sgframe_torch.parallel.pace import BETWEEN, Pace
from sgframe_torch.rows import Step


class Member:
    """Made when this process joins the others; see Executor.join for the arguments and errors."""

    group: DistributedGroup

    def __init__(self, ranks: Ranks, ops: DeviceOps, give_up: Callable[[str], None]) -> None:
        self._ranks = ranks
        self._pace = Pace()
        self._digest = PlanDigest(ranks.digest_interval)
        self._failure = ""
        self.group = join(ranks, ops.collective, ops.device, self._pace)
        self._lifeline = Lifeline.start(ranks, self.group.store, self._pace, self._digest, give_up)

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """While this rank is in step ``number``; others wait for it that long and no longer. RankLost names who is gone."""
        self._pace.step = number
        try:
            with self.talk():
                yield
        finally:
            self._pace.step = BETWEEN

    def expect(self, number: int) -> None:
        """Say that this rank is still in step ``number``, whose result its device owes, until it enters the next."""
        self._pace.step = number

    @property
    def failed(self) -> bool:
        """Whether something has gone wrong that the ranks cannot go on after."""
        return bool(self._failure)

    @contextmanager
    def together(self, doing: str) -> Iterator[None]:
        """While this rank is ``doing`` what cannot be repeated: whatever goes wrong is told to the others, who cannot go on
        without it, and raised."""
        try:
            yield
        except RankLost:
            raise
        except Exception as error:
            self._failure = f"{doing}: {type(error).__name__}: {error}"
            raise

    @contextmanager
    def talk(self) -> Iterator[None]:
        """Around what this rank says to the others or hears from them: RankLost names the one who is gone."""
        try:
            yield
        except RankLost as lost:
            if self._failure:  # that is known already
                raise
            self._failure = self._lifeline.verdict() or str(lost)
            raise RankLost(self._failure) from lost

    def applied(self, step: Step) -> None:
        """Note what this rank has made of a plan, for the comparison with the others."""
        batch = step.batch
        self._digest.update(batch.step, encode(batch), step.inputs.host_starts, step.inputs.host_lengths)

    def dismiss(self) -> None:
        """Rank 0: send the others home, who hear what comes next; unless something has failed."""
        if self._ranks.rank == 0 and not self._failure:
            with suppress(RankLost):  # one may have left already
                self.group.tell(b"")

    def close(self) -> None:
        """Leave."""
        self._lifeline.close(self._failure)
        self.group.close()
