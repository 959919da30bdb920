"""The grammar contract catches faults: each grammar here has one, and fails the cases named beside it and no other."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any

import pytest
from contract_cases import cases_of, failed_cases

from sgframe.constraints import Constraint
from sgframe.errors import RequestError
from sgframe.interfaces.grammar import CompiledGrammar, Grammar, Matcher, Program
from sgframe.messages import Ints, ints
from sgframe.testing import GrammarContract
from sgframe.testing.constraints import CASES, SPLIT, Case
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


# ------------------------------------------------------------------------------------------------------- grammars


class Sound(Grammar):
    """``compressed-fsm``, whose matchers are of the class ``matching``."""

    kinds = SOUND.kinds

    def __init__(self, matching: type[Right] = Right) -> None:
        self.matching = matching

    def compile(self, constraint: Constraint) -> Program:
        return SOUND.compile(constraint)

    def load(self, data: bytes) -> CompiledGrammar:
        return Matching(SOUND.load(data), self.matching)


class Matching(CompiledGrammar):
    def __init__(self, inner: CompiledGrammar, kind: type[Right]) -> None:
        self.inner, self.kind = inner, kind

    def matcher(self) -> Matcher:
        return self.kind(self.inner.matcher())


class NamesAKindOfItsOwn(Sound):
    kinds = SOUND.kinds | {"yaml"}


class TakesWhatItDoesNotName(Sound):
    kinds = frozenset({"choice"})


class BlamesItselfForTheRequest(Sound):
    def compile(self, constraint: Constraint) -> Program:
        try:
            return super().compile(constraint)
        except RequestError as error:
            raise ValueError(str(error)) from error


class CompilesAFaultyChoiceToNothing(Sound):
    def compile(self, constraint: Constraint) -> Program:
        empty = constraint.kind == "choice" and constraint.text == "[]"
        return Program(b"") if empty else super().compile(constraint)


# ------------------------------------------------------------------------------------------------------- the table

MUTANTS: dict[type[Any], set[str]] = {
    AllowsAStopId: {
        "test_a_character_may_be_split_between_tokens",
        "test_something_is_allowed_unless_it_may_stop_and_nothing_once_it_must",
        "test_tokens_without_bytes_are_never_allowed",
    },
    LeavesOldBits: {
        "test_a_character_may_be_split_between_tokens",
        "test_mask_and_accept_agree_on_every_token",
        "test_something_is_allowed_unless_it_may_stop_and_nothing_once_it_must",
        "test_tokens_without_bytes_are_never_allowed",
        "test_whatever_is_written_by_the_mask_ends_well",
    },
    TakesAnything: {
        "test_a_refused_token_changes_nothing",
        "test_mask_and_accept_agree_on_every_token",
    },
    StopsAnywhere: {
        "test_a_character_may_be_split_between_tokens",
        "test_forced_tokens_are_taken_one_by_one",
        "test_it_refuses_what_does_not",
        "test_whatever_is_written_by_the_mask_ends_well",
    },
    NeverStops: {
        "test_it_takes_what_matches",
        "test_something_is_allowed_unless_it_may_stop_and_nothing_once_it_must",
        "test_whatever_is_written_by_the_mask_ends_well",
    },
    TerminatesWhereItMayStop: {"test_something_is_allowed_unless_it_may_stop_and_nothing_once_it_must"},
    ForcesWhatIsLikely: {
        "test_forced_tokens_are_taken_one_by_one",
        "test_forced_tokens_are_those_of_the_tokenizer",
    },
    ForcesBytes: {"test_forced_tokens_are_those_of_the_tokenizer"},
    AdvancesByForcing: {
        "test_forced_tokens_are_taken_one_by_one",
        "test_forced_tokens_are_those_of_the_tokenizer",
    },
    SharesItsState: {
        "test_a_copy_goes_its_own_way",
        "test_forced_tokens_are_taken_one_by_one",
        "test_mask_and_accept_agree_on_every_token",
    },
    RollsBackOneLess: {
        "test_a_copy_goes_its_own_way",
        "test_rolling_back_undoes_tokens",
    },
    ForgivesRollingBackTooMuch: {"test_rolling_back_undoes_tokens"},
    ForgetsHalfACharacter: {
        "test_a_character_may_be_split_between_tokens",
        "test_mask_and_accept_agree_on_every_token",
        "test_whatever_is_written_by_the_mask_ends_well",
    },
    NamesAKindOfItsOwn: {"test_it_names_known_kinds_only"},
    TakesWhatItDoesNotName: {"test_what_it_does_not_name_it_refuses"},
    BlamesItselfForTheRequest: {"test_a_faulty_constraint_is_the_requests_fault"},
    CompilesAFaultyChoiceToNothing: {"test_a_faulty_constraint_is_the_requests_fault"},
}


class Contract(GrammarContract):
    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar

    def make(self) -> Grammar:
        return self.grammar


@cache
def loaded(constraint: Constraint) -> CompiledGrammar:
    return SOUND.load(SOUND.compile(constraint).data)


def failing(kind: type[Any]) -> set[str]:
    """The cases that fail with one of the chosen constraints, or a faulty one."""
    grammar = kind() if issubclass(kind, Sound) else Sound(kind)

    def compiled(case: Case) -> CompiledGrammar:
        if case.constraint.kind not in grammar.kinds:
            pytest.skip("as the contract's fixture does")
        return Matching(loaded(case.constraint), grammar.matching)

    return failed_cases(
        Contract(grammar),
        lambda names: dict.fromkeys(names, compiled),
        lambda value: value in CHOSEN or value not in CASES,
    )


@pytest.mark.parametrize("kind", MUTANTS, ids=lambda kind: kind.__name__)
def test_a_fault_fails_its_cases_and_no_other(kind: type[Any]) -> None:
    assert failing(kind) == MUTANTS[kind]


def test_every_case_catches_a_fault() -> None:
    assert set(cases_of(GrammarContract)) == set().union(*MUTANTS.values())


def test_the_right_matcher_passes_all() -> None:
    assert failing(Right) == set()
