"""Prometheus metrics of one server, in a registry of its own: the scheduler's figures and what clients experience."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sgframe.front.compiler import CompilerStats
from sgframe.front.outputs import Delta
from sgframe.statistics import SchedulerStats, ShadowStats

_LATENCY = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_INTERVAL = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5)

_COUNTERS = {
    "prompt_tokens": "Prompt tokens of admitted requests.",
    "cached_tokens": "Prompt tokens whose KV was found in the cache.",
    "generated_tokens": "Output tokens, sampled or forced.",
    "forced_tokens": "Output tokens that a grammar wrote alone.",
    "guessed_tokens": "Tokens that a speculator guessed and a step verified.",
    "accepted_tokens": "Of these, tokens that proved right.",
    "evicted_tokens": "Tokens whose KV the cache gave up for others.",
    "retractions": "Running requests sent back to wait because KV slots ran out.",
    "leases_revoked": "Prefixes of programs given up for want of memory, room or time.",
}

_SHADOW_COUNTERS = {
    "prompt_tokens": "Prompt tokens of requests that service and shadow have admitted.",
    "cached_tokens": "Of these, tokens found in the shadow's cache.",
    "service_cached_tokens": "Of these, tokens found in the service's cache.",
}
_SHADOW_GAUGES = {
    "overtaken": "Most tokens that a request had been overtaken by when the shadow admitted it.",
    "service_overtaken": "Most tokens that a request had been overtaken by when the service admitted it.",
}


class Metrics:
    """The scheduler's and the compiler's figures, and how many replicas are in which state, are read at each scrape."""

    def __init__(
        self,
        read_stats: Callable[[], SchedulerStats],
        read_compiler: Callable[[], CompilerStats],
        read_replicas: Callable[[], Mapping[str, int]],
    ) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Scheduler(read_stats))
        self._registry.register(_Compiler(read_compiler))
        self._registry.register(_Replicas(read_replicas))
        self.finished = Counter(
            "sgframe_outputs",
            "Outputs that ended, by finish reason: stop, length, disconnect, refused, error.",
            ["finish_reason"],
            registry=self._registry,
        )
        self.first_token = Histogram(
            "sgframe_time_to_first_token_seconds",
            "From the request's arrival to an output's first token.",
            buckets=_LATENCY,
            registry=self._registry,
        )
        self.inter_token = Histogram(
            "sgframe_inter_token_latency_seconds",
            "Between two tokens of one output.",
            buckets=_INTERVAL,
            registry=self._registry,
        )
        self.whole = Histogram(
            "sgframe_output_latency_seconds",
            "From the request's arrival to an output's last token.",
            buckets=_LATENCY,
            registry=self._registry,
        )

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class Stopwatch:
    """Times the outputs of one request and reports them to ``metrics``; started when made."""

    def __init__(self, metrics: Metrics, outputs: int) -> None:
        self._metrics = metrics
        self._start = time.perf_counter()
        self._last: dict[tuple[int, int], float] = {}
        self._open = outputs

    def seen(self, prompt: int, delta: Delta) -> None:
        """A piece of output ``delta.index`` of ``prompt`` has come. Tokens that come together share the wait."""
        now = time.perf_counter()
        if delta.tokens:
            last = self._last.get((prompt, delta.index))
            if last is None:
                self._metrics.first_token.observe(now - self._start)
            else:
                for _ in delta.tokens:
                    self._metrics.inter_token.observe((now - last) / len(delta.tokens))
            self._last[prompt, delta.index] = now
        if delta.finish_reason:
            self._metrics.whole.observe(now - self._start)
            self._metrics.finished.labels(delta.finish_reason).inc()
            self._open -= 1

    def cut(self, reason: str) -> None:
        """The outputs that have not finished never will."""
        self._metrics.finished.labels(reason).inc(self._open)
        self._open = 0


class _Scheduler(Collector):
    def __init__(self, read_stats: Callable[[], SchedulerStats]) -> None:
        self._read_stats = read_stats

    def collect(self) -> Iterable[Metric]:
        stats = self._read_stats()
        slots = GaugeMetricFamily("sgframe_kv_slots", "KV slots by state.", labels=["state"])
        for state in ("free", "cached", "leased"):
            slots.add_metric([state], getattr(stats, f"slots_{state}"))
        yield slots
        yield GaugeMetricFamily("sgframe_requests_running", "Requests in the batch.", value=stats.running)
        yield GaugeMetricFamily("sgframe_requests_waiting", "Requests waiting to be admitted.", value=stats.waiting)
        yield GaugeMetricFamily("sgframe_leases", "Prefixes kept for programs.", value=stats.leases)
        yield GaugeMetricFamily("sgframe_lease_tokens", "Tokens of these prefixes.", value=stats.lease_tokens)
        for name, help_text in _COUNTERS.items():
            yield CounterMetricFamily(f"sgframe_{name}", help_text, value=getattr(stats, name))
        if stats.shadow is not None:
            yield from _shadow(stats.shadow)


class _Compiler(Collector):
    def __init__(self, read_stats: Callable[[], CompilerStats]) -> None:
        self._read_stats = read_stats

    def collect(self) -> Iterable[Metric]:
        stats = self._read_stats()
        constraints = CounterMetricFamily(
            "sgframe_constraints",
            "Constraints by what became of them: compiled, refused, failed, remembered (compiled for another request).",
            labels=["outcome"],
        )
        for outcome in ("compiled", "refused", "failed", "remembered"):
            constraints.add_metric([outcome], getattr(stats, outcome))
        yield constraints
        yield CounterMetricFamily(
            "sgframe_compile_seconds", "Time in which constraints were compiled or waited for it.", value=stats.seconds
        )
        yield GaugeMetricFamily(
            "sgframe_constraints_pending", "Constraints being compiled, or waiting for it.", value=stats.pending
        )


class _Replicas(Collector):
    def __init__(self, read_states: Callable[[], Mapping[str, int]]) -> None:
        self._read_states = read_states

    def collect(self) -> Iterable[Metric]:
        replicas = GaugeMetricFamily(
            "sgframe_replicas", "Replicas by state; one that is lost is started again.", labels=["state"]
        )
        for state, count in self._read_states().items():
            replicas.add_metric([state], count)
        yield replicas


def _shadow(stats: ShadowStats) -> Iterable[Metric]:
    names = ["policy", "cache"]
    for name, help_text in _SHADOW_COUNTERS.items():
        counter = CounterMetricFamily(f"sgframe_shadow_{name}", help_text, labels=names)
        counter.add_metric([stats.policy, stats.cache], getattr(stats, name))
        yield counter
    for name, help_text in _SHADOW_GAUGES.items():
        gauge = GaugeMetricFamily(f"sgframe_shadow_{name}_tokens", help_text, labels=names)
        gauge.add_metric([stats.policy, stats.cache], getattr(stats, name))
        yield gauge
