"""The contract of the grammar seam as tests: subclass ``GrammarContract`` as ``TestMine`` and give ``make``.

A constraint whose kind the grammar does not name is skipped; that it is refused is a test of its own.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from array import array
from collections.abc import Callable, Iterator
from functools import cache

import msgspec
import pytest

from sgframe.constraints import Constraint
from sgframe.errors import RequestError
from sgframe.interfaces.grammar import CompiledGrammar, Grammar, Matcher, Program
from sgframe.testing.constraints import CASES, FAULTY, SPLIT, Case
from sgframe.testing.contract import Contract
from sgframe.testing.tokens import STOP_IDS, VOCABULARY, encode

KINDS = ("regex", "json_schema", "json_object", "choice", "tools")
Load = Callable[[Case], CompiledGrammar]

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def mask_of(matcher: Matcher) -> array[int]:
    """A row that held other bits before."""
    row = array("I", b"\xff" * (4 * VOCABULARY.words))
    matcher.fill_mask(memoryview(row))
    return row


def allowed(matcher: Matcher) -> list[int]:
    """The ids in the mask; an id beyond the vocabulary is one as well."""
    row = mask_of(matcher)
    return [token for token in range(32 * len(row)) if row[token // 32] >> token % 32 & 1]


def accepts(grammar: CompiledGrammar, text: str) -> bool:
    """Whether the tokenizer's own tokens of ``text`` are all in the mask and taken, and the output may stop there."""
    matcher = grammar.matcher()
    return all(token in allowed(matcher) and matcher.accept(token) for token in encode(text)) and matcher.may_stop()


def states(grammar: CompiledGrammar, case: Case) -> Iterator[tuple[Matcher, list[int]]]:
    """A matcher at every place in every right text, and the tokens that the text has from there on."""
    for text in case.right:
        matcher, tokens = grammar.matcher(), encode(text)
        yield matcher, tokens
        for place, token in enumerate(tokens, 1):
            assert matcher.accept(token), f"token {token} is refused in {text!r}"
            yield matcher, tokens[place:]


class GrammarContract(Contract):
    """Subclass it in a test module, name the subclass ``Test…``, and give ``make``."""

    @abstractmethod
    def make(self) -> Grammar:
        """The grammar over ``sgframe.testing.tokens.VOCABULARY``."""

    @pytest.fixture
    def compiled(self) -> Load:
        """A case's constraint, compiled by one object and loaded by another, as in two processes; once for all tests."""
        contract = type(self)

        def compiled(case: Case) -> CompiledGrammar:
            if case.constraint.kind not in _pair(contract)[0].kinds:
                pytest.skip(f"no {case.constraint.kind}")
            return loaded(contract, case)

        return compiled

    # ------------------------------------------------------------------------------------------------ refusing

    def test_it_names_known_kinds_only(self) -> None:
        assert self.make().kinds <= set(KINDS)

    @pytest.mark.parametrize("constraint", [case.constraint for case in CASES], ids=[case.name for case in CASES])
    def test_what_it_does_not_name_it_refuses(self, constraint: Constraint) -> None:
        grammar = self.make()
        if constraint.kind in grammar.kinds:
            pytest.skip(f"names {constraint.kind}")
        with pytest.raises(RequestError):
            grammar.compile(constraint)

    @pytest.mark.parametrize("constraint", FAULTY, ids=lambda constraint: f"{constraint.kind} {constraint.text}")
    def test_a_faulty_constraint_is_the_requests_fault(self, constraint: Constraint) -> None:
        with pytest.raises(RequestError):
            self.make().compile(constraint)

    # ------------------------------------------------------------------------------------------------ the language

    @each_case
    def test_it_takes_what_matches(self, compiled: Load, case: Case) -> None:
        grammar = compiled(case)
        assert [text for text in case.right if not accepts(grammar, text)] == []

    @each_case
    def test_it_refuses_what_does_not(self, compiled: Load, case: Case) -> None:
        grammar = compiled(case)
        assert [text for text in case.wrong if accepts(grammar, text)] == []

    @each_case
    def test_whatever_is_written_by_the_mask_ends_well(self, compiled: Load, case: Case) -> None:
        grammar = compiled(case)
        for seed in range(6):
            written = _write(grammar.matcher(), random.Random(seed), 60 if case.finite else 150)
            assert written is not None or not case.finite, "it does not come to an end"
            assert written is None or case.holds(written), f"it wrote {written!r}"

    # ------------------------------------------------------------------------------------------------ the mask

    @each_case
    def test_mask_and_accept_agree_on_every_token(self, compiled: Load, case: Case) -> None:
        text = max(case.right, key=len)[:24]
        matcher = compiled(case).matcher()
        for token in encode(text):
            mask = allowed(matcher)
            assert [other for other in range(len(VOCABULARY.tokens)) if matcher.copy().accept(other)] == mask
            matcher.accept(token)

    @each_case
    def test_tokens_without_bytes_are_never_allowed(self, compiled: Load, case: Case) -> None:
        nothing = {token for token, data in enumerate(VOCABULARY.tokens) if not data}
        assert set(STOP_IDS) < nothing
        for matcher, _ in states(compiled(case), case):
            assert nothing.isdisjoint(mask := allowed(matcher))
            assert all(token < len(VOCABULARY.tokens) for token in mask), "a bit beyond the vocabulary is set"

    @each_case
    def test_something_is_allowed_unless_it_may_stop_and_nothing_once_it_must(self, compiled: Load, case: Case) -> None:
        for matcher, rest in states(compiled(case), case):
            assert matcher.may_stop() if not rest else allowed(matcher)
            assert matcher.is_terminated() == (matcher.may_stop() and not allowed(matcher))

    def test_a_character_may_be_split_between_tokens(self, compiled: Load) -> None:
        matcher = compiled(SPLIT).matcher()
        first, second = ([token] for token in map(VOCABULARY.tokens.index, (b"\xc3", b"\xa9")))
        assert allowed(matcher) == sorted(first + encode("é") + [VOCABULARY.tokens.index(b"\xe6")])
        assert matcher.accept(*first)
        assert not matcher.may_stop()
        assert allowed(matcher) == sorted([*second, VOCABULARY.tokens.index(b"\xa8")])
        assert matcher.accept(*second)
        assert matcher.is_terminated()

    # ------------------------------------------------------------------------------------------------ the state

    @each_case
    def test_a_refused_token_changes_nothing(self, compiled: Load, case: Case) -> None:
        for matcher, _ in states(compiled(case), case):
            before = mask_of(matcher)
            refused = set(range(len(VOCABULARY.tokens))) - set(allowed(matcher))
            assert not any(matcher.accept(token) for token in sorted(refused)[::17])
            assert mask_of(matcher) == before

    @each_case
    def test_rolling_back_undoes_tokens(self, compiled: Load, case: Case) -> None:
        grammar, tokens = compiled(case), encode(max(case.right, key=len))
        matcher, seen = grammar.matcher(), []
        for token in tokens:
            seen.append((mask_of(matcher), matcher.may_stop()))
            matcher.accept(token)
        seen.append((mask_of(matcher), matcher.may_stop()))
        for count in (1, len(tokens) // 2, len(tokens)):
            matcher.rollback(count)
            assert (mask_of(matcher), matcher.may_stop()) == seen[len(tokens) - count]
            assert all(matcher.accept(token) for token in tokens[len(tokens) - count :])
        with pytest.raises(ValueError, match=str(len(tokens))):
            matcher.rollback(len(tokens) + 1)

    @each_case
    def test_a_copy_goes_its_own_way(self, compiled: Load, case: Case) -> None:
        grammar, tokens = compiled(case), encode(max(case.right, key=len))
        matcher = grammar.matcher()
        matcher.accept(tokens[0])
        before, copy = mask_of(matcher), matcher.copy()
        assert mask_of(copy) == before
        assert all(copy.accept(token) for token in tokens[1:])
        assert mask_of(matcher) == before
        copy.rollback(len(tokens))
        assert mask_of(copy) == mask_of(grammar.matcher())

    # ------------------------------------------------------------------------------------------------ jump-forward

    @each_case
    def test_forced_tokens_are_those_of_the_tokenizer(self, compiled: Load, case: Case) -> None:
        for matcher, rest in states(compiled(case), case):
            forced = list(matcher.forced_tokens())
            assert forced == rest[: len(forced)]

    @each_case
    def test_forced_tokens_are_taken_one_by_one(self, compiled: Load, case: Case) -> None:
        for matcher, _ in states(compiled(case), case):
            ahead = matcher.copy()
            for token in matcher.forced_tokens():
                assert not ahead.may_stop(), "a token is forced where the output may stop"
                assert token in allowed(ahead)
                assert ahead.accept(token)


def _write(matcher: Matcher, chance: random.Random, most: int) -> str | None:
    """What a model without any sense writes by the mask: a whole output of at most ``most`` tokens, or None.

    Every token is as likely as the next; at a place where it may stop, it does so half the time.
    """
    written = bytearray()
    for _ in range(most):
        choices = allowed(matcher)
        if matcher.may_stop() and (not choices or chance.random() < 0.5):
            return written.decode()
        assert choices, f"after {bytes(written)!r} nothing is allowed, and the output is not whole"
        token = chance.choice(choices)
        assert matcher.accept(token)
        written += VOCABULARY.tokens[token]
    return None


@cache
def _pair(contract: type[GrammarContract]) -> tuple[Grammar, Grammar]:
    """One that compiles and one that matches."""
    compiles, matches = contract().make(), contract().make()
    matches.prepare()
    return compiles, matches


@cache
def loaded(contract: type[GrammarContract], case: Case) -> CompiledGrammar:
    compiles, matches = _pair(contract)
    sent = msgspec.msgpack.encode(compiles.compile(case.constraint))
    return matches.load(msgspec.msgpack.decode(sent, type=Program).data)
