"""Meeting a server: what it calls its model, how it is told not to stop, how long its tokens are. Knows no rows."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import httpx

from drive.client import Endpoint, Prompt, Request, RequestFailed, complete
from drive.prompts import Texts

NEVER_STOP: tuple[dict[str, Any], ...] = (
    {"ignore_eos": True},
    {"generation_config": '{"do_sample": false, "eos_token_id": -1}'},  # transformers serve, which refuses the other
    {},
)
"""Ways to say that the end-of-sequence token ends nothing; the last does without."""


async def meet(url: str, model: str | None, prompt: Prompt, *, chat: bool) -> Endpoint:
    """How to ask the server at ``url``, tried with ``prompt``. ``model`` None takes the first that it lists.

    Raises RequestFailed when it refuses every way.
    """
    name = model or first_model(url)
    endpoint = Endpoint(url, {} if name is None else {"model": name})
    for way in NEVER_STOP:
        candidate = replace(endpoint, never_stop=way)
        try:
            await complete(candidate, Request(prompt, 2, chat))
        except RequestFailed as error:
            if error.status not in (400, 422) or way == NEVER_STOP[-1]:
                raise
        else:
            break
    return candidate


def first_model(url: str) -> str | None:
    """The first model that ``/v1/models`` names."""
    answer = httpx.get(f"{url}/v1/models", timeout=30.0)
    answer.raise_for_status()
    models = answer.json().get("data") or []
    return str(models[0]["id"]) if models else None


async def measure_texts(endpoint: Endpoint, *, chat: bool) -> Texts:
    """Texts fitted to this server's tokenizer; one token a word if it counts no tokens."""
    unfitted, random = Texts(1.0), Random(0)

    async def count(words: int) -> int:
        request = Request(unfitted.join(unfitted.draw(random, words)), 1, chat)
        return (await complete(endpoint, request)).prompt_tokens

    short, long = await count(50), await count(250)  # their difference leaves a template's own tokens out
    return Texts((long - short) / 200 if long > short else 1.0)
