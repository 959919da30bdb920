"""The scheduler: which tokens of which requests are computed next.

Pure: no sockets, no clock but the one it is handed, no randomness, no set is iterated; the same calls give the same
batches. The loop around it does the talking. Invariant at every step border: free + cached + owned by requests = all
slots (see ``check``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import asdict

from sgframe.clock import StepClock
from sgframe.interfaces.backend import LEAST_SAMPLES
from sgframe.interfaces.cache import Cache
from sgframe.interfaces.policy import Policy
from sgframe.messages import Finish, GenerateRequest, GrammarUse, Masks, ScheduleBatch, StepOutput, TokenOutput, ints
from sgframe.scheduler.admission import Admission
from sgframe.scheduler.batch import BatchBuilder, InFlight
from sgframe.scheduler.estimator import Estimator
from sgframe.scheduler.guides import NO_GUIDES, GuideFault, Guides
from sgframe.scheduler.limits import Limits
from sgframe.scheduler.masking import fill_masks
from sgframe.scheduler.memory import KvMemory
from sgframe.scheduler.outputs import NOT_FINITE, append, begin, confirm, ending
from sgframe.scheduler.request import Request
from sgframe.scheduler.shadow import NO_SHADOW, Shadow
from sgframe.scheduler.speculation import Speculation, length_at, take
from sgframe.scheduler.twins import Twins
from sgframe.statistics import Counters, SchedulerStats


class Scheduler:
    """Holds every request from arrival to its end. Each step is ``plan`` → (the worker computes) → ``apply`` or
    ``fail``.

    ``plan`` may be called again before the batch in flight is applied (overlap): a row whose token is not back yet goes
    on all the same, for the worker has it. What comes back for a request that has ended meanwhile is dropped. Batches
    are applied in the order in which they were planned. Outputs collect in ``outbox``; the driver takes them away.

    While guesses are being verified nothing is planned: how far their rows come is not known, and a step that leaves them
    out would read all weights for the others alone.
    """

    def __init__(
        self,
        limits: Limits,
        cache: Cache,
        policy: Policy,
        estimator: Estimator,
        clock: StepClock,
        shadow: Shadow = NO_SHADOW,
        guides: Guides = NO_GUIDES,
        speculation: Speculation | None = None,
    ) -> None:
        self.limits = limits
        self.clock = clock
        self.memory = KvMemory(limits.slots, limits.page_size, cache, limits.leases)
        self.admission = Admission(policy, estimator, self.memory)
        self.running: list[Request] = []  # in order of admission
        self.outbox: list[TokenOutput] = []
        self.counters = Counters()
        self._shadow = shadow
        self._guides = guides
        self._speculation = speculation
        self._requests: dict[int, Request] = {}
        self._aborted: list[Request] = []
        self._free_rows = list(range(limits.max_running - 1, -1, -1))
        self._twins = Twins(limits.page_size, cache)
        self._next = BatchBuilder()
        self._in_flight: deque[InFlight] = deque()

    # -------------------------------------------------------------------------------------------- arrivals

    def add(self, message: GenerateRequest) -> None:
        """Queue a request; the door has made sure that it fits (see ``capacity``). One whose prompt is longer than the
        pool ends with an error; one whose output would outgrow it ends with ``length`` when it is full."""
        slots = self.memory.pool.size
        if len(message.tokens) > slots:
            detail = f"the prompt has {len(message.tokens)} tokens and the KV pool {slots} slots: shorten it"
            self.outbox.append(TokenOutput(message.id, ints(), 0, finish=Finish("error", detail=detail)))
            return
        request = Request.of(message, slots)
        if message.grammar is not None and not self._guide(request, message.grammar):
            return
        self._requests[message.id] = request
        if message.lease:
            self.memory.program_leases.expect(message.lease)
        self.admission.add(request)
        self._shadow.arrived(request)

    def _guide(self, request: Request, use: GrammarUse) -> bool:
        """Give ``request`` its guide, and the tokens that it must begin with; False if that was all."""
        try:
            request.guide = self._guides.guide(use, request.stop_ids)
            output = begin(request)
        except GuideFault as fault:
            output = ending(request, Finish("error", detail=str(fault)))
        if output is not None:
            self._count(output)
            self.outbox.append(output)
        return output is None

    def abort(self, request_id: int, cause: str) -> None:
        """Flag a request; it ends at the next ``plan``. Unknown ids are ignored."""
        request = self._requests.get(request_id)
        if request is not None and not request.abort_cause:
            request.abort_cause = cause
            self._aborted.append(request)

    def release_leases(self, leases: Sequence[int]) -> None:
        """Programs let go of these. Unknown ones are ignored."""
        self.memory.program_leases.release(leases)

    def flush(self) -> int:
        """Forget what is cached and not leased; returns how many tokens that were."""
        return self._forget()

    def _forget(self) -> int:
        self._shadow.flushed()
        return self.memory.flush()

    @property
    def waiting(self) -> Sequence[Request]:
        """In order of arrival."""
        return self.admission.queue.requests

    @property
    def idle(self) -> bool:
        return not self._requests

    @property
    def in_flight(self) -> int:
        """Batches that were planned and neither applied nor failed yet."""
        return len(self._in_flight)

    # -------------------------------------------------------------------------------------------- plan

    def plan(self, now: float) -> ScheduleBatch | None:
        """The next step's batch, or None when there is nothing to compute before a batch in flight is applied.

        ``now`` is in seconds and never less than before; all that this step does happens at that time.
        """
        self.clock.now = now
        for request in self._aborted:
            if request.id in self._requests:
                self._end(request, Finish("abort", detail=request.abort_cause))
        self._aborted.clear()
        self.memory.program_leases.expire(now)
        if self._in_flight and self._in_flight[-1].verifies:
            return None

        if self.waiting:
            self._twins.watch(self.running)
        for victim in self.admission.victims(self.running, len(self._free_rows), self._twins.holds_back):
            self._retract(victim)
        retracted = self._make_room_for_decoding()
        budget = self._schedule_running()
        if not retracted:
            self._admit(budget)
        if not self._next.rows:
            return None
        batch, in_flight = self._next.finish(self.counters.steps)
        self.counters.steps += 1
        self._in_flight.append(in_flight)
        self._next = BatchBuilder()
        self.admission.estimator.stepped()
        return batch

    def masks(self) -> Masks | None:
        """The masks that the worker waits for, once what they depend on is known: to be asked for after each ``plan``,
        ``apply`` and ``fail``. None if it waits for none."""
        if not self._in_flight or not self._in_flight[0].masked:
            return None
        batch = self._in_flight[0]
        batch.masked = False
        masks, faults = fill_masks(batch, self._guides.words)
        for request, fault in faults:
            self._end(request, Finish("error", detail=str(fault)))
        return masks

    def _make_room_for_decoding(self) -> bool:
        """Retract until each decoding row can have its slot. The oldest of the most urgent goes on, so all get done."""
        retracted = False
        if self.memory.reclaim(len(self.running) * self.limits.page_size) >= len(self.running) * self.limits.page_size:
            return retracted
        while len(self.running) > 1:
            wanted = sum(self.memory.shortage(request, 1) for request in self.running if request.pending == 1)
            if wanted <= self.memory.available:
                break
            self.admission.estimator.retracted(self.running)
            self._retract(self._last_in_rank())
            retracted = True
        return retracted

    def _last_in_rank(self) -> Request:
        """The least urgent request that runs, and of those the one admitted last."""
        return min(reversed(self.running), key=lambda request: request.priority)

    def _schedule_running(self) -> int:
        """Rows that decode first, then the next chunks of prompts; returns what is left of the token budget."""
        budget = self.limits.max_step_tokens
        decoding, prefilling = [], []
        for request in self.running:
            if (pending := request.pending) == 1:
                decoding.append(request)
            elif pending:
                prefilling.append(request)
        self.memory.grow_all(decoding, 1)
        plain = decoding
        if self._speculation is not None and not prefilling and not self.waiting:
            room = min(self.limits.max_step_tokens, max(self.limits.max_running, LEAST_SAMPLES)) - len(decoding)
            plain = self._speculation.schedule(decoding, room, self._next, self.memory)
        self._next.compute_one_each(plain)
        budget -= len(decoding)
        for request in prefilling:
            budget -= self._compute(request, budget)
        if prefilling and not self._next.rows and not self._in_flight:
            self._retract(self._last_in_rank())  # prompts hold all memory and none can go on: the next plan has room
            return self._schedule_running()
        return budget

    def _compute(self, request: Request, budget: int) -> int:
        """Schedule as much of ``request`` as budget and memory allow; returns how many tokens that is."""
        count = self.memory.room(request, min(request.pending, budget))
        if count > 0:
            self.memory.grow(request, count)
            self._next.compute(request, count)
            self.memory.promise(request)
        return max(count, 0)

    def _admit(self, budget: int) -> None:
        """Take waiting requests in the policy's order until rows, tokens or memory run out."""
        if not self.waiting or not self._free_rows or budget <= 0:
            return
        admitted: list[Request] = []
        for request in self.admission.candidates(self.running):
            if not self._free_rows or budget <= 0:
                break
            if self._twins.holds_back(request):
                continue
            self.memory.lease(request)
            if shortage := self.admission.shortage(request, self.running):
                self.memory.give_back(request, keep=False)
                if not self._twins.held:  # one who is held back may need less
                    self.admission.refuse(shortage, self.running)
                break
            self._start(request)
            budget -= self._compute(request, budget)
            admitted.append(request)
        if admitted:
            self.admission.close_round()
            self._shadow.round(admitted)

    def _start(self, request: Request) -> None:
        """A waiting request with a lease gets a row and runs."""
        request.row = self._free_rows.pop()
        request.stint += 1
        if request.cached_tokens < 0:
            request.cached_tokens = min(request.matched, request.prompt_len)
            self.counters.prompt_tokens += request.prompt_len
            self.counters.cached_tokens += request.cached_tokens
        self.running.append(request)
        self._twins.lead(request)
        self._next.admit(request)

    # -------------------------------------------------------------------------------------------- apply

    def apply(self, output: StepOutput) -> None:
        """Take in what the oldest batch in flight computed and sampled."""
        batch = self._in_flight.popleft()
        assert output.step == batch.step, f"the output of step {output.step} came for step {batch.step}"
        prompt_logprobs = {entry.row: entry for entry in output.prompt_logprobs}
        scores = {entry.row: entry for entry in output.scores}
        sampled = 0
        tokens, logprobs = output.tokens, output.logprobs
        for request, stint, count, samples in batch:
            sample = sampled
            sampled += samples if samples < 2 else length_at(output.rows, sample)
            if request.row < 0 or request.stint != stint:
                continue  # it has ended or was retracted since
            if samples > 1:
                self.counters.guessed_tokens += samples - 1
                self.counters.accepted_tokens += sampled - sample - 1
                self._publish(request, take(request, samples - 1, tokens[sample:sampled], logprobs[sample:sampled]))
                continue
            request.computed += count
            if (count > 1 or request.computed == request.prompt_len) and not (samples and tokens[sample] < 0):
                self._share(request)
            if prompt_logprobs and (entry := prompt_logprobs.get(request.row)) is not None:
                request.prompt_logprobs.extend(entry.entries[request.logprobs_from - entry.start :])
            if scores and (scored := scores.get(request.row)) is not None:
                for place, logprob in zip(scored.asked, scored.logprobs, strict=True):
                    request.scores[place] = logprob
            if samples and request.foreseen:
                self._publish(request, confirm(request, tokens[sample]))
            elif samples:
                request.promised -= 1
                self._publish(request, append(request, tokens[sample], logprobs[sample] if logprobs else None))
            elif request.computed == request.goal and not request.max_tokens:
                self._publish(request, ending(request, Finish("length")))

    def fail(self, reason: str) -> None:
        """The oldest batch in flight raised in the worker: its requests end, all others start again.

        They may have built on what it was to compute, and so may whatever is cached: all of that is forgotten.
        """
        for request, stint, _, _ in self._in_flight.popleft():
            if request.row >= 0 and request.stint == stint:
                self._end(request, Finish("error", detail=reason), keep=False)
        for request in list(self.running):
            self._retract(request, keep=False)
        self.memory.program_leases.revoke_all()
        self._forget()

    def _share(self, request: Request) -> None:
        """Cache what is computed; the row goes on from the cache's copy where there was one before."""
        slots = self.memory.share(request)
        if slots is not None:
            self._next.rewrite(request, slots)

    def _publish(self, request: Request, output: TokenOutput | None) -> None:
        """Tell the front what became of a token, and let go of a request that has ended."""
        if output is None:
            return
        self._count(output)
        self.outbox.append(output)
        if output.finish is not None:
            self._remove(request, keep=output.finish.reason != "error")
            if output.finish.detail == NOT_FINITE:
                self._forget()  # others were promised what it computed, or it was what they had computed

    def _count(self, output: TokenOutput) -> None:
        self.counters.generated_tokens += len(output.tokens)
        self.counters.forced_tokens += output.forced

    # -------------------------------------------------------------------------------------------- ways out

    def _retract(self, request: Request, *, keep: bool = True) -> None:
        """Take a running request's memory; it waits at its old place with all known tokens, and resumes like any other."""
        self.memory.give_back(request, keep=keep)
        self._free_row(request)
        self.admission.add(request)
        self.counters.retractions += 1

    def _end(self, request: Request, finish: Finish, *, keep: bool = True) -> None:
        self.outbox.append(TokenOutput(request.id, ints(), max(request.cached_tokens, 0), finish=finish))
        self._remove(request, keep=keep)

    def _remove(self, request: Request, *, keep: bool = True) -> None:
        self._shadow.ended(request)
        self.memory.retire(request, self.clock.now, keep=keep)
        if request.row >= 0:
            self._free_row(request)
        else:
            self.admission.remove(request)
        self.admission.queue.ended(request)
        self._twins.forget(request)
        del self._requests[request.id]

    def _free_row(self, request: Request) -> None:
        """The one way out of the running set, for a request that holds no memory any more."""
        self.running.remove(request)
        self._next.release(request.row)
        self._free_rows.append(request.row)
        request.row = -1

    # -------------------------------------------------------------------------------------------- insight

    def stats(self) -> SchedulerStats:
        cached = self.memory.cache.stats()
        free, slots = self.memory.pool.free, self.memory.pool.size
        return SchedulerStats(
            **asdict(self.counters),
            running=len(self.running),
            waiting=len(self.waiting),
            slots=slots,
            slots_free=free,
            slots_cached=cached.evictable,
            slots_leased=slots - free - cached.evictable,
            evicted_tokens=cached.evicted_tokens,
            leases=len(self.memory.program_leases),
            lease_tokens=self.memory.program_leases.tokens,
            leases_revoked=self.memory.program_leases.revoked,
            shadow=self._shadow.stats(),
        )

    def check(self) -> None:
        """Raise AssertionError unless every slot has exactly one owner. O(cached tokens): for tests."""
        self.memory.check(self.running)
        self._shadow.check()
