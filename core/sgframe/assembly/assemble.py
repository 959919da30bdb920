"""One call from what the user said to settings, plugins and chosen parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from sgframe.assembly.choice import Choices
from sgframe.assembly.choosing import choose, choose_grammars, choose_shadow, pick, require_readers
from sgframe.assembly.devices import require_usable
from sgframe.assembly.plugins import Plugins, load_plugins
from sgframe.assembly.providers import Seam
from sgframe.assembly.settings import Settings, read_settings
from sgframe.assembly.sources import COMMAND_LINE
from sgframe.errors import ConfigError
from sgframe.interfaces.launcher import Launcher
from sgframe.interfaces.speculator import Speculator
from sgframe.interfaces.transport import Transport

BLOCK = "no:"


@dataclass(frozen=True, slots=True)
class Configuration:
    """Settings with their origins (see Resolved), and the plugins to choose from."""

    settings: Settings
    origins: Mapping[str, str]
    plugins: Plugins

    def choose(self) -> Choices:
        """The part of every seam, and those in shadow. Raises PluginError; ConfigError for what does not go together."""
        parts = choose(self.plugins, self.settings, self.origins)
        shadow = choose_shadow(self.plugins, self.settings, self.origins)
        choices = Choices(parts, shadow, choose_grammars(self.plugins, self.settings, self.origins))
        require_readers(self.plugins, self.settings, choices, self.origins)
        self._check_places(choices)
        return choices

    def _check_places(self, choices: Choices) -> None:
        """Raises ConfigError for processes that cannot stand where they are to. Asks a transport only where it matters."""
        settings, launcher, transport = self.settings, choices[Seam.LAUNCHER], choices[Seam.TRANSPORT]
        elsewhere = cast(type[Launcher], launcher.load()).elsewhere
        if elsewhere and settings.nnodes > 1:
            raise ConfigError(
                f"nnodes is {settings.nnodes}, but launcher '{launcher.name}' chooses the machines: "
                "leave nnodes, node_rank and dist_addr out"
            )
        if elsewhere:
            reason = f"launcher '{launcher.name}' starts them on other machines"
        elif settings.tp_size > 1:
            reason = f"tp_size is {settings.tp_size} and each rank needs a process"
        else:
            return
        if cast(type[Transport], transport.load()).in_process:
            raise ConfigError(
                f"transport '{transport.name}' keeps all in one process, but {reason}: choose another, such as "
                "--transport zmq"
            )

    def choose_usable(self) -> Choices:
        """The same, for a start on this machine: raises BackendUnavailable when the chosen devices are not there.

        With a launcher that chooses among machines they need not be here, and each machine looks for itself.
        """
        choices, settings = self.choose(), self.settings
        if cast(type[Launcher], choices[Seam.LAUNCHER].load()).elsewhere:
            return choices
        speculator = choices[Seam.SPECULATOR]
        guesses = cast(type[Speculator], speculator.load()).guesses
        require_usable(
            self.plugins,
            choices[Seam.BACKEND],
            settings.tp_size,
            settings.local_ranks,
            speculator=speculator.name if guesses else "",
        )
        return choices


def assemble(
    values: Mapping[str, Any], config_file: Path | None, environ: Mapping[str, str]
) -> tuple[Configuration, Choices]:
    """Settings and parts, ready to start with on this machine. Arguments as in ``configure``. Raises ConfigError."""
    configuration = configure(values, (), config_file, environ)
    return configuration, configuration.choose_usable()


def configure(
    values: Mapping[str, Any] | None = None,
    words: Sequence[str] = (),
    config_file: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Configuration:
    """Read the settings, load the plugins, and give each word of ``--plugin`` its seam.

    ``values``, ``config_file`` and ``environ`` as in ``read_settings``. A word is a part's name, or ``no:NAME`` for a plugin
    that is not to be imported. Raises ConfigError.
    """
    values = dict(values or {})
    if blocked := blocked_by(words):
        values["blocked"] = [*(values.get("blocked") or []), *blocked]
    resolved = read_settings(values, config_file, environ)
    plugins = load_plugins(resolved.settings.blocked)
    picked = pick(plugins, [word for word in words if not word.startswith(BLOCK)])
    for seam, word in picked.items():
        if values.get(seam.value) not in (None, word):
            raise ConfigError(
                f"--{seam.value} {values[seam.value]} and --plugin {word} both fill the {seam.value}: drop one"
            )
    chosen = {seam.value: word for seam, word in picked.items()}
    origins = resolved.origins | {key: f"{COMMAND_LINE} --plugin {word}" for key, word in chosen.items()}
    return Configuration(resolved.settings.model_copy(update=chosen), origins, plugins)


def blocked_by(words: Sequence[str]) -> list[str]:
    """The plugins that the words ``no:NAME`` among ``words`` block."""
    return [word.removeprefix(BLOCK) for word in words if word.startswith(BLOCK)]
