"""The soak: short here, twenty minutes by ``make soak``."""

from __future__ import annotations

import time

import pytest
from soak import Episode


@pytest.mark.timeout(0)
def test_random_services_lose_nothing_and_answer_right(pytestconfig: pytest.Config) -> None:
    seconds = pytestconfig.getoption("--soak-seconds")
    first = pytestconfig.getoption("--soak-seed")
    until = time.monotonic() + seconds
    seed, served = first, 0
    while time.monotonic() < until:
        episode = Episode(seed)
        try:
            served += episode.run()
        except Exception as error:
            raise AssertionError(f"--soak-seed {seed}, {episode.parts}, {episode.limits}: {error}") from error
        seed += 1
    assert served > 10 * (seed - first)
