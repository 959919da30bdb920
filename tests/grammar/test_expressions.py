"""Expressions over bytes: what they match, that equal ones are one, and that nothing leads to a dead end."""

from __future__ import annotations

import random
import string

import pytest

from sgframe_fsm.automata.compression import LONGEST_RUN, forced
from sgframe_fsm.errors import GrammarTooLarge
from sgframe_fsm.expressions.programs import dump, load
from sgframe_fsm.expressions.store import EMPTY, EVERYTHING, NOTHING, Expr, Store


@pytest.fixture
def store() -> Store:
    return Store()


def one_of(store: Store, characters: str) -> Expr:
    return store.byte_set(sum(1 << ord(character) for character in characters))


def words(store: Store, *texts: str) -> Expr:
    return store.union(store.literal(text.encode()) for text in texts)


def nested_lists(store: Store) -> Expr:
    """``[]``, ``[[],[]]`` and so on."""
    value = store.reference("value")
    more = store.repeat(store.sequence([store.literal(b","), value]), 0, None)
    inside = store.repeat(store.sequence([value, more]), 0, 1)
    store.define("value", store.sequence([store.literal(b"["), inside, store.literal(b"]")]))
    return value


# ------------------------------------------------------------------------------------------ what is matched


def test_a_union_of_words_matches_each_and_no_other(store: Store) -> None:
    expression = words(store, "on", "one", "two")
    assert [text for text in (b"", b"o", b"on", b"one", b"ones", b"tw", b"two") if store.accepts(expression, text)] == [
        b"on", b"one", b"two",
    ]  # fmt: skip


def test_a_repetition_counts(store: Store) -> None:
    expression = store.repeat(store.literal(b"ab"), 2, 3)
    assert [count for count in range(6) if store.accepts(expression, b"ab" * count)] == [2, 3]


def test_a_repetition_without_most_has_no_end(store: Store) -> None:
    assert store.accepts(store.repeat(one_of(store, "ab"), 1, None), b"ab" * 1000)


def test_what_may_be_empty_needs_not_be_repeated(store: Store) -> None:
    optional = store.repeat(store.literal(b"a"), 0, 1)
    assert [count for count in range(5) if store.accepts(store.repeat(optional, 3, 3), b"a" * count)] == [0, 1, 2, 3]


def test_an_intersection_matches_what_all_parts_do(store: Store) -> None:
    digits = store.repeat(one_of(store, "0123456789"), 2, 3)
    ends_in_zero = store.sequence([EVERYTHING, store.literal(b"0")])
    expression = store.intersection([digits, ends_in_zero])
    assert [text for text in (b"0", b"10", b"11", b"120", b"1230") if store.accepts(expression, text)] == [
        b"10",
        b"120",
    ]


def test_a_complement_matches_all_else(store: Store) -> None:
    expression = store.complement(words(store, "name"))
    assert [store.accepts(expression, text) for text in (b"", b"nam", b"name", b"names", b"\xff")] == [
        True, True, False, True, True,
    ]  # fmt: skip


def test_a_reference_recurses(store: Store) -> None:
    value = nested_lists(store)
    assert store.accepts(value, b"[[],[[],[]]]")
    assert not store.accepts(value, b"[[],[[],[]]")


def test_nesting_is_bounded_by_the_budget_alone(store: Store) -> None:
    assert store.accepts(nested_lists(store), b"[" * 3000 + b"]" * 3000)


def test_expressions_may_be_nested_deeply(store: Store) -> None:
    expression = EMPTY
    for _ in range(2000):
        inner = store.repeat(store.sequence([store.literal(b"("), expression, store.literal(b")")]), 0, 1)
        expression = store.union([inner, store.literal(b"x")])
    assert store.accepts(expression, b"(" * 1500 + b"x" + b")" * 1500)


def test_a_definition_that_begins_with_itself_is_refused(store: Store) -> None:
    sum_ = store.reference("sum")
    store.define("sum", store.union([store.literal(b"1"), store.sequence([sum_, store.literal(b"+1")])]))
    with pytest.raises(ValueError, match=r"begins with itself .* sum"):
        store.transitions(sum_)


def test_a_name_that_is_not_defined_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="'missing' is referred to, but not defined"):
        store.accepts(store.sequence([store.literal(b"a"), store.reference("missing")]), b"a")


def test_what_needs_no_definition_waits_for_none(store: Store) -> None:
    later = store.union([store.literal(b"a"), store.sequence([store.literal(b"b"), store.reference("later")])])
    assert not store.disjoint(store.literal(b"x"), words(store, "x", "y"))
    store.define("later", store.literal(b"c"))
    assert store.accepts(later, b"bc")


def test_references_have_no_complement(store: Store) -> None:
    with pytest.raises(ValueError, match="without references"):
        store.complement(nested_lists(store))


# ------------------------------------------------------------------------------------------ equal expressions are one


def test_the_laws_of_union_and_sequence_hold(store: Store) -> None:
    a, b, c = (store.repeat(one_of(store, pair), 1, 2) for pair in ("ab", "cd", "ef"))
    assert store.union([a, store.union([b, c])]) == store.union([c, a, b, a, NOTHING])
    assert store.sequence([a, store.sequence([b, c])]) == store.sequence([store.sequence([a, EMPTY, b]), c])
    assert store.sequence([a, NOTHING]) == NOTHING


def test_common_heads_are_taken_out(store: Store) -> None:
    a, b, c = (store.repeat(one_of(store, pair), 1, 2) for pair in ("ab", "cd", "ef"))
    apart = store.union([store.sequence([a, b]), store.sequence([a, c]), a])
    assert apart == store.sequence([a, store.repeat(store.union([b, c]), 0, 1)])


def test_literals_join_whatever_their_length(store: Store) -> None:
    data = bytes(range(256)) * 20
    assert store.sequence([store.literal(data[:2000]), store.literal(data[2000:2007]), store.literal(data[2007:])]) == (
        store.literal(data)
    )
    assert store.accepts(store.literal(data), data)


def test_counters_add_up(store: Store) -> None:
    a = one_of(store, "ab")
    assert store.sequence([a, store.repeat(a, 1, 4), a]) == store.repeat(a, 3, 6)
    assert store.union([store.repeat(a, 0, 3), store.repeat(a, 4, 9)]) == store.repeat(a, 0, 9)
    assert store.repeat(store.repeat(a, 0, 1), 0, 7) == store.repeat(a, 0, 7)


def test_counters_with_a_gap_between_them_stay_apart(store: Store) -> None:
    expression = store.union([store.repeat(one_of(store, "a"), 1, 2), store.repeat(one_of(store, "a"), 4, 4)])
    assert [count for count in range(7) if store.accepts(expression, b"a" * count)] == [1, 2, 4]


def test_ambiguous_repetition_keeps_its_states_few(store: Store) -> None:
    a_or_aa = store.repeat(words(store, "a", "aa"), 1, None)
    expression = store.sequence([a_or_aa, store.repeat(store.literal(b"b"), 1, 5000)])
    assert store.accepts(expression, b"a" * 500 + b"b" * 500)
    assert len(store) < 1000


def test_a_complement_taken_twice_is_the_expression(store: Store) -> None:
    expression = store.repeat(one_of(store, "ab"), 1, None)
    assert store.complement(store.complement(expression)) == expression


# ------------------------------------------------------------------------------------------ no dead ends


def test_transitions_are_disjoint(store: Store) -> None:
    expression = store.union([words(store, "abc", "abd"), store.sequence([one_of(store, "abcxyz"), EVERYTHING])])
    sets = [members for members, _ in store.transitions(expression)]
    assert sum(sets) == sum(1 << ord(character) for character in "abcxyz")


def test_what_cannot_be_completed_is_not_begun(store: Store) -> None:
    twice = store.sequence([one_of(store, "abc"), store.literal(b"x")])
    expression = store.intersection([twice, store.complement(words(store, "ax"))])
    assert store.derivative(expression, ord("a")) == NOTHING
    assert store.accepts(expression, b"bx")


def test_an_intersection_without_a_match_is_nothing(store: Store) -> None:
    a, b = one_of(store, "a"), one_of(store, "b")
    assert store.intersection([store.repeat(a, 1, None), store.sequence([EVERYTHING, b])]) == NOTHING


def test_lengths_that_exclude_each_other_are_found_at_once(store: Store) -> None:
    long = store.repeat(one_of(store, "ab"), 100_000, None)
    assert store.intersection([long, store.repeat(words(store, "a", "ba"), 0, 100)]) == NOTHING
    assert store.budget.left > store.budget.allowance - 100


def test_the_complement_of_everything_is_nothing(store: Store) -> None:
    any_byte = store.byte_set((1 << 256) - 1)
    assert store.complement(store.union([EMPTY, any_byte, store.sequence([any_byte, EVERYTHING])])) == NOTHING


def test_a_definition_that_never_ends_is_empty_and_never_begun(store: Store) -> None:
    endless = store.reference("endless")
    store.define("endless", store.sequence([store.literal(b"["), endless, store.literal(b"]")]))
    assert store.is_empty(endless)
    assert [target for _, target in store.transitions(store.union([store.literal(b"x"), endless]))] == [EMPTY]


def test_a_definition_that_is_only_itself_is_empty(store: Store) -> None:
    itself = store.reference("itself")
    store.define("itself", itself)
    assert store.is_empty(itself)
    assert store.transitions(itself) == ()


def test_disjoint_and_includes_are_exact(store: Store) -> None:
    digits = store.repeat(one_of(store, "0123456789"), 1, None)
    assert store.disjoint(digits, words(store, "a", "1b"))
    assert not store.disjoint(digits, words(store, "a", "12"))
    assert store.includes(digits, words(store, "1", "12"))
    assert not store.includes(digits, words(store, "1", ""))


# ------------------------------------------------------------------------------------------ size


def test_a_thousand_long_words_are_cheap(store: Store) -> None:
    generator = random.Random(1)
    texts = ["".join(generator.choices(string.ascii_letters, k=1000)) for _ in range(1000)]
    expression = words(store, *texts)
    assert store.accepts(expression, texts[500].encode())
    assert not store.accepts(expression, texts[500][:-1].encode())
    assert len(store) < 5000


def test_lists_of_optional_members_are_joined_as_they_are_written(store: Store) -> None:
    def members(value: str) -> Expr:
        rest = store.literal(b"}")
        for number in range(40):
            member = store.sequence([store.literal(b"%d=" % number), one_of(store, value), store.literal(b";"), rest])
            rest = store.union([member, rest])
        return rest

    expression = store.union([members("ab"), members("bc")])
    assert [store.accepts(expression, text) for text in (b"7=a;3=a;}", b"7=b;3=c;}", b"7=b;3=b;0=a;}", b"7=a;3=c;}")] == [
        True, True, True, False,
    ]  # fmt: skip
    assert store.budget.left > store.budget.allowance * 3 / 4


def test_what_takes_too_many_steps_is_refused(store: Store) -> None:
    bit, one = one_of(store, "01"), store.literal(b"1")
    whole = store.sequence([EVERYTHING, one, store.repeat(bit, 30, 30)])
    same = store.sequence(
        [EVERYTHING, store.union([store.sequence([one, store.repeat(bit, 30, 30)]), store.literal(b"1" * 31)])]
    )
    with pytest.raises(GrammarTooLarge, match="more than 40000 steps") as refused:
        store.includes(whole, same)
    assert refused.value.code == "grammar_too_large"


def test_common_heads_are_not_followed_in_every_combination(store: Store) -> None:
    def choices(last: bytes) -> Expr:
        ab, de = (store.repeat(one_of(store, pair), 1, 2) for pair in ("ab", "de"))
        rest = store.literal(last)
        for _ in range(40):
            rest = store.union([store.sequence([ab, rest]), store.sequence([de, rest])])
        return rest

    expression = store.union([choices(b"x"), choices(b"y")])
    assert store.accepts(expression, b"ad" * 20 + b"y")
    assert store.budget.left > store.budget.allowance * 3 / 4


def test_many_names_that_start_alike_cost_little_to_follow(store: Store) -> None:
    members = (store.sequence([store.literal(b"property_%03d=" % n), one_of(store, "ab")]) for n in range(200))
    expression = store.union(members)
    before = store.budget.left
    assert store.accepts(expression, b"property_123=b")
    assert before - store.budget.left < 1_500


def test_what_was_copied_grows_apart(store: Store) -> None:
    known = store.union([words(store, "on", "off"), nested_lists(store)])
    copy, new = store.copy(), len(store)
    assert (copy.literal(b"this"), store.literal(b"that")) == (new, new)
    assert copy.accepts(known, b"[[]]")
    assert copy.accepts(copy.union([known, new]), b"this")


def test_complements_that_nest_without_end_are_refused_as_they_are_built(store: Store) -> None:
    def nested(depth: int) -> Expr:
        expression = store.literal(b"x")
        for _ in range(depth):
            expression = store.complement(store.sequence([store.literal(b"a"), expression, store.literal(b"b")]))
        return expression

    assert store.accepts(nested(60), b"a" * 60)
    with pytest.raises(GrammarTooLarge, match="more than 60 deep"):
        nested(61)


def test_steps_are_counted_alike_every_time() -> None:
    def left() -> int:
        store = Store()
        store.accepts(nested_lists(store), b"[[],[[]]]")
        return store.budget.left

    assert left() == left() < Store().budget.left


# ------------------------------------------------------------------------------------------ lexemes and runs


def string_of(store: Store, least: int = 0) -> Expr:
    quote = store.literal(b'"')
    return store.sequence([quote, store.repeat(one_of(store, string.ascii_letters), least, None), quote])


def test_a_lexeme_stays_in_front_while_it_is_being_written(store: Store) -> None:
    lexeme, rest = store.lexeme(string_of(store)), store.repeat(one_of(store, ",;"), 1, 5)
    state = store.derivative(store.sequence([lexeme, rest]), ord('"'))
    assert store.head(state) == (store.derivative(lexeme, ord('"')), rest)
    assert store.head(store.derivative(state, ord('"'))) == (None, rest)


def test_a_lexeme_matches_what_its_part_does(store: Store) -> None:
    assert store.accepts(store.lexeme(string_of(store)), b'"abc"')


def test_the_base_is_followed_beside_the_lexeme(store: Store) -> None:
    base = store.lexeme(string_of(store))
    excluded = store.intersection([string_of(store), store.complement(words(store, '"id"'))])
    lexeme = store.derivative(store.lexeme(excluded, base), ord('"'))
    assert store.base_of(lexeme) == store.derivative(base, ord('"'))
    assert store.base_of(store.derivative(lexeme, ord("x"))) is None  # no different from the base any more


def test_a_run_ends_where_there_is_a_choice(store: Store) -> None:
    choice = words(store, "x", "yz")
    expression = store.sequence([store.literal(b'{"a'), words(store, "bc", "bd"), choice])
    run, state = forced(store, expression)
    assert run == b'{"ab'
    assert store.accepts(state, b"dyz")


def test_a_run_ends_where_the_match_may(store: Store) -> None:
    run, state = forced(store, words(store, "true", "truely"))
    assert (run, store.nullable(state)) == (b"true", True)


def test_a_run_that_is_very_long_is_cut(store: Store) -> None:
    run, _ = forced(store, store.repeat(store.literal(b"a"), 1_000_000, 1_000_000))
    assert run == b"a" * LONGEST_RUN


# ------------------------------------------------------------------------------------------ programs


def test_a_program_holds_what_the_root_is_made_of(store: Store) -> None:
    words(store, "not", "part", "of it")
    excluded = store.complement(words(store, "[]", "[[]]"))
    long_words = store.lexeme(words(store, *(f"{number}" * 40 for number in range(20))), store.lexeme(EVERYTHING))
    root = store.sequence(
        [nested_lists(store), long_words, store.repeat(store.intersection([excluded, string_of(store)]), 0, 1)]
    )
    loaded, expression = load(dump(store, root))
    assert len(loaded) < len(store)
    for text in (b"[[],[]]" + b"7" * 40, b"[]" + b"12" * 40 + b'"id"', b"[]", b"[" + b"7" * 40):
        assert loaded.accepts(expression, text) == store.accepts(root, text)


def test_what_was_loaded_grows_as_the_original_does(store: Store) -> None:
    root = nested_lists(store)
    loaded, expression = load(dump(store, root))
    assert loaded.union([expression, loaded.literal(b"x")]) == loaded.union(
        [loaded.literal(b"x"), loaded.reference("value")]
    )


def test_a_program_of_something_undefined_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="not defined"):
        dump(store, store.sequence([store.literal(b"a"), store.reference("missing")]))
