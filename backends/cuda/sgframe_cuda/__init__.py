"""The cuda backend: what it is called and how it is set. Knows no torch; the work stands behind its target."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Self

from pydantic import Field, PositiveInt, model_validator

from sgframe import PluginSettings, Provider, hookimpl


class CudaSettings(PluginSettings):
    """Settings of the cuda backend.

    Attributes:
        attention: ``triton`` for the kernels that come with sgframe; ``flashinfer`` for FlashInfer's, where it has one
            that fits and the step is not replayed from a graph; ``torch`` is the slow plain one, without graphs.
        graphs: record decode steps as CUDA graphs and replay them.
        graph_rows: most rows of a recorded step. A decode step with more rows is computed without a graph.
        memory_share: how much of the memory that weights and workspace leave free KV may take.
    """

    attention: Literal["triton", "flashinfer", "torch"] = "triton"
    graphs: bool = True
    graph_rows: PositiveInt = 256
    memory_share: float = Field(default=0.9, gt=0, le=1)

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.attention == "torch" and self.graphs and "graphs" in self.model_fields_set:
            raise ValueError("attention 'torch' cannot be recorded; leave graphs out, or choose attention 'triton'")
        if "graph_rows" in self.model_fields_set and not self.records:
            raise ValueError("graph_rows is set, but no graphs are recorded; leave it out")
        return self

    @property
    def records(self) -> bool:
        """Whether decode steps are recorded as graphs."""
        return self.graphs and self.attention != "torch"


@hookimpl
def sgframe_backends() -> Iterable[Provider]:
    return (
        Provider(
            name="cuda",
            target="sgframe_cuda.backend:CudaBackend",
            summary="NVIDIA GPUs, through PyTorch and Triton",
            settings=CudaSettings,
        ),
    )
