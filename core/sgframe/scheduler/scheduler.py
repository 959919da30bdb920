"""The scheduler: which tokens of which requests are computed next, and who owns which KV slot.

Pure: no sockets, no clock, no randomness, no set is iterated; the same calls give the same batches. The loop around it
does the talking. Invariant at every step border: free + cached + owned by requests = all slots (see ``check``).
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass

from sgframe.interfaces.cache import Cache
from sgframe.interfaces.policy import Policy
from sgframe.messages import (
    Finish,
    GenerateRequest,
    Ints,
    Logprobs,
    Rewrite,
    ScheduleBatch,
    SchedulerStats,
    StepOutput,
    TokenOutput,
    ints,
)
from sgframe.scheduler.admission import arrival_order, headroom, uncomputed
from sgframe.scheduler.batch import BatchBuilder, Scheduled
from sgframe.scheduler.request import Request
from sgframe.scheduler.slots import SlotPool


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a step.

    Attributes:
        slots: KV slots in all.
        max_running: rows that run at once.
        max_step_tokens: tokens computed in one step; at least ``max_running``, so that every row can decode.
        headroom: output tokens of each running request for which admission keeps slots free; too few cause retractions,
            too many leave rows empty.
    """

    slots: int
    max_running: int
    max_step_tokens: int
    headroom: int = 32


@dataclass(slots=True)
class Counters:
    """Sums since the start."""

    steps: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    retractions: int = 0


class Scheduler:
    """Holds every request from arrival to its end. Each step is ``plan`` → (the worker computes) → ``apply`` or ``fail``.

    Outputs collect in ``outbox``; whoever drives the scheduler takes them away.
    """

    def __init__(self, limits: Limits, cache: Cache, policy: Policy) -> None:
        self.limits = limits
        self.cache = cache
        self.policy = policy
        self.pool = SlotPool(limits.slots)
        self.waiting: list[Request] = []  # in order of arrival
        self.running: list[Request] = []  # in order of admission
        self.outbox: list[TokenOutput] = []
        self.counters = Counters()
        self._requests: dict[int, Request] = {}
        self._aborted: list[Request] = []
        self._free_rows = list(range(limits.max_running - 1, -1, -1))
        self._next = BatchBuilder()
        self._in_flight: list[Scheduled] = []

    # -------------------------------------------------------------------------------------------- arrivals

    def add(self, message: GenerateRequest) -> None:
        """Queue a request; the door has made sure that it fits (see ``capacity``)."""
        request = Request.of(message)
        self._requests[request.id] = request
        insort(self.waiting, request, key=_id)

    def abort(self, request_id: int, cause: str) -> None:
        """Flag a request; it ends at the next ``plan``, when nothing of it is in flight. Unknown ids are ignored."""
        request = self._requests.get(request_id)
        if request is not None and not request.abort_cause:
            request.abort_cause = cause
            self._aborted.append(request)

    def flush(self) -> int:
        """Forget what is cached and not leased; returns how many tokens that were."""
        slots = self.cache.clear()
        self.pool.give_back(slots)
        return len(slots)

    @property
    def idle(self) -> bool:
        return not self._requests

    # -------------------------------------------------------------------------------------------- plan

    def plan(self) -> ScheduleBatch | None:
        """The next step's batch, or None when there is nothing to compute."""
        for request in self._aborted:
            if request.id in self._requests:
                self._end(request, Finish("abort", detail=request.abort_cause))
        self._aborted.clear()

        retracted = self._make_room_for_decoding()
        budget = self._schedule_running()
        if not retracted:
            self._admit(budget)
        if not self._next.scheduled:
            return None
        batch = self._next.finish(self.counters.steps)
        self.counters.steps += 1
        self._in_flight = self._next.scheduled
        self._next = BatchBuilder()
        return batch

    def _available(self) -> int:
        return self.pool.free + self.cache.stats().evictable

    def _make_room_for_decoding(self) -> bool:
        """Retract the youngest until each decoding row can have its slot. The oldest always goes on: so all get done."""
        retracted = False
        while len(self.running) > 1 and self._available() < sum(request.pending == 1 for request in self.running):
            self._retract(self.running[-1])
            retracted = True
        return retracted

    def _schedule_running(self) -> int:
        """Rows that decode first, then the next chunks of prompts; returns what is left of the token budget."""
        budget = self.limits.max_step_tokens
        decoding = [request for request in self.running if request.pending == 1]
        prefilling = [request for request in self.running if request.pending > 1]
        slots = self._take(len(decoding))
        for i, request in enumerate(decoding):
            self._next.compute(request, slots[i : i + 1])
        budget -= len(decoding)
        for request in prefilling:
            count = min(request.pending, budget, self._available())
            if count > 0:
                self._next.compute(request, self._take(count))
                budget -= count
        if prefilling and not self._next.scheduled:
            self._retract(self.running[-1])  # prompts hold all memory and none can go on: the next plan has room
            return self._schedule_running()
        return budget

    def _take(self, count: int) -> Ints:
        """``count`` free slots, at the expense of what is cached if need be."""
        if (shortage := count - self.pool.free) > 0:
            self.pool.give_back(self.cache.evict(shortage))
        return self.pool.take(count)

    def _admit(self, budget: int) -> None:
        """Take waiting requests in the policy's order until rows, tokens or memory run out. None is overtaken for size."""
        if not self.waiting or not self._free_rows or budget <= 0:
            return
        most = self.limits.headroom
        committed = sum(uncomputed(request) + headroom(request, most) for request in self.running)
        if self._available() <= committed:  # nobody fits: spare the policy the ordering
            return
        latest = -1
        for request in arrival_order(self.waiting, self.policy, self.cache):
            if not self._free_rows or budget <= 0:
                break
            lease = self.cache.match_prefix(request.tokens, request.namespace, request.match_limit)
            need = len(request.tokens) - len(lease) + headroom(request, most)
            available = self._available()
            if (self.running and committed + need > available) or available == 0:
                self.cache.release(lease)
                break
            request.lease = lease
            self._start(request)
            count = min(request.pending, budget, available)
            self._next.compute(request, self._take(count))
            budget -= count
            committed += need
            latest = max(latest, request.id)
        self.waiting = [request for request in self.waiting if request.row < 0]
        for request in self.waiting:
            request.passed_over += request.id < latest

    def _start(self, request: Request) -> None:
        """A waiting request with a lease gets a row and runs."""
        assert request.lease is not None
        matched = len(request.lease)
        request.row = self._free_rows.pop()
        request.slots = request.lease.slots[:]
        request.computed = matched
        if request.cached_tokens < 0:
            request.cached_tokens = min(matched, request.prompt_len)
            self.counters.prompt_tokens += request.prompt_len
            self.counters.cached_tokens += request.cached_tokens
        self.running.append(request)
        self._next.admit(request)

    # -------------------------------------------------------------------------------------------- apply

    def apply(self, output: StepOutput) -> None:
        """Take in what the batch in flight computed and sampled."""
        in_flight, self._in_flight = self._in_flight, []
        prompt_logprobs = {entry.row: entry for entry in output.prompt_logprobs}
        sampled = 0
        for scheduled in in_flight:
            request = scheduled.request
            request.computed += scheduled.count
            if scheduled.count > 1 or request.computed == request.prompt_len:
                self._share(request)
            if (entry := prompt_logprobs.get(request.row)) is not None:
                request.prompt_logprobs.extend(entry.entries[request.logprobs_from - entry.start :])
            if scheduled.samples:
                logprobs = output.logprobs[sampled] if output.logprobs else None
                self._append(request, output.tokens[sampled], logprobs)
                sampled += 1
            elif request.pending == 0:  # a prompt that asked for no output
                self._publish(request, (), None, Finish("length"))

    def fail(self, reason: str) -> None:
        """The batch in flight raised in the worker: its requests end, everything else goes on."""
        in_flight, self._in_flight = self._in_flight, []
        for scheduled in in_flight:
            self._end(scheduled.request, Finish("error", detail=reason), keep=False)

    def _append(self, request: Request, token: int, logprobs: Logprobs | None) -> None:
        if token < 0:
            detail = "the model's output was not finite (NaN or infinity)"
            return self._end(request, Finish("error", detail=detail), keep=False)
        request.tokens.append(token)
        self.counters.generated_tokens += 1
        finish = None
        if token in request.stop_ids:
            finish = Finish("stop", matched=token)
        elif request.remaining <= 0:
            finish = Finish("length")
        return self._publish(request, (token,), logprobs, finish)

    def _publish(
        self, request: Request, tokens: tuple[int, ...], logprobs: Logprobs | None, finish: Finish | None
    ) -> None:
        first = request.output_len == len(tokens)
        self.outbox.append(
            TokenOutput(
                id=request.id,
                tokens=ints(tokens),
                cached_tokens=request.cached_tokens,
                logprobs=None if logprobs is None else [logprobs],
                prompt_logprobs=request.prompt_logprobs if first and request.sampling.prompt_logprobs >= 0 else None,
                finish=finish,
            )
        )
        if finish is not None:
            self._remove(request)

    # -------------------------------------------------------------------------------------------- ownership

    def _share(self, request: Request) -> None:
        """Hand what is computed to the cache while the request runs, so that others can start from it."""
        assert request.lease is not None
        computed = request.computed
        insertion = self.cache.insert(request.lease, request.tokens[:computed], request.slots[:computed])
        if insertion.duplicates:
            self.pool.give_back(insertion.duplicates)
            request.slots[: insertion.kept] = insertion.slots
            self._next.rewrites.append(Rewrite(request.row, 0, insertion.slots))

    def _give_back(self, request: Request, *, keep: bool) -> None:
        """The one way out of the running set: slots, lease and row leave here, whatever ended the request.

        With ``keep`` the computed KV stays in the cache; without, what is not shared yet is dropped as unfit.
        """
        assert request.lease is not None
        kept = len(request.lease)
        if keep:
            computed = request.computed
            insertion = self.cache.insert(request.lease, request.tokens[:computed], request.slots[:computed])
            self.pool.give_back(insertion.duplicates)
            kept = insertion.kept
        self.pool.give_back(request.slots[kept:])
        self.cache.release(request.lease)
        self.running.remove(request)
        self._next.release(request.row)
        self._free_rows.append(request.row)
        request.row, request.lease, request.slots, request.computed = -1, None, ints(), 0

    def _retract(self, request: Request) -> None:
        """Take a running request's memory; it waits at its old place with all known tokens, and resumes like any other."""
        self._give_back(request, keep=True)
        insort(self.waiting, request, key=_id)
        self.counters.retractions += 1

    def _end(self, request: Request, finish: Finish, *, keep: bool = True) -> None:
        self.outbox.append(TokenOutput(request.id, ints(), max(request.cached_tokens, 0), finish=finish))
        self._remove(request, keep=keep)

    def _remove(self, request: Request, *, keep: bool = True) -> None:
        if request.row >= 0:
            self._give_back(request, keep=keep)
        else:
            self.waiting.remove(request)
        del self._requests[request.id]

    # -------------------------------------------------------------------------------------------- insight

    def stats(self) -> SchedulerStats:
        cached = self.cache.stats()
        counters = self.counters
        return SchedulerStats(
            steps=counters.steps,
            running=len(self.running),
            waiting=len(self.waiting),
            slots=self.limits.slots,
            slots_free=self.pool.free,
            slots_cached=cached.evictable,
            slots_leased=self.limits.slots - self.pool.free - cached.evictable,
            prompt_tokens=counters.prompt_tokens,
            cached_tokens=counters.cached_tokens,
            generated_tokens=counters.generated_tokens,
            retractions=counters.retractions,
            evicted_tokens=cached.evicted_tokens,
        )

    def check(self) -> None:
        """Raise AssertionError unless every slot has exactly one owner. For tests, and at idle in service."""
        self.pool.check()
        self.cache.check()
        cached = self.cache.stats()
        owned = 0
        for request in self.running:
            assert request.lease is not None
            shared = len(request.lease)
            assert request.slots[:shared] == request.lease.slots, f"request {request.id} lost its leased slots"
            owned += len(request.slots) - shared
        total = self.pool.free + cached.evictable + cached.locked + owned
        assert total == self.limits.slots, (
            f"{self.pool.free} free + {cached.evictable} evictable + {cached.locked} locked + {owned} owned = {total}, "
            f"not {self.limits.slots} slots"
        )


def _id(request: Request) -> int:
    return request.id
