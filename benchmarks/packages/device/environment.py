"""Where the source roots stand, what is installed, and how kernels are imported where little is. Imports nothing of that."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

HOUSE = Path(__file__).resolve().parents[3]
SCRIPTS = HOUSE / "benchmarks"
ROOTS = (
    "core",
    "plugins",
    "backends/torch",
    "backends/cpu",
    "backends/cuda",
    "backends/ascend",
    "backends/simulated",
    "frontends",
    "benchmarks/packages",
)
KERNELS = ("torch", "triton", "numpy")
"""What the kernels and their references need."""
EXECUTOR = (*KERNELS, "msgspec", "pydantic", "pluggy", "transformers", "safetensors", "accelerate", "psutil")
"""What an executor needs."""
ENGINE = (*EXECUTOR, "tokenizers", "jinja2", "gguf", "yaml", "setproctitle", "zmq")
"""What the engine and its processes need."""
_DISTRIBUTIONS = {"yaml": "pyyaml", "zmq": "pyzmq"}


def search_path(entries: Iterable[str]) -> list[str]:
    """Where to look for modules: in our packages, then in ``entries``, but never beside the scripts, where ``kernels.py``
    is what transformers would take for Hugging Face's package of that name."""
    return [*(str(HOUSE / root) for root in ROOTS), *(entry for entry in entries if Path(entry).resolve() != SCRIPTS)]


def versions() -> str:
    """What the figures hold for, such as ``Python 3.12.3, torch 2.11.0``."""
    found = [f"Python {platform.python_version()}"]
    for name in (*ENGINE, "numba", "flashinfer", "pytest"):
        try:
            found.append(f"{name} {version(_DISTRIBUTIONS.get(name, name))}")
        except PackageNotFoundError:
            found.append(f"{name} absent")
    return ", ".join(found)


class _Anything:
    """Takes whatever a module says to a library while it is imported."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        pass

    def __init_subclass__(cls, **options: Any) -> None:
        pass

    def __class_getitem__(cls, item: Any) -> Any:
        return cls

    def __getattr__(self, name: str) -> Any:
        return _Anything()

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return _Anything()


class _StandIn(ModuleType):
    """A module in which every name is there: a class, or what may be called or looked into further."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything if name[0].isupper() else _StandIn(f"{self.__name__}.{name}")

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return _Anything()


def stand_in_for_absent(packages: Sequence[str] = ("msgspec", "pydantic", "pluggy")) -> None:
    """Let the kernels be imported with torch and triton alone.

    They read no message, no settings and no plugin; but modules that they import define some. Where a package for that is
    absent, a module takes its name in which definitions do nothing.
    """
    for name in packages:
        if find_spec(name) is None:
            sys.modules[name] = _StandIn(name)
