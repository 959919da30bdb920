"""From an ExecutorSpec to a model in memory with its KV: what dtype and context, how many slots, and the ledger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sgframe.errors import ModelError
from sgframe.interfaces.backend import ExecutorSpec
from sgframe.messages import LedgerLine, Loaded, NewRow, ScheduleBatch, ints
from sgframe.sampling import TokenSampling
from sgframe_torch.config import read_config
from sgframe_torch.kv import LayerKV, allocate, choose_slots, slot_bytes
from sgframe_torch.models import Model, check_ranks, load_model
from sgframe_torch.models.rope import context_limit
from sgframe_torch.needs import PROMPT_SLICE, Needs, memory_errors
from sgframe_torch.ops import DeviceOps, Head, Hidden
from sgframe_torch.parallel.agreement import require_same, smallest
from sgframe_torch.parallel.group import Group
from sgframe_torch.rows import RowTable, StepInputs
from sgframe_torch.sampler import Sampler
from sgframe_torch.weights import tensor_shapes

SPARE_PAGES = 1
"""Pages behind the announced slots, which nobody reads: what a padded row of a graph writes to."""


@dataclass(frozen=True, slots=True)
class Running:
    """All that an executor holds while it runs. ``hidden`` and ``head`` are the model's, as the device likes them best."""

    model: Model
    hidden: Hidden
    head: Head
    kv: list[LayerKV]
    rows: RowTable
    announcement: Loaded


def load(spec: ExecutorSpec, ops: DeviceOps, group: Group, progress: Callable[[str, int, int], None]) -> Running:
    """Load this rank's part of the weights, size and allocate its KV. Raises ModelError when it does not fit, with the
    arithmetic, or cannot be divided among the ranks."""
    folder = Path(spec.checkpoint.folder)
    config = read_config(folder)
    check_ranks(config, group.size)
    dtype_name = choose_dtype(spec.dtype, ops)
    dtype = getattr(torch, dtype_name)
    context = choose_context(spec, config)
    require_same(group, config, spec, dtype_name)
    needs = Needs(spec, config, context, dtype, group.size, weight_bytes(folder, config, dtype, ops) // group.size)
    needs.check(smallest(group, ops.available_memory()))
    with memory_errors(needs):
        return _load(needs, ops, group, progress, dtype_name)


def _load(
    needs: Needs, ops: DeviceOps, group: Group, progress: Callable[[str, int, int], None], dtype_name: str
) -> Running:
    spec, config, context, dtype = needs.spec, needs.config, needs.context, needs.dtype
    model = load_model(Path(spec.checkpoint.folder), config, dtype, ops, group, progress)
    available = smallest(group, ops.available_memory())  # and by then all ranks have loaded
    per_slot, spare = slot_bytes(model.kv_shapes, dtype), SPARE_PAGES * ops.page_size
    room = max(0, available - needs.workspace - spare * per_slot)
    chosen = choose_slots(spec, context, per_slot, room, ops.kv_budget(room))
    slots = chosen // ops.page_size * ops.page_size
    if not slots:
        raise ModelError(f"{chosen} KV slots are less than a page of {ops.page_size}; give more kv_slots or kv_memory")
    ledger = [
        LedgerLine("weights", model.weight_bytes, "measured", f"{spec.checkpoint.name}, {dtype_name}"),
        LedgerLine("KV slots", slots * per_slot, "computed", f"{slots} slots × {per_slot} bytes"),
        LedgerLine("workspace", needs.workspace, "computed", "activations, logits and page table, at most"),
    ]
    if model.packed_bytes:
        ledger.insert(1, LedgerLine("packed head", model.packed_bytes, "measured", "copy of the tied embedding"))
    announcement = Loaded(
        vocab_size=config.vocab_size,
        context_length=context,
        slots=slots,
        page_size=ops.page_size,
        dtype=dtype_name,
        ledger=ledger,
    )
    kv = allocate(model.kv_shapes, slots + spare, dtype, ops.empty)
    running = Running(
        model,
        lambda step: model.hidden(step, kv),
        model.logits,
        kv,
        RowTable(spec.max_rows, context, ops),
        announcement,
    )
    inputs, last = _warm_up(running, ops)
    if not model.recordable:
        return running
    hidden = ops.recorded(running.hidden, inputs, spec.max_step_tokens)
    return replace(running, hidden=hidden, head=ops.recorded_head(running.head, last, spec.max_rows))


def _warm_up(running: Running, ops: DeviceOps) -> tuple[StepInputs, Tensor]:
    """Run a short prompt, a single token and a draw under a mask, so that kernels are compiled before the first request.
    Returns the inputs of the last step and its hidden states."""
    vocab_size, none = running.announcement.vocab_size, ints()
    sampling = TokenSampling(seed=0, temperature=1.0, top_p=0.9)
    most = min(PROMPT_SLICE, running.announcement.context_length, running.announcement.slots)
    for count in (most, 1):  # in slots that nobody has yet
        tokens, slots = ints([0] * count), ints(range(count))
        row = NewRow(0, tokens, count, none, sampling)
        step = running.rows.apply(ScheduleBatch(0, none, [row], [], ints([0]), ints([count]), slots, ints([1])))
        ops.begin(step.inputs)
        last = running.hidden(step.inputs)[-1:]
        logits = running.head(last)
        masks = torch.full((1, -(-vocab_size // 32)), -1, dtype=torch.int32, device=ops.device)
        Sampler(vocab_size, ops).choose(logits, [running.rows[0]], masks)
        running.rows.apply(ScheduleBatch(1, ints([0]), [], [], none, none, none, none))
    return step.inputs, last


def weight_bytes(folder: Path, config: Any, dtype: torch.dtype, ops: DeviceOps) -> int:
    """What the checkpoint's tensors take once they are loaded. Matrices are taken for linear layers, but for those of the
    vocabulary, which may be embeddings."""
    total = 0
    for shape in tensor_shapes(folder):
        weight = torch.empty(shape, dtype=dtype, device="meta")
        is_linear = len(shape) == 2 and shape[0] != config.vocab_size
        total += (ops.packed_bytes(weight) if is_linear else 0) or weight.nbytes
    return total


def choose_dtype(asked: str, ops: DeviceOps) -> str:
    """``asked``, or the device's preference for ``auto``. Raises ModelError for one that the device lacks."""
    if asked == "auto":
        return ops.dtypes[0]
    if asked not in ops.dtypes:
        raise ModelError(f"dtype {asked!r} cannot run on {ops.device}; choose auto or one of {', '.join(ops.dtypes)}")
    return asked


def choose_context(spec: ExecutorSpec, config: Any) -> int:
    """The context length in tokens. Raises ModelError when ``spec`` asks for more than the model can."""
    own = spec.checkpoint.context_length
    context = spec.context_length or own
    if context > own:
        raise ModelError(f"context_length is {context}, but {spec.checkpoint.name} was made for at most {own} tokens")
    limit = context_limit(config)
    if limit is not None and context > limit:
        raise ModelError(
            f"{spec.checkpoint.name} re-scales its rotary embedding beyond {limit} tokens, which paged KV cannot follow; "
            f"set context_length to {limit} or less (found {context})"
        )
    return context
