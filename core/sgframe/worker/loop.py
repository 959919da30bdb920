"""The TPWorker's loop: a plan comes in, the executor executes exactly that, what it sampled goes out."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from sgframe.errors import PeerLost
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
                    self._channel.send(encode(self._finish(pending)))
                pending = None if batch is None else self._sample(batch, failed)
        except PeerLost as lost:
            log.debug("the scheduler is gone: %s", lost)

    def _next_batch(self, pending: _Started | None) -> ScheduleBatch | None:
        """The next plan; None if what is ``pending`` is done before it comes."""
        if pending is None:
            self._pulse.phase("idle")
        frame = None
        while frame is None:
            if pending is not None and _done(pending):
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
        except Exception as error:
            return self._failed(batch, error)
        return None

    def _sample(self, batch: ScheduleBatch, failed: StepFailed | None) -> _Started:
        masks = self._receive_masks() if batch.masked else None  # they come in any case
        if failed is None:
            try:
                self._pulse.phase("sampling")
                return _Started(batch, self._executor.sample(masks))
            except Exception as error:
                failed = self._failed(batch, error)
        return _Started(batch, failed)

    def _finish(self, started: _Started) -> StepOutput | StepFailed:
        if isinstance(started.outcome, StepFailed):
            return started.outcome
        try:
            return started.outcome.result()
        except Exception as error:
            return self._failed(started.batch, error)

    def _failed(self, batch: ScheduleBatch, error: Exception) -> StepFailed:
        """Raises ``error`` when there is no going on."""
        if self._executor.fatal(error):
            raise error
        log.error("step %d failed", batch.step, exc_info=error)
        return StepFailed(batch.step, f"{type(error).__name__}: {error}")

    def _receive_masks(self) -> Masks:
        frame = self._channel.recv()
        assert frame is not None
        masks = self._decode(frame)
        assert isinstance(masks, Masks)
        return masks


@dataclass(frozen=True, slots=True)
class _Started:
    """A step whose outcome is on its way, or has failed already."""

    batch: ScheduleBatch
    outcome: Pending | StepFailed


def _done(started: _Started) -> bool:
    try:
        return isinstance(started.outcome, StepFailed) or started.outcome.done()
    except Exception:
        return True  # what is wrong is raised by the result, too
