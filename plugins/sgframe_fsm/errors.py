"""What a constraint can be refused for. Each error ends one request with a 400: where, what was found, what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sgframe.errors import RequestError

LONGEST_POINTER = 160


class InvalidRegex(RequestError):
    """A pattern is malformed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="invalid_regex")


class UnsupportedRegex(RequestError):
    """A pattern is well formed, but no regular language, or none that is known how to build."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="unsupported_regex")


class InvalidSchema(RequestError):
    """A schema is malformed or allows no value at all. ``pointer`` is the JSON pointer of the schema object at fault."""

    def __init__(self, pointer: str, keyword: str, reason: str) -> None:
        super().__init__(f"invalid JSON schema: {place(pointer, keyword)}: {reason}", code="invalid_schema")


class Unsupported(RequestError):
    """A keyword that is well formed cannot be honoured to the letter. ``reason`` says what was found and, after the last
    semicolon, what to do; ``found``, where given, is all that was found."""

    def __init__(self, pointer: str, keyword: str, reason: str, found: str = "") -> None:
        super().__init__(f"unsupported JSON schema: {place(pointer, keyword)}: {reason}", code="unsupported_schema")
        self.pointer = pointer
        self.keyword = keyword
        self.reason = reason
        self.found = found or reason.rpartition("; ")[0] or reason

    @property
    def report(self) -> str:
        """The same for one who asked for an approximation, and got it."""
        return f"{place(self.pointer, self.keyword)} is not enforced: {self.found}"


class GrammarTooLarge(RequestError):
    """Compiling would take more steps, memory or depth than one request may have."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="grammar_too_large")


@contextmanager
def within(pointer: str, keyword: str) -> Iterator[None]:
    """Says of a refused pattern where in the schema it stands."""
    try:
        yield
    except InvalidRegex as error:
        raise InvalidSchema(pointer, keyword, str(error)) from None
    except UnsupportedRegex as error:
        raise Unsupported(pointer, keyword, str(error), found=str(error)) from None


def place(pointer: str, keyword: str = "") -> str:
    """Where, for a message: the pointer as a URI fragment, shortened if need be, then the keyword."""
    shown = (
        pointer
        if len(pointer) <= LONGEST_POINTER
        else f"{pointer[: LONGEST_POINTER // 2]}…{pointer[-LONGEST_POINTER // 2 :]}"
    )
    return f"#{shown} {keyword!r}" if keyword else f"#{shown}"
