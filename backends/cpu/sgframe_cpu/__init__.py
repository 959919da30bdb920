"""The cpu backend: what it is called and how it is set. Knows no torch; the work stands behind its target."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import NonNegativeInt

from sgframe import PluginSettings, Provider, hookimpl


class CpuSettings(PluginSettings):
    """Settings of the cpu backend.

    Attributes:
        threads: threads for the model's arithmetic; 0 takes every core this process may run on.
        attention: ``numba`` compiles the paged attention kernel for this machine; ``torch`` is the slow plain one.
        packed_linear: lay bfloat16 weights out once for oneDNN rather than at every call.
    """

    threads: NonNegativeInt = 0
    attention: Literal["numba", "torch"] = "numba"
    packed_linear: bool = True


@hookimpl
def sgframe_backends() -> Iterable[Provider]:
    return (
        Provider(
            name="cpu",
            target="sgframe_cpu.backend:CpuBackend",
            summary="PyTorch on this machine's processor cores",
            settings=CpuSettings,
            requires=("torch", "transformers", "safetensors", "numba"),
        ),
    )
