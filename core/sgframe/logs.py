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
    """Send sgframe's log of this process to standard error. Other libraries' logs are left as they are."""
    handler = logging.StreamHandler(sys.stderr)
    if settings.json:
        handler.setFormatter(JsonFormatter(process))
    else:
        handler.setFormatter(logging.Formatter(f"%(asctime)s %(levelname)-7s {process}: %(message)s", "%H:%M:%S"))
    for name in [name for name in logging.root.manager.loggerDict if name.partition("_")[0] == "sgframe"] + ["sgframe"]:
        logging.getLogger(name)
    root = logging.getLogger("sgframe")
    root.handlers = [handler]
    root.setLevel(settings.level.upper())
    root.propagate = False
