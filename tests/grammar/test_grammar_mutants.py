"""The grammar contract catches faults: each matcher here has one, and fails the test named beside it."""

from __future__ import annotations

import inspect
from contextlib import suppress
from functools import cache

import pytest

from sgframe.interfaces.grammar import CompiledGrammar, Matcher
from sgframe.messages import Ints, ints
from sgframe.testing.constraints import CASES, SPLIT, Case
from sgframe.testing.grammar import GrammarContract
from sgframe.testing.tokens import STOP_IDS, VOCABULARY
from sgframe_fsm import CompressedFsmSettings
from sgframe_fsm.grammar import CompressedFsm

CHOSEN = [case for case in CASES if case.name in ("a*", "[ab]{2,4}", "a person", "a person, free") or case is SPLIT]
SOUND = CompressedFsm(CompressedFsmSettings(kernels="numpy"), vocabulary=VOCABULARY)


class Right(Matcher):
    """The matcher of ``compressed-fsm``."""

    def __init__(self, inner: Matcher) -> None:
        self.inner = inner

    def fill_mask(self, words: memoryview) -> None:
        self.inner.fill_mask(words)

    def accept(self, token: int) -> bool:
        return self.inner.accept(token)

    def forced_tokens(self) -> Ints:
        return self.inner.forced_tokens()

    def may_stop(self) -> bool:
        return self.inner.may_stop()

    def is_terminated(self) -> bool:
        return self.inner.is_terminated()

    def rollback(self, count: int) -> None:
        self.inner.rollback(count)

    def copy(self) -> Matcher:
        return type(self)(self.inner.copy())


class AllowsAStopId(Right):
    def fill_mask(self, words: memoryview) -> None:
        super().fill_mask(words)
        words[STOP_IDS[0] // 32] |= 1 << STOP_IDS[0] % 32

    def accept(self, token: int) -> bool:
        return token == STOP_IDS[0] or super().accept(token)


class LeavesOldBits(Right):
    def fill_mask(self, words: memoryview) -> None:
        own = memoryview(bytearray(words)).cast("I")
        super().fill_mask(own)
        words[:-1] = own[:-1]


class TakesAnything(Right):
    def accept(self, token: int) -> bool:
        return super().accept(token) or bool(VOCABULARY.tokens[token])


class StopsAnywhere(Right):
    def may_stop(self) -> bool:
        return True


class NeverStops(Right):
    def may_stop(self) -> bool:
        return False


class TerminatesWhereItMayStop(Right):
    def is_terminated(self) -> bool:
        return self.may_stop()


class ForcesWhatIsLikely(Right):
    def forced_tokens(self) -> Ints:
        return ints([VOCABULARY.tokens.index(b"a")])


class ForcesBytes(Right):
    def forced_tokens(self) -> Ints:
        text = b"".join(VOCABULARY.tokens[token] for token in super().forced_tokens())
        return ints(map(VOCABULARY.tokens.index, (bytes([byte]) for byte in text)))


class AdvancesByForcing(Right):
    def forced_tokens(self) -> Ints:
        forced = super().forced_tokens()
        for token in forced:
            self.accept(token)
        return forced


class SharesItsState(Right):
    def copy(self) -> Matcher:
        return self


class RollsBackOneLess(Right):
    def rollback(self, count: int) -> None:
        super().rollback(max(0, count - 1))


class ForgivesRollingBackTooMuch(Right):
    def rollback(self, count: int) -> None:
        with suppress(ValueError):
            super().rollback(count)


class ForgetsHalfACharacter(Right):
    """Allows plain text inside a character."""

    def fill_mask(self, words: memoryview) -> None:
        super().fill_mask(words)
        if not self.may_stop():
            words[ord("a") // 32] |= 1 << ord("a") % 32


class Faulty(CompiledGrammar):
    def __init__(self, inner: CompiledGrammar, kind: type[Right]) -> None:
        self.inner, self.kind = inner, kind

    def matcher(self) -> Matcher:
        return self.kind(self.inner.matcher())


class Contract(GrammarContract):
    """Its tests are called by hand."""

    def make(self) -> CompressedFsm:
        return SOUND


@cache
def compiled(case: Case) -> CompiledGrammar:
    return SOUND.load(SOUND.compile(case.constraint).data)


def fails(test: str, matching: type[Right]) -> bool:
    """Whether a test of the contract fails with one of the chosen cases."""
    method = getattr(Contract(), test)
    cases = [(case,) for case in CHOSEN] if "case" in inspect.signature(method).parameters else [()]
    try:
        for case in cases:
            method(lambda case: Faulty(compiled(case), matching), *case)
    except (AssertionError, pytest.fail.Exception):
        return True
    return False


def test_the_right_matcher_passes_all() -> None:
    methods = inspect.getmembers(Contract, inspect.isfunction)
    tests = [
        name for name, test in methods if name.startswith("test_") and "compiled" in inspect.signature(test).parameters
    ]
    assert len(tests) == 12
    assert [test for test in tests if fails(test, Right)] == []


@pytest.mark.parametrize(
    ("matching", "test"),
    [
        (AllowsAStopId, "test_tokens_without_bytes_are_never_allowed"),
        (LeavesOldBits, "test_tokens_without_bytes_are_never_allowed"),
        (TakesAnything, "test_mask_and_accept_agree_on_every_token"),
        (TakesAnything, "test_a_refused_token_changes_nothing"),
        (StopsAnywhere, "test_it_refuses_what_does_not"),
        (StopsAnywhere, "test_whatever_is_written_by_the_mask_ends_well"),
        (NeverStops, "test_it_takes_what_matches"),
        (NeverStops, "test_whatever_is_written_by_the_mask_ends_well"),
        (TerminatesWhereItMayStop, "test_something_is_allowed_unless_it_may_stop_and_nothing_once_it_must"),
        (ForcesWhatIsLikely, "test_forced_tokens_are_taken_one_by_one"),
        (ForcesBytes, "test_forced_tokens_are_those_of_the_tokenizer"),
        (AdvancesByForcing, "test_forced_tokens_are_those_of_the_tokenizer"),
        (SharesItsState, "test_a_copy_goes_its_own_way"),
        (RollsBackOneLess, "test_rolling_back_undoes_tokens"),
        (ForgivesRollingBackTooMuch, "test_rolling_back_undoes_tokens"),
        (ForgetsHalfACharacter, "test_a_character_may_be_split_between_tokens"),
    ],
)
def test_a_fault_is_caught(matching: type[Right], test: str) -> None:
    assert fails(test, matching)
