"""Hundreds of streams at once, clients that vanish, a cache that is flushed meanwhile, and far too little memory."""

from __future__ import annotations

import asyncio
import json
import random
from collections import defaultdict
from typing import Any

import httpx
import pytest
from servers import SIMULATED, served

from sgframe_simulated.model import expected_tokens


class Visitor:
    """One streaming client with a prompt and wishes of its own; ``vanishes_after`` seconds, or never."""

    def __init__(self, dice: random.Random, longest: int, vanishing: float) -> None:
        fresh = [dice.randrange(97, 123) for _ in range(dice.randrange(1, longest))]
        shared = [97, 98, 99, 100] * dice.randrange(1, longest // 4)
        self.prompt = dice.choice([fresh, shared])
        self.n = dice.choice([1, 1, 2, 3])
        self.max_tokens = dice.randrange(1, longest)
        self.vanishes_after = dice.random() if dice.random() < vanishing else None

    async def visit(self, client: httpx.AsyncClient) -> None:
        """Raises AssertionError unless the streamed texts are what the model's formula says."""
        if self.vanishes_after is None:
            text = bytes(expected_tokens(self.prompt, self.max_tokens, "echo", 260)).decode()
            assert await self._texts(client) == dict.fromkeys(range(self.n), text)
            return
        try:
            await asyncio.wait_for(self._texts(client), self.vanishes_after)
        except TimeoutError:
            return

    async def _texts(self, client: httpx.AsyncClient) -> dict[int, str]:
        body = {"model": "simulated", "prompt": self.prompt, "n": self.n, "max_tokens": self.max_tokens, "stream": True}
        texts: defaultdict[int, str] = defaultdict(str)
        async with client.stream("POST", "/v1/completions", json=body) as answer:
            lines = [line async for line in answer.aiter_lines() if line]
        assert lines[-1] == "data: [DONE]", lines[-1]
        for line in lines[:-1]:
            for choice in json.loads(line.removeprefix("data: "))["choices"]:
                texts[choice["index"]] += choice["text"]
        return dict(texts)


async def storm(url: str, visitors: list[Visitor]) -> None:
    """Everybody at once, and a flush of the cache now and then until the last has gone."""
    async with httpx.AsyncClient(base_url=url, timeout=100, limits=httpx.Limits(max_connections=None)) as client:
        visits = asyncio.gather(*(visitor.visit(client) for visitor in visitors))
        while not visits.done():
            assert (await client.post("/flush_cache")).status_code == 200
            await asyncio.sleep(0.02)
        await visits


@pytest.mark.parametrize(
    ("visitors", "longest", "vanishing", "options"),
    [
        (300, 40, 0.0, ()),
        (200, 90, 1.0, ("--set", "simulated.step_seconds=0.01")),
        (120, 90, 0.3, ("--kv-slots", "200", "--set", "simulated.step_seconds=0.001")),
        (80, 60, 0.2, ("--kv-slots", "128", "--max-step-tokens", "17", "--max-running", "17", "--cache", "none")),
        (80, 60, 0.2, ("--kv-slots", "128", "--max-step-tokens", "17", "--max-running", "17", "--policy", "fcfs")),
    ],
    ids=["all stay", "all vanish", "little memory", "no cache", "small steps"],
)
def test_every_text_is_right_and_nothing_stays(
    visitors: int, longest: int, vanishing: float, options: tuple[str, ...], checks: Any
) -> None:
    dice = random.Random(7)
    with served(*SIMULATED, *options) as server, server.client() as client:
        asyncio.run(storm(server.url, [Visitor(dice, longest, vanishing) for _ in range(visitors)]))
        stats = checks.comes_to_rest(client)
        assert (stats["retractions"] > 0) == ("--kv-slots" in options)
        checks.goes_on(client)
        assert " ERROR " not in server.output
