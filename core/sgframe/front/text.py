"""From the bytes of output tokens to the text a client sees: whole characters, up to a stop string.

Everything here is incremental, linear in the text, and never takes back what it gave. It must not know tokens, requests
or tokenizers.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Iterable


class Utf8Stream:
    """Bytes cut anywhere → whole characters.

    What all calls return together is ``b"".join(pieces).decode("utf-8", "replace")``, for any bytes and any cut: U+FFFD
    stands only where the bytes cannot be UTF-8 whatever follows (Unicode 15, 3.9, "substitution of maximal subparts").
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, piece: bytes) -> str:
        """The characters that ``piece`` completes."""
        return self._decoder.decode(piece)

    def finish(self) -> str:
        """U+FFFD if a character was left unfinished, else nothing."""
        return self._decoder.decode(b"", final=True)


class StopStrings:
    """Passes text on up to the first stop string, with one automaton for all of them (Aho and Corasick 1975).

    First is the match that is complete first; of several complete at the same character, the one that starts earliest.
    The text ends before it, or after it with ``include_stop``. Held back is the longest suffix that begins a stop
    string, and nothing else.

    Attributes:
        matched: the stop string that ended the text, or None.
    """

    def __init__(self, stops: Iterable[str], include_stop: bool = False) -> None:
        self.matched: str | None = None
        self._include_stop = include_stop
        self._automaton = _Automaton(stops)
        self._idle = len(self._automaton.depth) == 1
        """There is no stop string."""
        self._state = 0
        self._held = ""

    def feed(self, text: str) -> str:
        """The text that has become safe to show; nothing any more once a stop string has matched."""
        if self._idle:
            return text
        if self.matched is not None:
            return ""
        unshown = self._held + text
        for end, character in enumerate(text, len(self._held) + 1):
            self._state = self._automaton.step(self._state, character)
            self.matched = self._automaton.match[self._state]
            if self.matched is not None:
                self._held = ""
                return unshown[: end if self._include_stop else end - len(self.matched)]
        safe = len(unshown) - self._automaton.depth[self._state]
        self._held = unshown[safe:]
        return unshown[:safe]

    def finish(self) -> str:
        """What was held back, now that no stop string can come of it."""
        held, self._held = self._held, ""
        return held


class _Automaton:
    """States are the prefixes of the patterns, 0 the empty one. After a text the state is its longest such suffix.

    ``depth[s]`` is the length of prefix s, ``match[s]`` the longest pattern that ends it.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self.depth = [0]
        self.match: list[str | None] = [None]
        self._children: list[dict[str, int]] = [{}]
        self._fallback = [0]  # the longest proper suffix of the prefix that is a state
        for pattern in patterns:
            self._add(pattern)
        self._link()

    def step(self, state: int, character: str) -> int:
        """The state after one more character; amortised constant time."""
        while (after := self._children[state].get(character)) is None and state:
            state = self._fallback[state]
        return after or 0

    def _add(self, pattern: str) -> None:
        state = 0
        for character in pattern:
            if character not in self._children[state]:
                self._children[state][character] = len(self.depth)
                self.depth.append(self.depth[state] + 1)
                self.match.append(None)
                self._children.append({})
                self._fallback.append(0)
            state = self._children[state][character]
        self.match[state] = pattern

    def _link(self) -> None:
        shallow_first = deque(self._children[0].values())
        while shallow_first:
            state = shallow_first.popleft()
            self.match[state] = self.match[state] or self.match[self._fallback[state]]
            for character, child in self._children[state].items():
                self._fallback[child] = self.step(self._fallback[state], character)
                shallow_first.append(child)


class TextStream:
    """The text of one output: ``Utf8Stream``, then ``StopStrings``.

    ``strip_leading_space`` drops one space at the very start of the text, which a SentencePiece tokenizer puts there.
    """

    def __init__(
        self, stops: Iterable[str] = (), *, include_stop: bool = False, strip_leading_space: bool = False
    ) -> None:
        self._characters = Utf8Stream()
        self._stops = StopStrings(stops, include_stop)
        self._strip = strip_leading_space

    @property
    def matched(self) -> str | None:
        """The stop string that ended the text, or None."""
        return self._stops.matched

    def feed(self, piece: bytes) -> str:
        """Take the bytes of new tokens; return the text that has become safe to show."""
        return self._show(self._characters.feed(piece))

    def finish(self) -> str:
        """The rest of the text: nothing more comes. A stop string can still match here."""
        return self._show(self._characters.finish()) + self._stops.finish()

    def _show(self, text: str) -> str:
        if self._strip and text:
            text = text.removeprefix(" ")
            self._strip = False
        return self._stops.feed(text)
