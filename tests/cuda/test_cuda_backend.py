"""The settings of the cuda backend."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from sgframe_cuda import CudaSettings


def test_by_default_the_kernels_of_triton_are_recorded() -> None:
    settings = CudaSettings()
    assert (settings.attention, settings.records, settings.graph_rows, settings.memory_share) == (
        "triton",
        True,
        256,
        0.9,
    )


@pytest.mark.parametrize(
    ("given", "records"),
    [
        ({"graphs": False}, False),
        ({"attention": "torch"}, False),
        ({"attention": "torch", "graphs": False}, False),
        ({"attention": "flashinfer"}, True),
    ],
)
def test_what_can_be_recorded_is_unless_graphs_are_off(given: dict[str, Any], records: bool) -> None:
    assert CudaSettings(**given).records is records


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"attention": "torch", "graphs": True}, "attention 'torch' cannot be recorded; leave graphs out"),
        ({"graphs": False, "graph_rows": 8}, "graph_rows is set, but no graphs are recorded"),
        ({"attention": "torch", "graph_rows": 8}, "graph_rows is set, but no graphs are recorded"),
        ({"graph_rows": 0}, "greater than 0"),
        ({"memory_share": 0}, "greater than 0"),
        ({"memory_share": 1.1}, "less than or equal to 1"),
        ({"attention": "fast"}, "'triton', 'flashinfer' or 'torch'"),
        ({"streams": 2}, "Extra inputs are not permitted"),
    ],
)
def test_what_cannot_be_honoured_is_refused(given: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        CudaSettings(**given)
