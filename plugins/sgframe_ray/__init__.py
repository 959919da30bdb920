"""Offers the ``ray`` launcher: the engine's processes on the machines of a Ray cluster."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sgframe import PluginSettings, Provider, hookimpl


class RaySettings(PluginSettings):
    """What each rank needs is reserved before anything is started."""

    address: str = Field("auto", min_length=1, description="Ray cluster to join; auto: the one that this machine is in")
    cpus: float = Field(1.0, gt=0, description="CPUs that are reserved for each rank")
    gpus: float = Field(0.0, ge=0, description="GPUs that are reserved for each rank; its process sees no others")
    resources: dict[str, float] = Field({}, description="Further resources of Ray for each rank, such as NPU")
    placement: Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"] = Field(
        "PACK", description="How the ranks of a replica lie on the machines, in the words of Ray's placement groups"
    )
    patience: float = Field(60.0, gt=0, description="Seconds in which the cluster must have room for a replica")


@hookimpl
def sgframe_launchers() -> list[Provider]:
    return [
        Provider(
            name="ray",
            target="sgframe_ray.launcher:RayLauncher",
            summary="machines of a Ray cluster: an actor for each rank, in a placement group",
            settings=RaySettings,
            requires=("ray",),
            extra="ray",
        )
    ]
