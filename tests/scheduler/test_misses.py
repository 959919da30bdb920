"""Why did it miss? Every request is told how much was found and why not more."""

from __future__ import annotations

from scheduler_bench import Bench

from sgframe.messages import CacheReport
from sgframe.sampling import TokenSampling

PROMPT = list(range(20))


def report(bench: Bench, id: int) -> CacheReport:
    reports = [output.cache for output in bench.taken if output.id == id and output.cache is not None]
    assert len(reports) == 1
    return reports[0]


def after(prompt: list[int], **options: object) -> Bench:
    """A bench that has served ``prompt``."""
    bench = Bench(max_step_tokens=64, **options)  # type: ignore[arg-type]
    bench.add(1, prompt, max_tokens=1)
    bench.run()
    return bench


def test_never_seen() -> None:
    assert report(after(PROMPT), 1) == CacheReport(0, "never_seen")


def test_the_last_token_is_always_computed() -> None:
    bench = after(PROMPT)
    bench.add(2, PROMPT, max_tokens=1)
    bench.run()
    assert report(bench, 2) == CacheReport(19, "last_token")


def test_prompt_logprobs() -> None:
    bench = after(PROMPT)
    bench.add(2, PROMPT, max_tokens=1, sampling=TokenSampling(seed=0, prompt_logprobs=0))
    bench.run()
    assert report(bench, 2) == CacheReport(0, "prompt_logprobs")


def test_a_page_floor() -> None:
    bench = after(PROMPT[:18], page_size=16)
    bench.add(2, PROMPT[:18], max_tokens=1)
    bench.run()
    assert report(bench, 2) == CacheReport(16, "page_floor")


def test_another_namespace() -> None:
    bench = after(PROMPT)
    bench.add(2, PROMPT, max_tokens=1, namespace=(("salt", "x"),))
    bench.run()
    assert report(bench, 2) == CacheReport(0, "namespace")


def test_evicted_by_whom_and_when() -> None:
    bench = after(PROMPT)
    bench.scheduler.memory.pool.give_back(bench.scheduler.memory.cache.evict(20))
    evicted_at = bench.clock.now
    bench.step()
    bench.add(2, PROMPT, max_tokens=1)
    bench.step()
    assert report(bench, 2) == CacheReport(0, "evicted", "lru", bench.clock.now - evicted_at)


def test_a_flush_is_no_eviction() -> None:
    bench = after(PROMPT)
    bench.scheduler.flush()
    bench.add(2, PROMPT, max_tokens=1)
    bench.step()
    assert report(bench, 2).evicted_by == "flush"
    assert bench.scheduler.stats().evicted_tokens == 0


def test_a_resumed_request_is_reported_once() -> None:
    bench = Bench(slots=24, max_running=4, max_step_tokens=16)
    for id in (1, 2, 3, 4):
        bench.add(id, [id] * 3, max_tokens=18)
    bench.run()
    assert bench.scheduler.counters.retractions > 0
    assert [report(bench, id).reason for id in (1, 2, 3, 4)] == ["never_seen"] * 4
