"""The matcher of compressed-fsm: tokens in, states out. What every grammar's matcher holds is in its contract."""

from __future__ import annotations

import subprocess
import sys
from array import array

import pytest

from sgframe.constraints import Constraint
from sgframe.interfaces.grammar import CompiledGrammar, Matcher, Vocabulary
from sgframe.testing.plugin import check_plugin
from sgframe_fsm import CompressedFsmSettings
from sgframe_fsm.grammar import CompressedFsm
from sgframe_fsm.tokens.matching import FsmMatcher, LoadedGrammar

STOP, NEWLINE, UNSPELLED = 256, 257, 258
VOCABULARY = Vocabulary(
    [bytes((byte,)) for byte in range(256)] + [b"", b"\n", b"", b'{"a', b"\xe6\x97", b"aa"], (STOP, NEWLINE)
)


def grammar(**settings: int) -> CompressedFsm:
    return CompressedFsm(CompressedFsmSettings(kernels="numpy", **settings), vocabulary=VOCABULARY)


def matcher(kind: str, text: str) -> Matcher:
    fsm = grammar()
    return fsm.load(fsm.compile(Constraint(kind, text)).data).matcher()


def allowed(matcher: Matcher) -> set[int]:
    row = array("I", bytes(4 * VOCABULARY.words))
    matcher.fill_mask(memoryview(row))
    return {token for token in range(32 * len(row)) if row[token // 32] >> token % 32 & 1}


def test_the_plugin_is_sound() -> None:
    assert check_plugin("sgframe_fsm") == []


def test_a_character_may_be_split_between_tokens() -> None:
    days = matcher("choice", '["日", "月"]')
    assert allowed(days) == {0xE6, 260}
    assert days.accept(260)
    assert allowed(days) == {0xA5}
    assert days.copy().accept(0xA5)
    assert days.accept(0x88) is False


def test_a_token_is_taken_whole_or_not_at_all() -> None:
    ab = matcher("regex", "a[ab]")
    assert not ab.accept(259)
    assert allowed(ab) == {ord("a"), 261}


def test_a_stop_id_that_has_text_is_text_no_longer() -> None:
    lines = matcher("regex", "a\\n")
    assert lines.accept(ord("a"))
    assert allowed(lines) == {ord("\n")}
    assert not lines.accept(NEWLINE)
    assert not lines.accept(UNSPELLED)


def test_it_may_stop_where_the_output_is_whole_and_must_where_nothing_follows() -> None:
    some = matcher("regex", "a{1,2}")
    found = [(some.may_stop(), some.is_terminated())]
    for _ in range(2):
        some.accept(ord("a"))
        found.append((some.may_stop(), some.is_terminated()))
    assert found == [(False, False), (True, False), (True, True)]
    assert allowed(some) == set()


def test_rolling_back_returns_to_the_states_before() -> None:
    ab = matcher("regex", "abc")
    for token in b"abc":
        ab.accept(token)
    ab.rollback(2)
    assert allowed(ab) == {ord("b")}
    with pytest.raises(ValueError, match="cannot undo 2 tokens: 1 were accepted"):
        ab.rollback(2)


def test_a_copy_goes_its_own_way() -> None:
    ab = matcher("regex", "ab")
    copy = ab.copy()
    copy.accept(ord("a"))
    assert (allowed(ab), allowed(copy)) == ({ord("a")}, {ord("b")})


def test_nesting_is_bounded_by_nothing_but_memory() -> None:
    nested = matcher("json_schema", '{"type": "array", "items": {"$ref": "#"}}')
    for _ in range(1000):
        assert nested.accept(ord("["))
    for _ in range(1000):
        assert not nested.may_stop()
        assert nested.accept(ord("]"))
    assert nested.is_terminated()


def counted(fsm: CompressedFsm, text: str = "a{0,1000}") -> CompiledGrammar:
    return fsm.load(fsm.compile(Constraint("regex", text)).data)


def states(matcher: Matcher) -> int:
    assert isinstance(matcher, FsmMatcher)
    return len(matcher._automaton.store)


def test_a_long_output_does_not_keep_more_states_than_allowed() -> None:
    first = counted(grammar(max_states=200)).matcher()
    for _ in range(999):
        assert first.accept(ord("a"))
        assert states(first) <= 200
    assert allowed(first) == {ord("a")}
    assert first.accept(ord("a"))
    assert first.is_terminated()


def test_requests_that_outgrow_their_states_move_to_the_same_new_ones() -> None:
    shared = counted(grammar(max_states=200))
    some = [shared.matcher() for _ in range(3)]
    for _ in range(300):
        for matcher in some:
            assert matcher.accept(ord("a"))
    assert len({id(matcher._automaton) for matcher in some if isinstance(matcher, FsmMatcher)}) == 1


def test_rolling_back_to_states_that_are_gone_finds_them_again() -> None:
    long = counted(grammar(max_states=200)).matcher()
    for _ in range(999):
        long.accept(ord("a"))
    long.rollback(990)
    for _ in range(991):
        assert not long.is_terminated()
        assert long.accept(ord("a"))
    assert long.is_terminated()


def test_a_stack_that_outgrows_the_states_moves_as_a_whole() -> None:
    fsm = grammar(max_states=200)
    program = fsm.compile(
        Constraint("json_schema", '{"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"const": 1}]}}')
    )
    nested = fsm.load(program.data).matcher()
    for _ in range(400):
        assert nested.accept(ord("["))
    assert nested.accept(ord("1"))
    for _ in range(400):
        assert nested.accept(ord("]"))
    assert nested.is_terminated()


def test_the_states_of_grammars_longest_unused_are_dropped() -> None:
    fsm = grammar(state_memory=1)
    grammars = [counted(fsm, f"{word}a{{0,1000}}") for word in ("x", "y", "z")]
    for each in grammars:
        matcher = each.matcher()
        for token in [ord("xyz"[grammars.index(each)]), *[ord("a")] * 900]:
            assert matcher.accept(token)
    grammars[0].matcher()
    assert [each.size < 2**16 for each in grammars if isinstance(each, LoadedGrammar)] == [False, True, False]


def test_compiling_imports_no_kernels_and_no_vocabulary() -> None:
    script = (
        "import sys; from sgframe.constraints import Constraint; from sgframe.interfaces.grammar import Vocabulary\n"
        "from sgframe_fsm import CompressedFsmSettings; from sgframe_fsm.grammar import CompressedFsm\n"
        "fsm = CompressedFsm(CompressedFsmSettings(), vocabulary=Vocabulary([bytes((byte,)) for byte in range(256)], ()))\n"
        "fsm.compile(Constraint('json_object', ''))\n"
        "print([name for name in ('numba', 'numpy', 'tokenizers', 'torch') if name in sys.modules])"
    )
    path = ":".join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
