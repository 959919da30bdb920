"""What goes wrong in programs."""

from __future__ import annotations

from typing import Any

from sgframe.errors import SgframeError


class BackendClosed(SgframeError):
    """The backend of a program was closed, or the program itself, while it still wanted something."""


class BackendError(SgframeError):
    """A server did not answer as it should. The message has its address, the status and the beginning of what it said."""


class ProgramError(SgframeError):
    """An operation of a program failed; raised where the program waits for what it would have given.

    Attributes:
        line: ``file.py:12``, where the program asked for it.
        source: that line's text.
    """

    def __init__(self, cause: BaseException | str, line: str, source: str) -> None:
        super().__init__(f"{line}: {source}\n  {cause}" if source else f"{line}: {cause}")
        self.line = line
        self.source = source

    def __reduce__(self) -> tuple[Any, ...]:
        """Its arguments are not those it was made by, so that a copy, or one for another process, goes round them."""
        return type(self).__new__, (type(self), *self.args), vars(self)


class NoSuchVariable(ProgramError, KeyError):
    """A program reads a variable that nothing in it sets."""

    __str__ = Exception.__str__  # KeyError would quote it
