"""What a state has said so far: its text, and the turns of its chat. Knows neither backends nor variables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sgframe_dsl.feeds import Feed
from sgframe_programs.parts import Begin, End, Part, Text


class Transcript:
    """Grows in the backend's event loop. A branch begins with a copy and remembers where that ended."""

    def __init__(self, before: Transcript | None = None) -> None:
        self.feed: Feed = Feed(before.feed.pieces if before else ())
        self._said: list[Part] = list(before._said) if before else []
        self._fork = (len(self._said), len(self.feed.pieces))
        self._heard = ""

    @property
    def text(self) -> str:
        """All text as the model sees it."""
        return "".join(self.feed.pieces)

    def add(self, parts: Iterable[Part], rendered: str) -> None:
        """``parts`` were added, which the model sees as ``rendered``."""
        self._said.extend(parts)
        self.feed.put(rendered)

    def hear(self, piece: str) -> None:
        """A piece of an answer has come."""
        self._heard += piece
        self.feed.put(piece)

    def answer(self, text: str) -> None:
        """An answer is complete; pieces of it may have been heard."""
        self._said.append(Text(text))
        self.feed.put(text[len(self._heard) :])
        self._heard = ""

    def since_fork(self) -> tuple[Sequence[Part], str]:
        """What a branch said by itself, and the text of it."""
        said, pieces = self._fork
        return self._said[said:], "".join(self.feed.pieces[pieces:])

    def messages(self) -> list[dict[str, str]]:
        """The chat turns, ``{"role": …, "content": …}``; of the open one what there is. Text outside of turns is in none."""
        turns: list[dict[str, str]] = []
        is_open = False
        for part in self._said:
            match part:
                case Begin(role):
                    turns.append({"role": role, "content": ""})
                    is_open = True
                case End():
                    is_open = False
                case Text(text) if is_open:
                    turns[-1]["content"] += text
        if is_open and not turns[-1]["content"]:
            turns.pop()
        return turns
