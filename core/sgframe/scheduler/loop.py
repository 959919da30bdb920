"""The scheduler process's loop: messages in, batches out. All waiting happens here; all deciding in ``Scheduler``."""

from __future__ import annotations

import gc
import logging
import time
from typing import assert_never

import msgspec

from sgframe.errors import PeerLost
from sgframe.interfaces.transport import Channel, Transport
from sgframe.messages import (
    AbortRequest,
    CacheFlushed,
    Decoder,
    DescribeCache,
    Drain,
    Drained,
    FlushCache,
    FrontMessage,
    GenerateRequest,
    Loaded,
    ReleaseLeases,
    StatsReport,
    StepFailed,
    StepOutput,
    TokenOutputs,
    UseVocabulary,
    WorkerMessage,
    encode,
)
from sgframe.pulse import Pulse
from sgframe.scheduler.description import describe
from sgframe.scheduler.report import Report
from sgframe.scheduler.scheduler import Scheduler

log = logging.getLogger(__name__)

STATS_INTERVAL = 0.2
"""Seconds between two stats reports to the front, at most."""

FULL_COLLECTIONS = 1000
"""Garbage collections of the middle generation before one of everything, which may take a tenth of a second: quiet
moments are for that (see ``_tidy``)."""


class SchedulerLoop:
    """Drives one Scheduler between the front's channel and the worker's. ``run`` returns when the front is gone.

    With ``overlap`` the next batch is planned and sent before the tokens of the last are back, so that the worker
    always has one at hand; without, one batch is under way at a time.
    """

    def __init__(self, transport: Transport, front: Channel, worker: Channel, pulse: Pulse, *, overlap: bool) -> None:
        self._transport = transport
        self._front = front
        self._worker = worker
        self._pulse = pulse
        self._overlap = overlap
        self._owns_process = not transport.in_process
        """Whether the garbage collector is this loop's to command."""
        self._decode_front: Decoder[FrontMessage] = Decoder(FrontMessage)
        self._decode_worker: Decoder[WorkerMessage] = Decoder(WorkerMessage)
        self._draining = False
        self._reported = 0.0
        self._changed = True
        self._step_seconds = 0.0
        self._untidy = True
        """Something was made since the garbage was last collected."""

    def wait_until_loaded(self) -> Loaded:
        """Wait for the worker's model. What it announces is cut to whole pages, and to a context that they can hold."""
        self._pulse.phase("waiting for the model")
        frame = self._worker.recv()
        assert frame is not None
        loaded = self._decode_worker(frame)
        assert isinstance(loaded, Loaded)
        slots = loaded.slots // loaded.page_size * loaded.page_size
        return msgspec.structs.replace(loaded, slots=slots, context_length=min(loaded.context_length, slots))

    def receive_vocabulary(self) -> UseVocabulary:
        """What the front sends first when the scheduler has grammars."""
        self._pulse.phase("waiting for the vocabulary")
        frame = self._front.recv()
        assert frame is not None
        vocabulary = self._decode_front(frame)
        assert isinstance(vocabulary, UseVocabulary)
        return vocabulary

    def run(self, loaded: Loaded, scheduler: Scheduler, report: Report) -> None:
        """Announce to the front that all is ready, and serve until it closes its channel."""
        self._scheduler, self._report = scheduler, report
        self._front.send(encode(loaded))
        if self._owns_process:
            young, middle, _ = gc.get_threshold()
            gc.set_threshold(young, middle, FULL_COLLECTIONS)
            self._tidy()
        try:
            while True:
                self._step()
        except PeerLost as lost:
            if not self._front_is_gone():
                raise
            log.debug("the front is gone: %s", lost)

    def _step(self) -> None:
        started = time.perf_counter()
        self._pulse.phase("scheduling")
        self._receive()
        leases = len(self._scheduler.memory.program_leases)
        batch = self._scheduler.plan(time.monotonic())
        if batch is not None:
            self._worker.send(encode(batch))
            self._report.planned(batch)
        self._changed |= batch is not None or len(self._scheduler.memory.program_leases) < leases  # some expired
        self._send_masks()
        self._publish()
        busy = time.perf_counter() - started
        if self._scheduler.in_flight > (self._overlap and batch is not None):
            busy += self._finish_step()
        elif batch is None:
            self._rest()
            return
        self._step_seconds += 0.05 * (busy - self._step_seconds)
        self._after()

    def _finish_step(self) -> float:
        """Wait for the oldest batch in flight and take in what it gave; the seconds that took, the wait not counted."""
        self._pulse.phase("waiting for the worker")
        output = self._await_output()
        received = time.perf_counter()
        if isinstance(output, StepFailed):
            log.error("step %d failed: %s", output.step, output.reason)
            self._scheduler.fail(output.reason)
        else:
            self._scheduler.apply(output)
        self._send_masks()
        self._publish()
        return time.perf_counter() - received

    def _send_masks(self) -> None:
        """Fill the masks that the worker will want, while it computes."""
        if (masks := self._scheduler.masks()) is not None:
            self._worker.send(encode(masks))

    def _await_output(self) -> StepOutput | StepFailed:
        """The worker's answer; arrivals are queued meanwhile."""
        while True:
            self._transport.wait((self._front, self._worker), timeout=1.0)
            if (frame := self._worker.recv(timeout=0)) is not None:
                output = self._decode_worker(frame)
                assert not isinstance(output, Loaded)
                return output
            self._receive()

    def _rest(self) -> None:
        """Nothing to compute: prove the accounts, tell the front, and sleep until a message comes."""
        if self._changed:
            self._changed = False
            self._send_stats()
            self._report.idle(self._scheduler)
            if self._draining:
                self._front.send(encode(Drained()))
        self._pulse.phase("idle")
        if self._transport.wait((self._front, self._worker), timeout=1.0):
            self._worker.recv(timeout=0)  # raises when the worker is gone; it has nothing to say unasked
        elif self._untidy and self._owns_process:
            self._tidy()

    def _tidy(self) -> None:
        """Collect garbage, and keep the collector from walking what is left until the next time: where nobody waits."""
        self._untidy = False
        gc.unfreeze()  # what was kept then may be garbage by now
        gc.collect()
        gc.freeze()

    def _receive(self) -> None:
        """Take in all that the front has sent."""
        while (frame := self._front.recv(timeout=0)) is not None:
            try:
                message = self._decode_front(frame)
            except msgspec.DecodeError as error:
                log.error("a message from the front could not be read: %s", error)
                continue
            self._handle(message)

    def _handle(self, message: FrontMessage) -> None:
        self._changed = self._untidy = True
        match message:
            case GenerateRequest():
                self._scheduler.add(message)
            case AbortRequest(id=request_id, cause=cause):
                self._scheduler.abort(request_id, cause)
            case ReleaseLeases(leases=leases):
                self._scheduler.release_leases(leases)
            case FlushCache(id=request_id):
                self._front.send(encode(CacheFlushed(request_id, self._scheduler.flush())))
            case DescribeCache():
                self._front.send(encode(describe(message, self._scheduler.memory.cache.snapshot())))
            case Drain():
                self._draining = True
            case UseVocabulary():
                raise AssertionError("the vocabulary is sent once, before anything else")
            case _:
                assert_never(message)

    def _publish(self) -> None:
        if self._scheduler.outbox:
            self._front.send(encode(TokenOutputs(self._scheduler.outbox)))
            self._scheduler.outbox = []

    def _after(self) -> None:
        now = time.monotonic()
        if now - self._reported >= STATS_INTERVAL:
            self._reported = now
            self._send_stats()
        self._report.step(self._scheduler, now)

    def _send_stats(self) -> None:
        stats = msgspec.structs.replace(self._scheduler.stats(), step_seconds=self._step_seconds)
        self._front.send(encode(StatsReport(stats)))

    def _front_is_gone(self) -> bool:
        try:
            self._front.recv(timeout=0)
        except PeerLost:
            return True
        return False
