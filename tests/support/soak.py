"""A soak: random parts, random work, and after every step the proof that nothing was lost and nothing is wrong.

The device is the ``simulated`` one: it remembers what it wrote to which KV slot, and fails when a row reads anything else.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Any

from scripted_grammar import allowed, guides, use

from sgframe.assembly.assemble import configure
from sgframe.assembly.providers import Seam
from sgframe.errors import SgframeError
from sgframe.front.scoring import TokenTree
from sgframe.interfaces.backend import ExecutorSpec
from sgframe.interfaces.speculator import Guesser, Speculator
from sgframe.messages import AbortRequest, GenerateRequest, Ints, Masks, ScheduleBatch, ints
from sgframe.sampling import TokenSampling
from sgframe.scheduler.estimator import ESTIMATORS
from sgframe.scheduler.limits import LeaseLimits, Limits
from sgframe.scheduler.scheduler import Scheduler
from sgframe.scheduler.speculation import Speculation
from sgframe.scheduling import SchedulerSpec, build
from sgframe_simulated.model import expected_tokens, logprob, next_token, prefix_hashes

VOCAB = 260
EVICTIONS = ("lru", "lfu", "fifo", "slru", "s3fifo", "priority", "adaptive")
SALTS: tuple[Any, ...] = ((), (("salt", ""),), (("salt", "x"),))


class Episode:
    """One service from start to rest; ``seed`` decides all of it. Raises AssertionError or SlotFault at the first fault."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        page_size = random.choice((1, 1, 2, 16))
        cache = random.choice(("radix", "radix", "hash-chain", "none"))
        self.eviction = random.choice(EVICTIONS)
        table = {"radix": {"eviction": self.eviction, "ghost_tokens": random.choice((0, 64, 4096))}}
        policy = random.choice(("fcfs", "lpm", "dfs-weight", "priority"))
        parts = {"backend": "simulated", "source": "simulated", "model": "simulated", "cache": cache, "policy": policy}
        simulated = {"mode": "hash", "page_size": page_size}
        plugin = {"simulated": simulated} | (table if cache == "radix" else {})
        self.parts = {**parts, "plugin": plugin}
        choices = configure(self.parts).choose()
        limits = Limits(
            slots=page_size * random.randint(8, 40) + random.choice((0, 64, 512)) // page_size * page_size,
            max_running=random.randint(1, 8),
            max_step_tokens=random.choice((8, 16, 64, 256)),
            page_size=page_size,
            leases=LeaseLimits(random.randint(0, 8), random.choice((0, 64, 512)), random.choice((3.0, 600.0))),
        )
        self.overlap = random.random() < 0.7
        spec = SchedulerSpec(limits, choices[Seam.CACHE], choices[Seam.POLICY], random.choice(list(ESTIMATORS)))
        grammars = guides(VOCAB, jumps=random.random() < 0.7)
        speculation = Speculation(HalfRight(), random.choice((1, 16, 512)), VOCAB) if random.random() < 0.5 else None
        self.scheduler = build(spec, lambda *parts: Scheduler(*parts[:-2], grammars, speculation))
        self.device = choices[Seam.BACKEND].build().executor()
        checkpoint = choices[Seam.SOURCE].build().resolve("simulated", lambda *progress: None)
        self.device.load(
            ExecutorSpec(checkpoint, "auto", limits.max_running, limits.max_step_tokens, kv_slots=limits.slots),
            lambda *progress: None,
        )
        self.limits = limits
        self.now = 0.0
        self.sent: deque[ScheduleBatch] = deque()
        self.masks: dict[int, Masks] = {}
        self.stale = 0
        """Batches in flight that were planned before a step failed: they may build on it, and nobody heeds them."""
        self.failed: set[int] = set()
        self.open: dict[int, GenerateRequest] = {}
        self.texts: dict[int, list[int]] = {}
        self.scores: dict[int, tuple[list[float], TokenTree]] = {}
        self.turns: list[list[int]] = [[]]
        self.finished = 0

    def run(self, steps: int = 150) -> int:
        """Work, then come to rest. Returns how many requests were served."""
        for id in range(steps):
            if self.random.random() < 0.4:
                self._arrive(id)
            self._disturb(id)
            self._step()
        for _ in range(20_000):
            if self._step() is None and self.scheduler.idle and not self.sent:
                break
        strategy = getattr(self.scheduler.memory.cache, "_strategy", None)
        assert strategy is None or strategy.name == self.eviction, f"the strategy {self.eviction} was replaced"
        assert self.scheduler.idle and not self.open, f"requests {sorted(self.open)} never ended"
        self.scheduler.release_leases(range(1, steps + 1))
        self.scheduler.flush()
        self.scheduler.check()
        assert self.scheduler.memory.pool.free == self.limits.slots, "slots are missing at rest"
        return self.finished

    def _arrive(self, id: int) -> None:
        random = self.random
        start = random.choice(self.turns)
        length = min(self.limits.slots - 1, len(start) + random.randint(1, 30))
        prompt = (start + [random.randint(0, 2) for _ in range(30)])[:length]
        stop_ids = random.sample(range(VOCAB), random.choice((0, 20)))
        if random.random() < 0.1:
            self._score(id, prompt)
            return
        constrained = random.random() < 0.4
        request = GenerateRequest(
            id=id,
            tokens=ints(prompt),
            max_tokens=random.choice((0, 1, 2, 5, 20, 60)),
            stop_ids=ints(stop_ids),
            sampling=TokenSampling(seed=0, prompt_logprobs=0 if random.random() < 0.05 else -1),
            namespace=random.choice(SALTS),
            priority=random.randint(-2, 2) if self.parts["policy"] == "priority" else 0,
            grammar=use(self._script(stop_ids), random.sample(range(30), 3)) if constrained else None,
            **self._place_in_a_program(id),
        )
        self.open[id], self.texts[id] = request, []
        self.scheduler.add(request)

    def _place_in_a_program(self, id: int) -> dict[str, Any]:
        random = self.random
        if random.random() < 0.5:
            return {}
        lineage = (random.randint(1, 3), *(random.randint(0, 2) for _ in range(2 * random.randint(0, 2))))
        return {"lineage": lineage, "lease": id + 1 if random.random() < 0.7 else 0}

    def _score(self, id: int, prompt: list[int]) -> None:
        """A tree of a few paths, as far as there is room."""
        random = self.random
        paths = [[random.randint(0, 3) for _ in range(random.randint(1, 5))] for _ in range(random.randint(1, 6))]
        tree = TokenTree(paths)
        prompt = prompt[: max(1, self.limits.slots - len(tree.nodes))]
        if len(prompt) + len(tree.nodes) > self.limits.slots:
            return
        request = GenerateRequest(
            id=id,
            tokens=ints(prompt) + tree.nodes,
            max_tokens=0,
            stop_ids=ints(),
            sampling=TokenSampling(seed=0),
            namespace=random.choice(SALTS),
            tree=tree.tree,
            **self._place_in_a_program(id),
        )
        self.open[id], self.texts[id] = request, []
        self.scores[id] = (
            [logprob(prefix_hashes([*prompt, *path[:i]])[-1], token) for path in paths for i, token in enumerate(path)],
            tree,
        )
        self.scheduler.add(request)

    def _script(self, stop_ids: Sequence[int]) -> list[Sequence[int]]:
        """For each position of an output what may stand there: anything, one token that is no stop id, or a few."""
        random = self.random
        single = next(token for token in iter(lambda: random.randint(0, VOCAB - 1), None) if token not in stop_ids)
        return random.choices([range(VOCAB), [single], range(0, VOCAB, 7)], (6, 3, 1), k=random.randint(1, 40))

    def _disturb(self, id: int) -> None:
        if self.random.random() < 0.03:
            abort = AbortRequest(self.random.randint(0, id), "soak")
            self.scheduler.abort(abort.id, abort.cause)
        if self.random.random() < 0.01:
            self.scheduler.flush()
        if self.random.random() < 0.2:
            self.scheduler.release_leases([self.random.randint(0, id + 1)])

    def _step(self) -> ScheduleBatch | None:
        self.now += self.random.random()
        batch = self.scheduler.plan(self.now)
        if batch is not None:
            self.sent.append(batch)
        self._take_masks()
        if len(self.sent) > (self.overlap and batch is not None):
            self._execute(self.sent.popleft())
            self._take_masks()
        self._take_outputs()
        self.scheduler.check()
        return batch

    def _execute(self, due: ScheduleBatch) -> None:
        masks = self.masks.pop(due.step, None)
        try:
            self.device.forward(due)
            if fails := self.random.random() < 0.01:
                self.device.poison(due.slots)  # whoever reads what this step was to compute will be found out
                self.stale = len(self.sent)
        except SgframeError:
            if not self.stale:
                raise
            fails, self.stale = True, self.stale - 1
        if fails:
            self.failed.update(request.id for request in self.scheduler._in_flight[0].requests)
            self.scheduler.fail("as the soak asks")
        else:
            self.stale = max(self.stale - 1, 0)
            self.scheduler.apply(self.device.sample(masks).result())

    def _take_masks(self) -> None:
        if (masks := self.scheduler.masks()) is not None:
            self.masks[masks.step] = masks

    def _take_outputs(self) -> None:
        for output in self.scheduler.outbox:
            request, text = self.open[output.id], self.texts[output.id]
            text.extend(output.tokens)
            if output.id in self.scores and output.finish is not None and output.finish.reason == "length":
                due, tree = self.scores[output.id]
                assert output.scores is not None
                assert [each for path in tree.by_path(output.scores) for each in path] == due
            if output.finish is not None:
                self._end(request, text, output.finish.reason)
        self.scheduler.outbox.clear()

    def _end(self, request: GenerateRequest, text: list[int], reason: str) -> None:
        del self.open[request.id], self.texts[request.id]
        self.finished += 1
        due = expected(request)[: self.limits.slots - len(request.tokens) + 1]
        assert text == due[: len(text)], f"request {request.id} says {text}, not {due}"
        assert (reason == "error") <= (request.id in self.failed)
        assert reason in ("abort", "error") or len(text) == len(due), (
            f"request {request.id} ends after {len(text)} of {len(due)} tokens"
        )
        self.turns = [*self.turns[-7:], [*request.tokens, *text]]


class HalfRight(Speculator):
    """Knows the device's model, and is wrong at some positions all the same."""

    def guesser(self) -> Guesser:
        return self._guess

    def _guess(self, tokens: Ints, limit: int) -> Ints:
        due = expected_tokens(tokens, limit, "hash", VOCAB)
        return ints(token if (len(tokens) + place) % 5 else 7 for place, token in enumerate(due))


def expected(request: GenerateRequest) -> list[int]:
    """The output that the device's model gives, one token at a time, under the request's script."""
    script, ends = ([], []) if request.grammar is None else json.loads(request.grammar.data)
    tokens = list(request.tokens)
    for position in range(request.max_tokens):
        token = next_token("hash", tokens, len(request.tokens), prefix_hashes(tokens)[-1], VOCAB)
        if request.grammar is not None:
            choice = sorted(allowed(script, ends, position, request.stop_ids))
            token = next((each for each in choice if each >= token), choice[0])
        tokens.append(token)
        if token in request.stop_ids or position + 1 == len(script):
            break
    return tokens[len(request.tokens) :]
