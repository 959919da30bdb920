"""Offers the ``simulated`` backend and model source: a server without torch, weights or files. Imports only ``sgframe``."""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from sgframe import PluginSettings, Provider, hookimpl


class SimulatedSettings(PluginSettings):
    """What the simulated device is and does.

    Attributes:
        mode: what the model says: ``echo`` repeats the prompt, ``hash`` depends on every token before.
        vocab_size: token ids; 0 takes the checkpoint's.
        context_length: most tokens of a request; 0 takes the checkpoint's.
        slots: KV slots, unless the engine asks for a number or a size.
        page_size: tokens in a page.
        step_seconds: what a step takes at least.
        prefill_seconds_per_token: what each token of a row that computes several adds.
        decode_seconds_per_row: what each row that computes one token adds.
        fail_at_step: the step whose forward raises (the first is 0); -1 for none.
        nan_token: rows whose prompt holds this token have logits that are not finite; -1 for none.
    """

    mode: Literal["echo", "hash"] = "echo"
    vocab_size: NonNegativeInt = 0
    context_length: NonNegativeInt = 0
    slots: PositiveInt = 65536
    page_size: PositiveInt = 1
    step_seconds: NonNegativeFloat = 0.0
    prefill_seconds_per_token: NonNegativeFloat = 0.0
    decode_seconds_per_row: NonNegativeFloat = 0.0
    fail_at_step: int = -1
    nan_token: int = -1


class SimulatedSourceSettings(PluginSettings):
    """``context_length`` is the most tokens of one request, prompt and output."""

    context_length: PositiveInt = 4096


@hookimpl
def sgframe_backends() -> list[Provider]:
    return [
        Provider(
            name="simulated",
            target="sgframe_simulated.backend:SimulatedBackend",
            summary="No device: a model whose answers are known by formula and that proves which KV slot it read",
            settings=SimulatedSettings,
        )
    ]


@hookimpl
def sgframe_model_sources() -> list[Provider]:
    return [
        Provider(
            name="simulated",
            target="sgframe_simulated.source:SimulatedSource",
            summary="The model 'simulated': a tokenizer of single bytes, no weights",
            settings=SimulatedSourceSettings,
        )
    ]
