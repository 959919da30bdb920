"""What each process of an engine is told at its start, from the settings and the parts that were chosen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sgframe.assembly.choice import Choice, Choices
from sgframe.assembly.settings import Settings
from sgframe.interfaces.backend import ExecutorSpec, Ranks
from sgframe.interfaces.source import Checkpoint
from sgframe.letter import SCHEDULER, WORKER, Letter, SchedulingSpec, replica_name
from sgframe.logs import LogSettings


def scheduler_letter(
    settings: Settings, choices: Choices, checkpoint: Checkpoint, grammars: Mapping[str, Choice], replica: int = 0
) -> Letter:
    """For the scheduler of a replica; ``grammars`` are those that requests may name."""
    scheduling = SchedulingSpec(
        overlap=settings.overlap,
        max_leases=settings.max_leases,
        lease_share=settings.lease_share,
        lease_seconds=settings.lease_seconds,
        grammars=dict(grammars),
        jump_forward=settings.jump_forward,
        admission=settings.admission,
        wide_step=settings.wide_step,
        journal=str(Path(settings.journal).absolute()) if settings.journal else "",
        journal_bytes=settings.journal_bytes,
        shadow=choices.shadow,
    )
    return _letter(SCHEDULER, settings, choices, checkpoint, replica, scheduling=scheduling)


def worker_letters(settings: Settings, choices: Choices, checkpoint: Checkpoint, replica: int = 0) -> list[Letter]:
    """For the workers of a replica that are started from this machine, by rank."""
    first = settings.node_rank * settings.local_ranks
    return [
        _letter(f"{WORKER}{rank}", settings, choices, checkpoint, replica, ranks=_ranks(settings, rank))
        for rank in range(first, first + settings.local_ranks)
    ]


def _ranks(settings: Settings, rank: int) -> Ranks:
    return Ranks(
        rank=rank,
        size=settings.tp_size,
        nodes=settings.nnodes,
        address=settings.dist_addr or "",
        step_timeout=settings.step_timeout,
        digest_interval=settings.digest_interval,
    )


def _letter(
    name: str,
    settings: Settings,
    choices: Choices,
    checkpoint: Checkpoint,
    replica: int,
    *,
    ranks: Ranks = Ranks(),  # noqa: B008 (frozen)
    scheduling: SchedulingSpec | None = None,
) -> Letter:
    return Letter(
        name=replica_name(name, replica, settings.replicas),
        replica=replica,
        replicas=settings.replicas,
        folder="",
        choices={seam.value: choice for seam, choice in choices.items()},
        executor=ExecutorSpec(
            checkpoint=checkpoint,
            dtype=settings.dtype,
            max_rows=settings.max_running,
            max_step_tokens=settings.max_step_tokens,
            context_length=settings.context_length,
            kv_slots=settings.kv_slots,
            kv_bytes=settings.kv_bytes,
        ),
        ranks=ranks,
        scheduling=scheduling,
        log=LogSettings(settings.log_level, settings.log_json, settings.log_interval),
    )
