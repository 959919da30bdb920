"""Offers the backend ``numpy``."""

from __future__ import annotations

from sgframe import Provider, hookimpl


@hookimpl
def sgframe_backends() -> list[Provider]:
    return [
        Provider(
            name="numpy",
            target="sgframe_numpy.backend:NumpyBackend",
            summary="Llama models in NumPy, float32, without torch; slow, and short enough to read",
            api=1,
        )
    ]
