"""``sgframe serve --dry-run``: all that comes before the model, done and undone; then what would be started."""

from __future__ import annotations

from sgframe.assembly.choice import Choices
from sgframe.assembly.devices import probe
from sgframe.assembly.providers import Seam
from sgframe.assembly.settings import Settings
from sgframe.interfaces.launcher import Launcher
from sgframe_cli.columns import columns
from sgframe_cli.trying import processes, try_journal, try_parts, try_port, try_transport

FOLLOWS = "nobody is listened to: machine 0 serves"


def rehearse(settings: Settings, choices: Choices) -> str:
    """A table of what would be started; the devices have been looked at. Raises ConfigError for what would fail."""
    try_parts(settings, choices)
    try_transport(choices[Seam.TRANSPORT])
    where = FOLLOWS if settings.node_rank else try_port(settings)
    try_journal(settings)
    rows = [
        ("parts", ", ".join(f"{seam.value} {choice.name}" for seam, choice in choices.items())),
        ("device", _device(choices)),
        ("processes", ", ".join(processes(settings))),
        ("listening", where),
        ("model", f"{settings.model}, which was not looked for; sgframe doctor does that"),
    ]
    if choices.shadow is not None:
        rows.insert(1, ("in shadow", f"policy {choices.shadow.policy.label}, cache {choices.shadow.cache.label}"))
    return f"{columns(rows)}\nDry run: all of this could start. Nothing is left running."


def _device(choices: Choices) -> str:
    launcher: type[Launcher] = choices[Seam.LAUNCHER].load()
    if launcher.elsewhere:
        return f"where launcher '{choices[Seam.LAUNCHER].name}' finds room, which was not looked for"
    return probe(choices[Seam.BACKEND]).device
