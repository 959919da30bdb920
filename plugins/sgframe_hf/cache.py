"""The folder of converted models: each is made once, whole or not at all, however many processes ask at the same time.

Knows nothing of what is made. A finished entry is a folder that appeared by one rename, so what exists is complete.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sgframe.errors import ModelError
from sgframe.interfaces.source import Progress


@dataclass(frozen=True, slots=True)
class Scratch:
    """Where an entry is built. Child processes that write to ``folder`` inherit the file descriptor ``lock``, so that
    the entry stays locked until the last of them has ended, even if this process dies first."""

    folder: Path
    lock: int


Make = Callable[[Scratch], Path]
"""Builds in the scratch folder and returns the finished folder inside it."""

_POLL_SECONDS = 0.2


def cache_root(setting: str) -> Path:
    """``setting`` if given, else ``sgframe`` in ``$XDG_CACHE_HOME`` or ``~/.cache`` (XDG Base Directory Specification)."""
    if setting:
        return Path(os.path.expanduser(setting)).absolute()
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".cache") / "sgframe"


class ModelCache:
    """Entries under ``root``, by key: letters, digits, ``.``, ``_`` and ``-``."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, key: str) -> Path:
        """Where entry ``key`` is, or would be."""
        return self.root / key

    def has(self, key: str) -> bool:
        """Whether entry ``key`` is there."""
        return self.path(key).is_dir()

    def get(self, key: str, make: Make, progress: Progress) -> Path:
        """The entry's folder; ``make`` builds it if it is not there. Raises ModelError when it cannot be written."""
        entry = self.path(key)
        if entry.is_dir():
            return entry
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with self._locked(key, progress) as lock:
                if not entry.is_dir():
                    self._build(key, make, lock)
        except OSError as error:
            raise ModelError(
                f"cannot write to the model cache {self.root}: {error.strerror or error}; "
                f"free some space or choose another folder with --set hf.cache_folder=…"
            ) from error
        return entry

    def _build(self, key: str, make: Make, lock: int) -> None:
        for stale in self.root.glob(f".{key}.work-*"):  # we hold the lock: whoever made these is dead
            shutil.rmtree(stale)
        work = Path(tempfile.mkdtemp(prefix=f".{key}.work-", dir=self.root))
        try:
            made = make(Scratch(work, lock))
            _sync(made)
            os.rename(made, self.path(key))
            _sync_one(self.root)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    @contextmanager
    def _locked(self, key: str, progress: Progress) -> Iterator[int]:
        with (self.root / f".{key}.lock").open("w") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    progress(f"waiting for another process that makes {key}", 0, 0)
                    time.sleep(_POLL_SECONDS)
            yield file.fileno()


def _sync(folder: Path) -> None:
    for path in folder.rglob("*"):
        _sync_one(path)
    _sync_one(folder)


def _sync_one(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
