"""Checks the cuda backend on a GPU and measures it: ``python benchmarks/check_cuda.py --help``.

Needs the standard library alone; each section says what it needs beside that. Nothing is fetched.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).with_name("packages")))

from device.environment import ENGINE, EXECUTOR, KERNELS, search_path, versions
from device.room import choose_folder, describe_room
from device.sections import Outcome, Section, missing, run_stages
from device.table import summary, table

BUDGET = 450.0
LAST_SECONDS = 0.5
"""Before a section is stopped: then it prints where it is."""
STAGES = (
    (Section("device", "device.machine:run", 120, KERNELS),),
    (  # nothing is timed: they compile side by side
        Section("attention", "device.attention_checks:common", 120, KERNELS),
        Section("attention in float32", "device.attention_checks:float32", 120, KERNELS),
        Section("other heads", "device.attention_checks:heads", 120, KERNELS),
        Section("small kernels", "device.small_checks:run", 120, KERNELS),
        Section("models", "device.oracle:run", 120, EXECUTOR),
        Section("contract", "device.contract:run", 120, (*EXECUTOR, "pytest")),
        Section("engine", "device.engine_checks:run", 120, ENGINE),
        Section("large model", "device.checkpoints:run", 180, EXECUTOR),
    ),
    (Section("kernel speed", "device.speed:run", 70, KERNELS, after=("device",)),),
    (Section("tiles", "device.sweep:run", 60, KERNELS, after=("device",)),),
    (Section("decode", "device.decode:run", 70, EXECUTOR, after=("device", "large model")),),
    (Section("serving", "device.served:run", 90, ENGINE, after=("large model",)),),
    (Section("peer", "device.peer:run", 110, ENGINE, after=("large model",)),),
)
SECTIONS = tuple(section for stage in STAGES for section in stage)


def main() -> int:
    """Run what was asked for; 0 if all of it ran and held."""
    options = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that sections end and the folder goes
    wanted = _with_bases(options.only)
    stages = [[section for section in stage if section.name in wanted] for stage in STAGES]
    base = options.folder or choose_folder(options.device)
    print(f"{versions()}\n{describe_room(base, options.device)}", flush=True)
    if absent := missing(sorted({name for stage in stages for section in stage for name in section.needs})):
        print(f"not installed here: {', '.join(absent)}; what needs them is not run", flush=True)
    with tempfile.TemporaryDirectory(prefix="check-cuda-", dir=base) as name:
        folder = Path(name)
        logs = options.logs or folder / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        outcomes = run_stages(
            stages,
            lambda section, rows, limit: _command(section, rows, limit, options.device, folder),
            _environment(options.device),
            logs,
            options.budget,
            _tell,
        )
    if options.device == "cpu":
        print("\nA DRY RUN on the processor: nothing below says anything of a GPU.")
    print(f"\n{table(outcomes)}")
    return int(not all(outcome.held for outcome in outcomes))


def _command(section: Section, rows: Path, limit: float, device: str, folder: Path) -> Sequence[str]:
    words = section.target, rows, device, folder, limit - LAST_SECONDS
    return sys.executable, "-P", "-m", "device.child", *map(str, words)


def _with_bases(names: Sequence[str]) -> set[str]:
    """``names`` and those of all sections that they build on; of all where none is named."""
    wanted = set(names or [section.name for section in SECTIONS])
    for section in reversed(SECTIONS):
        if section.name in wanted:
            wanted |= set(section.after)
    return wanted


def _environment(device: str) -> Mapping[str, str]:
    """That of the sections: our packages, nothing from a network, and the interpreter for a dry run."""
    environ = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    path = os.pathsep.join(search_path(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))))
    interpret = {"TRITON_INTERPRET": "1"} if device == "cpu" else {}
    return environ | interpret | {"PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}


def _tell(outcome: Outcome) -> None:
    print(f"{outcome.name}: {summary(outcome.rows)}, {outcome.seconds:.0f} s", flush=True)


def _folder(name: str) -> Path:
    folder = Path(name).resolve()
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {folder}")
    return folder


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Check the kernels, the executor and the engine of the cuda backend on this machine's GPU, and measure "
        "them by what the GPU can do and by a peer. The table comes last. Ends with 1 if a check failed or was not run; "
        "an aim of speed that was missed is only said."
    )
    add = parser.add_argument
    add("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: a small dry run without a GPU (%(default)s)")
    add("--only", action="append", choices=[section.name for section in SECTIONS], help="a section; may be repeated")
    add("--budget", type=float, default=BUDGET, help="most seconds for all sections together (%(default)s)")
    add(
        "--folder",
        type=_folder,
        help="where files go while it runs (/dev/shm if there is room, else that for temporary files)",
    )
    add("--logs", type=Path, metavar="FOLDER", help="keep there what the sections print")
    return parser


if __name__ == "__main__":
    sys.exit(main())
