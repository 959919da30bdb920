"""Faults inside the front: a tokenizer that raises harms its request alone; traffic that breaks off ends the engine."""

from __future__ import annotations

import asyncio
import errno
import gc
import tempfile
from collections.abc import AsyncIterator

import pytest

from sgframe.assembly.assemble import assemble
from sgframe.errors import ConfigError, EngineDead, RequestFailed
from sgframe.front.async_engine import AsyncEngine
from sgframe.front.outputs import Result, collect
from sgframe.sampling import SamplingParams

SIMULATED = {**dict.fromkeys(("model", "backend", "source"), "simulated"), "transport": "inproc", "kv_slots": 4096}


@pytest.fixture
async def engine() -> AsyncIterator[AsyncEngine]:
    configuration, choices = assemble(SIMULATED, None, {})
    engine = await AsyncEngine.start(configuration.settings, choices)
    yield engine
    await engine.close()


async def generate(engine: AsyncEngine, prompt: str, **params: object) -> Result:
    async with await engine.submit(prompt, SamplingParams(**params)) as generation:  # type: ignore[arg-type]
        return Result(generation.prompt_tokens, await collect(generation))


async def test_a_token_that_cannot_become_text_ends_its_request_alone(
    engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    spell = engine.tokenizer.token_bytes
    monkeypatch.setattr(engine.tokenizer, "token_bytes", lambda token: spell(token) if token != 33 else 1 // 0)
    bad, good = await asyncio.gather(
        generate(engine, "oh!", max_tokens=2000, n=2), generate(engine, "abc", max_tokens=8), return_exceptions=True
    )
    assert isinstance(bad, RequestFailed)
    assert "ZeroDivisionError" in str(bad)
    assert isinstance(good, Result)
    assert good.text == "abcabc"
    await engine.flush_cache()
    while engine.stats().running:  # the test's time limit is the bound
        await asyncio.sleep(0.01)
    assert engine.stats().generated_tokens < 2000


async def test_traffic_that_breaks_off_ends_the_engine_and_not_in_silence(
    engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.manager, "_take", lambda message: 1 // 0)
    with pytest.raises(EngineDead, match="ZeroDivisionError"):
        await generate(engine, "abc", max_tokens=8)
    assert engine.died.is_set()


async def test_an_engine_that_is_closed_as_soon_as_it_has_started_leaves_nothing_undone(
    recwarn: pytest.WarningsRecorder,
) -> None:
    gc.collect()  # what others have left
    recwarn.clear()
    configuration, choices = assemble(SIMULATED, None, {})
    await (await AsyncEngine.start(configuration.settings, choices)).close()
    gc.collect()
    assert [str(warning.message) for warning in recwarn] == []


@pytest.mark.parametrize("function", ["gettempdir", "mkdtemp"])
async def test_a_machine_without_a_place_for_sockets_is_told_what_to_do(
    monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise OSError(errno.EROFS, "Read-only file system")

    configuration, choices = assemble(SIMULATED, None, {})
    monkeypatch.setattr(tempfile, function, refuse)
    with pytest.raises(ConfigError, match=r"Read-only file system; set the environment variable TMPDIR"):
        await AsyncEngine.start(configuration.settings, choices)
