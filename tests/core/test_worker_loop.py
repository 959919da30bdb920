"""The worker's loop: the next plan goes to the device as soon as it comes, and outputs leave in the order of the plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from sgframe.errors import PeerLost, RankLost
from sgframe.interfaces.backend import Executor, ExecutorSpec, Pending, Ready
from sgframe.interfaces.transport import Channel
from sgframe.messages import Decoder, Loaded, Masks, ScheduleBatch, StepOutput, WorkerMessage, encode, ints
from sgframe.pulse import Pulse
from sgframe.worker.loop import WorkerLoop

LOADED = Loaded(vocab_size=32, context_length=8, slots=8, page_size=1, dtype="float32", ledger=[])


def batch(step: int, *, masked: bool = False) -> ScheduleBatch:
    return ScheduleBatch(step, ints(), [], [], ints(), ints(), ints(), ints(), masked=masked)


class Log(list[str]):
    """What happened, in order."""


@dataclass
class Slow:
    """A Pending that is done once it was looked at ``looks`` times; ``error`` is raised for a result."""

    step: int
    looks: int
    log: Log
    error: Exception | None = None

    def done(self) -> bool:
        self.looks -= 1
        return self.looks < 0

    def result(self) -> StepOutput:
        self.log.append(f"result {self.step}")
        if self.error is not None:
            raise self.error
        return StepOutput(self.step, ints(), ints())


@dataclass
class ScriptedExecutor(Executor):
    """``samples[k]`` makes the Pending of step k, else it is Ready; ``failures[k]`` is raised by forward k."""

    log: Log
    samples: dict[int, Callable[[], Pending]] = field(default_factory=dict)
    failures: dict[int, Exception] = field(default_factory=dict)
    step: int = -1

    def load(self, spec: ExecutorSpec, progress: Any) -> Loaded:
        return LOADED

    def forward(self, batch: ScheduleBatch) -> None:
        self.step = batch.step
        self.log.append(f"forward {batch.step}")
        if batch.step in self.failures:
            raise self.failures[batch.step]

    def sample(self, masks: Masks | None) -> Pending:
        self.log.append(f"sample {self.step}" + (" masked" if masks else ""))
        return self.samples.get(self.step, lambda: Ready(StepOutput(self.step, ints(), ints())))()

    def fatal(self, error: Exception) -> bool:
        return isinstance(error, RankLost)

    def close(self) -> None:
        pass


class ScriptedChannel(Channel):
    """Gives ``frames`` one after the other; None for a look that finds nothing. Then the peer is gone."""

    def __init__(self, log: Log, *frames: ScheduleBatch | Masks | None) -> None:
        self._log = log
        self._frames = list(frames)
        self._decode: Decoder[WorkerMessage] = Decoder(WorkerMessage)

    def send(self, frame: bytes) -> None:
        match self._decode(frame):
            case Loaded():
                self._log.append("loaded")
            case message:
                self._log.append(f"sent {type(message).__name__} {message.step}")

    def recv(self, timeout: float | None = None) -> bytes | None:
        if not self._frames:
            raise PeerLost("the scheduler has ended")
        frame = self._frames.pop(0)
        assert frame is not None or timeout is not None, "a wait without end gives a frame"
        return None if frame is None else encode(frame)

    def close(self) -> None:
        pass


def run(executor: ScriptedExecutor, *frames: ScheduleBatch | Masks | None) -> list[str]:
    pulse = Pulse(lambda message: None)
    try:
        WorkerLoop(executor, ScriptedChannel(executor.log, *frames), pulse).run(LOADED)
    finally:
        pulse.stop()
    return executor.log[1:]


def test_a_result_that_is_ready_leaves_before_the_next_plan_is_read() -> None:
    executor = ScriptedExecutor(Log())
    assert run(executor, batch(0), batch(1)) == [
        "forward 0",
        "sample 0",
        "sent StepOutput 0",
        "forward 1",
        "sample 1",
        "sent StepOutput 1",
    ]


def test_the_next_plan_is_started_while_the_device_works_on_the_last() -> None:
    log = Log()
    executor = ScriptedExecutor(log, {0: lambda: Slow(0, 100, log)})
    assert run(executor, batch(0), None, None, batch(1)) == [
        "forward 0",
        "sample 0",
        "forward 1",
        "result 0",
        "sent StepOutput 0",
        "sample 1",
        "sent StepOutput 1",
    ]


def test_a_result_does_not_wait_for_a_plan_that_does_not_come() -> None:
    log = Log()
    executor = ScriptedExecutor(log, {0: lambda: Slow(0, 2, log)})
    assert run(executor, batch(0), None, None) == ["forward 0", "sample 0", "result 0", "sent StepOutput 0"]


def test_masks_are_waited_for_once_the_last_result_has_left() -> None:
    log = Log()
    executor = ScriptedExecutor(log, {0: lambda: Slow(0, 100, log)})
    assert run(executor, batch(0), batch(1, masked=True), Masks(1, ints(), b"")) == [
        "forward 0",
        "sample 0",
        "forward 1",
        "result 0",
        "sent StepOutput 0",
        "sample 1 masked",
        "sent StepOutput 1",
    ]


def test_a_device_that_fails_later_has_failed_its_own_step() -> None:
    log = Log()
    executor = ScriptedExecutor(log, {0: lambda: Slow(0, 100, log, RuntimeError("out of memory"))})
    assert run(executor, batch(0), batch(1)) == [
        "forward 0",
        "sample 0",
        "forward 1",
        "result 0",
        "sent StepFailed 0",
        "sample 1",
        "sent StepOutput 1",
    ]


def test_a_forward_that_fails_leaves_the_step_before_it_alone() -> None:
    log = Log()
    executor = ScriptedExecutor(log, {0: lambda: Slow(0, 100, log)}, {1: RuntimeError("out of memory")})
    assert run(executor, batch(0), batch(1), batch(2)) == [
        "forward 0",
        "sample 0",
        "forward 1",
        "result 0",
        "sent StepOutput 0",
        "sent StepFailed 1",
        "forward 2",
        "sample 2",
        "sent StepOutput 2",
    ]


def test_the_masks_of_a_step_that_failed_are_taken_in() -> None:
    executor = ScriptedExecutor(Log(), failures={0: RuntimeError("out of memory")})
    assert run(executor, batch(0, masked=True), Masks(0, ints(), b""), batch(1)) == [
        "forward 0",
        "sent StepFailed 0",
        "forward 1",
        "sample 1",
        "sent StepOutput 1",
    ]


@pytest.mark.parametrize("at", ["forward", "sample", "result"])
def test_what_is_fatal_ends_the_worker(at: str) -> None:
    log, lost = Log(), RankLost("rank 1 of 2 died")

    def sample() -> Pending:
        if at == "sample":
            raise lost
        return Slow(0, 0, log, lost)

    executor = ScriptedExecutor(log, {0: sample}, {0: lost} if at == "forward" else {})
    with pytest.raises(RankLost, match="rank 1 of 2 died"):
        run(executor, batch(0), batch(1))
