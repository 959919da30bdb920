"""Offers the policy ``lpm``: longest cached prefix first."""

from __future__ import annotations

from pydantic import NonNegativeInt

from sgframe import PluginSettings, Provider, hookimpl


class LpmSettings(PluginSettings):
    """``max_rounds``: after being passed over in this many rounds a request goes first; 0 is order of arrival."""

    max_rounds: NonNegativeInt = 16


@hookimpl
def sgframe_policies() -> list[Provider]:
    return [
        Provider(
            name="lpm",
            target="sgframe_lpm.policy:LongestPrefixMatch",
            summary="longest cached prefix first; nobody is passed over more than max_rounds times",
            settings=LpmSettings,
        )
    ]
