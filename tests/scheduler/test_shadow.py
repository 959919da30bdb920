"""A shadow sees what the service sees, decides for itself, and changes nothing."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from scheduler_bench import Bench, CheckingWorker

from sgframe.assembly.assemble import configure
from sgframe.assembly.providers import PluginSettings, Seam
from sgframe.clock import StepClock
from sgframe.interfaces.cache import CacheView
from sgframe.interfaces.policy import Policy, Waiting
from sgframe.journal import digest
from sgframe.messages import GenerateRequest, ints
from sgframe.sampling import TokenSampling
from sgframe.scheduler.limits import Limits
from sgframe.scheduler.report import Report
from sgframe.scheduler.scheduler import Scheduler
from sgframe.scheduler.shadow import Shadow, Simulation
from sgframe.scheduling import SchedulerSpec, build
from sgframe.statistics import SchedulerStats, ShadowStats
from sgframe_basic.cache import NoCache
from sgframe_basic.policy import FirstComeFirstServed
from sgframe_radix import RadixSettings
from sgframe_radix.cache import RadixCache


class LastComeFirstServed(Policy):
    def order(self, waiting: Sequence[Waiting], cache: CacheView) -> Sequence[Waiting]:
        return waiting[::-1]


@dataclass
class Shade:
    """A shadow with a radix cache, and its insides."""

    policy: Policy = field(default_factory=lambda: FirstComeFirstServed(PluginSettings()))
    slots: int = 64
    page_size: int = 1

    def __post_init__(self) -> None:
        self.cache = RadixCache(RadixSettings(), page_size=self.page_size, clock=StepClock())
        self.simulation = Simulation(self.slots, self.page_size, self.cache, self.policy)
        self.shadow = Shadow("mine", "radix", self.simulation)

    def cached(self, tokens: Sequence[int]) -> int:
        return self.cache.peek(ints(tokens)).matched

    def figures(self) -> ShadowStats:
        stats = self.shadow.stats()
        assert stats is not None, "the shadow was dropped"
        return stats

    def hit(self) -> tuple[int, int]:
        """Prompt tokens and cached tokens."""
        return self.figures().prompt_tokens, self.figures().cached_tokens


# ------------------------------------------------------------------------------------------ hits


def test_a_prompt_that_came_before_is_found_in_the_shadow_s_own_cache() -> None:
    shade = Shade()
    bench = Bench(shadow=shade.shadow, cache=NoCache(PluginSettings(), page_size=1, clock=StepClock()))
    for id in (1, 2):
        bench.add(id, [1, 2, 3, 4, 5])
        bench.run()
    assert shade.hit() == (10, 4)
    assert shade.figures().service_cached_tokens == 0


def test_what_was_generated_is_found_by_the_next_turn() -> None:
    shade = Shade()
    bench = Bench(shadow=shade.shadow)
    bench.add(1, [1, 2, 3], max_tokens=4)
    bench.run()
    bench.add(2, [1, 2, 3, *bench.outputs[1], 9], max_tokens=4)
    bench.run()
    assert shade.hit() == (11, 6)  # the last token of an output is never computed
    assert shade.figures().service_cached_tokens == 6


def test_two_salts_share_nothing() -> None:
    shade = Shade()
    bench = Bench(shadow=shade.shadow)
    for id, salt in enumerate(("a", "b"), 1):
        bench.add(id, [1, 2, 3], namespace=(("salt", salt),))
        bench.run()
    assert shade.hit() == (6, 0)


def test_a_flush_empties_the_shadow_too() -> None:
    shade = Shade()
    bench = Bench(shadow=shade.shadow)
    bench.add(1, [1, 2, 3])
    bench.run()
    bench.scheduler.flush()
    assert shade.cached([1, 2, 3]) == 0


def test_a_smaller_memory_evicts_what_the_service_keeps() -> None:
    shade = Shade(slots=20)
    bench = Bench(slots=64, shadow=shade.shadow)
    for id, prompt in enumerate(([1] * 10, [2] * 12, [1] * 10), 1):
        bench.add(id, prompt, max_tokens=1)
        bench.run()
    assert (shade.figures().cached_tokens, shade.figures().service_cached_tokens) == (8, 9)


# ------------------------------------------------------------------------------------------ order


def test_the_shadow_admits_in_its_own_order_and_as_many_as_the_service() -> None:
    shade = Shade(LastComeFirstServed())
    bench = Bench(max_running=1, shadow=shade.shadow)
    bench.add(1, [1] * 3, max_tokens=1)
    bench.add(2, [2] * 3, max_tokens=1)
    bench.step()
    assert (shade.cached([1] * 3), shade.cached([2] * 3)) == (0, 3)
    bench.run()
    assert (shade.cached([1] * 3), shade.cached([2] * 3)) == (3, 3)


def test_a_request_counts_once_both_have_admitted_it() -> None:
    shade = Shade(LastComeFirstServed())
    bench = Bench(max_running=1, shadow=shade.shadow)
    bench.add(1, [1] * 3, max_tokens=1)
    bench.add(2, [2] * 5, max_tokens=1)
    bench.step()
    assert shade.hit() == (0, 0)
    bench.run()
    assert shade.hit() == (8, 0)


def test_both_say_how_far_the_most_patient_was_overtaken() -> None:
    shade = Shade(LastComeFirstServed())
    bench = Bench(max_running=1, shadow=shade.shadow)
    for id in (1, 2, 3):
        bench.add(id, [id] * 5, max_tokens=3)
    bench.run()
    assert shade.figures().service_overtaken == 0
    assert shade.figures().overtaken == (5 + 2) + 5  # the second as far as it was computed, the third up to its prompt


# ------------------------------------------------------------------------------------------ ends


def test_an_abort_while_it_waits_for_both_leaves_nothing_behind() -> None:
    shade = Shade()
    bench = Bench(max_running=1, shadow=shade.shadow)
    bench.add(1, [1] * 3, max_tokens=3)
    bench.add(2, [2] * 3)
    bench.step()
    bench.scheduler.abort(2, "disconnect")
    bench.run()
    assert shade.hit() == (3, 0)
    assert shade.cached([2] * 3) == 0


def test_an_abort_of_one_that_only_the_shadow_had_admitted_lets_another_take_its_place() -> None:
    shade = Shade(LastComeFirstServed())
    bench = Bench(max_running=1, shadow=shade.shadow)
    bench.add(1, [1] * 3, max_tokens=9)
    bench.add(2, [2] * 3)
    bench.step()
    bench.scheduler.abort(2, "disconnect")
    bench.step()
    assert shade.hit() == (3, 0)
    assert shade.cached([1] * 3) == 3
    bench.run()


def test_while_a_request_runs_its_tokens_are_not_evicted_and_afterwards_they_may_be() -> None:
    shade = Shade()
    bench = Bench(shadow=shade.shadow)
    bench.add(1, [1, 2, 3], max_tokens=3)
    bench.step()
    assert (shade.cache.stats().locked, shade.cache.stats().evictable) == (3, 0)
    bench.run()
    assert (shade.cache.stats().locked, shade.cache.stats().evictable) == (0, 5)


def test_a_retracted_request_leases_nothing_while_it_waits() -> None:
    shade = Shade(slots=24)
    bench = Bench(slots=24, shadow=shade.shadow)
    for id in range(1, 5):
        bench.add(id, [id] * 3, max_tokens=18)
    bench.run()
    assert bench.scheduler.counters.retractions > 0
    assert shade.hit() == (12, 0)
    assert shade.cache.stats().locked == 0


def test_a_prompt_too_long_for_the_pool_never_reaches_the_shadow() -> None:
    shade = Shade()
    bench = Bench(slots=8, shadow=shade.shadow)
    bench.add(1, [1] * 9)
    bench.run()
    assert shade.hit() == (0, 0)


# ------------------------------------------------------------------------------------------ a lively service


def choices(**values: Any) -> Any:
    return configure({"policy": "lpm", "cache": "radix", **values}).choose()


def lively(shadow: dict[str, Any] | None, page_size: int, seed: int) -> tuple[list[int], SchedulerStats]:
    """Arrivals, aborts, flushes, retractions, failed steps, overlap: the digest of every batch, and the last figures."""
    chosen = choices(shadow=shadow)
    spec = SchedulerSpec(Limits(96, 4, 32, page_size), chosen[Seam.CACHE], chosen[Seam.POLICY], "ratio")
    scheduler = build(spec, Scheduler, chosen.shadow)
    random, worker = Random(seed), CheckingWorker(page_size)
    sent: deque[Any] = deque()
    digests = []
    for step in range(2000):
        if step >= 300 and scheduler.idle and not sent:
            break
        if step < 300 and random.random() < 0.3:
            prompt = ints([random.randint(0, 1)] * random.randint(1, 40))
            scheduler.add(GenerateRequest(step, prompt, random.randint(0, 40), ints([7]), TokenSampling(seed=0)))
        if random.random() < 0.05:
            scheduler.abort(step - random.randint(0, 40), "disconnect")
        if random.random() < 0.02:
            scheduler.flush()
        if (batch := scheduler.plan(step / 10)) is not None:
            digests.append(digest(batch))
            sent.append(batch)
        if len(sent) > (batch is not None):
            output = worker.execute(sent.popleft())
            scheduler.fail("boom") if random.random() < 0.01 else scheduler.apply(output)
        scheduler.outbox.clear()
        scheduler.check()
    assert scheduler.idle
    return digests, scheduler.stats()


@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "shadow",
    [
        {},
        {"policy": "fcfs", "plugin": {"radix": {"eviction": "slru"}}},
        {"policy": "dfs-weight", "cache": "hash-chain"},
        {"policy": "priority", "cache": "none"},
    ],
    ids=["same", "fcfs-slru", "dfs-chain", "priority-none"],
)
def test_the_service_plans_the_same_with_and_without_a_shadow(
    shadow: dict[str, Any], page_size: int, seed: int
) -> None:
    alone, _ = lively(None, page_size, seed)
    beside, stats = lively(shadow, page_size, seed)
    assert beside == alone
    assert stats.retractions > 0 or page_size > 1
    assert stats.shadow is not None, "the shadow was dropped"
    assert (stats.shadow.prompt_tokens, stats.shadow.service_cached_tokens) == (
        stats.prompt_tokens,
        stats.cached_tokens,
    )
    assert (stats.shadow.cached_tokens > 0) == (shadow.get("cache") != "none")


@pytest.mark.parametrize("seed", range(3))
def test_nothing_stays_in_a_shadow_once_the_service_is_idle(seed: int) -> None:
    shade = Shade(LastComeFirstServed(), slots=96)
    bench = Bench(slots=96, max_step_tokens=32, overlap=True, shadow=shade.shadow)
    random = Random(seed)
    for id in range(1, 80):
        bench.add(id, [random.randint(0, 1)] * random.randint(1, 40), max_tokens=random.randint(0, 40))
        for _ in range(random.randint(0, 6)):
            bench.step()
        bench.scheduler.abort(id - random.randint(0, 20), "disconnect")
    bench.run()
    assert shade.figures().prompt_tokens == bench.scheduler.counters.prompt_tokens
    assert shade.cache.stats().locked == 0
    assert shade.simulation.pairs == {}


def test_a_shadow_of_the_same_parts_fares_as_the_service_does() -> None:
    """Chats of many turns in a memory that holds half of them: the figure stands beside the service's to be compared."""
    chosen = choices(shadow={})
    spec = SchedulerSpec(Limits(1200, 8, 256), chosen[Seam.CACHE], chosen[Seam.POLICY], "ratio")
    scheduler = build(spec, Scheduler, chosen.shadow)
    random, worker = Random(5), CheckingWorker()
    chats = [[random.randint(0, 48) for _ in range(30)] for _ in range(24)]
    speaking: dict[int, int] = {}
    for id in range(240):
        chat = random.choice([k for k in range(len(chats)) if k not in speaking.values()])
        speaking[id] = chat
        prompt = ints(chats[chat])
        scheduler.add(GenerateRequest(id, prompt, random.randint(1, 20), ints(), TokenSampling(seed=0)))
        while len(speaking) > 12 or (id == 239 and speaking):
            batch = scheduler.plan(scheduler.clock.now + 1)
            assert batch is not None
            scheduler.apply(worker.execute(batch))
            for output in scheduler.outbox:
                chats[speaking[output.id]].extend(output.tokens)
                if output.finish is not None:
                    chats[speaking.pop(output.id)].append(random.randint(0, 48))
            scheduler.outbox.clear()
    stats = scheduler.stats()
    assert stats.shadow is not None
    assert 0.2 < stats.cached_tokens / stats.prompt_tokens < 0.9
    assert stats.shadow.cached_tokens == pytest.approx(stats.cached_tokens, rel=0.05)


# ------------------------------------------------------------------------------------------ faults


class Raising(Policy):
    def order(self, waiting: Sequence[Waiting], cache: CacheView) -> Sequence[Waiting]:
        raise RuntimeError("no idea")


class Dropping(Policy):
    def order(self, waiting: Sequence[Waiting], cache: CacheView) -> Sequence[Waiting]:
        return waiting[1:]


@pytest.mark.parametrize(("policy", "words"), [(Raising(), "no idea"), (Dropping(), "the policy dropped request 1")])
def test_a_fault_in_the_shadow_is_logged_once_and_ends_it_alone(
    policy: Policy, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    shade = Shade(policy)
    bench = Bench(shadow=shade.shadow)
    for id in (1, 2, 3):
        bench.add(id, [id] * 3, max_tokens=2)
    bench.run()
    assert [finish.reason for finish in bench.finished.values()] == ["length"] * 3
    (record,) = caplog.records
    assert record.getMessage() == "the shadow mine/radix failed and is dropped; the service goes on"
    assert words in caplog.text
    assert bench.scheduler.stats().shadow is None


def test_a_shadow_that_loses_slots_is_dropped_when_it_is_checked(caplog: pytest.LogCaptureFixture) -> None:
    shade = Shade()
    bench = Bench(shadow=shade.shadow)
    bench.add(1, [1] * 3, max_tokens=3)
    bench.step()
    shade.simulation.memory.pool.extend(ints(), 1)
    bench.run()
    assert bench.finished[1].reason == "length"
    assert "failed and is dropped" in caplog.text
    assert bench.scheduler.stats().shadow is None


# ------------------------------------------------------------------------------------------ the log


def test_the_log_holds_the_two_hit_rates_side_by_side(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    shade = Shade()
    bench = Bench(shadow=shade.shadow, cache=NoCache(PluginSettings(), page_size=1, clock=StepClock()))
    report = Report(interval=1)
    for now in (1, 3):
        bench.add(now, [1, 2, 3, 4, 5])
        bench.run()
        report.step(bench.scheduler, now)
    assert "shadow mine/radix: hit rate 40.0 % (service: 0.0 %)" in caplog.messages


def test_without_a_shadow_the_log_says_nothing_of_one(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bench = Bench()
    report = Report(interval=1)
    for now in (1, 3):
        bench.add(now, [1, 2, 3, 4, 5])
        bench.run()
        report.step(bench.scheduler, now)
    assert "decode:" in caplog.text
    assert "shadow" not in caplog.text
