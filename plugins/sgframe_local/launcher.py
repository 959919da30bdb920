"""Starts an engine's processes on this machine. Owns which devices a replica gets; ``sgframe.processes`` does the rest."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from sgframe.errors import ConfigError
from sgframe.interfaces.launcher import Crew, Launcher, Watcher
from sgframe.letter import Letter
from sgframe.processes import LocalCrew
from sgframe_local import LocalSettings


class LocalLauncher(Launcher):
    """The first replica has the first devices, the second the next, and so on."""

    def __init__(self, settings: LocalSettings) -> None:
        self._variables = settings.device_variables

    async def launch(self, letters: Sequence[Letter], watcher: Watcher) -> Crew:
        return LocalCrew(letters, watcher, self._devices(letters[-1]))

    def _devices(self, letter: Letter) -> Mapping[str, str]:
        """What tells the processes of its replica their devices; nothing for an only one, which has them all."""
        variable = self._variables.get(letter.choices["backend"].name)
        if variable is None or letter.replicas == 1:
            return {}
        each = letter.ranks.local_size
        first = letter.replica * each
        if (given := os.environ.get(variable)) is None:
            return {variable: ",".join(map(str, range(first, first + each)))}
        own = list(filter(None, given.split(",")))[first : first + each]
        if len(own) < each:
            raise ConfigError(
                f"{variable} is {given!r}, but {letter.replicas} replicas of {each} ranks need {letter.replicas * each} "
                "devices: name as many, or lower replicas or tp_size"
            )
        return {variable: ",".join(own)}
