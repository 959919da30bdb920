"""Scores and leases through the whole engine, on the simulated backend."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from sgframe import Engine, SamplingParams
from sgframe.constraints import Constraint
from sgframe.errors import ContextLengthExceeded, RequestError, RequestFailed
from sgframe.front.scoring import Scored
from sgframe_simulated.model import logprob, prefix_hashes

SIMULATED = {"model": "simulated", "backend": "simulated", "source": "simulated"}
PROMPT = [256, *b"The answer is "]
PATHS = [[*b"yes"], [*b"yet"], [*b"no"]]


@pytest.fixture(scope="module", params=["inproc", "zmq"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with Engine(**SIMULATED, transport=request.param, kv_slots=256) as engine:
        yield engine


def score(engine: Engine, prompt: Sequence[int], paths: Sequence[Sequence[int]], lease: int = 0) -> Scored:
    return engine.run_coroutine(engine.asynchronous.score(prompt, paths, lease=lease)).result(10)


def eventually(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 5
    while not holds() and time.monotonic() < until:
        time.sleep(0.01)
    assert holds()


def test_each_token_of_each_path_is_scored_after_what_stands_before_it(engine: Engine) -> None:
    assert score(engine, PROMPT, PATHS).logprobs == tuple(
        tuple(logprob(prefix_hashes([*PROMPT, *path[:i]])[-1], token) for i, token in enumerate(path)) for path in PATHS
    )


def test_the_prompt_is_computed_once_and_so_is_what_paths_have_in_common(engine: Engine) -> None:
    engine.flush_cache()
    first = score(engine, PROMPT, PATHS)
    assert (first.usage.prompt_tokens, first.usage.cached_tokens, first.computed) == (15, 0, 3)  # y, e and n
    assert score(engine, PROMPT, PATHS).usage.cached_tokens == 14


def test_a_tree_that_does_not_fit_is_refused(engine: Engine) -> None:
    with pytest.raises(
        ContextLengthExceeded, match="the prompt has 200 tokens and what is to be scored after it 57 more"
    ):
        score(engine, [1] * 200, [[2] * 58])
    with pytest.raises(
        ContextLengthExceeded, match="the prompt has 200 tokens and what is to be scored after it 58 more"
    ):
        score(engine, [1] * 200, [[2] * 30, [3] * 30])


@pytest.mark.parametrize("paths", [[], [[1], []]])
def test_a_path_has_at_least_one_token(engine: Engine, paths: list[list[int]]) -> None:
    with pytest.raises(RequestError, match="each path to score must have at least one token"):
        score(engine, PROMPT, paths)


def test_an_unknown_token_is_refused(engine: Engine) -> None:
    with pytest.raises(RequestError, match="the prompt holds 999999, which is no token id"):
        score(engine, PROMPT, [[999_999]])


def test_a_lease_outlasts_its_request_until_it_is_released(engine: Engine) -> None:
    lease = engine.run_coroutine(_new_lease(engine)).result(10)
    score(engine, PROMPT, PATHS, lease)
    engine.flush_cache()
    eventually(lambda: engine.stats().lease_tokens == 15)
    assert score(engine, PROMPT, PATHS).usage.cached_tokens == 14
    engine.run_coroutine(_release(engine, lease)).result(10)
    engine.flush_cache()
    eventually(lambda: engine.stats().slots_leased == 0)
    assert score(engine, PROMPT, PATHS).usage.cached_tokens == 0


async def _new_lease(engine: Engine) -> int:
    return engine.asynchronous.new_lease()


async def _release(engine: Engine, lease: int) -> None:
    engine.asynchronous.release_leases([lease])


def test_a_generation_leaves_its_prompt_and_output_leased(engine: Engine) -> None:
    async def generate() -> int:
        lease = engine.asynchronous.new_lease()
        async with await engine.asynchronous.submit(PROMPT, SamplingParams(max_tokens=4), lease=lease) as generation:
            async for _ in generation:
                pass
        return lease

    lease = engine.run_coroutine(generate()).result(10)
    eventually(lambda: engine.stats().lease_tokens == 15 + 3)
    engine.run_coroutine(_release(engine, lease)).result(10)
    engine.flush_cache()
    eventually(lambda: engine.stats().leases == 0)


def test_who_stops_waiting_for_scores_ends_the_request() -> None:
    slow = {"simulated": {"step_seconds": 0.2}}
    with Engine(**SIMULATED, transport="inproc", plugin=slow, max_step_tokens=64, max_running=4) as engine:
        scoring = engine.run_coroutine(engine.asynchronous.score([1] * 400, PATHS))
        eventually(lambda: engine.stats().running == 1)
        scoring.cancel()
        eventually(lambda: engine.stats().running == 0)
        assert engine.stats().slots_leased == 0


def test_a_request_that_takes_too_long_ends_with_an_error() -> None:
    slow = {"simulated": {"step_seconds": 0.1}}
    options = {"plugin": slow, "request_timeout": 0.15, "max_step_tokens": 64, "max_running": 4}
    with (
        Engine(**SIMULATED, transport="inproc", **options) as engine,
        pytest.raises(RequestFailed, match=r"timeout after 0\.15 s"),
    ):
        score(engine, [1] * 400, PATHS)


def test_a_constraint_can_be_compiled_before_it_is_wanted(engine: Engine) -> None:
    assert engine.run_coroutine(engine.asynchronous.prepare(Constraint("regex", "a+"))).result(10) == ()
    with pytest.raises(RequestError):
        engine.run_coroutine(engine.asynchronous.prepare(Constraint("regex", "("))).result(10)


def test_many_scores_at_once_are_kept_apart(engine: Engine) -> None:
    async def all_of_them() -> list[Scored]:
        calls = [engine.asynchronous.score([*PROMPT, n], PATHS) for n in range(20)]
        return list(await asyncio.gather(*calls))

    for n, scored in enumerate(engine.run_coroutine(all_of_them()).result(20)):
        assert scored.logprobs[2][0] == logprob(prefix_hashes([*PROMPT, n])[-1], ord("n"))
