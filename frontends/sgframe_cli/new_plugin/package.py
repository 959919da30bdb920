"""From the templates to a folder on disk, whole or not at all.

The templates are files of ``templates``: those of ``common``, and those of the seam. They are ``string.Template`` texts, and
``module`` in a path stands for the import package. Knows no seam but by its folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from string import Template
from tempfile import TemporaryDirectory

from sgframe import __version__
from sgframe.assembly.providers import API_VERSION
from sgframe.errors import ConfigError
from sgframe_cli.new_plugin.names import module_of

SEAMS = ("policy", "cache", "grammar", "transport", "backend")
SUFFIX = ".in"


def write_package(parent: Path, name: str, seam: str) -> Path:
    """Write ``sgframe-NAME`` into ``parent``; return it. Raises ConfigError, with nothing written, when that cannot be."""
    folder = parent / f"sgframe-{name}"
    if os.path.lexists(folder):
        raise ConfigError(f"{folder} exists already, and was left as it is; move it away, or take another name")
    try:
        with TemporaryDirectory(prefix=f".{folder.name}-", dir=parent) as scratch:
            whole = Path(scratch) / folder.name
            for path, text in _texts(name, seam):
                file = whole / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            whole.rename(folder)
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be written: {error.strerror}; go to a folder that can be, and try again"
        ) from error
    return folder


def _texts(name: str, seam: str) -> Iterator[tuple[PurePosixPath, str]]:
    """Each file of the package: its path in there, and what stands in it."""
    module = module_of(name)
    words = {
        "api": API_VERSION,
        "distribution": f"sgframe-{name}",
        "module": module,
        "name": name,
        "part": _camel(name.removesuffix(f"-{seam}")) + seam.capitalize(),
        "seam": seam,
        "version": __version__,
    }
    templates = files("sgframe_cli.new_plugin") / "templates"
    for kind in ("common", seam):
        for path, template in _walk(templates / kind, PurePosixPath()):
            written = PurePosixPath(str(path).removesuffix(SUFFIX).replace("module", module))
            yield written, Template(template.read_text()).substitute(words)


def _walk(folder: Traversable, at: PurePosixPath) -> Iterator[tuple[PurePosixPath, Traversable]]:
    for entry in folder.iterdir():
        path = at / entry.name
        if entry.is_dir():
            yield from _walk(entry, path)
        elif entry.name.endswith(SUFFIX):
            yield path, entry


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))
