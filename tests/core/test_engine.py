"""``Engine`` as a Python user meets it, on the simulated backend, over both transports."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sgframe import Engine, SamplingParams
from sgframe.errors import (
    BackendUnavailable,
    ConfigError,
    ContextLengthExceeded,
    EngineDead,
    PluginError,
    RequestError,
    RequestFailed,
)

SIMULATED = {"model": "simulated", "backend": "simulated", "source": "simulated"}
ECHO = [256, *b"abc"]  # the simulated model repeats its prompt: BOS, a, b, c, BOS, a …


@pytest.fixture(scope="module", params=["inproc", "zmq"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with Engine(**SIMULATED, transport=request.param, kv_slots=4096) as engine:
        yield engine


def test_text_in_text_out(engine: Engine) -> None:
    result = engine.generate("abc", SamplingParams(max_tokens=8))
    assert result.prompt_tokens == tuple(ECHO)
    assert result.text == "abcabc"
    assert result.outputs[0].tokens == tuple(ECHO * 2)
    assert result.outputs[0].finish_reason == "length"


def test_token_ids_in(engine: Engine) -> None:
    assert engine.generate(list(b"xy"), SamplingParams(max_tokens=4)).text == "xyxy"


def test_a_list_of_prompts_gives_a_list_of_results(engine: Engine) -> None:
    results = engine.generate(["ab", [99, 100]], SamplingParams(max_tokens=3))
    assert [result.text for result in results] == ["ab", "cdc"]


def test_n_outputs_in_order(engine: Engine) -> None:
    result = engine.generate("abc", SamplingParams(max_tokens=4, n=3))
    assert [output.index for output in result.outputs] == [0, 1, 2]
    assert [output.text for output in result.outputs] == ["abc"] * 3


def test_the_stream_joins_to_the_whole(engine: Engine) -> None:
    params = SamplingParams(max_tokens=30)
    text = "hé🙂日本"
    assert "".join(delta.text for delta in engine.stream(text, params)) == engine.generate(text, params).text


def test_a_stop_string_cuts_the_text_before_it(engine: Engine) -> None:
    output = engine.generate("hello world", SamplingParams(max_tokens=40, stop=("lo wor",))).outputs[0]
    assert (output.text, output.finish_reason, output.stop_match) == ("hel", "stop", "lo wor")


def test_a_stop_token_ends_the_output_and_is_not_shown(engine: Engine) -> None:
    output = engine.generate("abc", SamplingParams(max_tokens=40, stop_token_ids=(99,))).outputs[0]
    assert (output.text, output.finish_reason, output.stop_match) == ("ab", "stop", 99)


def test_the_second_time_the_prompt_is_cached(engine: Engine) -> None:
    engine.generate("something new", SamplingParams(max_tokens=1))
    usage = engine.generate("something new", SamplingParams(max_tokens=1)).outputs[0].usage
    assert (usage.prompt_tokens, usage.cached_tokens) == (14, 13)


def test_flush_forgets(engine: Engine) -> None:
    engine.generate("to be forgotten", SamplingParams(max_tokens=1))
    assert engine.flush_cache() > 0
    assert engine.generate("to be forgotten", SamplingParams(max_tokens=1)).outputs[0].usage.cached_tokens == 0


def test_from_a_callers_own_event_loop(engine: Engine) -> None:
    async def main() -> tuple[str, str]:
        result = await engine.agenerate("abc", SamplingParams(max_tokens=4))
        pieces = [delta.text async for delta in engine.astream("abc", SamplingParams(max_tokens=4))]
        return result.text, "".join(pieces)

    assert asyncio.run(main()) == ("abc", "abc")


def test_from_many_threads(engine: Engine) -> None:
    texts: dict[int, str] = {}

    def work(number: int) -> None:
        texts[number] = engine.generate(f"t{number}", SamplingParams(max_tokens=6, ignore_eos=True)).text

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == {number: f"t{number}t{number}" for number in range(8)}


def test_leaving_a_stream_early_frees_its_slots(engine: Engine) -> None:
    for _ in engine.stream("abandoned", SamplingParams(max_tokens=2000)):
        break
    engine.generate("wait", SamplingParams(max_tokens=50))
    assert engine.stats().running == 0


def test_bad_requests_are_refused_and_the_next_one_works(engine: Engine) -> None:
    for prompt, params in [
        ([], SamplingParams()),
        ([-1], SamplingParams()),
        ([10**9], SamplingParams()),
        ("a", SamplingParams(temperature=float("nan"))),
        ("a", SamplingParams(n=0)),
        ("a", SamplingParams(stop=("",))),
        ("a", SamplingParams(logit_bias={10**6: 1.0})),
    ]:
        with pytest.raises(RequestError):
            engine.generate(prompt, params)
    assert engine.generate("ab", SamplingParams(max_tokens=3)).text == "ab"


def test_too_long_is_refused_with_both_numbers(engine: Engine) -> None:
    with pytest.raises(ContextLengthExceeded, match=r"5000 tokens.*4096"):
        engine.generate([1] * 5000, SamplingParams(max_tokens=1))
    with pytest.raises(ContextLengthExceeded, match=r"10 tokens.*4090.*4100.*4096.*4086"):
        engine.generate([1] * 10, SamplingParams(max_tokens=4090))
    assert len(engine.generate([65] * 4000, SamplingParams(max_tokens=96)).outputs[0].tokens) == 96


def test_without_max_tokens_the_context_is_the_limit(engine: Engine) -> None:
    assert len(engine.generate([65] * 4090, SamplingParams()).outputs[0].tokens) == 6


def test_one_bad_output_harms_nobody_else() -> None:
    table = {"simulated": {"nan_token": 33}}
    with Engine(**SIMULATED, transport="inproc", plugin=table) as engine:
        with pytest.raises(RequestFailed, match="not finite"):
            engine.generate("oh no!", SamplingParams(max_tokens=3))
        assert engine.generate("fine", SamplingParams(max_tokens=5)).text == "fine"


def test_a_step_that_raises_ends_its_requests_only() -> None:
    table = {"simulated": {"fail_at_step": 0}}
    with Engine(**SIMULATED, transport="inproc", plugin=table) as engine:
        with pytest.raises(RequestFailed, match="step 0"):
            engine.generate("one", SamplingParams(max_tokens=3))
        assert engine.generate("two", SamplingParams(max_tokens=4)).text == "two"


def test_after_close_everything_is_refused() -> None:
    engine = Engine(**SIMULATED, transport="inproc")
    engine.close()
    engine.close()
    with pytest.raises(EngineDead):
        engine.generate("abc")


def test_a_pool_smaller_than_the_context_bounds_the_context() -> None:
    with Engine(**SIMULATED, transport="inproc", kv_slots=64) as engine:
        with pytest.raises(ContextLengthExceeded, match="64"):
            engine.generate("abc", SamplingParams(max_tokens=1000))
        assert len(engine.generate("abc", SamplingParams()).outputs[0].tokens) == 60


def test_wrong_settings_say_what_is_meant() -> None:
    with pytest.raises(ConfigError, match="max_running"):
        Engine(**SIMULATED, max_runing=3)
    with pytest.raises(ConfigError, match="max_step_tokens is 8, less than max_running, 64"):
        Engine(**SIMULATED, transport="inproc", max_step_tokens=8)
    with pytest.raises(BackendUnavailable, match="simulated"):
        Engine(**(SIMULATED | {"backend": "cuda"}))


def test_a_script_without_a_main_guard_runs_once(short_path: Path) -> None:
    script = short_path / "script.py"
    script.write_text(
        "from sgframe import Engine, SamplingParams\n"
        "print('begin')\n"
        "engine = Engine(model='simulated', backend='simulated', source='simulated')\n"
        "print(engine.generate('abc', SamplingParams(max_tokens=4)).text)\n"
    )
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(short_path)}
    done = subprocess.run(
        [sys.executable, script], check=False, env=environ, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr, done.returncode) == ("begin\nabc\n", "", 0)


@pytest.mark.parametrize("transport", ["inproc", "zmq"])
def test_a_second_policy_and_cache_are_measured_in_shadow(transport: str) -> None:
    shadow = {"policy": "fcfs", "cache": "none"}
    with Engine(**SIMULATED, transport=transport, kv_slots=4096, shadow=shadow) as engine:
        for _ in range(2):
            engine.generate("abc", SamplingParams(max_tokens=1))
        while (measured := engine.stats().shadow) is None or measured.prompt_tokens < 8:
            time.sleep(0.01)
    assert (measured.policy, measured.cache) == ("fcfs", "none")
    assert (measured.prompt_tokens, measured.cached_tokens, measured.service_cached_tokens) == (8, 0, 3)


def test_a_strategy_that_cannot_be_imported_stops_the_start_in_shadow_too() -> None:
    shadow = {"plugin": {"radix": {"eviction": "no_such_module:Strategy"}}}
    with pytest.raises(PluginError, match=r"in the shadow: .*no_such_module"):
        Engine(**SIMULATED, transport="inproc", kv_slots=64, shadow=shadow)


def test_the_cache_is_described_as_far_as_it_is_wanted(engine: Engine) -> None:
    engine.flush_cache()
    engine.generate(list(b"described"), SamplingParams(max_tokens=1))
    (node,) = engine.describe_cache(limit=1, preview=4).nodes
    assert (node.length, list(node.tokens)) == (9, list(b"desc"))
