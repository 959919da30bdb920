"""A rank reads its part of a checkpoint and no more."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from sgframe_torch.parallel.shards import Cut, Sharding, Style
from sgframe_torch.weights import Weights, tensor_names

CPU = torch.device("cpu")
TABLE = torch.arange(30.0).view(5, 6)


@pytest.fixture
def folder(tmp_path):
    save_file({"table": TABLE, "bias": torch.arange(5.0)}, tmp_path / "model.safetensors")
    return tmp_path


def weights(folder, *, progress=lambda *call: None, **cuts):
    return Weights(folder, torch.float32, CPU, progress, lambda name, shape: cuts.get(name))


def test_rows(folder):
    assert weights(folder, table=Cut(0, 1, 3))["table"].equal(TABLE[1:3])


def test_columns(folder):
    assert weights(folder, table=Cut(1, 2, 4))["table"].equal(TABLE[:, 2:4])


@pytest.mark.parametrize(("start", "present"), [(3, 2), (6, 0)])
def test_what_lies_behind_the_end_is_zeros(folder, start, present):
    part = weights(folder, table=Cut(0, start, start + 3))["table"]
    assert part.equal(torch.cat([TABLE[start:], torch.zeros(3 - present, 6)]))


def test_parts_are_joined(folder):
    save_file({"table": TABLE, "other": -TABLE}, folder / "model.safetensors")
    joined = weights(folder, table=Cut(0, 0, 1), other=Cut(0, 2, 4)).joined("table", "other")
    assert joined.equal(torch.cat([TABLE[:1], -TABLE[2:4]]))


def test_a_part_of_nothing_is_not_there(folder):
    assert "bias" in weights(folder)
    assert "bias" not in weights(folder, bias=Cut(0, 0, 0))


def test_progress_is_in_bytes_of_the_parts(folder):
    calls = []
    own = weights(folder, progress=lambda *call: calls.append(call), table=Cut(1, 2, 4))
    own["table"], own["bias"]
    header = (folder / "model.safetensors").stat().st_size - 4 * (30 + 5)
    assert calls == [("weights", 40, 60 + header), ("weights", 60, 60 + header)]
    assert own.held_bytes == 60


def test_names_are_read_from_the_headers(folder):
    assert tensor_names(folder) == {"table", "bias"}


PLAN = {
    "layers.*.q_proj": Style.COLUMNS,
    "layers.*.k_proj": Style.KV_HEADS,
    "layers.*.o_proj": Style.ROWS,
    "embed": Style.VOCABULARY,
}


@pytest.mark.parametrize(
    ("name", "shape", "cuts"),
    [
        ("layers.0.q_proj.weight", [8, 16], [Cut(0, 0, 2), Cut(0, 2, 4), Cut(0, 4, 6), Cut(0, 6, 8)]),
        ("layers.7.q_proj.bias", [8], [Cut(0, 0, 2), Cut(0, 2, 4), Cut(0, 4, 6), Cut(0, 6, 8)]),
        ("layers.0.k_proj.weight", [4, 16], [Cut(0, 0, 2), Cut(0, 0, 2), Cut(0, 2, 4), Cut(0, 2, 4)]),
        ("layers.0.o_proj.weight", [16, 8], [Cut(1, 0, 2), Cut(1, 2, 4), Cut(1, 4, 6), Cut(1, 6, 8)]),
        ("layers.0.o_proj.bias", [16], [None, Cut(0, 0, 0), Cut(0, 0, 0), Cut(0, 0, 0)]),
        ("embed.weight", [9, 16], [Cut(0, 0, 3), Cut(0, 3, 6), Cut(0, 6, 9), Cut(0, 9, 12)]),
        ("layers.0.norm.weight", [16], [None] * 4),
    ],
)
def test_what_is_a_ranks_own_by_the_plan(name, shape, cuts):
    assert [Sharding(PLAN, kv_heads=2, rank=rank, size=4).cut(name, shape) for rank in range(4)] == cuts


def test_one_rank_has_everything():
    assert Sharding(PLAN, kv_heads=2, rank=0, size=1).cut("layers.0.q_proj.weight", [8, 16]) is None


# ----------------------------------------------------------------------------------------------------------- memory


def peak_of_loading(ranks, folder):
    """The most private memory that this rank had while it read its parts of ``folder``, in bytes."""
    cuts = {"rows": Cut(0, 0, 1024), "columns": Cut(1, 0, 1024)}
    before, done, peaks = private(), threading.Event(), [0]

    def watch():
        while not done.wait(0.001):
            peaks.append(private() - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    own = Weights(Path(folder), torch.bfloat16, CPU, lambda *call: None, lambda name, shape: cuts[name])
    parts = own["rows"], own["columns"]
    done.set()
    watcher.join()
    return max(peaks), sum(part.nbytes for part in parts)


def private() -> int:
    return 1024 * int(re.search(r"RssAnon:\s+(\d+)", Path("/proc/self/status").read_text())[1])


def test_memory_peaks_near_the_size_of_the_parts(ranks, tmp_path):
    whole = torch.ones(4096, 4096)
    save_file({"rows": whole, "columns": whole.clone()}, tmp_path / "model.safetensors")
    ((peak, size),) = ranks(1, peak_of_loading, str(tmp_path))
    assert size == 2 * 4096 * 1024 * 2
    assert peak < 1.25 * size  # one of the two tensors, as it is stored, has four times this
