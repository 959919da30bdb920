"""Which of the Python packages that a CUDA executor stands on are here. Imports none of them."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path


def missing_software(cuda_version: str) -> list[str]:
    """What is missing, and what to do, for a driver that runs CUDA up to ``cuda_version``."""
    faults = [] if find_spec("triton") else ["triton is not installed (pip install triton)"]
    torch = find_spec("torch")
    if torch is None or torch.origin is None:
        return [f"torch is not installed; install its build for CUDA {cuda_version} or older", *faults]
    version, built_for = torch_build(Path(torch.origin).with_name("version.py").read_text())
    if not built_for:
        faults.insert(0, f"torch {version} is built without CUDA; install its build for CUDA {cuda_version} or older")
    return faults


def torch_build(version_file: str) -> tuple[str, str]:
    """torch's version, and the CUDA it was built for (empty if none), from the text of ``torch/version.py``."""
    version = re.search(r"^__version__ = '([^']+)'", version_file, re.MULTILINE)
    cuda = re.search(r"^cuda\b[^=]*= '([^']+)'", version_file, re.MULTILINE)
    return version[1] if version else "of unknown version", cuda[1] if cuda else ""
