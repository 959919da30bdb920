"""Contracts, doubles and tools for the tests of whoever writes a part; see docs/testing-plugins.md.

Every name is imported when it is first asked for: importing this package imports no pytest and no part, and nothing is
registered with pytest. Fixtures are in ``sgframe.testing.fixtures``, for those who import them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sgframe.clock import StepClock as StepClock
    from sgframe.testing.backend import BackendContract as BackendContract
    from sgframe.testing.cache import CacheContract as CacheContract
    from sgframe.testing.doubles import EchoBackend as EchoBackend
    from sgframe.testing.doubles import InprocTransport as InprocTransport
    from sgframe.testing.doubles import NoCache as NoCache
    from sgframe.testing.driver import Driver as Driver
    from sgframe.testing.grammar import GrammarContract as GrammarContract
    from sgframe.testing.launcher import LauncherContract as LauncherContract
    from sgframe.testing.models import tiny_llama as tiny_llama
    from sgframe.testing.plugin import check_plugin as check_plugin
    from sgframe.testing.policy import PolicyContract as PolicyContract
    from sgframe.testing.queue import FixedCache as FixedCache
    from sgframe.testing.queue import WaitingRequest as WaitingRequest
    from sgframe.testing.slots import SlotBook as SlotBook
    from sgframe.testing.source import SourceContract as SourceContract
    from sgframe.testing.speculation import SpeculatorContract as SpeculatorContract
    from sgframe.testing.tokens import VOCABULARY as VOCABULARY
    from sgframe.testing.transport import TransportContract as TransportContract
    from sgframe.testing.walker import grammar_walker as grammar_walker

_HOMES: Mapping[str, str] = {
    "BackendContract": "sgframe.testing.backend",
    "CacheContract": "sgframe.testing.cache",
    "Driver": "sgframe.testing.driver",
    "EchoBackend": "sgframe.testing.doubles",
    "FixedCache": "sgframe.testing.queue",
    "GrammarContract": "sgframe.testing.grammar",
    "InprocTransport": "sgframe.testing.doubles",
    "LauncherContract": "sgframe.testing.launcher",
    "NoCache": "sgframe.testing.doubles",
    "PolicyContract": "sgframe.testing.policy",
    "SlotBook": "sgframe.testing.slots",
    "SourceContract": "sgframe.testing.source",
    "SpeculatorContract": "sgframe.testing.speculation",
    "StepClock": "sgframe.clock",
    "TransportContract": "sgframe.testing.transport",
    "VOCABULARY": "sgframe.testing.tokens",
    "WaitingRequest": "sgframe.testing.queue",
    "check_plugin": "sgframe.testing.plugin",
    "grammar_walker": "sgframe.testing.walker",
    "tiny_llama": "sgframe.testing.models",
}
__all__ = list(_HOMES)

_TEST_TOOLS = ("hypothesis", "pytest")
"""What contracts stand on, and sgframe itself does not."""

_ASSERTING = (
    *("backend", "cache", "execution", "grammar", "launcher", "outputs", "policy", "queue", "sampling", "slots"),
    *("source", "speculation", "transport", "trees"),
)
if pytest := sys.modules.get("pytest"):  # then a case that fails shows what it compared
    pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _ASSERTING))


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sgframe.testing' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if error.name not in _TEST_TOOLS:
            raise
        raise ImportError(
            f"sgframe.testing.{name} is a set of pytest tests, and {error.name} is not installed; "
            f"pip install {' '.join(_TEST_TOOLS)}"
        ) from error
