"""Speculation in a whole engine: chosen, refused, counted, recorded and replayed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sgframe import Engine, SamplingParams
from sgframe.assembly.assemble import configure
from sgframe.errors import BackendUnavailable, PluginError
from sgframe.interfaces.backend import Capabilities
from sgframe.replay import replay

SIMULATED = {"model": "simulated", "backend": "simulated", "source": "simulated", "transport": "inproc"}


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def engine(journal: Path) -> Iterator[Engine]:
    """Its model repeats the prompt over and over, which can be looked up."""
    with Engine(**SIMULATED, speculator="prompt-lookup", kv_slots=4096, journal=str(journal)) as engine:
        yield engine


def test_outputs_are_those_of_the_model_and_a_replay_guesses_the_same(engine: Engine, journal: Path) -> None:
    results = engine.generate(["abc", "to and fro, "], SamplingParams(max_tokens=60))
    assert [result.text for result in results] == ["abc" * 15, ("to and fro, " * 5)[:55]]
    (stopped,) = engine.generate("abcde", SamplingParams(max_tokens=60, stop=("dea",))).outputs
    assert (stopped.text, stopped.finish_reason) == ("abc", "stop")
    engine.close()
    done = replay(journal)
    assert done.difference is None
    stats = done.scheduler.stats()
    assert stats.guessed_tokens >= stats.accepted_tokens > 80
    assert stats.steps < 30  # for 125 tokens and more


def test_by_default_nothing_guesses() -> None:
    assert configure(SIMULATED).settings.speculator == "none"


def test_a_backend_that_cannot_verify_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sgframe_simulated.backend.SimulatedBackend.probe", lambda backend: Capabilities(usable=True, device="d")
    )
    with pytest.raises(BackendUnavailable) as caught:
        configure(SIMULATED | {"speculator": "prompt-lookup"}).choose_usable()
    assert str(caught.value) == (
        "backend 'simulated' cannot verify guessed tokens, as speculator 'prompt-lookup' needs it: leave the speculator "
        "out, or choose another backend"
    )
    configure(SIMULATED).choose_usable()


def test_an_unknown_speculator_is_refused() -> None:
    with pytest.raises(
        PluginError, match=r"no plugin offers the speculator 'prompt-lookop' .*; did you mean 'prompt-lookup'"
    ):
        configure(SIMULATED | {"speculator": "prompt-lookop"}).choose()
