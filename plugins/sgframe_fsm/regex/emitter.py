"""From the syntax tree of a regex to an expression. Owns what assertions mean; knows no syntax, and no alphabet but by its
protocol.

Works from the end of the regex to its start. At every place it knows the language of all that may follow, so a look-ahead is
an intersection with that, and ``$`` keeps the empty text of it. What may follow can depend on the character before (``^``,
``\\b``): the characters are parted into blocks that no assertion tells apart, and a Rest has one language for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from sgframe_fsm.errors import UnsupportedRegex
from sgframe_fsm.expressions.store import EMPTY, NOTHING, Expr, Store
from sgframe_fsm.regex.alphabet import Alphabet
from sgframe_fsm.regex.code_points import ANY, CodePoints, code_points, intersected, negated
from sgframe_fsm.regex.parser import parse
from sgframe_fsm.regex.refusals import unsupported
from sgframe_fsm.regex.syntax import (
    ANY_TEXT,
    END,
    START,
    Ahead,
    Alternation,
    Behind,
    Chars,
    Node,
    Repeat,
    Sequence,
    assertions,
    looks_ahead_only,
    looks_behind,
    repeat,
    sequence,
    trimmed,
    without,
)

Rest = tuple[Expr, ...]
"""What may follow: at the start of the text, then after a character of each block."""

MOST_BLOCKS = 16
"""How many kinds of last character the look-behinds of a regex may tell apart."""
VISIT_STEPS = 4
"""What it costs to visit a part of the regex once more, in the store's steps."""
MOST_COPIES = 64
"""How often a repeated part with an assertion in it may be written out."""


def compile_regex(store: Store, pattern: str, alphabet: Alphabet, *, search: bool) -> Expr:
    """The texts that ``pattern`` matches: as a whole, or with ``search`` anywhere in them, as JSON Schema has it.

    NOTHING when it matches no text at all. Raises InvalidRegex, UnsupportedRegex and the store's GrammarTooLarge.
    """
    node = parse(pattern)
    if search:
        node = trimmed(sequence((ANY_TEXT, trimmed(node, at_end=False))), at_end=True)
    emitter = _Emitter(store, alphabet, pattern, _blocks(node, pattern))
    return emitter.before(node, emitter.always(alphabet.anything if search else EMPTY))[0]


def _blocks(node: Node, pattern: str) -> list[CodePoints]:
    """The characters, parted so that each Behind of ``node`` takes a block whole or not at all."""
    blocks = [ANY]
    for points in looks_behind(node):
        parted = (intersected(block, side) for block in blocks for side in (points, negated(points)))
        blocks = [block for block in parted if block]
        if len(blocks) > MOST_BLOCKS:
            raise unsupported(pattern, 0, "too many different look-behinds", "use fewer")
    return blocks


def _is_text(node: Node) -> bool:
    return isinstance(node, Chars) and len(node.points) == 1 and node.points[0][0] == node.points[0][1]


class _Emitter:
    def __init__(self, store: Store, alphabet: Alphabet, pattern: str, blocks: list[CodePoints]) -> None:
        self._store, self._alphabet, self._pattern, self._blocks = store, alphabet, pattern, blocks

    def always(self, language: Expr) -> Rest:
        """``language``, whatever was before."""
        return (language,) * (1 + len(self._blocks))

    def before(self, node: Node, rest: Rest) -> Rest:
        """What ``node`` and then ``rest`` match."""
        if not node.asserts and rest == self.always(rest[0]):
            return self.always(self._store.sequence((self._plain(node), rest[0])))
        self._store.budget.spend(VISIT_STEPS)  # what is visited again and again may make nothing new
        match node:
            case Chars(points=points):
                return self.always(self._one(points, rest))
            case Sequence(parts=parts):
                for part in reversed(parts):
                    rest = self.before(part, rest)
                return rest
            case Alternation(branches=branches):
                return self._any(self.before(branch, rest) for branch in branches)
            case Repeat():
                return self._repeated(node, rest) if node.asserts else self._plainly_repeated(node, rest)
            case Behind(points=points, start=start):
                fits = (start, *(bool(intersected(block, points)) for block in self._blocks))
                kept = tuple(language if fit else NOTHING for language, fit in zip(rest, fits, strict=True))
            case Ahead():
                kept = self._looking_ahead(node, rest)
        return kept

    def _plain(self, node: Node) -> Expr:
        """What ``node``, which has no assertions, matches by itself."""
        if node is ANY_TEXT:
            return self._alphabet.anything
        match node:
            case Chars(points=points):
                return self._alphabet.characters(points)
            case Sequence(parts=parts):
                return self._store.sequence(self._pieces(parts))
            case Alternation(branches=branches):
                return self._store.union([self._plain(branch) for branch in branches])
            case Repeat(part=part, least=least, most=most):
                return self._store.repeat(self._plain(part), least, most)
        raise TypeError(f"{type(node).__name__} asserts")

    def _pieces(self, parts: Iterable[Node]) -> Iterator[Expr]:
        """``parts``, of which a run of single characters is one text."""
        for text, run in groupby(parts, _is_text):
            if text:
                yield self._alphabet.spellings(
                    "".join(chr(part.points[0][0]) for part in run if isinstance(part, Chars))
                )
            else:
                yield from map(self._plain, run)

    def _any(self, rests: Iterable[Rest]) -> Rest:
        return tuple(self._store.union(languages) for languages in zip(self.always(NOTHING), *rests, strict=True))

    def _one(self, points: CodePoints, rest: Rest) -> Expr:
        """One of ``points``, then what may follow after it."""
        taken: dict[Expr, list[tuple[int, int]]] = {}
        for block, language in zip(self._blocks, rest[1:], strict=True):
            taken.setdefault(language, []).extend(intersected(points, block))
        return self._store.union(
            self._store.sequence((self._alphabet.characters(code_points(ranges)), language))
            for language, ranges in taken.items()
        )

    # ------------------------------------------------------------------------------------------ repetition

    def _plainly_repeated(self, node: Repeat, rest: Rest) -> Rest:
        """A repetition without assertions before a rest that depends on its last character."""
        if node.most == 0:
            return rest
        if node.part.nullable:
            whole, anything = self._plain(node), self._alphabet.anything
            ended = [
                (self._store.sequence((anything, self._alphabet.characters(block))), language)
                for block, language in zip(self._blocks, rest[1:], strict=True)
            ]
            some = self._store.union(
                self._store.sequence((self._store.intersection((whole, ending)), language))
                for ending, language in ended
            )
        else:
            more = self._store.repeat(
                self._plain(node.part), max(node.least - 1, 0), None if node.most is None else node.most - 1
            )
            some = self._store.sequence((more, self.before(node.part, rest)[0]))
        return self._any((rest, self.always(some))) if node.nullable else self.always(some)

    def _repeated(self, node: Repeat, rest: Rest) -> Rest:
        """A repetition with assertions in it: written out, since what may follow differs from round to round."""
        copies = node.least if node.most is None else node.most
        if copies > MOST_COPIES:
            raise self._unsupported(node, f"an assertion repeated up to {copies} times")
        done = rest if node.most is not None else self._looped(node, rest)
        for _ in range(copies - node.least):
            done = self._any((rest, self.before(node.part, done)))
        for _ in range(node.least):
            done = self.before(node.part, done)
        return done

    def _looped(self, node: Repeat, rest: Rest) -> Rest:
        """``node.part`` any number of times, then ``rest``.

        Rounds without progress can be left out. So after a round in which ``$`` held there is none, and before one in which
        ``^`` held neither: all others can do without these two.
        """
        part, asserted = node.part, list(assertions(node.part))
        if rest == self.always(self._alphabet.anything):
            return rest
        if rest == self.always(EMPTY) and (guarded := self._guarded(part)) is not None:
            return self.always(guarded)
        if any(assertion not in (START, END) for assertion in asserted):
            raise self._unsupported(node, "an assertion in an endless repetition")
        self._store.budget.spend(VISIT_STEPS * len(asserted))  # copies without them are about to be made
        if END in asserted:
            rest = self._any((rest, self.before(part, rest)))
            part = without(part, END)
        looped = self.before(repeat(without(part, START), 0, None, node.position), rest)
        return self._any((rest, self.before(part, looped))) if START in asserted else looped

    def _unsupported(self, node: Repeat, problem: str) -> UnsupportedRegex:
        return unsupported(self._pattern, node.position, problem, "move it out of the group")

    def _guarded(self, part: Node) -> Expr | None:
        """``((?!a)(?=b)[c])*`` up to the end of the text: characters of ``[c]``, and at none of them a guard is hurt."""
        if not (isinstance(part, Sequence) and isinstance(part.parts[-1], Chars)):
            return None
        store, anything = self._store, self._alphabet.anything
        characters = store.repeat(self._plain(part.parts[-1]), 0, None)
        somewhere = store.sequence((self._alphabet.characters(ANY), anything))
        languages = [characters]
        for guard in part.parts[:-1]:
            if not looks_ahead_only(guard):
                return None
            hurt = store.complement(self.before(guard, self.always(anything))[0])
            languages.append(store.complement(store.sequence((anything, store.intersection((hurt, somewhere))))))
        return store.intersection(languages)

    # ------------------------------------------------------------------------------------------ looking ahead

    def _looking_ahead(self, node: Ahead, rest: Rest) -> Rest:
        if node is END:
            return tuple(EMPTY if self._store.nullable(language) else NOTHING for language in rest)
        seen = self._ahead_of(node)
        return tuple(self._restricted(*pair, node.holds) for pair in zip(rest, seen, strict=True))

    def _ahead_of(self, node: Ahead) -> Rest:
        """The texts that begin with a match of what ``node`` looks for."""
        return self.before(node.part, self.always(self._alphabet.anything))

    def _restricted(self, rest: Expr, seen: Expr, holds: bool) -> Expr:
        """The texts of ``rest`` that are in ``seen``, or are not."""
        if rest in (EMPTY, NOTHING):
            return rest if self._store.nullable(seen) is holds else NOTHING
        if seen in (NOTHING, self._alphabet.anything):
            return rest if (seen == NOTHING) is not holds else NOTHING
        if rest == self._alphabet.anything and holds:
            return seen
        return self._store.intersection((rest, seen if holds else self._store.complement(seen)))
