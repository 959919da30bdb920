"""Runs the code of plugins at start and survives what it may do: raise, exit, print, hang.

Knows nothing of hooks or parts. A start must not depend on the manners of whatever happens to be installed.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from textwrap import shorten
from traceback import FrameSummary, extract_tb
from typing import Any, TypeVar

import sgframe
from sgframe.errors import PluginError

T = TypeVar("T")

PATIENCE = 20.0
"""Seconds that the hook module of one plugin may take. It takes milliseconds; a cold network disk may need some."""

_TICKS = 10
"""The limit is counted in so many ticks, of which a process that is stopped meanwhile misses all but one."""
_LONGEST = 500
_CORE = Path(sgframe.__file__).parent
_MACHINERY = {"importlib", "pluggy", "pydantic"}
_logger = logging.getLogger(__name__)


class _TookTooLong(BaseException):
    """Raised in a plugin's code; no Exception, so that nobody handles it by accident."""


def guarded(who: object, call: Callable[[], T]) -> T:
    """What ``call()`` returns. Raises PluginError, with file and line, for whatever it raises but KeyboardInterrupt, and
    when it takes longer than PATIENCE seconds. What it prints goes to the log under the name ``who``, since standard output
    may be read by a program; so does a thread that it leaves, for which the process will wait at its end.

    The time is limited in the main thread only, for no other one can be interrupted; nor can what never comes back from C.
    """
    printed, threads = StringIO(), threading.enumerate()
    try:
        with redirect_stdout(printed), _time_limit(PATIENCE):
            return call()
    except (PluginError, KeyboardInterrupt):
        raise
    except _TookTooLong as error:
        raise PluginError(f"it was given up after {PATIENCE:g} s, which it spent{_where(error)}") from None
    except BaseException as error:  # sys.exit at import is no Exception
        raise PluginError(describe(error)) from error
    finally:
        left = [each.name for each in threading.enumerate() if each not in threads and not each.daemon]
        effects = [f"starts {name!r}, a thread without whose end no command ends," for name in left]
        if text := printed.getvalue().strip():
            effects.append(f"prints {_short(text)!r}")
        for effect in effects:
            _logger.warning("%s %s while it is listed; a hook module must have no side effects", who, effect)


def describe(error: BaseException) -> str:
    """What was raised, and where in the code that is not ours, in one line: ``ValueError: no such thing (at foo.py:7)``."""
    return f"{type(error).__name__}: {_short(str(error))}{_where(error)}"


def _where(error: BaseException) -> str:
    """`` (at FILE:LINE)``: the innermost line in the folder of the code that was called, or nothing if none of it ran."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" (at {error.filename}:{error.lineno})"
    frames = [frame for frame in extract_tb(error.__traceback__) if not _is_machinery(frame)]
    if not frames:
        return ""
    folder = Path(frames[0].filename).parent
    inmost = [frame for frame in frames if Path(frame.filename).parent == folder][-1]
    return f" (at {inmost.filename}:{inmost.lineno})"


def _is_machinery(frame: FrameSummary) -> bool:
    file = Path(frame.filename)
    return frame.filename.startswith("<") or file.is_relative_to(_CORE) or not _MACHINERY.isdisjoint(file.parts)


def _short(text: str) -> str:
    return shorten(text, _LONGEST, placeholder=" …")


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise _TookTooLong in the body once it has run for ``seconds``, and again until it ends."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ticks = 0

    def tick(*_: Any) -> None:
        nonlocal ticks
        ticks += 1
        if ticks >= _TICKS:
            raise _TookTooLong

    handler = signal.signal(signal.SIGALRM, tick)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds / _TICKS, seconds / _TICKS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler or signal.SIG_DFL)
