"""Offers the ``cuda`` backend. Knows no torch; the work stands behind its target."""

from __future__ import annotations

from sgframe import Provider, hookimpl


@hookimpl
def sgframe_backends() -> list[Provider]:
    return [Provider(name="cuda", target="sgframe_cuda.backend:CudaBackend", summary="NVIDIA GPUs, through PyTorch")]
