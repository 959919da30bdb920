"""The parser of regexes: ECMA-262 with the ``u`` flag, and the harmless liberties that authors of schemas take.

The liberties: any punctuation may be escaped; ``{``, ``}`` and ``]`` may stand for themselves; a class escape may stand
beside a ``-``; ``(?P<name>…)`` names a group; a leading ``(?i)`` sets flags. Owns the grammar of groups and quantifiers;
what a backslash and a bracket mean is read by ``escapes``.
"""

from __future__ import annotations

import re

from sgframe_fsm.regex.classes import WORD, case_variants
from sgframe_fsm.regex.code_points import ANY, SURROGATES, CodePoints, code_points, intersected, negated
from sgframe_fsm.regex.escapes import CharacterReader
from sgframe_fsm.regex.syntax import (
    END,
    LINE_END,
    LINE_ENDS,
    LINE_START,
    START,
    Alternation,
    Behind,
    Chars,
    Node,
    ahead,
    alternation,
    behind,
    chars,
    repeat,
    sequence,
)

DEEPEST = 50
"""Most groups inside one another."""

_PLAIN = re.compile(r"[^\\^$.*+?()\[\]{}|\ud800-\udfff]+(?![*+?{])")
"""Characters that stand for themselves, none of them repeated."""
_BOUNDS = re.compile(r"\{([0-9]{1,1000})(,?)([0-9]{0,1000})\}")
_NO_LOWER_BOUND = re.compile(r"\{,[0-9]*\}")
_GROUP_NAME = re.compile(r"P?<([^\W\d]\w*)>")
_FLAGS = re.compile(r"([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")
_HONOURED_FLAGS = frozenset("ims")
_REMEDY_GROUP = "use (…), (?:…), (?<name>…), (?=…), (?!…) or a one-character (?<=…), (?<!…)"


def parse(pattern: str) -> Node:
    """The syntax tree of ``pattern``. Raises InvalidRegex and UnsupportedRegex."""
    return _Parser(pattern).parse()


class _Parser(CharacterReader):
    def __init__(self, pattern: str) -> None:
        super().__init__(pattern)
        self._flags: frozenset[str] = frozenset()
        self._names: frozenset[str] = frozenset()
        """Of the groups that may match together with the next one."""
        self._depth = 0

    def parse(self) -> Node:
        if (flags := re.match(r"\(\?([a-zA-Z]+)\)", self.pattern)) is not None:
            self._flags = self._checked_flags(flags[1], 2)
            self.at = flags.end()
        node = self._alternation()
        if self.at < len(self.pattern):
            raise self.invalid("unmatched )", "remove it, or write \\)", self.at)
        return node

    def _alternation(self) -> Node:
        before = named = self._names
        branches: list[Node] = []
        while not branches or self.take("|"):
            self._names = before
            branches.append(self._branch())
            named |= self._names
        self._names = named
        return alternation(branches)

    def _branch(self) -> Node:
        parts = []
        while self.peek() not in ("", "|", ")"):
            if (plain := _PLAIN.match(self.pattern, self.at)) is not None:
                self.at = plain.end()
                parts += [chars(self._folded(((ord(letter), ord(letter)),))) for letter in plain[0]]
            else:
                parts.append(self._term())
        return sequence(parts)

    def _term(self) -> Node:
        start = self.at
        if (assertion := self._assertion()) is not None:
            if self._quantifier() is not None:
                raise self.invalid("a repeated assertion", "remove the quantifier", start)
            return assertion
        atom = self._atom()
        bounds = self._quantifier()
        return atom if bounds is None else repeat(atom, *bounds, position=start)

    def _assertion(self) -> Node | None:
        """``^ $ \\b \\B``, or a way to look around."""
        multiline = "m" in self._flags
        if self.take("^"):
            return LINE_START if multiline else START
        if self.take("$"):
            return LINE_END if multiline else END
        if self.take("\\b"):
            return _word_border(self._folded(WORD), at_border=True)
        if self.take("\\B"):
            return _word_border(self._folded(WORD), at_border=False)
        return self._look_around()

    def _look_around(self) -> Node | None:
        for opening, holds in (("(?=", True), ("(?!", False)):
            if self.take(opening):
                return ahead(self._group_body(self.at - len(opening)), holds=holds)
        for opening, holds in (("(?<=", True), ("(?<!", False)):
            if self.take(opening):
                return self._look_behind(self.at - len(opening), holds)
        return None

    def _look_behind(self, start: int, holds: bool) -> Node:
        looked = _one_back(self._group_body(start))
        if looked is None:
            raise self.unsupported(
                "a look-behind over more than one character", "write the text before it in full", start
            )
        points, at_start = looked
        return behind(points if holds else negated(points), start=at_start is holds)

    def _atom(self) -> Node:
        start, character = self.at, self.peek()
        if self.take("("):
            return self._group(start)
        if self.take("["):
            return self._chars(*self.bracket(start), start)
        if self.take("."):
            return chars(ANY if "s" in self._flags else negated(LINE_ENDS))
        if character in "*+?" or _BOUNDS.match(self.pattern, start):
            raise self.invalid(
                f"nothing for {character} to repeat", f"write \\{character} for the character itself", start
            )
        if _NO_LOWER_BOUND.match(self.pattern, start):
            raise self.invalid("a quantifier without its lower bound", "write {0,…}", start)
        return self._chars(self.character(), False, start)

    def _chars(self, points: CodePoints, inverted: bool, start: int) -> Node:
        points = self._folded(points)
        points = negated(points) if inverted else points
        if points and not intersected(points, negated(SURROGATES)):
            raise self.unsupported(
                "half of a surrogate pair", "write the character, or \\u{…} with its code point", start
            )
        return chars(points)

    def _group(self, start: int) -> Node:
        """A group whose ``(`` was at ``start``."""
        if not self.take("?"):
            return self._group_body(start)
        if (name := _GROUP_NAME.match(self.pattern, self.at)) is not None:
            if name[1] in self._names:
                raise self.invalid(f"a second group named {name[1]!r}", "give each group a name of its own", start)
            self._names |= {name[1]}
            self.at = name.end()
            return self._group_body(start)
        if self.peek() in (">", "(", "R", "P", "&", "|"):
            raise self.unsupported("an atomic, conditional or recursive group", _REMEDY_GROUP, start)
        flags = _FLAGS.match(self.pattern, self.at)
        if flags is None:
            raise self.invalid("an unknown kind of group", _REMEDY_GROUP, start)
        if flags[3] == ")":
            raise self.unsupported("flags in mid-pattern", "set them at the very start, or write (?i:…)", start)
        outer = self._flags
        added, removed = self._checked_flags(flags[1], start), self._checked_flags(flags[2] or "", start)
        self.at = flags.end()
        self._flags = (outer | added) - removed
        body = self._group_body(start)
        self._flags = outer
        return body

    def _group_body(self, start: int) -> Node:
        self._depth += 1
        if self._depth > DEEPEST:
            raise self.unsupported(f"more than {DEEPEST} groups inside one another", "nest them less deeply", start)
        body = self._alternation()
        if not self.take(")"):
            raise self.invalid("a group that is not closed", "add the missing ), or write \\(", start)
        self._depth -= 1
        return body

    def _quantifier(self) -> tuple[int, int | None] | None:
        start = self.at
        bounds: tuple[int, int | None] | None = None
        if self.take("*"):
            bounds = 0, None
        elif self.take("+"):
            bounds = 1, None
        elif self.take("?"):
            bounds = 0, 1
        elif (written := _BOUNDS.match(self.pattern, self.at)) is not None:
            self.at = written.end()
            least, comma, most = int(written[1]), written[2], written[3]
            bounds = least, int(most) if most else None if comma else least
            if bounds[1] is not None and bounds[1] < least:
                raise self.invalid("a quantifier whose bounds are out of order", "put the smaller one first", start)
        if bounds is not None:
            self.take("?")  # lazy: it changes what is found first, not which texts match
        return bounds

    def _folded(self, points: CodePoints) -> CodePoints:
        return case_variants(points) if "i" in self._flags else points

    def _checked_flags(self, flags: str, start: int) -> frozenset[str]:
        for flag in flags:
            if flag not in _HONOURED_FLAGS:
                raise self.unsupported(f"the flag {flag!r}", "use only i, m and s", start)
        return frozenset(flags)


def _word_border(word: CodePoints, *, at_border: bool) -> Node:
    other = negated(word)
    after_word = sequence((behind(word, start=False), ahead(chars(word), holds=not at_border)))
    after_other = sequence((behind(other, start=True), ahead(chars(word), holds=at_border)))
    return alternation((after_word, after_other))


def _one_back(node: Node) -> tuple[CodePoints, bool] | None:
    """``node`` as a set of characters before, and whether the start of the text will do; None if it is more than that."""
    match node:
        case Chars(points=points):
            return points, False
        case Behind(points=points, start=start):
            return points, start
        case Alternation(branches=branches):
            looked = [_one_back(branch) for branch in branches]
            known = [one for one in looked if one is not None]
            if len(known) == len(looked):
                return code_points(pair for points, _ in known for pair in points), any(start for _, start in known)
    return None
