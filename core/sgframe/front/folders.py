"""The private folders in which engines keep their sockets: made, and removed also for those that were killed outright."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from sgframe.errors import ConfigError

FOLDER_PREFIX = "sgframe-"


def private_folder() -> Path:
    """A fresh folder (mode 0700) for this engine's sockets; folders of engines that were killed outright are removed.

    Raises ConfigError when there is no place for one.
    """
    try:
        for stale in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}[0-9]*-*"):
            with contextlib.suppress(ValueError, OSError):
                pid = int(stale.name.removeprefix(FOLDER_PREFIX).partition("-")[0])
                if stale.stat().st_uid == os.getuid() and not Path(f"/proc/{pid}").exists():
                    shutil.rmtree(stale)
        return Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-"))
    except OSError as error:
        raise ConfigError(
            f"no folder for the engine's sockets can be made: {error.strerror}; set the environment variable TMPDIR to a "
            "folder that can be written to"
        ) from None


def remove_private_folders() -> None:
    """Remove this process's folders, for one that ends at once and closes no engine; its children may not know them yet."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}{os.getpid()}-*"):
        shutil.rmtree(folder, ignore_errors=True)
