"""Programs on a whole engine in this process, with the simulated model that repeats its prompt."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import pytest

from sgframe import Engine, SamplingParams
from sgframe.errors import RequestError
from sgframe_dsl.backends.engine import EngineBackend
from sgframe_dsl.errors import BackendClosed
from sgframe_programs.parts import Begin, Branch, Cost, End, Method, Part, Text

T = TypeVar("T")
SIMULATED = dict.fromkeys(("model", "backend", "source"), "simulated")
SHORT = SamplingParams(max_tokens=5, ignore_eos=True)
ENDLESS = SamplingParams(ignore_eos=True)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine(
        **SIMULATED, transport="inproc", kv_slots=16384, plugin={"simulated": {"step_seconds": 0.001}}
    ) as engine:
        yield engine


@pytest.fixture
def backend(engine: Engine) -> Iterator[EngineBackend]:
    engine.flush_cache()
    backend = EngineBackend(engine)
    yield backend
    backend.close()
    wait_for(lambda: engine.stats().leases == 0 and engine.stats().running == 0)


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline, "it did not come about within 5 s"
        time.sleep(0.005)


def run(backend: EngineBackend, work: Coroutine[Any, Any, T]) -> T:
    return backend.schedule(work).result(10)


# ------------------------------------------------------------------------------------------------ every call


def test_text_and_answer_grow_one_prompt(backend: EngineBackend) -> None:
    async def program() -> list[Any]:
        state = await backend.open()
        heard: list[str] = []
        first = await backend.generate(state, [Text("abc")], SHORT, heard.append)
        second = await backend.generate(state, [Text("!")], SHORT)
        return ["".join(heard), first, second]

    heard, first, second = run(backend, program())
    assert heard == first.outputs[0].text == "abc"  # BOS, a, b, c, BOS
    assert (first.cost.prompt_tokens, first.cost.cached_tokens) == (4, 0)
    assert (second.cost.prompt_tokens, second.cost.cached_tokens) == (10, 8)  # all but the last of the answer, and "!"


@pytest.mark.parametrize("method", ["token_length_normalized", "greedy_token", "unconditional_normalized"])
def test_select_computes_what_choices_share_once(backend: EngineBackend, method: Method) -> None:
    async def program() -> Any:
        state = await backend.open()
        selected = await backend.select(state, [Text("the capital is ")], ["Paris", "Parma", "Pa"], method)
        return selected, await backend.generate(state, [], SHORT)

    selected, after = run(backend, program())
    assert [len(row) for row in selected.logprobs] == [5, 5, 2]
    assert (selected.cost.prompt_tokens, selected.cost.cached_tokens) == (16, 0)
    tree = 3 + 1 + 1  # P, Pa, Par, Pari, Parm: no choice's last token, unless another goes on from it
    assert selected.cost.scored_tokens == (tree + 1 + tree if method == "unconditional_normalized" else tree)
    assert (after.cost.prompt_tokens, after.cost.cached_tokens) == (16 + len(selected.tokens[selected.index]), 16)


def test_branches_join_by_their_tokens(backend: EngineBackend) -> None:
    async def program() -> Any:
        state = await backend.open()
        await backend.generate(state, [Text("start ")], SHORT)
        branches = await backend.fork(state, 2)
        await asyncio.gather(*(backend.generate(branch, [Text("b")], SHORT) for branch in branches))
        text = await backend.extend(state, [Branch(branch) for branch in branches])
        await backend.discard(branches)
        return text, await backend.generate(state, [Text(".")], SHORT)

    text, joined = run(backend, program())
    assert text == "bstarbstar"
    # BOS "start " and its answer, "b" and its answer but for the last token: all that the first branch had computed
    assert joined.cost.cached_tokens == 7 + 5 + 1 + 4


def test_a_chat(backend: EngineBackend) -> None:
    async def program() -> Any:
        state = await backend.open()
        ask: list[Part] = [Begin("user"), Text("hi"), End(), Begin("assistant")]
        return await backend.generate(state, ask, SHORT), await backend.extend(state, [End()])

    answer, _ = run(backend, program())
    assert answer.outputs[0].text == "user"  # after <|im_start|>, which is special


# ------------------------------------------------------------------------------------------------ the least work


class Ledger:
    """What a program's calls had to compute at least: each prefix once, and the last token of every prompt."""

    def __init__(self, backend: EngineBackend) -> None:
        self._backend = backend
        self._texts: dict[int, list[int]] = {}
        self._prompts: list[tuple[int, ...]] = []
        self._generated: set[tuple[int, ...]] = set()
        self.costs: list[Cost] = []

    async def generate(self, state: int, text: str, start: Sequence[int] = ()) -> list[int]:
        """All tokens of ``state`` afterwards, which had ``start`` before."""
        prompt = [*(start or [256]), *text.encode()]
        generated = await self._backend.generate(state, [Text(text)], SHORT)
        whole = [*prompt, *generated.outputs[0].tokens]
        self._prompts.append(tuple(prompt))
        self._generated |= {tuple(whole[:end]) for end in range(len(prompt) + 1, len(whole))}
        self.costs.append(generated.cost)
        return whole

    @property
    def computed(self) -> int:
        return sum(cost.prompt_tokens - (cost.cached_tokens or 0) for cost in self.costs)

    @property
    def least(self) -> int:
        prefixes = {prompt[:end] for prompt in self._prompts for end in range(1, len(prompt) + 1)} - self._generated
        return len(prefixes) + len(self._prompts) - len(set(self._prompts))


def test_a_tree_of_thought_computes_every_prefix_once(backend: EngineBackend) -> None:
    async def grow(ledger: Ledger, state: int, start: Sequence[int], depth: int) -> None:
        branches = await backend.fork(state, 3)
        texts = [f" thought {index} of level {depth}:" for index in range(3)]
        grown = await asyncio.gather(
            *(ledger.generate(branch, text, start) for branch, text in zip(branches, texts, strict=True))
        )
        if depth:
            pairs = zip(branches[:2], grown[:2], strict=True)
            await asyncio.gather(*(grow(ledger, branch, whole, depth - 1) for branch, whole in pairs))

    async def program() -> Ledger:
        ledger, root = Ledger(backend), await backend.open()
        await grow(ledger, root, await ledger.generate(root, "A question with a long preamble."), 2)
        return ledger

    ledger = run(backend, program())
    assert len(ledger.costs) == 1 + 3 + 6 + 12
    assert ledger.computed == ledger.least


def test_self_consistency_computes_its_prompt_once(backend: EngineBackend) -> None:
    async def program() -> Ledger:
        ledger, root = Ledger(backend), await backend.open()
        branches = await backend.fork(root, 8)
        await backend.extend(root, [Text("unseen")])
        await asyncio.gather(*(ledger.generate(branch, "Eight chains from one question") for branch in branches))
        return ledger

    ledger = run(backend, program())
    assert ledger.computed == ledger.least == 31 + 7  # the last token is computed again by each chain


# ------------------------------------------------------------------------------------------------ the end


def test_leases_go_with_their_states(engine: Engine, backend: EngineBackend) -> None:
    async def grow() -> list[int]:
        state = await backend.open()
        await backend.generate(state, [Text("to be kept")], SHORT)
        branches = await backend.fork(state, 2)
        await backend.generate(branches[0], [Text("more")], SHORT)
        return [state, *branches]

    states = run(backend, grow())
    wait_for(lambda: engine.stats().leases == 2)
    run(backend, backend.discard(states))
    wait_for(lambda: engine.stats().leases == 0)


def test_discarding_ends_what_runs(engine: Engine, backend: EngineBackend) -> None:
    state = run(backend, backend.open())
    running = backend.schedule(backend.generate(state, [Text("on and on ")], ENDLESS))
    wait_for(lambda: engine.stats().running == 1)
    run(backend, backend.discard([state]))
    with pytest.raises(RequestError, match="was discarded while a call ran on it"):
        running.result(5)
    wait_for(lambda: engine.stats().running == 0)


def test_closing_fails_open_calls_and_leaves_the_engine(engine: Engine) -> None:
    backend = EngineBackend(engine)
    state = run(backend, backend.open())
    running = backend.schedule(backend.generate(state, [Text("on and on ")], ENDLESS))
    wait_for(lambda: engine.stats().running == 1)
    backend.close()
    backend.close()
    with pytest.raises(BackendClosed, match="the backend was closed"):
        running.result(5)
    with pytest.raises(BackendClosed):
        backend.schedule(backend.open())
    assert engine.generate("abc", SamplingParams(max_tokens=3)).text == "ab"


def test_an_engine_that_was_closed_is_a_closed_backend() -> None:
    engine = Engine(**SIMULATED, transport="inproc", kv_slots=256)
    backend = EngineBackend(engine)
    engine.close()
    with pytest.raises(BackendClosed, match="engine was closed"):
        backend.schedule(backend.open())
    backend.close()


def test_many_programs_at_once(engine: Engine, backend: EngineBackend) -> None:
    async def program(name: str) -> list[str]:
        state = await backend.open()
        await backend.generate(state, [Text(name)], SHORT)
        branches = await backend.fork(state, 3)
        answers = await asyncio.gather(
            *(backend.generate(branch, [Text(str(index))], SHORT) for index, branch in enumerate(branches))
        )
        await backend.discard([state, *branches])
        return [answer.outputs[0].text for answer in answers]

    async def all_of_them() -> list[list[str]]:
        return await asyncio.gather(*(program(f"<{number:03}>") for number in range(100)))

    assert run(backend, all_of_them()) == [[f"<{number:03}"] * 3 for number in range(100)]
