"""Where the two ends of a channel meet: a file in the engine's folder that appears once the listener listens.

For ``ipc`` the file ``NAME.sock`` is the unix socket itself, for ``tcp`` the file ``NAME.port`` holds the port. Both
are made under another name and renamed, so whoever sees the file can connect. Knows nothing of frames or of a peer's
death.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

import zmq

from sgframe.errors import ConfigError

MAX_SOCKET_PATH = 107
"""Bytes of a unix socket's path: 108 in ``sockaddr_un.sun_path`` (unix(7)) less the closing zero."""


class Address(ABC):
    """The meeting place of the channel ``name`` in ``folder``."""

    suffix: str

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / (name + self.suffix)
        self._unpublished = folder / (name + ".new")

    def bind(self, socket: zmq.SyncSocket) -> None:
        """Listen on ``socket``, then let the file appear."""
        self._bind(socket)
        self._unpublished.rename(self.path)

    def dial(self, socket: zmq.SyncSocket) -> bool:
        """Connect ``socket`` if the listener listens already."""
        try:
            endpoint = self._endpoint()
        except FileNotFoundError:
            return False
        socket.connect(endpoint)
        return True

    def remove(self) -> None:
        """Take the file away: from now on nobody finds the listener."""
        self.path.unlink(missing_ok=True)

    @abstractmethod
    def _bind(self, socket: zmq.SyncSocket) -> None:
        """Listen, and make the file under its unpublished name."""

    @abstractmethod
    def _endpoint(self) -> str:
        """What to connect to. Raises FileNotFoundError while nobody listens."""


class IpcAddress(Address):
    """A unix socket. Raises ConfigError when its path is too long for one."""

    suffix = ".sock"

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, name)
        length = len(bytes(self.path))
        if length > MAX_SOCKET_PATH:
            raise ConfigError(
                f"the unix socket path {self.path} has {length} bytes, at most {MAX_SOCKET_PATH} are possible; "
                "set the environment variable TMPDIR to a folder with a shorter path, "
                "or set plugin.zmq.scheme to 'tcp'"
            )

    def _bind(self, socket: zmq.SyncSocket) -> None:
        socket.bind(f"ipc://{self._unpublished}")

    def _endpoint(self) -> str:
        self.path.stat()
        return f"ipc://{self.path}"


class TcpAddress(Address):
    """A port of 127.0.0.1 that the operating system chose."""

    suffix = ".port"

    def _bind(self, socket: zmq.SyncSocket) -> None:
        socket.bind("tcp://127.0.0.1:0")
        endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._unpublished.write_text(endpoint.rpartition(":")[2])

    def _endpoint(self) -> str:
        return f"tcp://127.0.0.1:{self.path.read_text()}"
