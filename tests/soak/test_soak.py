"""The soak: short here, twenty minutes by ``make soak``."""

from __future__ import annotations

import time

import pytest
from hook_calls import hook_calls
from soak import Episode


@pytest.mark.timeout(0)
def test_random_services_lose_nothing_and_answer_right(pytestconfig: pytest.Config) -> None:
    seconds = pytestconfig.getoption("--soak-seconds")
    first = pytestconfig.getoption("--soak-seed")
    until = time.monotonic() + seconds
    seed, served = first, 0
    with hook_calls() as calls:
        while time.monotonic() < until:
            episode = Episode(seed)
            assert "sgframe_policies" in calls
            calls.clear()
            try:
                served += episode.run()
            except Exception as error:
                raise AssertionError(f"--soak-seed {seed}, {episode.parts}, {episode.limits}: {error}") from error
            assert calls == [], "plugins are asked at the start, and never again"
            seed += 1
    assert served > 10 * (seed - first)
