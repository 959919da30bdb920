"""What no cache beats while requests come in the order of the trace: whole blocks of prompts, nothing locked."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from sgframe_simulator.trace import Int64s, Trace


def infinite_hit_rate(trace: Trace) -> float:
    """Prompt tokens that a cache without a limit finds, in percent."""
    seen: set[int] = set()
    hits = 0
    for request in range(len(trace)):
        blocks = trace.blocks_of(request).tolist()
        hits += _hit_tokens(trace, request, next((i for i, name in enumerate(blocks) if name not in seen), len(blocks)))
        seen.update(blocks)
    return _percent(trace, hits)


def belady_hit_rate(trace: Trace, slots: int) -> float:
    """The same for a cache of ``slots`` tokens that knows the future (Belady 1966): whose next use is farthest goes first.

    The deeper of a path goes first where both are wanted again at once; what is never wanted again is not kept. A prompt
    longer than the cache enters it as far as it goes.
    """
    capacity = slots // trace.block
    never = len(trace)
    next_uses = _next_uses(trace)
    kept: dict[int, int] = {}  # block → request that wants it next
    farthest: list[tuple[int, int, int]] = []  # (-next use, -depth, block); stale where ``kept`` says otherwise
    hits = 0
    for request in range(len(trace)):
        start, end = trace.starts[request], trace.starts[request + 1]
        blocks = trace.blocks[start:end].tolist()
        hits += _hit_tokens(trace, request, next((i for i, name in enumerate(blocks) if name not in kept), len(blocks)))
        for depth, (name, wanted) in enumerate(zip(blocks[:capacity], next_uses[start:end].tolist(), strict=False)):
            if wanted == never:
                kept.pop(name, None)
            else:
                kept[name] = wanted
                heappush(farthest, (-wanted, -depth, name))
        while len(kept) > capacity:
            wanted, _, name = heappop(farthest)
            if kept.get(name) == -wanted:
                del kept[name]
    return _percent(trace, hits)


def _next_uses(trace: Trace) -> Int64s:
    """For each entry of ``trace.blocks`` the next request with that block; ``len(trace)`` if there is none."""
    requests = np.repeat(np.arange(len(trace)), np.diff(trace.starts))
    order = np.argsort(trace.blocks, kind="stable")
    following = np.full(len(order), len(trace))
    same = trace.blocks[order[:-1]] == trace.blocks[order[1:]]
    following[order[:-1][same]] = requests[order[1:][same]]
    return following


def _hit_tokens(trace: Trace, request: int, blocks: int) -> int:
    return min(blocks * trace.block, int(trace.input_lengths[request]))


def _percent(trace: Trace, hits: int) -> float:
    return 100 * hits / int(trace.input_lengths.sum())
