"""Offers the policy ``shortest-first``."""

from __future__ import annotations

from pydantic import Field, NonNegativeInt

from sgframe import PluginSettings, Provider, hookimpl


class ShortestFirstSettings(PluginSettings):
    """The table ``[plugin.shortest-first]``."""

    max_overtaken: NonNegativeInt = Field(
        default=16384,
        description="After so many tokens for later arrivals a request goes first; 0 is order of arrival",
    )


@hookimpl
def sgframe_policies() -> list[Provider]:
    return [
        Provider(
            name="shortest-first",
            target="sgframe_shortest_first.policy:ShortestFirst",
            summary="least work left first; who is overtaken counts for less, at max_overtaken tokens for nothing",
            settings=ShortestFirstSettings,
            api=1,
        )
    ]
