"""How much memory running requests will still want: the arithmetic behind admission. Knows no cache, pool or policy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from sgframe.scheduler.request import Request


class Estimator(ABC):
    """Foretells the slots that a set of requests wants. Wrong estimates cost time, never correctness: too low ones cause
    retractions, too high ones leave rows empty."""

    def __init__(self, page_size: int = 1) -> None:
        self._page_size = page_size

    @abstractmethod
    def demand(self, requests: Sequence[Request]) -> int:
        """Slots, beyond those held now, that ``requests`` will want at the worst moment ahead."""

    def stepped(self) -> None:  # noqa: B027 - who learns nothing has nothing to do
        """A step went by without a retraction."""

    def retracted(self, running: Sequence[Request]) -> None:  # noqa: B027
        """Memory ran out with ``running`` in it, the one that is about to be retracted included."""


class RatioEstimator(Estimator):
    """Expects every output to take a share of what it may take.

    Each step the share decays from ``START`` towards ``LEAST``: outputs are mostly shorter than allowed. When memory runs
    out it rises to what the running requests turned out to need.
    """

    START = 0.4
    LEAST = 0.1
    DECAY_STEPS = 600
    MOST_TOKENS = 2048
    """A request counts as if it could have at most this many more, or one without a limit would keep all others out."""
    MARGIN = 20
    """After a retraction: tokens that each of the others shall be able to generate before the next one."""

    def __init__(self, page_size: int = 1) -> None:
        super().__init__(page_size)
        self.ratio = self.START

    def demand(self, requests: Sequence[Request]) -> int:
        most, ratio = self.MOST_TOKENS, self.ratio
        wanted = len(requests) * (self._page_size - 1)  # the last page of each may be spare but for one slot
        outputs = 0
        for request in requests:
            wanted += len(request.tokens) + request.promised - request.scheduled
            remaining = request.max_tokens - len(request.tokens) + request.prompt_len - request.promised
            outputs += remaining if remaining < most else most
        return wanted + int(outputs * ratio)

    def stepped(self) -> None:
        self.ratio = max(self.LEAST, self.ratio - (self.START - self.LEAST) / self.DECAY_STEPS)

    def retracted(self, running: Sequence[Request]) -> None:
        generated = sum(request.output_len + self.MARGIN for request in running)
        allowed = sum(min(request.max_tokens, self.MOST_TOKENS) for request in running)
        self.ratio = min(1.0, max(self.ratio, generated / max(allowed, 1)))


class PeakEstimator(Estimator):
    """Expects every output to take all it may take, and knows that requests which end give back what they computed.

    The worst moment is just before some request gives back what it held (the token-load estimate of lightllm), which is a
    step after its last, when all longer ones have gone on. Right when ``max_tokens`` is
    what will be generated and no prompt has to wait for its turn; then nobody is ever retracted.
    """

    def demand(self, requests: Sequence[Request]) -> int:
        ends = sorted(map(self._course, requests), reverse=True)
        released = sum(own for _, _, own in ends)
        due = longer = worst = 0
        last = -1
        for alive, (steps, at_once, own) in enumerate(ends, 1):
            if steps != last:
                last, longer = steps, alive - 1
            due += at_once
            released -= own
            worst = max(worst, due + alive * steps + longer - released)
        return worst

    def _course(self, request: Request) -> tuple[int, int, int]:
        """The steps it will take, one slot each; the slots it needs besides; those it gives back at its end.

        The first step of a waiting request is the one that is being planned, that of a running one the step after. What it
        found cached may be leased by others, and its last page may be spare but for one slot.
        """
        left = request.goal - request.scheduled
        at_once = request.pending if request.row < 0 else max(request.pending - 1, 0)
        return left - at_once, at_once + self._page_size - 1, request.scheduled - request.matched


ESTIMATORS: dict[str, type[Estimator]] = {"ratio": RatioEstimator, "peak": PeakEstimator}
"""By the name that settings choose."""
