"""Offers the speculator ``prompt-lookup``: an output goes on as it, or its prompt, did before."""

from __future__ import annotations

from typing import Self

from pydantic import Field, PositiveInt, model_validator

from sgframe import PluginSettings, Provider, hookimpl


class LookupSettings(PluginSettings):
    """The table ``[plugin.prompt-lookup]``."""

    shortest: PositiveInt = Field(default=2, description="Last tokens that must have occurred before")
    longest: PositiveInt = Field(
        default=4, description="Last tokens that are looked for at most; more alike, a better guess"
    )
    guesses: PositiveInt = Field(default=16, description="Most tokens guessed for a request at once")

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        if self.longest < self.shortest:
            raise ValueError(
                f"longest is {self.longest}, less than shortest, {self.shortest}: raise the one or lower the other"
            )
        return self


@hookimpl
def sgframe_speculators() -> list[Provider]:
    return [
        Provider(
            name="prompt-lookup",
            target="sgframe_lookup.lookup:PromptLookup",
            summary="what followed the last tokens when they occurred before; for outputs that repeat their prompt",
            settings=LookupSettings,
        )
    ]
