"""The parts of a state as an endpoint wants them: one text, or chat messages. Knows nothing of HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sgframe.errors import RequestError
from sgframe_programs.parts import Begin, End, Part, Text

ASSISTANT = "assistant"


@dataclass
class Turn:
    """A chat turn; ``open`` until its end is among the parts."""

    role: str
    content: str = ""
    open: bool = True


def is_chat(parts: Sequence[Part]) -> bool:
    """Whether ``parts`` are for the chat endpoint."""
    return any(isinstance(part, Begin) for part in parts)


def rendering(parts: Sequence[Part]) -> str:
    """``parts`` as text. Only the endpoint knows the template of its model: a turn reads ``role: content`` and a newline."""
    return "".join(map(_rendered, parts))


def turns(parts: Sequence[Part]) -> list[Turn]:
    """The turns of a chat. Raises RequestError for text outside of them: there is no message to put it into."""
    found: list[Turn] = []
    for part in parts:
        inside = bool(found) and found[-1].open
        match part:
            case Begin(role=role):
                found.append(Turn(role))
            case Text(text=text) if inside:
                found[-1].content += text
            case Text(text=text) if text:
                raise RequestError(
                    f"{text[:60]!r} stands outside of the chat's turns, and OpenAI's chat endpoint takes nothing but "
                    "messages; put it into sgf.user(…) or another role"
                )
            case End() if inside:
                found[-1].open = False
    return found


def _rendered(part: Part) -> str:
    match part:
        case Text(text=text):
            return text
        case Begin(role=role):
            return f"{role}: "
    return "\n"
