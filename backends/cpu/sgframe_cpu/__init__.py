"""The cpu backend: what it is called and how it is set. Knows no torch; the work stands behind its target."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Self

from pydantic import NonNegativeInt, model_validator

from sgframe import PluginSettings, Provider, hookimpl


class CpuSettings(PluginSettings):
    """Settings of the cpu backend.

    Attributes:
        threads: threads for the model's arithmetic; 0 takes every core this process may run on.
        kernels: ``numba`` compiles kernels for this machine; ``torch`` is the slow plain way.
        weights: what linear layers hold: their weights ``as-stored``, or rounded to ``int8`` or ``int4``, which is smaller
            and quicker but not the same model; see docs/quantization.md.
    """

    threads: NonNegativeInt = 0
    kernels: Literal["numba", "torch"] = "numba"
    weights: Literal["as-stored", "int8", "int4"] = "as-stored"

    @model_validator(mode="after")
    def _quantized_weights_have_kernels(self) -> Self:
        if self.weights != "as-stored" and self.kernels != "numba":
            raise ValueError(
                f"weights = {self.weights!r} is for kernels = 'numba', found {self.kernels!r}; leave out one of them"
            )
        return self


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
