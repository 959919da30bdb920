"""Parts to stand beside the one under test. They are built-in parts, found by name like any: core knows no part's module."""

from __future__ import annotations

from typing import Any

from sgframe.assembly.choosing import choice_of, unchecked_choice
from sgframe.assembly.plugins import BUILTIN, Offer, Plugin, load_plugins
from sgframe.assembly.providers import Seam
from sgframe.interfaces.backend import Backend, Capabilities, Executor
from sgframe.interfaces.cache import Cache
from sgframe.interfaces.transport import Transport


def _offer(plugin: str, seam: Seam, name: str) -> Offer:
    offers = load_plugins(plugins=[Plugin(plugin, BUILTIN[plugin])]).offers(seam)
    return next(offer for offer in offers if offer.name == name)


def _class(plugin: str, seam: Seam, name: str) -> Any:
    return unchecked_choice(_offer(plugin, seam, name), {}).load()


NoCache: type[Cache] = _class("basic", Seam.CACHE, "none")
"""The cache ``none``, which finds nothing: ``NoCache(PluginSettings(), page_size=1, clock=StepClock())``."""

InprocTransport: type[Transport] = _class("basic", Seam.TRANSPORT, "inproc")
"""The transport ``inproc``, between threads of one process: ``InprocTransport(PluginSettings(), folder=folder)``."""


class EchoBackend(Backend):
    """The backend ``simulated``: without device or weights; its model says the prompt over and over.

    Its executor raises as soon as a row reads a KV slot that does not hold that row's own prefix. ``settings`` are those of
    ``[plugin.simulated]``: ``EchoBackend(step_seconds=0.01, page_size=16)``. Raises PluginError for a wrong one.
    """

    def __init__(self, **settings: Any) -> None:
        self._simulated: Backend = choice_of(_offer("simulated", Seam.BACKEND, "simulated"), settings).build()

    def probe(self) -> Capabilities:
        return self._simulated.probe()

    def executor(self) -> Executor:
        return self._simulated.executor()
