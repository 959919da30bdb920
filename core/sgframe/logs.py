"""Logging set-up, the same in every process: readable lines, or JSON on demand."""

from __future__ import annotations

import logging
import sys

import msgspec


class LogSettings(msgspec.Struct, frozen=True):
    """``level`` as in ``logging`` (lower case); ``interval`` in seconds between two decode lines."""

    level: str = "info"
    json: bool = False
    interval: float = 5.0


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (ISO 8601), level, process, logger, message, and the traceback if there is one."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname.lower(),
            "process": self._process,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def configure_logging(settings: LogSettings, process: str) -> None:
    """Send this process's log to standard error: ours from ``settings.level``, other libraries' from warnings on."""
    handler = logging.StreamHandler(sys.stderr)
    if settings.json:
        handler.setFormatter(JsonFormatter(process))
    else:
        handler.setFormatter(logging.Formatter(f"%(asctime)s %(levelname)-7s {process}: %(message)s", "%H:%M:%S"))
    handler.addFilter(lambda record: record.name.startswith("sgframe") or record.levelno >= logging.WARNING)
    logging.basicConfig(level=settings.level.upper(), handlers=[handler], force=True)
