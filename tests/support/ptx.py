"""Compiles Triton kernels for GPUs that are not there. Each call does so in a process of its own, since a process in which
kernels are interpreted cannot compile them."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Job:
    """A kernel to compile: its arguments' types, such as ``*bf16``, ``i32`` and ``fp32``, and its constexprs' values.

    Pointers are taken for aligned to 16 bytes, as those of tensors are. ``options`` are ``num_warps`` and ``num_stages``.
    """

    kernel: Any
    signature: Mapping[str, str]
    constants: Mapping[str, Any]
    capability: int
    options: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Compiled:
    """``shared`` is in bytes a block, ``spilled`` in bytes a thread that did not fit its ``registers``."""

    ptx: str
    shared: int
    registers: int
    spilled: int


def compile_to_ptx(
    kernel: Any, signature: Mapping[str, str], constants: Mapping[str, Any], capability: int, **options: int
) -> str:
    """The PTX of one kernel; see Job."""
    return compile_all([Job(kernel, signature, constants, capability, options)])[0].ptx


def compile_all(jobs: Sequence[Job]) -> list[Compiled]:
    """Compile all ``jobs`` in one process. A kernel that does not compile fails the test with the compiler's words."""
    request = [{**vars(each), "kernel": f"{each.kernel.fn.__module__}:{each.kernel.fn.__name__}"} for each in jobs]
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TRITON_CACHE_DIR": cache}
        environment.pop("TRITON_INTERPRET", None)
        command = [sys.executable, __file__]
        done = subprocess.run(
            command, input=json.dumps(request), env=environment, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr
    return [Compiled(**each) for each in json.loads(done.stdout)]


def _compile(
    kernel: str, signature: dict[str, str], constants: dict[str, Any], capability: int, options: dict[str, int]
) -> Compiled:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    module, name = kernel.split(":")
    function = getattr(importlib.import_module(module), name)
    types = {each: "constexpr" if each in constants else signature[each] for each in function.arg_names}
    aligned = {(place,): [["tt.divisibility", 16]] for place, each in enumerate(types.values()) if each.startswith("*")}
    source = ASTSource(function, types, constants, aligned)
    with contextlib.redirect_stdout(io.StringIO()) as log:
        result = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    registers, spilled = (
        int(re.findall(pattern, log.getvalue())[0]) for pattern in (r"(\d+) registers", r"(\d+) bytes spill stores")
    )
    return Compiled(result.asm["ptx"], result.metadata.shared, registers, spilled)


def _main() -> None:
    from triton import knobs

    knobs.nvidia.dump_ptxas_log = True
    print(json.dumps([asdict(_compile(**job)) for job in json.load(sys.stdin)]))


if __name__ == "__main__":
    _main()
