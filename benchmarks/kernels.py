"""Measures kernels by what the device can do at most: ``python benchmarks/kernels.py --help``.

On a GPU the Triton kernels of the cuda backend; where there is none, the compiled kernels of the cpu backend.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).with_name("packages")))

from device.environment import search_path, stand_in_for_absent
from device.sections import Outcome
from device.table import table


def main() -> None:
    options = _parser().parse_args()
    sys.path[:] = search_path(sys.path)
    stand_in_for_absent()
    import torch  # noqa: PLC0415 (it and our packages can be found from here on)
    from device.kernel_table import about, choose_device, measure  # noqa: PLC0415

    device = choose_device(cpu=options.cpu)
    print(f"{about(device)}\ntorch {torch.__version__}, numbers in {options.dtype}", flush=True)
    print(table([Outcome("kernels", measure(device, getattr(torch, options.dtype), quick=options.quick))]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Time attention and the small kernels; the ratios are by the copy bandwidth and the matrix product that "
        "are measured in the same run."
    )
    add = parser.add_argument
    add("--cpu", action="store_true", help="the kernels of the cpu backend, even if there is a GPU")
    add("--dtype", choices=("bfloat16", "float16", "float32"), default="bfloat16", help="number format (%(default)s)")
    add("--quick", action="store_true", help="tiny sizes: whether it runs, not how fast")
    return parser


if __name__ == "__main__":
    main()
