"""Where a program asked for something: the file, the line and its text. Knows nothing of what was asked."""

from __future__ import annotations

import linecache
import sys
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePath
from types import FrameType

from sgframe_dsl.errors import ProgramError

LONGEST_SOURCE = 160
_PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True, slots=True)
class CallSite:
    """A statement of a program, on lines ``first`` to ``last`` of ``file``."""

    file: str
    first: int
    last: int

    @property
    def line(self) -> str:
        """``file.py:12``."""
        return f"{PurePath(self.file).name}:{self.first}"

    @property
    def source(self) -> str:
        """The statement's text in one line; empty where the source is not at hand."""
        lines = (linecache.getline(self.file, number).strip() for number in range(self.first, self.last + 1))
        text = " ".join(filter(None, lines))
        return text if len(text) <= LONGEST_SOURCE else text[: LONGEST_SOURCE - 1] + "…"

    def error(self, cause: BaseException | str) -> ProgramError:
        """``cause`` as an error of this line."""
        error = ProgramError(cause, self.line, self.source)
        error.__cause__ = cause if isinstance(cause, BaseException) else None
        return error


def here() -> CallSite:
    """The innermost line outside this package that is being executed."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame = frame.f_back
    if frame is None:
        return CallSite("?", 0, 0)
    _, last, _, _ = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    return CallSite(frame.f_code.co_filename, frame.f_lineno, max(last or 0, frame.f_lineno))
