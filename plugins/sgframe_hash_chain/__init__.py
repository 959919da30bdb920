"""Offers the cache ``hash-chain``: whole blocks, each found by the hash of what precedes it and its tokens."""

from __future__ import annotations

from pydantic import Field, NonNegativeInt

from sgframe import PluginSettings, Provider, hookimpl


class HashChainSettings(PluginSettings):
    """The table ``[plugin.hash-chain]``."""

    block: NonNegativeInt = Field(
        default=0,
        description="Tokens in a block, a whole number of pages; 0 is one page. Only whole blocks are shared, and each "
        "costs the same time whatever its length",
    )
    ghost_tokens: NonNegativeInt = Field(
        default=2**20,
        description="How many evicted tokens are remembered (not their KV), to tell a miss that was evicted from one that "
        "was never seen; the oldest are forgotten first",
    )


@hookimpl
def sgframe_caches() -> list[Provider]:
    return [
        Provider(
            name="hash-chain",
            target="sgframe_hash_chain.cache:HashChainCache",
            summary="whole blocks found by chained hash; evicts the least recently leased blocks first",
            settings=HashChainSettings,
        )
    ]
