"""Offers the ``zmq`` transport: channels between processes over unix sockets or loopback TCP."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sgframe import PluginSettings, Provider, hookimpl


class ZmqSettings(PluginSettings):
    """The table ``[plugin.zmq]``."""

    scheme: Literal["ipc", "tcp"] = Field(
        default="ipc",
        description="ipc: unix sockets in the engine's private folder; tcp: 127.0.0.1, which every local user can reach",
    )


@hookimpl
def sgframe_transports() -> list[Provider]:
    return [
        Provider(
            name="zmq",
            target="sgframe_zmq.transport:ZmqTransport",
            summary="ZeroMQ channels between processes, over unix sockets or loopback TCP",
            settings=ZmqSettings,
            requires=("zmq",),
        )
    ]
