"""Decode steps recorded and replayed, on a device whose recordings replay torch operations, not Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from sgframe.errors import ModelError
from sgframe_torch.graphs import DecodeGraphs, FixedStep, bucket_sizes
from sgframe_torch.kv import KVShape, LayerKV, allocate
from sgframe_torch.ops import DeviceOps
from sgframe_torch.rows import StepInputs

VOCAB, WIDTH, CONTEXT, MAX_ROWS = 11, 6, 8, 11
SLOTS = SPARE = MAX_ROWS * CONTEXT


class Recorder(TorchDispatchMode):
    """Keeps every operation with its tensors, and refuses those for which a host waits."""

    def __init__(self) -> None:
        super().__init__()
        self._done: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "_local_scalar_dense" in str(func) or "nonzero" in str(func):
            raise RuntimeError("operation not permitted when stream is capturing")
        outcome = func(*args, **kwargs or {})
        self._done.append((func, args, kwargs or {}, outcome))
        return outcome

    def replay(self) -> None:
        for func, args, kwargs, outcome in self._done:
            again = func(*args, **kwargs)
            for old, new in zip(tree_leaves(outcome), tree_leaves(again), strict=True):
                if isinstance(old, Tensor):
                    old.copy_(new)


class RecordingOps(DeviceOps):
    """A processor with graphs. ``log`` tells what was recorded and replayed, in the number of rows."""

    device, dtypes, graph_rows = torch.device("cpu"), ("float32",), MAX_ROWS

    def __init__(self) -> None:
        self.log: list[str] = []
        self.rows = 0

    def available_memory(self) -> int:
        return 1000 - 100 * len(self.log)

    def kv_budget(self, available: int) -> int:
        return available

    def begin(self, step: StepInputs) -> None:
        self.rows = len(step.rows)

    def capture(self, run: Callable[[], None]) -> Callable[[], None]:
        with Recorder() as recorder:
            run()
        rows = self.rows
        self.log.append(f"recorded {rows}")

        def replay() -> None:
            self.log.append(f"replayed {rows}")
            recorder.replay()

        return replay


class ToyModel:
    """One layer of attention over paged KV for steps of one token a row, without a look at the host."""

    weight_bytes = packed_bytes = 0

    def __init__(self) -> None:
        self.kv_shapes = [KVShape(1, WIDTH, WIDTH)]
        random = torch.Generator().manual_seed(0)
        self._tokens, self._positions, self._head = (
            torch.randn(size, WIDTH, generator=random) for size in (VOCAB, CONTEXT, VOCAB)
        )
        self.runs: list[StepInputs] = []

    def hidden(self, step: StepInputs, kv: list[LayerKV]) -> Tensor:
        self.runs.append(step)
        x = self._tokens[step.tokens] + self._positions[step.positions]
        kv[0].store(step.slots, x[:, None], -x[:, None])
        lines = step.page_table[step.rows]
        keys, values = kv[0].keys[lines, 0], kv[0].values[lines, 0]
        scores = torch.einsum("rd,rkd->rk", x, keys)
        unseen = torch.arange(CONTEXT) >= step.kv_lengths[:, None]
        weights = scores.masked_fill(unseen, -torch.inf).softmax(-1)
        return x + torch.einsum("rk,rkd->rd", weights, values.nan_to_num())

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden @ self._head.T


class Bench:
    """A model with its KV, page table and graphs."""

    def __init__(self) -> None:
        self.model, self.ops = ToyModel(), RecordingOps()
        self.kv = allocate(self.model.kv_shapes, SLOTS + 1, torch.float32, self.ops.empty)
        for tensor in self.kv[0]:
            tensor.normal_(generator=torch.Generator().manual_seed(1))
        self.page_table = torch.randperm(SLOTS, generator=torch.Generator().manual_seed(2)).int().view(-1, CONTEXT)
        self.graphs = DecodeGraphs(self.model, self.kv, self.ops, self.page_table, MAX_ROWS, SPARE)
        self.ops.log.clear()

    def step(self, rows: list[int], lengths: list[int]) -> StepInputs:
        """One token of each of ``rows``, which makes it ``lengths`` long."""
        positions = torch.tensor(lengths) - 1
        return StepInputs(
            tokens=torch.tensor([(3 * row + length) % VOCAB for row, length in zip(rows, lengths, strict=True)]),
            positions=positions,
            slots=self.page_table[torch.tensor(rows), positions].long(),
            rows=torch.tensor(rows, dtype=torch.int32),
            query_starts=torch.arange(len(rows) + 1, dtype=torch.int32),
            kv_lengths=torch.tensor(lengths, dtype=torch.int32),
            page_table=self.page_table,
            host_starts=np.arange(len(rows) + 1, dtype=np.int32),
            host_lengths=np.array(lengths, dtype=np.int32),
        )

    def eager(self, step: StepInputs) -> tuple[Tensor, Tensor]:
        """The same without graphs, on a copy of the KV."""
        kv = [LayerKV(each.keys.clone(), each.values.clone()) for each in self.kv]
        hidden = self.model.hidden(step, kv)
        return hidden, self.model.logits(hidden)

    def run(self, step: StepInputs) -> tuple[Tensor, Tensor]:
        found = self.graphs.run(step)
        assert found is not None
        return found


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize(
    ("max_rows", "sizes"),
    [
        (1, [1]),
        (2, [1, 2]),
        (3, [1, 2, 3]),
        (8, [1, 2, 4, 8]),
        (11, [1, 2, 4, 8, 11]),
        (40, [1, 2, 4, 8, 16, 24, 32, 40]),
    ],
)
def test_sizes_are_small_ones_then_multiples_of_8_up_to_the_most(max_rows: int, sizes: list[int]) -> None:
    assert bucket_sizes(max_rows) == sizes


@pytest.mark.parametrize("count", range(1, MAX_ROWS + 1))
def test_a_replay_gives_what_the_model_gives(bench: Bench, count: int) -> None:
    step = bench.step([10 - row for row in range(count)], [1 + (3 * row) % CONTEXT for row in range(count)])
    hidden, logits = bench.eager(step)
    replayed = bench.run(step)
    torch.testing.assert_close(replayed[0], hidden, rtol=0, atol=1e-6)
    torch.testing.assert_close(replayed[1], logits, rtol=0, atol=1e-5)


def test_a_replay_writes_the_kv_of_its_rows_and_else_the_spare_slot_alone(bench: Bench) -> None:
    step = bench.step([7, 2, 5], [4, 8, 1])
    bench.kv[0].keys[SPARE] = 0
    before = bench.kv[0].keys.clone()
    bench.run(step)
    changed = (bench.kv[0].keys != before).flatten(1).any(1).nonzero().view(-1).tolist()
    assert changed == sorted([*step.slots.tolist(), SPARE])


def test_a_row_that_has_ended_is_not_written_again(bench: Bench) -> None:
    gone = bench.step([4], [6])
    bench.run(bench.step([1, 2, 3, 4], [5, 5, 5, 6]))
    bench.kv[0].keys[gone.slots] = torch.nan
    bench.run(bench.step([1, 2, 3], [6, 6, 6]))
    assert bench.kv[0].keys[gone.slots].isnan().all()


def test_padded_rows_read_one_token_however_long_the_row_was_that_stood_there(bench: Bench) -> None:
    fixed = next(step for step in bench.model.runs if len(step.rows) == 4)
    bench.run(bench.step([1, 2, 3, 4], [5, 5, 5, 8]))
    bench.run(bench.step([1, 2, 3], [6, 6, 6]))
    assert (fixed.kv_lengths.tolist(), fixed.rows.tolist()) == ([6, 6, 6, 1], [1, 2, 3, 0])


def test_what_the_padded_rows_read_harms_nobody(bench: Bench) -> None:
    step = bench.step([3, 4, 5], [2, 3, 4])
    hidden, _ = bench.eager(step)
    bench.kv[0].keys[bench.page_table[0, 0].item()] = torch.nan
    torch.testing.assert_close(bench.run(step)[0], hidden, rtol=0, atol=1e-6)


def test_the_smallest_recording_that_holds_all_rows_is_replayed(bench: Bench) -> None:
    for count in (1, 2, 3, 5, 8, 9):
        bench.run(bench.step(list(range(count)), [1] * count))
    assert bench.ops.log == [f"replayed {rows}" for rows in (1, 2, 4, 8, 8, 11)]


def test_a_replay_runs_no_python_and_reads_the_tensors_of_its_recording(bench: Bench) -> None:
    bench.model.runs.clear()
    step = bench.step([1, 2], [3, 4])
    hidden = bench.run(step)[0].clone()
    for tensor in (step.tokens, step.positions, step.slots, step.rows, step.kv_lengths, step.query_starts):
        tensor.fill_(-1)
    bench.ops.log.clear()
    bench.graphs._replays[2]()
    assert bench.model.runs == []
    torch.testing.assert_close(bench.graphs._hidden[:2], hidden, rtol=0, atol=0)


def test_each_size_is_run_before_it_is_recorded_the_largest_first() -> None:
    ops, model = RecordingOps(), ToyModel()
    kv = allocate(model.kv_shapes, SLOTS + 1, torch.float32, ops.empty)
    DecodeGraphs(model, kv, ops, torch.zeros(4, CONTEXT, dtype=torch.int32), 4, SPARE)
    assert [len(step.rows) for step in model.runs] == [4, 4, 4, 2, 2, 1, 1]  # once more to learn the sizes
    assert all(isinstance(step, FixedStep) for step in model.runs)
    assert ops.log == ["recorded 4", "recorded 2", "recorded 1"]


def test_what_recordings_take_of_the_memory_is_told(bench: Bench) -> None:
    assert (bench.graphs.ledger_line.name, bench.graphs.ledger_line.bytes) == ("graphs", 500)


def test_what_a_run_gives_stands_until_the_next(bench: Bench) -> None:
    step = bench.step([1], [3])
    hidden, logits = bench.run(step)
    bench.run(bench.step([2], [5]))
    again = bench.run(step)
    assert (again[0].data_ptr(), again[1].data_ptr()) == (hidden.data_ptr(), logits.data_ptr())


def two_tokens_of_a_row(step: StepInputs) -> StepInputs:
    return replace(step, host_starts=np.array([0, 2, 3], np.int32))


def no_rows(step: StepInputs) -> StepInputs:
    return replace(step, host_starts=np.zeros(1, np.int32), host_lengths=np.zeros(0, np.int32))


def branches(step: StepInputs) -> StepInputs:
    return replace(step, paged=False)


@pytest.mark.parametrize("change", [two_tokens_of_a_row, no_rows, branches])
def test_other_steps_are_left_to_be_computed(bench: Bench, change: Callable[[StepInputs], StepInputs]) -> None:
    assert bench.graphs.run(change(bench.step([1, 2], [3, 3]))) is None
    assert bench.ops.log == []


def test_more_rows_than_recorded_are_left_to_be_computed(bench: Bench) -> None:
    many = bench.step([0] * (MAX_ROWS + 1), [1] * (MAX_ROWS + 1))
    assert bench.graphs.run(many) is None


def test_a_model_that_waits_for_the_device_cannot_be_recorded() -> None:
    class Waiting(ToyModel):
        def logits(self, hidden: Tensor) -> Tensor:
            return super().logits(hidden) * float(hidden.amax())

    model, ops = Waiting(), RecordingOps()
    kv = allocate(model.kv_shapes, SLOTS + 1, torch.float32, ops.empty)
    with pytest.raises(ModelError, match=r"a step of 2 rows .* on cpu: operation not permitted.*; set graphs to false"):
        DecodeGraphs(model, kv, ops, torch.zeros(2, CONTEXT, dtype=torch.int32), 2, SPARE)
