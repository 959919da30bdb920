"""What the settings choose: its packages, its parts, its devices, its channels and its port."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from typing import TypeVar

from packaging.requirements import Requirement

from sgframe.assembly.assemble import Configuration
from sgframe.assembly.choice import Choices
from sgframe.assembly.devices import probe, probe_offer
from sgframe.assembly.plugins import Offer, Plugins
from sgframe.assembly.providers import Seam
from sgframe.assembly.settings import Settings
from sgframe.errors import ConfigError
from sgframe.interfaces.backend import Capabilities
from sgframe_cli.checks.finding import Finding, State, sized
from sgframe_cli.trying import processes, try_journal, try_parts, try_port, try_transport

T = TypeVar("T")


def look_at_plugins(plugins: Plugins) -> Iterator[Finding]:
    """Those that could not be loaded; they fail a start only if something of theirs is chosen."""
    for broken in plugins.broken:
        found = f"failed to load: {broken.reason}"
        yield Finding("packages", str(broken.plugin), found, State.WARNING, broken.remedy)
    yield Finding("packages", "plugins", f"{len(plugins.loaded)} loaded, {len(plugins.blocked)} blocked")


def look_at_packages(choices: Choices, plugins: Plugins) -> Iterator[Finding]:
    """Whether what the distributions of the chosen parts require is installed, in versions that they can do with."""
    parts = {(choice.seam, choice.name) for choice in choices.values()}
    chosen = [offer for offer in plugins.offers() if (offer.seam, offer.name) in parts]
    names = sorted({offer.plugin.distribution or "sgframe" for offer in chosen})
    for name in names:
        yield from _requirements(name)


def _requirements(name: str) -> Iterator[Finding]:
    try:
        required = [Requirement(text) for text in metadata.requires(name) or ()]
    except metadata.PackageNotFoundError:
        found = "is not installed as a package, so that nothing says which versions it needs"
        yield Finding("packages", name, found, State.NOTE)
        return
    needed = [each for each in required if each.marker is None or each.marker.evaluate({"extra": ""})]
    faults = [fault for each in needed if (fault := _misfit(name, each))]
    yield from faults
    if not faults:
        yield Finding(
            "packages", f"{name} {metadata.version(name)}", f"has the {len(needed)} packages that it requires"
        )


def _misfit(name: str, required: Requirement) -> Finding | None:
    remedy = f"pip install '{required.name}{required.specifier}'"
    try:
        found = metadata.version(required.name)
    except metadata.PackageNotFoundError:
        return Finding("packages", required.name, f"is not installed, and {name} needs it", State.FAULT, remedy)
    if required.specifier.contains(found, prereleases=True):
        return None
    return Finding("packages", required.name, f"{name} needs {required}, found is {found}", State.WARNING, remedy)


def look_at_devices(configuration: Configuration, choices: Choices) -> Iterator[Finding]:
    """The backend that is chosen, by all that a start asks of it; and, as notes, what the others find."""
    choice, dtype = choices[Seam.BACKEND], configuration.settings.dtype
    for offer in configuration.plugins.offers(Seam.BACKEND):
        if offer.name != choice.name:
            yield _other_device(offer)
    found = probe(choice)
    yield from _tried("devices", choice.name, configuration.choose_usable, lambda _: _about(found))
    if found.usable and dtype not in ("auto", *found.dtypes):
        remedy = f"say --dtype auto, or one of {', '.join(found.dtypes)}"
        yield Finding("devices", "dtype", f"{choice.name} does not compute in {dtype}", State.FAULT, remedy)


def _about(found: Capabilities) -> str:
    memory = f", {sized(found.memory_bytes)} to plan with" if found.memory_bytes else ""
    return f"{found.device}{memory}; {', '.join(found.dtypes)}"


def _other_device(offer: Offer) -> Finding:
    found = probe_offer(offer)
    if found.usable:
        return Finding("devices", offer.name, f"{found.device or 'usable'} (not chosen)")
    return Finding("devices", offer.name, f"not chosen, and cannot run here: {found.reason}", State.NOTE)


def look_at_parts(settings: Settings, choices: Choices) -> Iterator[Finding]:
    """Build them, but for what needs the device; then channels, port and journal."""
    names = ", ".join(f"{seam.value} {choice.name}" for seam, choice in choices.items())
    yield from _tried("parts", "build", lambda: try_parts(settings, choices), lambda _: names)
    yield Finding("parts", "processes", ", ".join(processes(settings)))
    yield from _tried(
        "sockets",
        f"transport {choices[Seam.TRANSPORT].name}",
        lambda: try_transport(choices[Seam.TRANSPORT]),
        lambda _: f"carried a message in {tempfile.gettempdir()}",
    )
    if not settings.node_rank:
        yield from _tried("sockets", "listen", lambda: try_port(settings), lambda url: f"{url} is free")
    if settings.dist_addr is not None:
        yield _meeting_point(settings, settings.dist_addr)
    if settings.journal:
        yield from _tried(
            "places", "journal", lambda: try_journal(settings), lambda _: f"{settings.journal} can be made"
        )


def _meeting_point(settings: Settings, address: str) -> Finding:
    host, _, port = address.rpartition(":")
    try:
        family, _, _, _, where = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
        if settings.node_rank == 0:
            with socket.socket(family, socket.SOCK_STREAM) as listener:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(where)
    except OSError as error:
        remedy = "name an address of machine 0 and a port that is free there (--dist-addr)"
        return Finding("sockets", "dist_addr", f"{address}: {error.strerror}", State.FAULT, remedy)
    return Finding("sockets", "dist_addr", f"{address} is {'free' if settings.node_rank == 0 else 'found'}")


def _tried(area: str, subject: str, attempt: Callable[[], T], tell: Callable[[T], str]) -> Iterable[Finding]:
    """What came of ``attempt``, whose errors say what to do themselves."""
    try:
        return [Finding(area, subject, tell(attempt()))]
    except ConfigError as error:
        return [Finding(area, subject, str(error), State.FAULT)]
