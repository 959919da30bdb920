"""The TPWorker's loop: a plan comes in, the executor executes exactly that, what it sampled goes out."""

from __future__ import annotations

import logging

from sgframe.errors import PeerLost
from sgframe.interfaces.backend import Executor
from sgframe.interfaces.transport import Channel
from sgframe.messages import Decoder, Loaded, Masks, PlanMessage, ScheduleBatch, StepFailed, StepOutput, encode
from sgframe.pulse import Pulse

log = logging.getLogger(__name__)


class WorkerLoop:
    """Feeds one executor from the scheduler's channel. ``run`` returns when the scheduler is gone."""

    def __init__(self, executor: Executor, channel: Channel, pulse: Pulse) -> None:
        self._executor = executor
        self._channel = channel
        self._pulse = pulse
        self._decode: Decoder[PlanMessage] = Decoder(PlanMessage)

    def run(self, loaded: Loaded) -> None:
        """Announce ``loaded``, then execute plans in the order in which they come."""
        try:
            self._channel.send(encode(loaded))
            while True:
                self._pulse.phase("idle")
                batch = self._receive()
                assert isinstance(batch, ScheduleBatch)
                self._channel.send(encode(self._execute(batch)))
        except PeerLost as lost:
            log.debug("the scheduler is gone: %s", lost)

    def _receive(self) -> PlanMessage:
        frame = self._channel.recv()
        assert frame is not None
        return self._decode(frame)

    def _execute(self, batch: ScheduleBatch) -> StepOutput | StepFailed:
        """One step. An executor that raises has failed this batch; the next one is tried afresh."""
        failed = None
        try:
            self._pulse.phase("forward")
            self._executor.forward(batch)
        except Exception as error:
            failed = _failed(batch, error)
        masks = self._receive() if batch.masked else None  # they come in any case
        assert masks is None or isinstance(masks, Masks)
        if failed is not None:
            return failed
        try:
            self._pulse.phase("sampling")
            return self._executor.sample(masks)
        except Exception as error:
            return _failed(batch, error)


def _failed(batch: ScheduleBatch, error: Exception) -> StepFailed:
    log.exception("step %d failed", batch.step)
    return StepFailed(batch.step, f"{type(error).__name__}: {error}")
