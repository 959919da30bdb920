"""The transport seam: duplex channels of byte frames between two processes.

A channel has two ends. One process listens for it by name, one connects; either may come first. Frames arrive whole, in
order, once. When the peer's process dies or closes its end, the other end learns it: ``recv`` first hands out what had
arrived, then raises PeerLost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar


class Channel(ABC):
    """One end of a duplex channel, for a process that works synchronously. Used by one thread."""

    @abstractmethod
    def send(self, frame: bytes) -> None:
        """Queue ``frame``; never blocks for long. Raises PeerLost when the peer is known to be gone."""

    @abstractmethod
    def recv(self, timeout: float | None = None) -> bytes | None:
        """The next frame, or None after ``timeout`` seconds (0: do not wait; None: wait). Raises PeerLost."""

    @abstractmethod
    def close(self) -> None:
        """Send what is queued (for at most a second), then close. A second close does nothing."""


class AsyncChannel(ABC):
    """The same end for an asyncio process."""

    @abstractmethod
    async def send(self, frame: bytes) -> None:
        """See Channel.send."""

    @abstractmethod
    async def recv(self) -> bytes:
        """The next frame. Raises PeerLost."""

    @abstractmethod
    def close(self) -> None:
        """See Channel.close."""


class Transport(ABC):
    """Makes channels. Built as ``target(settings, folder=Path)`` in every process that takes part.

    ``folder`` is private to this engine (mode 0700) and the same for all its processes; a channel's name is unique in it.
    """

    in_process: ClassVar[bool] = False
    """True when both ends must live in one process: then the engine runs scheduler and worker as threads."""

    @abstractmethod
    def __init__(self, settings: Any, *, folder: Path) -> None: ...

    @abstractmethod
    def listen(self, name: str) -> Channel:
        """The listening end of channel ``name``."""

    @abstractmethod
    def connect(self, name: str) -> Channel:
        """The connecting end of channel ``name``."""

    @abstractmethod
    def listen_async(self, name: str) -> AsyncChannel:
        """The listening end of channel ``name`` for the running event loop."""

    @abstractmethod
    def wait(self, channels: Sequence[Channel], timeout: float) -> bool:
        """Sleep until any of ``channels`` has a frame or lost its peer; False after ``timeout`` seconds."""

    @abstractmethod
    def close(self) -> None:
        """Close every channel that is still open and remove what they left in ``folder``."""
