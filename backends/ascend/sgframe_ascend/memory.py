"""What the driver and torch's allocator say of an NPU's memory."""

from __future__ import annotations

from types import ModuleType

from sgframe.messages import LedgerLine

RESERVE = 2**30
"""Bytes that stay unplanned: operators' workspaces and HCCL's buffers are taken at first use, beside torch's allocator.
Not measured yet."""


def available_memory(npu: ModuleType) -> int:
    """Bytes that could be allocated on this rank's device now, by ``npu``, which is torch_npu: what is free once torch has
    given back what it only keeps, less a reserve."""
    npu.npu.empty_cache()
    free, _ = npu.npu.mem_get_info()
    return max(int(free) - RESERVE, 0)


def ledger_lines(npu: ModuleType) -> list[LedgerLine]:
    """What of this rank's device is taken beside torch's own memory, and what is left."""
    free, total = npu.npu.mem_get_info()
    others = total - free - npu.npu.memory_reserved()
    return [
        LedgerLine("outside torch", others, "measured", "CANN's context, operators, other processes on the device"),
        LedgerLine("left free", free, "measured", f"of {total} bytes on the device"),
    ]
