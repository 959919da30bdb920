"""The socket that the server is to listen on. Light, so that it can be taken before the HTTP stack is loaded."""

from __future__ import annotations

import errno
import socket

from sgframe.errors import ConfigError


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to ``host`` and ``port`` (0: a free one) that does not listen yet. Raises ConfigError."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError) as error:  # the latter for what is no name: a..b
        why = error.strerror if isinstance(error, socket.gaierror) else error
        raise ConfigError(f"host {host!r} cannot be resolved: {why}; choose another with --host") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise ConfigError(why_not(host, port, error)) from None
    return listener


def why_not(host: str, port: int, error: OSError) -> str:
    """What to tell the user when listening fails."""
    match error.errno:
        case errno.EADDRINUSE:
            return f"port {port} on {host} is in use by another process; stop that one or choose another with --port"
        case errno.EACCES:
            return f"port {port} on {host} needs more rights than this process has; choose one above 1023 with --port"
    return f"cannot listen on {host}, port {port}: {error.strerror}; choose others with --host and --port"
