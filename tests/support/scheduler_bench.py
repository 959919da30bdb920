"""A bench for the scheduler alone: its worker remembers in which slot each prefix's KV lies, and checks every read."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from sgframe.assembly.providers import PluginSettings
from sgframe.clock import StepClock
from sgframe.interfaces.backend import LEAST_SAMPLES
from sgframe.interfaces.cache import Cache
from sgframe.interfaces.policy import Policy
from sgframe.messages import (
    Finish,
    GenerateRequest,
    Logprobs,
    Masks,
    NewRow,
    PromptLogprobs,
    ScheduleBatch,
    StepOutput,
    TokenOutput,
    TreeScores,
    ints,
)
from sgframe.sampling import TokenSampling
from sgframe.scheduler.estimator import Estimator
from sgframe.scheduler.guides import NO_GUIDES, Guides
from sgframe.scheduler.limits import LeaseLimits, Limits
from sgframe.scheduler.request import Request
from sgframe.scheduler.scheduler import Scheduler
from sgframe.scheduler.shadow import NO_SHADOW, Shadow
from sgframe.scheduler.speculation import Speculation
from sgframe_basic.policy import FirstComeFirstServed
from sgframe_radix import RadixSettings
from sgframe_radix.cache import RadixCache

VOCAB = 50
EOS = 49


def next_token(tokens: Sequence[int]) -> int:
    """The model: a fixed function of the whole sequence, never EOS unless the sum says so."""
    return (sum((i + 1) * token for i, token in enumerate(tokens)) * 7 + len(tokens)) % VOCAB


def score(prefix: Sequence[int], token: int) -> float:
    """The logprob of ``token`` after ``prefix``: a fixed function of both."""
    return -1.0 - ((sum((i + 3) * each for i, each in enumerate(prefix)) + 5 * token) % 97) / 10


def expected_output(prompt: Sequence[int], max_tokens: int, stop_ids: Sequence[int] = ()) -> list[int]:
    tokens = list(prompt)
    for _ in range(max_tokens):
        tokens.append(next_token(tokens))
        if tokens[-1] in stop_ids:
            break
    return tokens[len(prompt) :]


class CheckingWorker:
    """Executes batches; fails when a row reads a slot that does not hold its own prefix, or its slots are not pages."""

    def __init__(self, page_size: int = 1, max_rows: int = 64) -> None:
        self.page_size = page_size
        self.max_rows = max_rows
        self.rows: dict[int, NewRow] = {}
        self.tokens: dict[int, list[int]] = {}
        self.slots: dict[int, list[int]] = {}
        self.kv: dict[int, tuple[int, ...]] = {}
        self.computed = 0

    def execute(self, batch: ScheduleBatch, masks: Masks | None = None) -> StepOutput:
        """A masked row takes the next allowed token upwards, in a circle."""
        assert batch.masked == (masks is not None)
        for row in batch.released:
            del self.rows[row], self.tokens[row], self.slots[row]
        for new in batch.admitted:
            assert new.row not in self.rows, f"row {new.row} is taken"
            self.rows[new.row] = new
            self.tokens[new.row] = list(new.tokens)
            self.slots[new.row] = list(new.slots)
        for rewrite in batch.rewrites:
            self.slots[rewrite.row][rewrite.start : rewrite.start + len(rewrite.slots)] = rewrite.slots
        for addition in batch.appended:
            self.tokens[addition.row].extend(addition.tokens)
        slots = iter(batch.slots)
        guesses = {guess.row: list(guess.tokens) for guess in batch.guesses}
        assert sum(batch.samples) <= max(self.max_rows, LEAST_SAMPLES)
        sampled, logprobs, prompt_logprobs, scores = [], [], [], []
        for row, count, samples in zip(batch.rows, batch.counts, batch.samples, strict=True):
            start, guessed = len(self.slots[row]), guesses.get(row, [])
            self.tokens[row] += guessed
            self.slots[row].extend(next(slots) for _ in range(count))
            self._compute(row, start)
            prompt_logprobs += self._prompt_logprobs(row, start, start + count)
            scores += self._scores(row, start, start + count)
            if samples:
                assert len(self.slots[row]) == len(self.tokens[row])
                assert samples == 1 + len(guessed)
                asked = self.rows[row].sampling.logprobs >= 0
                for token in self._go_on(row, guessed, masks):
                    logprobs.append(Logprobs(token, -1.0, ints(), []) if asked else None)
                    sampled.append((row, token))
        assert next(slots, None) is None
        self.computed += sum(batch.counts)
        return StepOutput(
            batch.step,
            ints(r for r, _ in sampled),
            ints(t for _, t in sampled),
            logprobs if any(logprobs) else [],
            prompt_logprobs,
            scores,
        )

    def _go_on(self, row: int, guessed: list[int], masks: Masks | None) -> list[int]:
        """The next tokens of ``row``: those guesses that are right, and one more; what was computed of others is void."""
        assert not guessed or masks is None or row not in masks.rows
        tokens = self.tokens[row]
        known = len(tokens) - len(guessed)
        del tokens[known:]
        for guess in [*guessed, None]:
            tokens.append(_masked(row, next_token(tokens), masks))
            if tokens[-1] != guess:
                break
        del self.slots[row][len(tokens) - 1 :]
        return tokens[known:]

    def _prefix(self, row: int, position: int) -> tuple[int, ...]:
        """The tokens up to the one at ``position``, which in a tree are the prompt and those above it."""
        new, tokens = self.rows[row], self.tokens[row]
        if new.tree is None or position < new.prompt_len:
            return tuple(tokens[: position + 1])
        path, node = [], position - new.prompt_len
        while node >= 0:
            path.append(tokens[new.prompt_len + node])
            node = new.tree.parents[node]
        return (*tokens[: new.prompt_len], *reversed(path))

    def _scores(self, row: int, start: int, end: int) -> list[TreeScores]:
        new = self.rows[row]
        if new.tree is None:
            return []
        asked = [i for i, place in enumerate(new.tree.places) if start <= new.prompt_len + place < end]
        found = [score(self._prefix(row, new.prompt_len + new.tree.places[i]), new.tree.tokens[i]) for i in asked]
        return [TreeScores(row, ints(asked), found)] if asked else []

    def _compute(self, row: int, start: int) -> None:
        slots = self.slots[row]
        for position in range(start, len(slots)):
            self.kv[slots[position]] = self._prefix(row, position)
        for position, slot in enumerate(slots):
            assert slot % self.page_size == position % self.page_size, (
                f"slot {slot} for position {position}: a torn page"
            )
            found = self.kv.get(slot)
            assert found == self._prefix(row, position), f"row {row} reads slot {slot} at {position} and finds {found}"

    def _prompt_logprobs(self, row: int, start: int, end: int) -> list[PromptLogprobs]:
        new = self.rows[row]
        if new.sampling.prompt_logprobs < 0:
            return []
        first, last = max(start + 1, new.logprobs_from), min(end, new.prompt_len - 1)
        entries = [Logprobs(new.tokens[p], -float(p), ints(), []) for p in range(first, last + 1)]
        return [PromptLogprobs(row, first, entries)] if entries else []


def _masked(row: int, token: int, masks: Masks | None) -> int:
    if masks is None or row not in masks.rows:
        return token
    words = len(masks.words) // len(masks.rows)
    start = masks.rows.index(row) * words
    allowed = int.from_bytes(masks.words[start : start + words], "little")
    return next((t % VOCAB for t in range(token, token + VOCAB) if allowed >> t % VOCAB & 1), -1)


class NoReserve(Estimator):
    """Admits as long as the known tokens fit: outputs run into each other, and retraction has to sort it out."""

    def demand(self, requests: Sequence[Request]) -> int:
        return sum(len(request.tokens) + request.promised - len(request.slots) for request in requests)


class Bench:
    """A scheduler and its checking worker, stepped by hand; collects each request's output."""

    def __init__(
        self,
        slots: int = 64,
        max_running: int = 4,
        max_step_tokens: int = 16,
        cache: Cache | None = None,
        policy: Policy | None = None,
        estimator: Estimator | None = None,
        page_size: int = 1,
        overlap: bool = False,
        shadow: Shadow = NO_SHADOW,
        guides: Guides = NO_GUIDES,
        leases: LeaseLimits | None = None,
        speculation: Speculation | None = None,
    ) -> None:
        self.worker = CheckingWorker(page_size, max_running)
        self.clock = StepClock()
        self.scheduler = Scheduler(
            Limits(slots, max_running, max_step_tokens, page_size, leases or LeaseLimits(tokens=slots)),
            cache or RadixCache(RadixSettings(), page_size=page_size, clock=self.clock),
            policy or FirstComeFirstServed(PluginSettings()),
            estimator or NoReserve(page_size),
            self.clock,
            shadow,
            guides,
            speculation,
        )
        self._masks: dict[int, Masks] = {}
        self.overlap = overlap
        self._sent: deque[ScheduleBatch] = deque()
        self.outputs: dict[int, list[int]] = {}
        self.finished: dict[int, Finish] = {}
        self.taken: list[TokenOutput] = []
        self.prompts: dict[int, GenerateRequest] = {}

    def add(self, id: int, prompt: Sequence[int], max_tokens: int = 4, **options: object) -> None:
        options.setdefault("sampling", TokenSampling(seed=0))
        request = GenerateRequest(id, ints(prompt), max_tokens, ints(options.pop("stop_ids", ())), **options)  # type: ignore[arg-type]
        self.prompts[id] = request
        self.outputs[id] = []
        self.scheduler.add(request)

    def step(self) -> ScheduleBatch | None:
        """Plan; execute and apply what is due: with overlap the batch before. Every slot must have one owner afterwards."""
        batch = self.scheduler.plan(self.clock.now + 1)
        if batch is not None:
            self._sent.append(batch)
        self._take_masks()
        if len(self._sent) > (self.overlap and batch is not None):
            due = self._sent.popleft()
            self.scheduler.apply(self.worker.execute(due, self._masks.pop(due.step, None)))
            self._take_masks()
        self.collect()
        self.scheduler.check()
        return batch

    def _take_masks(self) -> None:
        if (masks := self.scheduler.masks()) is not None:
            self._masks[masks.step] = masks

    def collect(self) -> None:
        for output in self.scheduler.outbox:
            assert output.id not in self.finished, f"request {output.id} spoke after its end"
            self.taken.append(output)
            self.outputs[output.id].extend(output.tokens)
            if output.finish is not None:
                self.finished[output.id] = output.finish
        self.scheduler.outbox = []

    def run(self, most_steps: int = 10_000) -> int:
        """Step until nothing is left; returns the number of steps."""
        for steps in range(most_steps):
            if self.step() is None and self.scheduler.idle:
                return steps
        raise AssertionError(f"not done after {most_steps} steps")
