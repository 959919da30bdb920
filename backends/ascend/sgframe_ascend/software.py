"""The software that the ascend executor stands on: CANN, and torch_npu, which must be the one of the torch that is here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from packaging.requirements import Requirement

from sgframe.errors import BackendUnavailable

OPERATORS = (
    "npu_add_rms_norm",
    "npu_apply_rotary_pos_emb",
    "npu_fused_infer_attention_score",
    "npu_rms_norm",
    "npu_scatter_pa_kv_cache",
    "npu_swiglu",
)
"""What the executor calls of torch_npu."""

_TOOLKIT_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")  # set by CANN's set_env.sh


def missing_software(environment: Mapping[str, str] = os.environ) -> list[str]:
    """What is missing or does not fit, and what to do; without importing any of it."""
    faults = []
    toolkit = next((environment[name] for name in _TOOLKIT_VARIABLES if environment.get(name)), None)
    if toolkit is None:
        faults.append("CANN is not set up (source its set_env.sh)")
    elif not Path(toolkit).is_dir():
        faults.append(f"CANN is not in {toolkit} (source its set_env.sh)")
    return [*faults, *_torch_npu_faults()]


def _torch_npu_faults() -> list[str]:
    if not find_spec("torch_npu"):
        return ["torch_npu is not installed (pip install 'sgframe[ascend]')"]
    try:
        found, torch = metadata.distribution("torch_npu"), metadata.version("torch")
    except metadata.PackageNotFoundError:  # built in its own folder: nothing says what it is for
        return []
    wanted = next((each for each in map(Requirement, found.requires or ()) if each.name == "torch"), None)
    if wanted is None or wanted.specifier.contains(torch, prereleases=True):
        return []
    return [f"torch_npu {found.version} needs {wanted}, found is torch {torch} (install the two that belong together)"]


def load_torch_npu() -> ModuleType:
    """The module torch_npu, which makes its device and HCCL known to torch. Raises BackendUnavailable."""
    try:
        module = import_module("torch_npu")
    except Exception as error:  # it loads CANN and changes torch, and may fail at either in any way
        raise BackendUnavailable(
            f"backend 'ascend' cannot run: torch_npu does not load ({type(error).__name__}: {error}); source CANN's "
            "set_env.sh, and see that driver, CANN, torch and torch_npu belong together"
        ) from error
    missing = [name for name in ("npu", *OPERATORS) if not hasattr(module, name)]
    if missing:
        raise BackendUnavailable(
            f"backend 'ascend' cannot run: {module} has no {', '.join(missing)}; install torch-npu 2.13 or newer "
            "(pip install 'sgframe[ascend]')"
        )
    return module
