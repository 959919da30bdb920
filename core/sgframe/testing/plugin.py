"""What every plugin must get right, for its author's own tests: ``check_plugin("sgframe_foo")``."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module

from sgframe.assembly.choice import load
from sgframe.assembly.choosing import unchecked_choice
from sgframe.assembly.plugins import ACCEPTED_API, Offer, Plugin, ask, open_manager
from sgframe.errors import PluginError

HEAVY = ("torch", "transformers", "triton", "torch_npu", "zmq")
"""What a hook module must not import, however indirectly: listing the plugins has to stay quick."""


def check_plugin(module: str) -> list[str]:
    """Raise AssertionError, saying what is wrong, unless ``module`` is a sound hook module.

    Importing it pulls in nothing heavy; its hooks and the names it offers are valid; each settings table refuses unknown
    keys and can be found by name; each target can be imported, subclasses its seam's ABC and leaves no method abstract.

    Returns the names of the parts whose target was not looked at, since a module it requires is missing here.
    """
    _check_light(module)
    try:
        parts = ask(open_manager(import_module(module)))
        offers = [Offer(seam, provider, Plugin(module, module)) for seam, provider in parts]
        return [offer.name for offer in offers if not _check_offer(offer)]
    except PluginError as error:
        raise AssertionError(str(error)) from error


def _check_light(module: str) -> None:
    code = f"import sys, {module}; print(*sorted({set(HEAVY)!r} & sys.modules.keys()))"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, f"{module} cannot be imported:\n{run.stderr}"
    assert not run.stdout.strip(), f"importing {module} also imports {run.stdout.strip()}; keep that behind the target"


def _check_offer(offer: Offer) -> bool:
    """False when the target cannot be looked at here."""
    model = offer.provider.settings
    name = f"{model.__module__}:{model.__qualname__}"
    assert "." not in model.__qualname__, f"{name} cannot be imported by name; define it at the top of its module"
    assert load(name) is model, f"{name} is not the settings model of '{offer.name}'"
    assert model.model_config.get("extra") == "forbid", f"{name} must refuse unknown keys"
    assert offer.provider.api in ACCEPTED_API, f"{offer} {offer.obstacle}"
    if offer.obstacle:
        return False
    unchecked_choice(offer, {}).load()
    return True
