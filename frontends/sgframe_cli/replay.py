"""``sgframe replay``: make a recorded scheduler's decisions again."""

from __future__ import annotations

from pathlib import Path

import click

from sgframe.replay import Difference, Replay
from sgframe.replay import replay as run_replay


@click.command()
@click.argument("journal", type=click.Path(path_type=Path), metavar="FILE")
@click.option(
    "--until", type=click.IntRange(min=0), metavar="STEP", help="Stop at this step and show who runs and waits."
)
def replay(journal: Path, until: int | None) -> None:
    """Replay a journal that was recorded with --journal FILE: the scheduler alone, without model or device.

    Every plan is compared with the recorded one. Exit code 1 if one differs.
    """
    done = run_replay(journal, until)
    if done.difference is not None:
        raise click.ClickException(_describe(done.difference))
    if until is not None and until >= done.plans:
        raise click.UsageError(f"--until {until}: the journal ends before; it has {done.plans} steps, counted from 0")
    click.echo(f"{done.requests} requests, {done.plans} plans, every one as recorded")
    if until is not None:
        _show(done)


def _describe(difference: Difference) -> str:
    if difference.batch is None:
        return f"step {difference.step}: a batch was recorded, and nothing is planned now"
    batch = difference.batch
    recorded = f"digest {difference.recorded:016x}" if difference.recorded else "no batch"
    return (
        f"step {batch.step}: {recorded} was recorded; planned now: rows {list(batch.rows)}, counts {list(batch.counts)}, "
        f"admitted {[row.row for row in batch.admitted]}, released {list(batch.released)}"
    )


def _show(done: Replay) -> None:
    scheduler = done.scheduler
    stats = scheduler.stats()
    click.echo(
        f"at {done.now:.3f} s: {stats.running} running, {stats.waiting} waiting; slots: {stats.slots_free} free, "
        f"{stats.slots_cached} cached, {stats.slots_leased} leased"
    )
    for request in scheduler.running:
        click.echo(
            f"  runs: request {request.id}, row {request.row}, {request.computed} of {len(request.tokens)} tokens computed, "
            f"{request.matched} from the cache"
        )
    for request in scheduler.waiting:
        click.echo(f"  waits: request {request.id}, {len(request.tokens)} tokens, overtaken by {request.overtaken}")
