"""Chat turns, written one by one as the model's own template writes them all at once. Knows text, no tokens.

A template renders whole conversations only. What it puts around a turn is found by rendering the conversation with a mark
for the content of each turn, and looking between the marks. Where the template does not merely add to what it wrote of
earlier turns, such as one that drops their reasoning, they are written anew.

Contents stand as the program wrote them. A template that strips the whitespace around them cannot do so here: what is
generated is read while its end is not known.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os.path import commonprefix

from sgframe.errors import RequestError
from sgframe.interfaces.source import Tokenizer

_SECRET = secrets.token_hex(8)
"""What makes marks: nobody can guess it, so that no content holds one."""
_LAST = f"<last:{_SECRET}>"


@dataclass(frozen=True, slots=True)
class Edit:
    """Take the last ``drop`` characters away, then add ``text``. ``shown`` is what of it belongs to the new turn."""

    drop: int
    text: str
    shown: str


@dataclass(frozen=True, slots=True)
class Turn:
    role: str
    content: str = ""


class Chat:
    """The turns of one state. ``skip`` stands before them already, and the template is not to repeat it (BOS).

    Attributes:
        open: whether the last turn has not ended.
        placed: whether the template has written all that was said; some write a system turn only with the user's after it,
            and some write behind each turn how the assistant begins, so that its end waits for what really follows.
    """

    def __init__(self, tokenizer: Tokenizer, skip: str = "") -> None:
        if not tokenizer.has_chat_template:
            raise RequestError("the model has no chat template, so it knows no turns; write plain text without roles")
        self.open = False
        self.placed = True
        self._tokenizer = tokenizer
        self._skip = skip
        self._turns: list[Turn] = []
        self._written = ""
        self._after = ""  # what the end of the last turn wrote
        self._lead = ""  # space that the template puts before the open turn's content, if the content brings none

    def fork(self) -> Chat:
        """Another that goes on from here."""
        fork = Chat(self._tokenizer, self._skip)
        fork.open, fork.placed = self.open, self.placed
        fork._turns, fork._written = list(self._turns), self._written
        fork._after, fork._lead = self._after, self._lead
        return fork

    def begin(self, role: str) -> Edit:
        """A turn of ``role`` begins. Raises RequestError when one is open, or the template's own when it refuses it."""
        if self.open:
            raise RequestError(f"a turn of {role!r} begins within that of {self._turns[-1].role!r}; end that first")
        self._lead = ""
        before = self._before(self._turns, role)
        self._turns.append(Turn(role))
        self.open, self.placed = True, before is not None
        return self._go_on(before) if before is not None else Edit(0, "", "")

    def write(self, text: str, *, exactly: bool = False) -> str:
        """Add to the content of the open turn; returns what is written of it, ``exactly`` it or after the space that the
        template puts there."""
        self._turns[-1] = replace(self._turns[-1], content=self._turns[-1].content + text)
        if not text or not self.placed:
            return ""
        lead = "" if exactly or text[0].isspace() else self._lead
        self._lead = ""
        self._written += lead + text
        return lead + text

    def end(self) -> str:
        """The open turn ends; returns what follows its content. Raises RequestError when none is open."""
        if not self.open:
            raise RequestError("a turn ends, but none is open; begin one first")
        self.open = False
        self._after = self._end() if self.placed else ""
        self._written += self._after
        return self._after

    def _end(self) -> str:
        turns = _marked(self._turns)
        mark = turns[-1].content
        after = self._render(turns, prompt=False).rpartition(mark)[2]
        try:
            followed = self._before(turns, "user") or ""
        except RequestError:  # the template wants another role there
            return after
        self.placed = followed.rpartition(mark)[2].startswith(after)
        return after if self.placed else ""

    def _go_on(self, before: str) -> Edit:
        """From what is written to ``before``, which ends where the new turn's content begins."""
        marked = self._before(_marked(self._turns[:-1]), self._turns[-1].role) or ""
        between = marked.rpartition(_mark(len(self._turns) - 2))[2] if len(self._turns) > 1 else marked
        shown = self._filled(between.removeprefix(self._after))
        if _ink(self._written + shown) == _ink(before):
            self._written += shown
            return Edit(0, shown, shown)
        same = len(commonprefix([self._written, before]))  # noqa: RUF071 (no paths)
        drop, text = len(self._written) - same, before[same:]
        self._written = before
        return Edit(drop, text, shown if drop else text)

    def _filled(self, marked: str) -> str:
        for index, turn in enumerate(self._turns):
            marked = marked.replace(_mark(index), turn.content)
        return marked

    def _before(self, turns: Sequence[Turn], role: str) -> str | None:
        """All that the template writes before the content of a turn of ``role`` after ``turns``; None if it leaves that
        turn out until another follows."""
        try:
            whole = self._render([*turns, Turn(role, _LAST)], prompt=False)
        except RequestError:
            if role in ("user", "assistant"):
                raise
            self._render([*turns, Turn(role, _LAST), Turn("user", _LAST)], prompt=False)
            return None
        before, found, _ = whole.rpartition(_LAST)
        if role == "assistant" and turns:
            return self._prompt(turns, before)
        return before if found else None

    def _prompt(self, turns: Sequence[Turn], before: str) -> str:
        """Where the assistant answers: the template's generation prompt, unless it has none."""
        prompt = self._render(turns, prompt=True)
        more = before.removeprefix(prompt) if before.startswith(prompt) else ""
        if _ink(more) and prompt == self._render(turns, prompt=False):
            return before
        self._lead = "" if _ink(more) else more
        return prompt

    def _render(self, turns: Sequence[Turn], *, prompt: bool) -> str:
        messages = [{"role": turn.role, "content": turn.content} for turn in turns]
        text = self._tokenizer.apply_chat_template(messages, add_generation_prompt=prompt)
        return text.removeprefix(self._skip)


def _mark(turn: int) -> str:
    return f"<{turn}:{_SECRET}>"


def _marked(turns: Sequence[Turn]) -> list[Turn]:
    return [Turn(turn.role, _mark(index)) for index, turn in enumerate(turns)]


def _ink(text: str) -> str:
    """What is not whitespace: of that alone templates take something away at the ends of contents."""
    return "".join(text.split())
