"""The programs as plain calls: the whole text with each, side by side where nothing has to be waited for."""

from __future__ import annotations

import asyncio
from collections import Counter

from drive.programs_client import Client
from drive.programs_tasks import (
    CHAIN_TOKENS,
    CHAINS,
    CONCLUSION_TOKENS,
    DIMENSIONS,
    GRADES,
    LETTERS,
    LEVELS,
    NUMBER_TOKENS,
    SUMMARY_TOKENS,
    THOUGHT_TOKENS,
    VIEW_TOKENS,
    WIDTH,
    Task,
)


async def tree_of_thought(client: Client, task: Task) -> str:
    text = task.text
    for level in range(LEVELS):
        text += f"\nStep {level + 1}:"
        thoughts = await client.samples(text, THOUGHT_TOKENS, WIDTH, task.seed)
        steps = [f"{text}{thought}\nThis step is" for thought in thoughts]
        grades = await asyncio.gather(*(client.scores(step, GRADES) for step in steps))
        best = max(range(WIDTH), key=lambda branch: grades[branch][0])
        text = steps[best] + _best(GRADES, grades[best])
    return await client.text(f"{text}\nConclusion:", CONCLUSION_TOKENS)


async def self_consistency(client: Client, task: Task) -> str:
    chains = await client.samples(task.text, CHAIN_TOKENS, CHAINS, task.seed)
    asked = (client.text(f"{task.text}{chain}\nThe answer is", NUMBER_TOKENS) for chain in chains)
    answers = await asyncio.gather(*asked)
    ((answer, _),) = Counter(answers).most_common(1)
    return answer


async def multiple_choice(client: Client, task: Task) -> str:
    return _best(LETTERS, await client.scores(task.text, LETTERS))


async def judge(client: Client, task: Task) -> str:
    asked = (client.text(f"{task.text}\nThe {dimension} of this text:", VIEW_TOKENS) for dimension in DIMENSIONS)
    views = await asyncio.gather(*asked)
    told = "".join(f"\nIts {dimension}:{view}" for dimension, view in zip(DIMENSIONS, views, strict=True))
    return await client.text(f"{task.text}{told}\nIn short:", SUMMARY_TOKENS)


def _best(options: tuple[str, ...], scores: list[float]) -> str:
    return options[scores.index(max(scores))]
