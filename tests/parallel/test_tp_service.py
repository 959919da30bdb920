"""A service on several ranks says what it says on one: cached prefixes, chunks, retraction, scripts that force tokens."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
import torch_service
from rank_processes import RankProcesses
from tiny_models import CONFIGS, save_model
from torch_service import Served

from sgframe.interfaces.backend import Ranks
from sgframe.interfaces.source import Checkpoint
from sgframe_cpu import CpuSettings
from sgframe_cpu.executor import CpuExecutor

Serve = Callable[[str, int, bool], Served]


def serve(ranks: Ranks, checkpoint: Checkpoint, overlap: bool) -> Served | None:
    executor = CpuExecutor(CpuSettings(threads=1))
    try:
        if ranks.size > 1:
            executor.join(ranks, lambda reason: None)
        loaded = executor.load(torch_service.spec(checkpoint), lambda what, done, total: None)
        if ranks.rank:
            executor.follow()
            return None
        return torch_service.serve(executor, loaded.vocab_size, overlap=overlap)
    finally:
        executor.close()


@pytest.fixture(scope="module")
def served(ranks: RankProcesses, tmp_path_factory: pytest.TempPathFactory) -> Serve:
    """``served(kind, size, overlap)``: what so many ranks of that model gave."""
    checkpoint = cache(lambda kind: save_model(CONFIGS[kind](), tmp_path_factory.mktemp(kind), kind))
    return cache(lambda kind, size, overlap: ranks(size, serve, checkpoint(kind), overlap)[0])


def test_the_workload_leaves_nothing_out(served: Serve) -> None:
    counts = served("llama", 1, True).counts
    assert all(counts[name] for name in ("cached", "resumed", "forced", "chunks")), counts


CASES = [
    ("llama", 2, True),
    ("llama", 4, False),
    ("gemma3", 2, False),
    pytest.param("gemma3", 4, True, marks=pytest.mark.slow),
    pytest.param("llama", 2, False, marks=pytest.mark.slow),
    pytest.param("llama", 4, True, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("kind", "size", "overlap"), CASES)
def test_outputs_do_not_depend_on_the_number_of_ranks(served: Serve, kind: str, size: int, overlap: bool) -> None:
    alone, together = served(kind, 1, overlap), served(kind, size, overlap)
    assert together.outputs == alone.outputs
    assert together.counts == alone.counts
    for id, logprobs in alone.logprobs.items():
        assert together.logprobs[id] == pytest.approx(logprobs, abs=1e-4)
