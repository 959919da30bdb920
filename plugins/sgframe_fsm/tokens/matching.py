"""A compiled grammar, loaded for one vocabulary, and the state of one request inside it."""

from __future__ import annotations

from sgframe.interfaces.grammar import CompiledGrammar, Matcher
from sgframe.messages import Ints
from sgframe_fsm.expressions.programs import load
from sgframe_fsm.expressions.stepping import Stepper
from sgframe_fsm.expressions.store import EMPTY, NOTHING, Expr, Store
from sgframe_fsm.tokens.jumping import CONTEXT, Canonical, Jumps
from sgframe_fsm.tokens.masks import Masks
from sgframe_fsm.tokens.tables import Tables

MAX_STEPS = 50_000
"""Pairs of a state and a token whose target is kept; at the bound all are forgotten."""


class LoadedGrammar(CompiledGrammar):
    """A program over ``tables``. What it works out is shared by its requests.

    Once it holds more than ``max_states`` expressions, the requests that come begin with a fresh copy; those that run
    keep theirs.
    """

    def __init__(self, data: bytes, tables: Tables, canonical: Canonical, max_states: int) -> None:
        self._data = data
        self._tables = tables
        self._canonical = canonical
        self._max_states = max_states
        self._automaton = self._fresh()

    def matcher(self) -> FsmMatcher:
        """See CompiledGrammar."""
        if len(self._automaton.store) > self._max_states:
            self._automaton = self._fresh()
        return FsmMatcher(self._automaton, [self._automaton.root], [])

    def _fresh(self) -> Automaton:
        store, root = load(self._data)
        return Automaton(store, root, self._tables, self._canonical)


class Automaton:
    """The states of one grammar, as requests come to them. A state is an expression: what may follow."""

    def __init__(self, store: Store, root: Expr, tables: Tables, canonical: Canonical) -> None:
        self.store = store
        self.root = root
        self.masks = Masks(store, tables)
        self._stepper = Stepper(store)
        self.jumps = Jumps(store, self._stepper, self.masks, tables.trie, canonical)
        self._tokens = canonical.tokens
        self._steps: dict[tuple[Expr, int], Expr] = {}

    def step(self, state: Expr, token: int) -> Expr:
        """The state after ``token``; NOTHING if it cannot stand."""
        target = self._steps.get((state, token))
        if target is None:
            if len(self._steps) == MAX_STEPS:
                self._steps.clear()
            target = self._steps[state, token] = self._follow(state, self._tokens[token])
        return target

    def _follow(self, state: Expr, data: bytes) -> Expr:
        self.store.budget.refill()
        for byte in data:
            state = self._stepper.step(state, byte)
            if state == NOTHING:
                break
        return state if data else NOTHING


class FsmMatcher(Matcher):
    """See Matcher. ``states`` has one more entry than ``tokens``: where each accepted token came from, and where we are."""

    def __init__(self, automaton: Automaton, states: list[Expr], tokens: list[int]) -> None:
        self._automaton = automaton
        self._states = states
        self._tokens = tokens

    def fill_mask(self, words: memoryview) -> None:
        """See Matcher. Raises RequestError where the vocabulary has no token to go on with."""
        words[:] = self._automaton.masks.mask(self._states[-1])

    def accept(self, token: int) -> bool:
        """See Matcher."""
        target = self._automaton.step(self._states[-1], token)
        if target == NOTHING:
            return False
        self._states.append(target)
        self._tokens.append(token)
        return True

    def forced_tokens(self) -> Ints:
        """See Matcher."""
        return self._automaton.jumps.forced_tokens(self._states[-1], self._tokens[-CONTEXT:])

    def may_stop(self) -> bool:
        """See Matcher."""
        return self._automaton.store.nullable(self._states[-1])

    def is_terminated(self) -> bool:
        """See Matcher."""
        return self._states[-1] == EMPTY

    def rollback(self, count: int) -> None:
        """See Matcher."""
        if not 0 <= count <= len(self._tokens):
            raise ValueError(f"cannot undo {count} tokens: {len(self._tokens)} were accepted")
        del self._states[len(self._states) - count :]
        del self._tokens[len(self._tokens) - count :]

    def copy(self) -> FsmMatcher:
        """See Matcher."""
        return FsmMatcher(self._automaton, self._states.copy(), self._tokens.copy())
