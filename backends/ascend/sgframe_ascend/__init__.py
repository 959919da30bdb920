"""Offers the ``ascend`` backend. Knows no torch; the work stands behind its target."""

from __future__ import annotations

from sgframe import Provider, hookimpl


@hookimpl
def sgframe_backends() -> list[Provider]:
    return [
        Provider(name="ascend", target="sgframe_ascend.backend:AscendBackend", summary="Ascend NPUs, through torch_npu")
    ]
