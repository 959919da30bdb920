"""Every error sgframe raises on purpose. Each says what was wrong, what was found and what to do."""

from __future__ import annotations


class SgframeError(Exception):
    """Base of all errors that sgframe raises on purpose."""


class ConfigError(SgframeError):
    """The settings cannot be honoured: an unknown key, a wrong value, a conflict. Stops the start."""


class PluginError(ConfigError):
    """A plugin cannot be loaded, chosen or built. The message names the plugin, its source and the remedy."""


class BackendUnavailable(ConfigError):
    """The chosen device backend cannot run here. The message gives the reason and lists what can run."""


class ModelError(ConfigError):
    """A model cannot be found, fetched, read or fitted into memory."""


class PeerLost(SgframeError):
    """The other end of a channel is gone: its process died or closed the channel."""


class RankLost(SgframeError):
    """Another rank of the same model is gone, stands still, or executed something else. The message names it."""


class EngineDead(SgframeError):
    """A process of the engine died; every request that waits on it gets this error."""


class RequestError(SgframeError):
    """One request cannot be served as asked; nobody else is affected.

    Attributes:
        param: the field at fault, as the client wrote it, or None.
        code: a machine-readable code such as ``context_length_exceeded``, or None.
    """

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class ContextLengthExceeded(RequestError):
    """Prompt plus requested output is longer than the server's context."""

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message, param=param, code="context_length_exceeded")


class Overloaded(SgframeError):
    """The server has as many requests as it may hold; the same request may succeed later."""


class RequestFailed(SgframeError):
    """A request that was accepted ended by a fault of the server, not of its sender."""
