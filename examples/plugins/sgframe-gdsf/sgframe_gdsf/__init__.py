"""Offers the cache ``gdsf``."""

from __future__ import annotations

from pydantic import NonNegativeInt

from sgframe import PluginSettings, Provider, hookimpl


class GdsfSettings(PluginSettings):
    """The table ``[plugin.gdsf]``.

    ``ghost_tokens``: how many evicted tokens are remembered without their KV, to tell a miss that was evicted from one that
    was never seen.
    """

    ghost_tokens: NonNegativeInt = 2**22


@hookimpl
def sgframe_caches() -> list[Provider]:
    return [
        Provider(
            name="gdsf",
            target="sgframe_gdsf.cache:GdsfCache",
            summary="radix tree that keeps what is found often and costs much to compute again",
            settings=GdsfSettings,
            api=1,
        )
    ]
