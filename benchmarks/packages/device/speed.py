"""What the Triton kernels achieve on this device, and FlashInfer's where it is installed."""

from __future__ import annotations

import torch

from device.clock import Limits
from device.kernel_ops import KernelOps
from device.kernel_speed import kernel_rows
from device.rows import Report
from device.target import Target


def run(target: Target, report: Report) -> None:
    ops, limits = KernelOps(torch.device(target.device)), Limits.load(target.limits_file)
    for row in kernel_rows(ops, target.sizes, limits, torch.bfloat16):
        report(row)
