"""The trial of an expression that may come to very many states: texts of it are written by chance, and what each call of a
matcher would take is counted.

Runs where constraints are compiled. What is served may still meet worse; then the bound on a call ends that request.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sgframe_fsm.errors import GrammarTooLarge
from sgframe_fsm.expressions.budget import Budget
from sgframe_fsm.expressions.programs import load
from sgframe_fsm.expressions.stepping import Stepper
from sgframe_fsm.expressions.store import NOTHING, Expr
from sgframe_fsm.tokens.masks import Masks
from sgframe_fsm.tokens.tables import Tables

CALL_STEPS = 8_000
"""What a call may take in a trial; less than while serving, since chance does not find the worst."""
LONG_CALL = 3_000
"""A call of more steps, about 12 ms, counts twice: one may come to most states at once, but not one after the other."""
TRIAL_STEPS = 55_000
"""What all calls of a trial may take: where it is more, every token comes to states that nobody came to before."""
WALKS, TOKENS = 8, 40
"""Texts that are begun, and tokens of each."""
EASY_WALKS, EASY_STEPS = 2, 1_000
"""After so many texts that took no more steps than that a trial is over."""
TOKENS_PER_MASK = 13
"""In between, tokens of the last mask are guessed: most still fit, and a mask takes longer."""
GUESSES = 4
SHOWN = 40
"""Most bytes of what was written that an error shows, from its end."""
Ids: TypeAlias = NDArray[np.intp]
_TABLE_BYTES = 32 * 2**20


class Trial:
    """Tries expressions over a vocabulary, each by itself: whether it is passed does not hang on what was tried before."""

    def __init__(self, tokens: Sequence[bytes]) -> None:
        self._tokens = tokens
        self._tables = Tables(list(tokens), kernels="numpy", row_bytes=_TABLE_BYTES, mask_bytes=_TABLE_BYTES)

    def run(self, data: bytes, what: str) -> None:
        """Try what was dumped as ``data``. Raises GrammarTooLarge, which says that ``what`` is at fault."""
        self._tables.clear()
        walk = _Walk(data, self._tables, self._tokens)
        try:
            walk.write_texts()
        except GrammarTooLarge:
            raise GrammarTooLarge(
                f"the grammar is too large: {what} can match the same text in too many ways at once; after "
                f"{walk.written[-SHOWN:].decode(errors='replace')!r} it takes too many steps to tell what may follow. "
                "Repeat less often, begin and end with ^ and $, let what follows a repetition begin with "
                "other characters than are repeated, let fewer patterns hold at once"
            ) from None


class _Walk:
    def __init__(self, data: bytes, tables: Tables, tokens: Sequence[bytes]) -> None:
        self._store, self._root = load(data, CALL_STEPS)
        self._stepper = Stepper(self._store)
        self._masks = Masks(self._store, tables)
        self._tokens = tokens
        self._trial = Budget(TRIAL_STEPS)
        self.written = b""

    def write_texts(self) -> None:
        for seed in range(WALKS):
            if seed == EASY_WALKS and self._trial.left > TRIAL_STEPS - EASY_STEPS:
                break
            self._write(Random(seed), choices=1 + seed % 2 * (GUESSES - 1))

    def _write(self, chance: Random, choices: int) -> None:
        """Write a text; of so many tokens that chance proposes the longest is taken."""
        state, allowed = self._root, np.zeros(0, np.intp)
        self.written = b""
        for count in range(TOKENS):
            token, target = self._guess(state, allowed, chance, choices) if count % TOKENS_PER_MASK else (0, NOTHING)
            if target == NOTHING:
                allowed = self._allowed(state)
                token, target = self._guess(state, allowed, chance, choices)
            if target == NOTHING:
                break
            state = target
            self.written += self._tokens[token]

    def _guess(self, state: Expr, allowed: Ids, chance: Random, choices: int) -> tuple[int, Expr]:
        """A token and the state after it; NOTHING where none was found."""
        for _ in range(GUESSES if len(allowed) else 0):
            proposed = [int(allowed[chance.randrange(len(allowed))]) for _ in range(choices)]
            token = max(proposed, key=lambda one: len(self._tokens[one]))
            self._refill()
            target = self._stepper.follow(state, self._tokens[token])
            if target != NOTHING:
                return token, target
        return 0, NOTHING

    def _allowed(self, state: Expr) -> Ids:
        self._refill()
        return np.flatnonzero(np.unpackbits(np.frombuffer(self._masks.mask(state), np.uint8), bitorder="little"))

    def _refill(self) -> None:
        budget = self._store.budget
        taken = budget.allowance - budget.left
        self._trial.spend(taken if taken < LONG_CALL else 2 * taken)
        budget.refill()
