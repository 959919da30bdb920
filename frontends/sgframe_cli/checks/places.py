"""Folders: whether they can be written, and what is free on their disks."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from sgframe.assembly.choice import Choices
from sgframe.assembly.plugins import Plugins
from sgframe.assembly.providers import Seam
from sgframe_cli.checks.finding import Finding, State, sized


def look_at_places(choices: Choices, plugins: Plugins) -> Iterator[Finding]:
    """Where models are kept, and where compiled kernels are."""
    yield _kept("models", model_folder(choices), way_to_name_another(choices))
    if "huggingface_hub" in _required(choices, plugins, Seam.SOURCE):
        yield _kept("models of the hub", _hub_folder(), "set the environment variable HF_HOME")
    if "numba" in _required(choices, plugins, Seam.BACKEND):
        yield _kernels(choices[Seam.BACKEND].target.partition(":")[0])


def _required(choices: Choices, plugins: Plugins, seam: Seam) -> set[str]:
    """The modules that the chosen part needs."""
    offers = (offer for offer in plugins.offers(seam) if offer.name == choices[seam].name)
    return {module for offer in offers for module in offer.provider.requires}


def model_folder(choices: Choices) -> Path:
    """The source's own folder if its settings name one (``cache_folder``), else the user's cache folder (XDG)."""
    named = _named_folder(choices)
    return home_expanded(named) if named else _cache_home()


def way_to_name_another(choices: Choices) -> str:
    """What decides about ``model_folder``: where its settings name one, the environment is not asked."""
    named, source = _named_folder(choices), choices[Seam.SOURCE].name
    return f"set {source}.cache_folder" if named else "set the environment variable XDG_CACHE_HOME"


def _named_folder(choices: Choices) -> str:
    return getattr(choices[Seam.SOURCE].validated(), "cache_folder", "")


def home_expanded(name: str) -> Path:
    """``~`` and ``~user`` as folders; as they stand where there is no such user."""
    return Path(os.path.expanduser(name))


def free_at(folder: Path) -> int:
    """Bytes free on the disk that ``folder`` is on, or will be."""
    return shutil.disk_usage(_existing(folder)).free


def _cache_home() -> Path:
    """The user's cache folder (XDG Base Directory Specification)."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    return Path(home) if os.path.isabs(home) else Path.home() / ".cache"


def _hub_folder() -> Path:
    """Where huggingface_hub keeps what it fetches."""
    home = home_expanded(os.environ.get("HF_HOME") or str(_cache_home() / "huggingface"))
    return home_expanded(os.environ.get("HF_HUB_CACHE") or str(home / "hub"))


def _kept(subject: str, folder: Path, remedy: str) -> Finding:
    found = f"{folder}, {sized(free_at(folder))} free"
    if _writable(folder):
        return Finding("places", subject, found)
    cannot = f"{found}, but nothing can be written there: no model can be fetched or converted"
    return Finding("places", subject, cannot, State.WARNING, f"{remedy} to a folder that can be written to")


def _kernels(module: str) -> Finding:
    """Numba keeps machine code in NUMBA_CACHE_DIR, else beside the source, else in the user's cache folder."""
    named = os.environ.get("NUMBA_CACHE_DIR")
    spec = find_spec(module)
    beside = Path(spec.origin).parent if spec and spec.origin else Path()
    places = [Path(named)] if named else [beside, _cache_home() / "numba"]
    folder = next((place for place in places if _writable(place)), None)
    if folder is not None:
        return Finding("places", "compiled kernels", str(folder))
    return Finding(
        "places",
        "compiled kernels",
        f"cannot be kept in {' or '.join(map(str, places))}, and so are compiled at each start",
        State.WARNING,
        "set the environment variable NUMBA_CACHE_DIR to a folder that can be written to and stays",
    )


def _writable(folder: Path) -> bool:
    """Asked by writing: rights alone do not tell of a file system that is full or read-only."""
    try:
        with tempfile.TemporaryFile(dir=_existing(folder)) as file:
            file.write(b"x" * 4096)
    except OSError:
        return False
    return True


def _existing(folder: Path) -> Path:
    """The folder itself, or the nearest one above it that is there."""
    return next(place for place in (folder.absolute(), *folder.absolute().parents) if place.is_dir())
