"""A compiled grammar, loaded for one vocabulary, and the state of one request inside it."""

from __future__ import annotations

from array import array

from sgframe.interfaces.grammar import CompiledGrammar, Matcher
from sgframe.messages import Ints
from sgframe_fsm.expressions.budget import SERVING_STEPS
from sgframe_fsm.expressions.programs import load
from sgframe_fsm.expressions.stepping import Stepper
from sgframe_fsm.expressions.store import EMPTY, NOTHING, Expr, Store
from sgframe_fsm.tokens.jumping import CONTEXT, Canonical, Jumps
from sgframe_fsm.tokens.keeping import Shelf
from sgframe_fsm.tokens.masks import Masks
from sgframe_fsm.tokens.tables import Tables

MAX_STEPS = 50_000
"""Pairs of a state and a token whose target is kept; at the bound all are forgotten."""
STATE_BYTES, STEP_BYTES = 400, 120
"""What an expression takes with all that is known of it, and such a pair; on average over real schemas."""


class LoadedGrammar(CompiledGrammar):
    """A program over ``tables``. What it works out is shared by its requests, and kept on ``shelf``.

    Once it holds more than ``max_states`` expressions, it begins afresh, and its requests move over as they go on.
    """

    def __init__(self, data: bytes, tables: Tables, canonical: Canonical, shelf: Shelf, max_states: int) -> None:
        self._data = data
        self._tables = tables
        self._canonical = canonical
        self._shelf = shelf
        self._max_states = max_states
        self._automaton: Automaton | None = self._fresh()

    @property
    def automaton(self) -> Automaton:
        """The one for requests that come, or move."""
        if self._automaton is None or self._automaton.is_full:
            self._automaton = self._fresh()
        return self._automaton

    @property
    def size(self) -> int:
        """Bytes of memory, roughly."""
        return len(self._data) + (0 if self._automaton is None else self._automaton.size)

    def shrink(self) -> None:
        """Forget what was worked out; requests that run keep it until they end."""
        self._automaton = None

    def matcher(self) -> FsmMatcher:
        """See CompiledGrammar."""
        automaton = self.automaton
        self._shelf.touch(self)
        return FsmMatcher(self, automaton, array("i", (automaton.root,)), array("i"))

    def _fresh(self) -> Automaton:
        store, root = load(self._data, SERVING_STEPS)
        return Automaton(store, root, self._tables, self._canonical, self._max_states)


class Automaton:
    """The states of one grammar, as requests come to them. A state is an expression: what may follow."""

    def __init__(self, store: Store, root: Expr, tables: Tables, canonical: Canonical, max_states: int) -> None:
        self.store = store
        self.root = root
        self.masks = Masks(store, tables)
        self._stepper = Stepper(store)
        self.jumps = Jumps(store, self._stepper, self.masks, tables.trie, canonical)
        self._tokens = canonical.tokens
        self._max_states = max(max_states, 2 * len(store))
        self._steps: dict[tuple[Expr, int], Expr] = {}

    @property
    def size(self) -> int:
        """Bytes of memory, roughly."""
        return STATE_BYTES * len(self.store) + STEP_BYTES * len(self._steps)

    @property
    def is_full(self) -> bool:
        return len(self.store) > self._max_states

    def step(self, state: Expr, token: int) -> Expr:
        """The state after ``token``; NOTHING if it cannot stand."""
        target = self._steps.get((state, token))
        if target is None:
            if len(self._steps) == MAX_STEPS:
                self._steps.clear()
            self.store.budget.refill()
            data = self._tokens[token]
            target = self._steps[state, token] = self._stepper.follow(state, data) if data else NOTHING
        return target

    def adopt(self, source: Store, state: Expr) -> Expr:
        """A state of the same grammar's automaton over ``source``, in this one. What it is made of may be much: a deep
        stack; there is room for as much again, and it may take as many steps as it needs."""
        self.store.budget.left = 4 * len(source)
        state = self.store.absorb(source, state)
        self._max_states = max(self._max_states, 2 * len(self.store))
        return state


class FsmMatcher(Matcher):
    """See Matcher. ``states`` are those after the last tokens, of which there is one less: where each came from, and where
    we are. A state before these is found again when it is asked for."""

    def __init__(self, grammar: LoadedGrammar, automaton: Automaton, states: Ints, tokens: Ints) -> None:
        self._grammar = grammar
        self._automaton = automaton
        self._states = states
        self._tokens = tokens

    def fill_mask(self, words: memoryview) -> None:
        """See Matcher. Raises GrammarTooLarge."""
        words[:] = self._automaton.masks.mask(self._states[-1])

    def accept(self, token: int) -> bool:
        """See Matcher."""
        target = self._automaton.step(self._states[-1], token)
        if target == NOTHING:
            return False
        self._states.append(target)
        self._tokens.append(token)
        if self._automaton.is_full:
            self._move()
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
        del self._tokens[len(self._tokens) - count :]
        if count < len(self._states):
            del self._states[len(self._states) - count :]
        else:
            self._retrace()

    def copy(self) -> FsmMatcher:
        """See Matcher."""
        return FsmMatcher(self._grammar, self._automaton, self._states[:], self._tokens[:])

    def _move(self) -> None:
        """Go over to a fresh automaton, and leave the states before behind."""
        former, self._automaton = self._automaton, self._grammar.automaton
        self._states = array("i", (self._automaton.adopt(former.store, self._states[-1]),))

    def _retrace(self) -> None:
        """Come to the present state once more, from the start."""
        tokens, self._tokens = self._tokens, array("i")
        self._automaton = self._grammar.automaton
        self._states = array("i", (self._automaton.root,))
        for token in tokens:
            self.accept(token)
