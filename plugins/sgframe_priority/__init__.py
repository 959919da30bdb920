"""Offers the policy ``priority``: the most urgent first, by preemption if need be."""

from __future__ import annotations

from pydantic import Field, NonNegativeInt, PositiveInt

from sgframe import PluginSettings, Provider, hookimpl


class PrioritySettings(PluginSettings):
    """The table ``[plugin.priority]``."""

    max_overtaken: NonNegativeInt = Field(
        default=65536,
        description="After so many tokens for later arrivals a request goes first; 0 is order of arrival",
    )
    preempt_margin: PositiveInt = Field(
        default=1, description="By how much a request must outrank a running one to take its place"
    )


@hookimpl
def sgframe_policies() -> list[Provider]:
    return [
        Provider(
            name="priority",
            target="sgframe_priority.policy:MostUrgentFirst",
            summary="higher priority first, by preemption; nobody is overtaken by more than max_overtaken tokens",
            settings=PrioritySettings,
        )
    ]
