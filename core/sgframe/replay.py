"""Runs a scheduler alone on a journal, and holds each of its plans against the one that was made in service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from sgframe.journal import Entry, Planned, digest, read_journal
from sgframe.messages import (
    AbortRequest,
    FlushCache,
    GenerateRequest,
    ReleaseLeases,
    ScheduleBatch,
    StepFailed,
    StepOutput,
    TokenOutput,
)
from sgframe.scheduler.scheduler import Scheduler
from sgframe.scheduling import build


@dataclass(frozen=True, slots=True)
class Difference:
    """The first plan that came out otherwise: the digest that was recorded (0: there was no batch), and what was planned."""

    step: int
    recorded: int
    batch: ScheduleBatch | None


@dataclass(slots=True)
class Replay:
    """How far a replay came. ``scheduler`` stands as it stood in service at that moment."""

    scheduler: Scheduler
    requests: int = 0
    plans: int = 0
    now: float = 0.0
    difference: Difference | None = None


def replay(
    path: Path,
    until: int | None = None,
    on_entry: Callable[[Entry], None] = lambda _: None,
    on_output: Callable[[TokenOutput], None] = lambda _: None,
) -> Replay:
    """Replay the journal at ``path``, up to its end, the plan of step ``until`` or the first difference.

    ``on_entry`` hears each entry once it was replayed, ``on_output`` what the front was told.

    Raises ConfigError when it is no journal, PluginError when a part it names is not installed here.
    """
    spec, entries = read_journal(path)
    done = Replay(build(spec, Scheduler))
    for entry in entries:
        _feed(done, entry)
        for output in done.scheduler.outbox:
            on_output(output)
        done.scheduler.outbox.clear()
        on_entry(entry)
        if done.difference or (isinstance(entry, Planned) and entry.step == until):
            break
    return done


def _feed(done: Replay, entry: Entry) -> None:
    scheduler = done.scheduler
    match entry:
        case GenerateRequest():
            done.requests += 1
            scheduler.add(entry)
        case AbortRequest(id=request_id, cause=cause):
            scheduler.abort(request_id, cause)
        case ReleaseLeases(leases=leases):
            scheduler.release_leases(leases)
        case FlushCache():
            scheduler.flush()
        case Planned():
            batch = scheduler.plan(entry.now)
            done.plans += batch is not None
            done.now = entry.now
            if (0 if batch is None else digest(batch)) != entry.digest:
                done.difference = Difference(entry.step, entry.digest, batch)
        case StepOutput():
            scheduler.apply(entry)
        case StepFailed(reason=reason):
            scheduler.fail(reason)
        case _:
            assert_never(entry)
