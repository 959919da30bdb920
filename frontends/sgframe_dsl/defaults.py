"""Which backend a program runs on."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from sgframe.errors import ConfigError
from sgframe_dsl.backend import Backend

if TYPE_CHECKING:
    from sgframe.front.engine import Engine

_default: Backend | None = None
_lock = threading.Lock()
_WRAPPER = "_sgframe_dsl_backend"
"""An engine carries its wrapper, so that they live and die together."""


def set_default_backend(backend: Backend | Engine | None) -> None:
    """What programs run on that are given no ``backend``; None takes it away. Raises TypeError for anything else."""
    global _default  # noqa: PLW0603  # one for the process is the point
    _default = None if backend is None else as_backend(backend)


def chosen_backend(backend: Backend | Engine | None) -> Backend:
    """``backend``, or the default one. Raises ConfigError where there is neither."""
    if backend is not None:
        return as_backend(backend)
    if _default is None:
        raise ConfigError(
            "a program needs a backend: give run(…, backend=…) one, or call sgf.set_default_backend(…); it is a "
            "sgframe.Engine, sgf.Server(url) or sgf.OpenAI(base_url)"
        )
    return _default


def as_backend(backend: object) -> Backend:
    """``backend``, an Engine wrapped. Raises TypeError for anything else."""
    if isinstance(backend, Backend):
        return backend
    from sgframe.front.engine import Engine  # noqa: PLC0415  # only an engine's owner has it loaded

    if not isinstance(backend, Engine):
        raise TypeError(f"a backend is a sgframe.Engine, sgf.Server(url) or sgf.OpenAI(base_url), found {backend!r}")
    from sgframe_dsl.backends.engine import EngineBackend  # noqa: PLC0415

    with _lock:
        wrapper: Backend | None = getattr(backend, _WRAPPER, None)
        if wrapper is None:
            wrapper = EngineBackend(backend)
            setattr(backend, _WRAPPER, wrapper)
    return wrapper
