"""Offers the ``local`` launcher: the engine's processes on this machine."""

from __future__ import annotations

from pydantic import Field

from sgframe import PluginSettings, Provider, hookimpl


class LocalSettings(PluginSettings):
    """Where a backend has no such variable, replicas share what the machine has."""

    device_variables: dict[str, str] = Field(
        {"ascend": "ASCEND_RT_VISIBLE_DEVICES", "cuda": "CUDA_VISIBLE_DEVICES"},
        description="By backend, the environment variable by which each replica's processes are told their devices",
    )


@hookimpl
def sgframe_launchers() -> list[Provider]:
    return [
        Provider(
            name="local",
            target="sgframe_local.launcher:LocalLauncher",
            summary="processes of this machine",
            settings=LocalSettings,
        )
    ]
