"""What serve, chat and generate have in common: from a command line to a running engine."""

from __future__ import annotations

import logging

from sgframe.assembly.choice import Choices
from sgframe.assembly.settings import Settings
from sgframe.front.async_engine import AsyncEngine
from sgframe.front.ledger import ledger_lines
from sgframe.logs import LogSettings, configure_logging
from sgframe_cli.options import CommandLine
from sgframe_cli.progress import ProgressDisplay

log = logging.getLogger(__name__)


def prepare(command_line: CommandLine, *, quiet: bool = False) -> tuple[Settings, Choices]:
    """Settings and parts, with the backend proven usable and logging set up. Raises ConfigError.

    ``quiet`` logs warnings only, unless the user chose a level: for commands whose output is there to be read.
    """
    configuration = command_line.configure()
    settings = configuration.settings
    if quiet and configuration.origins["log_level"] == "default":
        settings = settings.model_copy(update={"log_level": "warning"})
    configure_logging(LogSettings(settings.log_level, settings.log_json, settings.log_interval), "front")
    return settings, configuration.choose_usable()


async def start_engine(settings: Settings, choices: Choices) -> AsyncEngine:
    """Start the engine with its progress shown; what it is made of goes to the log. The caller closes it."""
    log.info("parts: %s", ", ".join(f"{seam.value} {choice.name}" for seam, choice in choices.items()))
    if choices.shadow is not None:
        log.info("in shadow: policy %s, cache %s", choices.shadow.policy.label, choices.shadow.cache.label)
    with ProgressDisplay() as progress:
        engine = await AsyncEngine.start(settings, choices, progress)
    for line in ledger_lines(engine.loaded):
        log.info("%s", line)
    log.info(
        "model %s in %s: context of %d tokens, %d KV slots",
        engine.checkpoint.name,
        engine.loaded.dtype,
        engine.loaded.context_length,
        engine.loaded.slots,
    )
    return engine
