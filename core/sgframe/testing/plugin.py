"""What every plugin must get right, for its author's own tests: ``check_plugin("sgframe_foo")``."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from pydantic.errors import PydanticUserError

from sgframe.assembly.choice import Choice, load, validate
from sgframe.assembly.choosing import unchecked_choice
from sgframe.assembly.guard import describe, guarded
from sgframe.assembly.plugins import ACCEPTED_API, Offer, Plugin, ask, installed, open_manager
from sgframe.assembly.providers import PluginSettings, Seam
from sgframe.errors import PluginError

HEAVY = ("torch", "transformers", "triton", "torch_npu", "zmq")
"""What a hook module must not import, however indirectly: listing the plugins has to stay quick. Nor may a backend's target,
which is asked for its device before any model is loaded."""

_BUILT_WITH: Mapping[Seam, tuple[str, ...]] = {
    Seam.CACHE: ("page_size", "clock"),
    Seam.GRAMMAR: ("vocabulary",),
    Seam.TRANSPORT: ("folder",),
}
"""What a part is given beside its settings, by keyword."""

_LOOK = """
import os, sys, threading, {module}
others = [thread.name for thread in threading.enumerate() if not (thread.daemon or thread is threading.main_thread())]
print("", ", ".join(sorted({heavy} & sys.modules.keys())), ", ".join(others), sep="\\0", flush=True)
os._exit(0)  # which waits for no thread
"""
"""Run by an interpreter of its own: after what importing ``module`` prints come the heavy modules and the threads it leaves.
"""


def check_plugin(module: str) -> list[str]:
    """Raise AssertionError, saying what is wrong, unless ``module`` is a sound hook module.

    Importing it pulls in nothing heavy, prints nothing, leaves no thread; its hooks and the names it offers are valid,
    and each name is offered once; each settings table refuses unknown keys at any depth, keeps its own rules by default
    and can be found by name; each target can be imported, subclasses its seam's ABC, leaves no method abstract and takes
    what a part is given.

    Returns the names of the parts whose target was not looked at, since a module it requires is missing here.
    """
    plugin = next((each for each in installed() if each.module == module), Plugin(module, module, "not installed"))
    try:
        offered = guarded(plugin, lambda: ask(open_manager(_imported(module))))
        offers = [Offer(seam, provider, plugin) for seam, provider in offered]
        for (seam, name), count in Counter((offer.seam, offer.name) for offer in offers).items():
            assert count == 1, f"{module} offers the {seam.value} '{name}' {count} times; give them different names"
        skipped = [offer.name for offer in offers if not _check_offer(offer)]
    except PluginError as error:
        raise AssertionError(str(error)) from error
    _check_light(module, "keep that behind the target")
    return skipped


def _imported(module: str) -> ModuleType:
    try:
        return import_module(module)
    except (Exception, SystemExit) as error:  # whatever the module may raise
        raise PluginError(f"{module} cannot be imported: {describe(error)}") from error


def _check_light(module: str, remedy: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", _LOOK.format(module=module, heavy=set(HEAVY))],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert run.stdout.count("\0") == 2, f"importing {module} makes another process of the same program; {remedy}"
    printed, heavy, threads = map(str.strip, run.stdout.split("\0"))
    assert not heavy, f"importing {module} also imports {heavy}; {remedy}"
    assert not printed, f"importing {module} prints {printed.splitlines()[0]!r}; leave out whatever does"
    assert not threads, f"importing {module} starts {threads}, and no command of sgframe ends before it does; {remedy}"


def _check_offer(offer: Offer) -> bool:
    """False when the target cannot be looked at here."""
    assert offer.provider.summary.isprintable(), f"the summary of '{offer.name}' must be one line of plain text"
    _check_settings(offer.provider.settings, offer)
    assert offer.provider.api in ACCEPTED_API, f"{offer} {offer.obstacle}"
    if offer.obstacle:
        return False
    choice = unchecked_choice(offer, {})
    _check_construction(choice)
    if offer.seam is Seam.BACKEND:
        _check_light(choice.target.partition(":")[0], "keep that in the module of the executor")
    return True


def _check_settings(model: type[PluginSettings], offer: Offer) -> None:
    name = f"{model.__module__}:{model.__qualname__}"
    assert "." not in model.__qualname__, f"{name} cannot be imported by name; define it at the top of its module"
    assert _found(name) is model, f"{name} is not the settings model of '{offer.name}'; give the model that name there"
    try:
        schema = model.model_json_schema()
    except PydanticUserError as error:
        raise AssertionError(f"{name} has what no config file can hold: {error.message}") from error
    loose = [key for key, inner in schema.get("$defs", {}).items() if _drops_unknown_keys(inner)]
    assert not loose, f"{name} drops unknown keys within {', '.join(loose)}; subclass PluginSettings there, too"
    if not any(field.is_required() for field in model.model_fields.values()):
        try:
            validate(model, model().model_dump(mode="json", round_trip=True))
        except Exception as error:  # whatever a third party's validator may raise
            said = error if isinstance(error, ValueError) else describe(error)
            raise AssertionError(f"the defaults of {name} break its own rules: {said}") from error


def _found(name: str) -> Any:
    try:
        return load(name)
    except AttributeError:
        return None


def _drops_unknown_keys(schema: Mapping[str, Any]) -> bool:
    return "properties" in schema and "additionalProperties" not in schema


def _check_construction(choice: Choice) -> None:
    given = _BUILT_WITH.get(choice.seam, ())
    try:
        inspect.signature(choice.load()).bind(None, **dict.fromkeys(given))
    except TypeError as error:
        wanted = ", ".join(("settings", *(f"{name}=…" for name in given)))
        raise AssertionError(f"{choice} cannot be built as target({wanted}): {error}") from error
