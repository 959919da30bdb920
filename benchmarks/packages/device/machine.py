"""Is the device there, what is it, and what can it do at most: what others are measured by."""

from __future__ import annotations

import torch

from device.clock import Clock, measure_limits
from device.kernel_speed import limit_rows
from device.rows import Report, Row, checked
from device.target import Target


def run(target: Target, report: Report) -> None:
    device = torch.device(target.device)
    if device.type == "cuda":
        if not torch.cuda.is_available():
            built = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built without CUDA"
            report(checked("a GPU", f"torch {torch.__version__}, {built}, finds none; see nvidia-smi"))
            return
        facts = torch.cuda.get_device_properties(device)
        free, total = torch.cuda.mem_get_info(device)
        what = f"{facts.name}, compute capability {facts.major}.{facts.minor}, {facts.multi_processor_count} SMs"
        report(Row(what, value=free / 2**30, unit="GiB", note=f"free of {total / 2**30:.0f}"))
    sizes = target.sizes
    limits = measure_limits(Clock(device, max(sizes.seconds, 0.01)), device, torch.bfloat16, sizes.copied, sizes.side)
    limits.save(target.limits_file)
    for row in limit_rows(limits):
        report(row)
