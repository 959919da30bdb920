"""Which of the Python packages that the CUDA executor stands on are here, and whether the driver can run them. Imports
none of them."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path


def missing_software(cuda_version: str, attention: str = "triton") -> list[str]:
    """What is missing, and what to do, for a driver that runs CUDA up to ``cuda_version`` and the chosen ``attention``."""
    faults = [] if find_spec("triton") else ["triton is not installed (pip install triton)"]
    if attention == "flashinfer" and not find_spec("flashinfer"):
        faults.append(
            "attention is set to 'flashinfer', which is not installed (pip install flashinfer-python, or set attention to "
            "'triton')"
        )
    return [*_torch_faults(cuda_version), *faults]


def _torch_faults(cuda_version: str) -> list[str]:
    torch = find_spec("torch")
    if torch is None or torch.origin is None:
        return [f"torch is not installed; install its build for {_runs(cuda_version)}"]
    version, built_for = torch_build(Path(torch.origin).with_name("version.py").read_text())
    if not built_for:
        return [f"torch {version} is built without CUDA; install its build for {_runs(cuda_version)}"]
    if _major(built_for) > _major(cuda_version):
        return [
            f"the NVIDIA driver is too old: torch {version} is built for CUDA {built_for}, the driver runs CUDA up to "
            f"{cuda_version}; update the driver, or install torch's build for {_runs(cuda_version)}"
        ]
    return []


def _runs(cuda_version: str) -> str:
    """What a driver runs: by CUDA's minor version compatibility also newer releases, as far as the first number is the
    same."""
    return f"CUDA {_major(cuda_version)}.x or older"


def _major(version: str) -> int:
    return int(version.partition(".")[0])


def torch_build(version_file: str) -> tuple[str, str]:
    """torch's version, and the CUDA it was built for (empty if none), from the text of ``torch/version.py``."""
    version = re.search(r"^__version__ = '([^']+)'", version_file, re.MULTILINE)
    cuda = re.search(r"^cuda\b[^=]*= '([^']+)'", version_file, re.MULTILINE)
    return version[1] if version else "of unknown version", cuda[1] if cuda else ""
