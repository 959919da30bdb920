"""What the driver and torch's allocator say of a device's memory."""

from __future__ import annotations

import torch

from sgframe.messages import LedgerLine

RESERVE = 512 * 2**20
"""Bytes that stay unplanned: libraries take memory at first calls, beside torch's allocator (modules of kernels, workspaces
of cuBLAS, the nodes of CUDA graphs)."""


def available_memory(device: torch.device) -> int:
    """Bytes that could be allocated on ``device`` now: what is free once torch has given back what it only keeps, less a
    reserve."""
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(device)
    return max(free - RESERVE, 0)


def ledger_lines(device: torch.device) -> list[LedgerLine]:
    """What of ``device`` is taken beside torch's own memory, and what is left."""
    free, total = torch.cuda.mem_get_info(device)
    others = total - free - torch.cuda.memory_reserved(device)
    return [
        LedgerLine("outside torch", others, "measured", "CUDA context, libraries, other processes on the device"),
        LedgerLine("left free", free, "measured", f"of {total} bytes on the device"),
    ]
