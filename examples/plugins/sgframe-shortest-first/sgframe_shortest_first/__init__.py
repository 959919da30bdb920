"""Offers the policy ``shortest-first``."""

from __future__ import annotations

from pydantic import Field, NonNegativeInt

from sgframe import PluginSettings, Provider, hookimpl


class ShortestFirstSettings(PluginSettings):
    """The table ``[plugin.shortest-first]``."""

    max_rounds: NonNegativeInt = Field(16, description="After being passed over in so many rounds a request goes first")


@hookimpl
def sgframe_policies() -> list[Provider]:
    return [
        Provider(
            name="shortest-first",
            target="sgframe_shortest_first.policy:ShortestFirst",
            summary="shortest prompt first; nobody is passed over more than max_rounds times",
            settings=ShortestFirstSettings,
        )
    ]
