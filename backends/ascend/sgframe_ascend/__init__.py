"""The ascend backend: what it is called and how it is set. Knows no torch; the work stands behind its target."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sgframe import PluginSettings, Provider, hookimpl


class AscendSettings(PluginSettings):
    """Settings of the ascend backend.

    Attributes:
        page_size: tokens of a KV page. The attention operator takes multiples of 16 up to 512 where a row computes one
            token, and multiples of 128 where it computes more; with other sizes a prefill copies its row's KV first.
        memory_share: how much of the memory that weights leave free KV may take.
    """

    page_size: Annotated[int, Field(ge=16, le=512, multiple_of=16)] = 128
    memory_share: Annotated[float, Field(gt=0, le=1)] = 0.9


@hookimpl
def sgframe_backends() -> list[Provider]:
    return [
        Provider(
            name="ascend",
            target="sgframe_ascend.backend:AscendBackend",
            summary="Ascend NPUs, through torch_npu",
            settings=AscendSettings,
            requires=("torch", "transformers", "safetensors"),
        )
    ]
