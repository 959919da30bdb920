"""What a descriptor in ``benchmarks/peers`` says of a server, and the command it becomes on this machine. Starts nothing,
knows no rows but by their names."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from sgframe import __version__

DESCRIPTORS = Path(__file__).parents[1] / "peers"
OURS = DESCRIPTORS / "sgframe.toml"


class Descriptor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``command`` is split as a shell would; ``package`` is the distribution whose version is told; without it and the
    files in ``needs`` a peer is not installed; ``ask_for`` is the model's name in requests; ``cannot`` says by row why it
    is left out.

    In all but ``title`` and ``cannot``, names in braces stand for what ``Setting`` and the peer's folder say.
    """

    title: str
    command: str
    package: str
    needs: list[str] = []
    ask_for: str = "{name}"
    environment: dict[str, str] = {}
    cannot: dict[str, str] = {}


class NotInstalled(Exception):
    """The peer is not there; says what is missing and what to do."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What all servers are given alike. ``checkpoint`` is a folder, ``name`` what the model is called; ``context`` the
    longest request in tokens, ``concurrency`` the most at once."""

    checkpoint: Path
    name: str
    cpus: list[int]
    threads: int
    context: int
    concurrency: int

    @property
    def weights_bytes(self) -> int:
        """Of the checkpoint's weights."""
        return sum(file.stat().st_size for file in self.checkpoint.glob("*.safetensors"))

    def values(self) -> dict[str, str]:
        return {
            "model": str(self.checkpoint),
            "name": self.name,
            "cpus": ",".join(map(str, self.cpus)),
            "threads": str(self.threads),
            "context": str(self.context),
            "concurrency": str(self.concurrency),
            "all_context": str(self.context * self.concurrency),
        }


@dataclass(frozen=True, slots=True)
class Launch:
    """A server that can be started: ``command`` still has ``{port}`` in it. ``model`` is what to ask for."""

    title: str
    version: str
    command: str
    model: str
    environment: dict[str, str] = field(default_factory=dict)
    cannot: dict[str, str] = field(default_factory=dict)


def peer_names() -> list[str]:
    """All that have a descriptor."""
    return sorted(file.stem for file in DESCRIPTORS.glob("*.toml") if file != OURS)


def our_launch(setting: Setting) -> Launch:
    """Our own server, from the environment that runs the benchmark."""
    descriptor = _descriptor(OURS)
    return _launch(descriptor, setting.values() | {"python": sys.executable}, __version__)


def peer_launch(name: str, folder: Path, setting: Setting) -> Launch:
    """The peer whose virtual environment is the folder of its ``name`` in ``folder``, where it may have a descriptor of its
    own, too. Raises NotInstalled."""
    file, own, folder = DESCRIPTORS / f"{name}.toml", folder / f"{name}.toml", folder / name
    if not (file.exists() or own.exists()):
        raise NotInstalled(f"{name} is not known: write {own}, or name one of {', '.join(peer_names())}")
    descriptor = _descriptor(own if own.exists() else file)
    python = folder / "bin" / "python"
    sites = sorted(folder.glob("lib/python3*/site-packages"))
    values = setting.values() | {"python": str(python), "peer": str(folder), "site": str(sites[0]) if sites else ""}
    needs = [str(python), *(fill(file, values) for file in descriptor.needs)]
    remedy = f"{DESCRIPTORS / 'README.md'} says how to install it"
    if missing := [file for file in needs if not Path(file).exists()]:
        raise NotInstalled(f"{name} is not installed: there is no {missing[0]}; {remedy}")
    ask = f"from importlib.metadata import version; print(version({descriptor.package!r}))"
    told = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
    if told.returncode:
        raise NotInstalled(f"{name} is not installed: {python} has no package {descriptor.package}; {remedy}")
    return _launch(descriptor, values, told.stdout.strip())


def fill(template: str, values: dict[str, str]) -> str:
    """Only the names in ``values`` are replaced: commands have other braces, too, as in JSON."""
    for name, value in values.items():
        template = template.replace(f"{{{name}}}", value)
    return template


def _launch(descriptor: Descriptor, values: dict[str, str], version: str) -> Launch:
    return Launch(
        title=descriptor.title,
        version=version,
        command=fill(descriptor.command, values),
        model=fill(descriptor.ask_for, values),
        environment={key: fill(value, values) for key, value in descriptor.environment.items()},
        cannot=descriptor.cannot,
    )


def _descriptor(file: Path) -> Descriptor:
    return msgspec.toml.decode(file.read_bytes(), type=Descriptor)
