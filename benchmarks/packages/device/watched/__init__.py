"""A backend ``watched``: that of the checks, which notes how long its device stands idle between steps.

A plugin like any third party's, so that the engine's own processes run it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import PositiveInt

from sgframe import PluginSettings, Provider, hookimpl


class WatchedSettings(PluginSettings):
    """Settings of the watched backend.

    Attributes:
        device: whose backend does the work.
        file: where the figures go, a line of JSON for each number of rows.
        begin: nothing is watched until there is a file of that name.
        skip: decode steps of the same number of rows that go by first.
        steps: those that are watched then.
    """

    device: Literal["cuda", "cpu"] = "cuda"
    file: str
    begin: str
    skip: PositiveInt = 32
    steps: PositiveInt = 32


@hookimpl
def sgframe_backends() -> Iterable[Provider]:
    return (
        Provider(
            name="watched",
            target="device.watched.backend:WatchedBackend",
            summary="another backend, and how long its device stands idle",
            settings=WatchedSettings,
        ),
    )


def announce(folder: Path) -> None:
    """Make the plugin known to whoever has ``folder`` in its path, as an installed package is."""
    info = folder / "sgframe_watched-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sgframe-watched\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sgframe]\nwatched = device.watched\n")
