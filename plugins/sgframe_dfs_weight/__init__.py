"""Offers the policy ``dfs-weight``: depth first over the cached prefixes, where most wait first."""

from __future__ import annotations

from pydantic import Field, NonNegativeInt

from sgframe import PluginSettings, Provider, hookimpl


class DfsWeightSettings(PluginSettings):
    """The table ``[plugin.dfs-weight]``."""

    max_overtaken: NonNegativeInt = Field(
        default=16384,
        description="After so many tokens for later arrivals a request goes first; 0 is order of arrival",
    )


@hookimpl
def sgframe_policies() -> list[Provider]:
    return [
        Provider(
            name="dfs-weight",
            target="sgframe_dfs_weight.policy:HeaviestBranchFirst",
            summary="those who share a cached prefix run together; nobody is overtaken by more than max_overtaken tokens",
            settings=DfsWeightSettings,
        )
    ]
