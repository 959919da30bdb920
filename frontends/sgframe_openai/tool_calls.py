"""Calls of tools as text: how one is written, and how they are read from an output that comes piece by piece.

The format is the one of the Hermes models (NousResearch, hermes-function-calling): JSON between two tags. Knows neither the
tools nor how a client is told.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

BEGIN = "<tool_call>\n"
END = "\n</tool_call>"
SEPARATOR = "\n"

_END_TAG = END.strip()
_NAME = re.compile(r'\s*\{\s*"name"\s*:\s*"(?P<name>[^"\\]*)"')
_ARGUMENTS = re.compile(r'\s*,\s*"arguments"\s*:\s*(?=\S)')


def written_call(name: str, arguments: str) -> str:
    """A call whose arguments are the JSON text ``arguments``."""
    return f'{BEGIN}{{"name": {msgspec.json.encode(name).decode()}, "arguments": {arguments}}}{END}'


@dataclass(frozen=True, slots=True)
class CallPiece:
    """A piece of the call number ``index``: first the ``name`` alone, then the text of the ``arguments``."""

    index: int
    name: str | None = None
    arguments: str = ""


Piece = str | CallPiece
"""Text between the calls, or a piece of one."""


class ToolCallReader:
    """Takes an output's text in any pieces and gives what it says; no text makes it fail.

    White space between text and a call belongs to neither. What can still become the beginning of a call is held back. A
    call without a name is text; one that breaks off later is given as far as it came.
    """

    def __init__(self) -> None:
        self.calls = 0
        self._buffer = ""
        self._read = self._read_text
        self._value = _ObjectEnd()

    @property
    def inside(self) -> bool:
        """Whether a call has begun that has not ended."""
        return self._read != self._read_text

    def feed(self, text: str) -> list[Piece]:
        """What can be told now that ``text`` has come."""
        self._buffer += text
        pieces: list[Piece] = []
        while self._read(pieces):
            pass
        return pieces

    def finish(self) -> list[Piece]:
        """What was held back, now that nothing more comes."""
        rest = self._buffer
        if self._read == self._read_name:
            return [BEGIN + rest]
        if self.inside or (self.calls and not rest.strip()):
            return []
        return [rest] if rest else []

    # Each reader takes what it can from the buffer; True when another one is to go on with the rest.

    def _read_text(self, pieces: list[Piece]) -> bool:
        text, begin, rest = self._buffer.partition(BEGIN)
        if begin:
            shown, self._buffer, self._read = text.rstrip(), rest, self._read_name
        else:
            shown = _without_beginning(text)
            self._buffer = text[len(shown) :]
        if shown:
            pieces.append(shown)
        return bool(begin)

    def _read_name(self, pieces: list[Piece]) -> bool:
        if match := _NAME.match(self._buffer):
            pieces.append(CallPiece(self.calls, name=match["name"]))
            self.calls += 1
            self._buffer, self._read = self._buffer[match.end() :], self._read_key
            return True
        nameless, end, rest = self._buffer.partition(_END_TAG)
        if end:
            pieces.append(BEGIN + nameless + end)
            self._buffer, self._read = rest, self._read_text
        return bool(end)

    def _read_key(self, pieces: list[Piece]) -> bool:
        if match := _ARGUMENTS.match(self._buffer):
            self._buffer, self._read, self._value = self._buffer[match.end() :], self._read_arguments, _ObjectEnd()
        elif _END_TAG in self._buffer:
            self._read = self._read_end
        return self._read != self._read_key

    def _read_arguments(self, pieces: list[Piece]) -> bool:
        end = self._value.find(self._buffer)
        if shown := self._buffer[:end]:
            pieces.append(CallPiece(self.calls - 1, arguments=shown))
        self._buffer = self._buffer[len(shown) :]
        if end is not None:
            self._read = self._read_end
        return end is not None

    def _read_end(self, pieces: list[Piece]) -> bool:
        _, end, rest = self._buffer.partition(_END_TAG)
        if end:
            self._buffer, self._read = rest, self._read_text
        return bool(end)


class _ObjectEnd:
    """Looks for the end of a JSON object that comes piece by piece."""

    def __init__(self) -> None:
        self._depth = 0
        self._quoted = False
        self._escaped = False

    def find(self, piece: str) -> int | None:
        """Where in ``piece`` the object has ended."""
        for i, character in enumerate(piece):
            if self._escaped:
                self._escaped = False
            elif self._quoted:
                self._escaped = character == "\\"
                self._quoted = character != '"'
            elif character == '"':
                self._quoted = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                if self._depth <= 0:
                    return i + 1
        return None


def _without_beginning(text: str) -> str:
    """``text`` without an end that may be the beginning of a call, and the white space before it."""
    for length in range(len(BEGIN) - 1, 0, -1):
        if text.endswith(BEGIN[:length]):
            return text[:-length].rstrip()
    return text.rstrip()
