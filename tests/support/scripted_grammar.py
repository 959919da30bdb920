"""A grammar over token ids, said outright: the tokens that may stand at each position, and where the output may end."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sgframe.constraints import Constraint
from sgframe.interfaces.grammar import CompiledGrammar, Grammar, Matcher, Program
from sgframe.messages import GrammarUse, Ints, ints
from sgframe.scheduler.guides import Guides

Script = Sequence[Sequence[int]]


def use(script: Script, ends: Sequence[int] = ()) -> GrammarUse:
    """The output has a token of each of ``script``'s sets in turn; beside its end, it may stop after ``ends`` tokens.

    A set that begins with -1 allows what follows, but the first of it is forced: a canonical token among others.
    """
    data = json.dumps([[list(step) for step in script], list(ends)]).encode()
    return GrammarUse("scripted", data, data)


def guides(vocab: int, *, jumps: bool = True) -> Guides:
    return Guides({"scripted": ScriptedGrammar()}, -(-vocab // 32), jumps=jumps)


def allowed(script: Script, ends: Sequence[int], position: int, stop_ids: Sequence[int]) -> set[int]:
    """The tokens that may stand at ``position`` of an output, a stop included."""
    may_stop = position in ends or position == len(script)
    step = script[position] if position < len(script) else []
    forced = step[1:2] if step[:1] == [-1] and step[1] not in stop_ids and not may_stop else []
    tokens = set(forced or step) - {-1}
    return tokens - set(stop_ids) | (set(stop_ids) if may_stop else set())


class ScriptedGrammar(Grammar):
    kinds = frozenset({"regex"})

    def __init__(self) -> None:
        """Speaks of ids and needs no vocabulary."""

    def compile(self, constraint: Constraint) -> Program:
        return Program(constraint.text.encode())

    def load(self, data: bytes) -> CompiledGrammar:
        script, ends = json.loads(data)
        if script == [["unloadable"]]:
            raise ValueError("no such script")
        return _Compiled(script, ends)


class _Compiled(CompiledGrammar):
    def __init__(self, script: Script, ends: Sequence[int]) -> None:
        self.script, self.ends = script, ends

    def matcher(self) -> Matcher:
        return ScriptedMatcher(self.script, self.ends, 0)


class ScriptedMatcher(Matcher):
    """Raises where the script has a "raise" for a set."""

    def __init__(self, script: Script, ends: Sequence[int], position: int) -> None:
        self.script, self.ends, self.position = script, ends, position

    def fill_mask(self, words: memoryview) -> None:
        for token in set(self._next()) - {-1}:
            words[token >> 5] |= 1 << (token & 31)

    def _next(self) -> Sequence[int]:
        step = self.script[self.position] if self.position < len(self.script) else []
        if step == ["raise"]:
            raise RuntimeError("the script says so")
        return step

    def accept(self, token: int) -> bool:
        if token not in self._next() or token < 0:
            return False
        self.position += 1
        return True

    def forced_tokens(self) -> Ints:
        tokens, position = ints(), self.position
        while position < len(self.script) and position not in self.ends:
            step = self.script[position]
            if step == ["raise"] or (len(step) > 1 and step[0] != -1):
                break
            tokens.append(step[-1] if len(step) == 1 else step[1])
            position += 1
        return tokens

    def may_stop(self) -> bool:
        return self.position in self.ends or self.position == len(self.script)

    def is_terminated(self) -> bool:
        return self.position == len(self.script)

    def rollback(self, count: int) -> None:
        self.position -= count

    def copy(self) -> Matcher:
        return ScriptedMatcher(self.script, self.ends, self.position)
