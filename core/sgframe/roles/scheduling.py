"""The scheduler's role: between the front's channel and the worker's, once the model is loaded."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from sgframe.interfaces.grammar import Vocabulary
from sgframe.interfaces.transport import Transport
from sgframe.journal import Journal, RecordedScheduler
from sgframe.letter import FRONT_CHANNEL, WORKER_CHANNEL, Letter, SchedulingSpec
from sgframe.messages import Loaded
from sgframe.pulse import Pulse
from sgframe.scheduler.limits import LeaseLimits, Limits
from sgframe.scheduler.loop import SchedulerLoop
from sgframe.scheduler.report import Report
from sgframe.scheduler.scheduler import Scheduler
from sgframe.scheduling import GuidesSpec, SchedulerSpec, SpeculationSpec, build
from sgframe.settling import settle


def schedule(letter: Letter, scheduling: SchedulingSpec, transport: Transport, pulse: Pulse) -> None:
    """Schedule until the front is gone."""
    front = transport.connect(FRONT_CHANNEL)
    worker = transport.listen(WORKER_CHANNEL)
    loop = SchedulerLoop(transport, front, worker, pulse, overlap=scheduling.overlap)
    loaded = loop.wait_until_loaded()
    guides = None
    if scheduling.grammars:
        told = loop.receive_vocabulary()
        vocabulary = Vocabulary(told.tokens, told.stop_ids, told.tokenizer_json).resized(loaded.vocab_size)
        guides = GuidesSpec(scheduling.grammars, vocabulary, scheduling.jump_forward)
        pulse.phase("preparing the grammars")
    scheduler = _build_scheduler(letter, scheduling, loaded, guides)
    if not transport.in_process:
        settle()
    loop.run(loaded, scheduler, Report(letter.log.interval))


def _build_scheduler(
    letter: Letter, scheduling: SchedulingSpec, loaded: Loaded, guides: GuidesSpec | None
) -> Scheduler:
    executor = letter.executor
    spec = SchedulerSpec(
        limits=Limits(
            slots=loaded.slots,
            max_running=executor.max_rows,
            max_step_tokens=executor.max_step_tokens,
            page_size=loaded.page_size,
            leases=LeaseLimits(
                scheduling.max_leases, int(loaded.slots * scheduling.lease_share), scheduling.lease_seconds
            ),
        ),
        cache=letter.choices["cache"],
        policy=letter.choices["policy"],
        admission=scheduling.admission,
        guides=guides,
        speculation=SpeculationSpec(letter.choices["speculator"], loaded.vocab_size, scheduling.wide_step),
    )
    if not scheduling.journal:
        return build(spec, Scheduler, scheduling.shadow)
    journal = Journal(Path(scheduling.journal), scheduling.journal_bytes, spec)
    return build(spec, partial(RecordedScheduler, journal), scheduling.shadow)
