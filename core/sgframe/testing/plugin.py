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

from pydantic.errors import PydanticUserError

from sgframe.assembly.choice import Choice, load, validate
from sgframe.assembly.choosing import unchecked_choice
from sgframe.assembly.guard import describe
from sgframe.assembly.plugins import ACCEPTED_API, Offer, Plugin, ask, open_manager
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


def check_plugin(module: str) -> list[str]:
    """Raise AssertionError, saying what is wrong, unless ``module`` is a sound hook module.

    Importing it pulls in nothing heavy; its hooks and the names it offers are valid, and each name is offered once; each
    settings table refuses unknown keys, keeps its own rules by default and can be found by name; each target can be imported
    and built, subclasses its seam's ABC and leaves no method abstract.

    Returns the names of the parts whose target was not looked at, since a module it requires is missing here.
    """
    try:
        offers = [
            Offer(seam, provider, Plugin(module, module)) for seam, provider in ask(open_manager(_imported(module)))
        ]
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
    except Exception as error:  # whatever the module may raise
        raise AssertionError(f"{module} cannot be imported: {describe(error)}") from error


def _check_light(module: str, remedy: str) -> None:
    code = f"import sys, {module}; print(); print(*sorted({set(HEAVY)!r} & sys.modules.keys()), sep=', ')"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    *printed, heavy = run.stdout.splitlines()
    assert not heavy, f"importing {module} also imports {heavy}; {remedy}"
    assert printed == [""], f"importing {module} prints {printed[0]!r}; leave out whatever does"


def _check_offer(offer: Offer) -> bool:
    """False when the target cannot be looked at here."""
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
    assert load(name) is model, f"{name} is not the settings model of '{offer.name}'"
    try:
        model.model_json_schema()
    except PydanticUserError as error:
        raise AssertionError(f"{name} has what no config file can hold: {error.message}") from error
    if not any(field.is_required() for field in model.model_fields.values()):
        try:
            validate(model, model().model_dump(mode="json"))
        except ValueError as error:
            raise AssertionError(f"the defaults of {name} break its own rules: {error}") from error


def _check_construction(choice: Choice) -> None:
    given = _BUILT_WITH.get(choice.seam, ())
    try:
        inspect.signature(choice.load()).bind(None, **dict.fromkeys(given))
    except TypeError as error:
        wanted = ", ".join(("settings", *(f"{name}=…" for name in given)))
        raise AssertionError(f"{choice} cannot be built as target({wanted}): {error}") from error
