"""The TPWorker's loop: a plan comes in, the executor executes exactly that, what it sampled goes out."""

from __future__ import annotations

import logging
import time

from sgframe.errors import PeerLost, RankLost
from sgframe.interfaces.backend import Executor, Pending
from sgframe.interfaces.transport import Channel
from sgframe.messages import Decoder, Loaded, Masks, PlanMessage, ScheduleBatch, StepFailed, StepOutput, encode
from sgframe.pulse import Pulse

log = logging.getLogger(__name__)

POLL_INTERVAL = 2e-5
"""Seconds between two looks at the channel and the device while the device works."""


class WorkerLoop:
    """Feeds one executor from the scheduler's channel. ``run`` returns when the scheduler is gone.

    While the device works on a step, the next plan is given to it as soon as it comes; so the device never waits for this
    loop, for the transport or for the scheduler. An executor that computes before it returns has its output sent first.
    """

    def __init__(self, executor: Executor, channel: Channel, pulse: Pulse) -> None:
        self._executor = executor
        self._channel = channel
        self._pulse = pulse
        self._decode: Decoder[PlanMessage] = Decoder(PlanMessage)

    def run(self, loaded: Loaded) -> None:
        """Announce ``loaded``, then execute plans in the order in which they come."""
        try:
            self._channel.send(encode(loaded))
            pending: _Started | None = None
            while True:
                batch = self._next_batch(pending)
                failed = None if batch is None else self._forward(batch)
                if pending is not None:
                    self._channel.send(encode(pending.finish()))
                pending = None if batch is None else self._sample(batch, failed)
        except PeerLost as lost:
            log.debug("the scheduler is gone: %s", lost)

    def _next_batch(self, pending: _Started | None) -> ScheduleBatch | None:
        """The next plan; None if what is ``pending`` is done before it comes."""
        if pending is None:
            self._pulse.phase("idle")
        frame = None
        while frame is None:
            if pending is not None and pending.done():
                return None
            frame = self._channel.recv(None if pending is None else 0)
            if frame is None:
                time.sleep(POLL_INTERVAL)
        batch = self._decode(frame)
        assert isinstance(batch, ScheduleBatch)
        return batch

    def _forward(self, batch: ScheduleBatch) -> StepFailed | None:
        """An executor that raises has failed this batch; the next one is tried afresh."""
        try:
            self._pulse.phase("forward")
            self._executor.forward(batch)
        except RankLost:
            raise
        except Exception as error:
            return _failed(batch, error)
        return None

    def _sample(self, batch: ScheduleBatch, failed: StepFailed | None) -> _Started:
        masks = self._receive_masks() if batch.masked else None  # they come in any case
        if failed is None:
            try:
                self._pulse.phase("sampling")
                return _Started(batch, self._executor.sample(masks))
            except RankLost:
                raise
            except Exception as error:
                failed = _failed(batch, error)
        return _Started(batch, failed)

    def _receive_masks(self) -> Masks:
        frame = self._channel.recv()
        assert frame is not None
        masks = self._decode(frame)
        assert isinstance(masks, Masks)
        return masks


class _Started:
    """A step whose outcome is on its way, or has failed already."""

    def __init__(self, batch: ScheduleBatch, outcome: Pending | StepFailed) -> None:
        self._batch = batch
        self._outcome = outcome

    def done(self) -> bool:
        return isinstance(self._outcome, StepFailed) or self._outcome.done()

    def finish(self) -> StepOutput | StepFailed:
        if isinstance(self._outcome, StepFailed):
            return self._outcome
        try:
            return self._outcome.result()
        except RankLost:
            raise
        except Exception as error:
            return _failed(self._batch, error)


def _failed(batch: ScheduleBatch, error: Exception) -> StepFailed:
    log.exception("step %d failed", batch.step)
    return StepFailed(batch.step, f"{type(error).__name__}: {error}")
