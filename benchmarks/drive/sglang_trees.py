"""The prefix trees of SGLang (0.5.23), as peers. Can be imported only where SGLang can."""

from __future__ import annotations

from array import array
from time import perf_counter
from typing import Any

import torch
from sglang.srt.mem_cache.base_prefix_cache import BasePrefixCache, EvictParams, InsertParams, MatchPrefixParams
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.radix_cache import RadixCache, RadixKey
from sglang.srt.mem_cache.unified_cache.component_type import ComponentType
from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache

from sgframe.messages import Ints


class SGLangTree:
    """It keeps 64-bit ids and takes its arguments in structs; making them is not timed."""

    def __init__(self, cache: BasePrefixCache) -> None:
        self._cache = cache

    def match(self, tokens: Ints) -> float:
        return self._match(tokens)[0]

    def insert(self, tokens: Ints, slots: Ints, covered: int) -> float:
        params = InsertParams(key=_key(tokens), value=torch.tensor(slots))
        started = perf_counter()
        self._cache.insert(params)
        return perf_counter() - started

    def lock(self, tokens: Ints) -> float:
        node = self._match(tokens)[1]
        started = perf_counter()
        receipt = self._cache.inc_lock_ref(node)
        self._cache.dec_lock_ref(node, receipt.to_dec_params())
        return perf_counter() - started

    def evict(self, count: int) -> float:
        params = EvictParams(num_tokens=count)
        started = perf_counter()
        done = self._cache.evict(params)
        seconds = perf_counter() - started
        assert done.num_tokens_evicted >= count
        return seconds

    def _match(self, tokens: Ints) -> tuple[float, Any]:
        params = MatchPrefixParams(key=_key(tokens))
        started = perf_counter()
        found = self._cache.match_prefix(params)
        return perf_counter() - started, found.last_device_node


class Pool:
    """As much of a pool of slots as the trees ask for."""

    device = torch.device("cpu")

    def free(self, slots: torch.Tensor) -> None:
        """Take back."""

    def free_segment(self, slots: torch.Tensor, start_pos: int) -> None:
        """Take back."""


def python_tree() -> SGLangTree:
    return SGLangTree(RadixCache(_params()))


def rust_tree() -> SGLangTree:
    return SGLangTree(UnifiedRadixCache(_params(tree_components=(ComponentType.FULL,), tree_core_backend="rust")))


def _params(**options: Any) -> CacheInitParams:
    return CacheInitParams(False, None, Pool(), page_size=1, **options)


def _key(tokens: Ints) -> RadixKey:
    return RadixKey(array("q", tokens))
