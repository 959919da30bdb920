"""Offers the policy ``lpm``: longest cached prefix first."""

from __future__ import annotations

from pydantic import Field, NonNegativeInt

from sgframe import PluginSettings, Provider, hookimpl


class LpmSettings(PluginSettings):
    """The table ``[plugin.lpm]``."""

    max_overtaken: NonNegativeInt = Field(
        default=16384,
        description="After so many tokens for later arrivals a request goes first; 0 is order of arrival",
    )


@hookimpl
def sgframe_policies() -> list[Provider]:
    return [
        Provider(
            name="lpm",
            target="sgframe_lpm.policy:LongestPrefixMatch",
            summary="longest cached prefix first; nobody is overtaken by more than max_overtaken tokens",
            settings=LpmSettings,
        )
    ]
