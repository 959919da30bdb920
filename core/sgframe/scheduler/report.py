"""The scheduler's log lines: one per batch that admits prompts, one per interval while tokens are generated."""

from __future__ import annotations

import logging

from sgframe.messages import ScheduleBatch
from sgframe.scheduler.scheduler import Scheduler
from sgframe.statistics import ShadowStats

log = logging.getLogger(__name__)


class Report:
    """Writes what happened to the log. ``interval`` is in seconds."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._last_time = 0.0
        self._last_tokens = 0

    def planned(self, batch: ScheduleBatch) -> None:
        """When a batch was sent."""
        if batch.admitted:
            self._prefill(batch)

    def step(self, scheduler: Scheduler, now: float) -> None:
        """After each step; ``now`` on a monotonic clock in seconds."""
        if now - self._last_time >= self._interval:
            self._decode(scheduler, now)

    def idle(self, scheduler: Scheduler) -> None:
        """When the last request has ended: the accounts must balance. A mismatch is logged and does not end the service."""
        try:
            scheduler.memory.balance(scheduler.running)
        except AssertionError as error:
            log.error("KV slots do not add up: %s", error)

    def _prefill(self, batch: ScheduleBatch) -> None:
        cached = sum(len(row.slots) for row in batch.admitted)
        known = sum(len(row.tokens) for row in batch.admitted)
        log.info(
            "prefill: %d requests, %d new tokens, %d cached tokens, hit rate %.1f %%",
            len(batch.admitted),
            known - cached,
            cached,
            100 * cached / known,
        )

    def _decode(self, scheduler: Scheduler, now: float) -> None:
        stats = scheduler.stats()
        generated = stats.generated_tokens - self._last_tokens
        rate = generated / (now - self._last_time) if self._last_time else 0.0
        self._last_time, self._last_tokens = now, stats.generated_tokens
        if rate:
            log.info(
                "decode: %d running, %d waiting, %.1f tokens/s, slots: %d free, %d cached, %d leased",
                stats.running,
                stats.waiting,
                rate,
                stats.slots_free,
                stats.slots_cached,
                stats.slots_leased,
            )
            if stats.guessed_tokens:
                log.info(
                    "speculation: %d tokens guessed, %.1f %% of them right",
                    stats.guessed_tokens,
                    100 * stats.accepted_tokens / stats.guessed_tokens,
                )
            if stats.shadow is not None and stats.shadow.prompt_tokens:
                self._shadow(stats.shadow)

    def _shadow(self, stats: ShadowStats) -> None:
        log.info(
            "shadow %s/%s: hit rate %.1f %% (service: %.1f %%)",
            stats.policy,
            stats.cache,
            100 * stats.cached_tokens / stats.prompt_tokens,
            100 * stats.service_cached_tokens / stats.prompt_tokens,
        )
