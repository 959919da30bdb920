"""How values of a schema are written: member order, commas, counts, whitespace, recursion."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping

import pytest

from sgframe.constraints import Constraint, Whitespace
from sgframe.errors import RequestError
from sgframe_fsm.compiling import compile_constraint

Accepts = Callable[[str], bool]


def compiled(schema: object, whitespace: Whitespace = "fixed", *, approximate: bool = False) -> Accepts:
    constraint = Constraint("json_schema", json.dumps(schema), whitespace, approximate)
    store, root, _ = compile_constraint(constraint)

    def accepts(text: str) -> bool:
        store.budget.left = 1 << 40  # what it costs to follow is not the question here
        return store.accepts(root, text.encode())

    return accepts


def objects(members: Mapping[str, object], **keywords: object) -> dict[str, object]:
    return {"type": "object", "properties": members, **keywords}


def refusal(schema: object) -> RequestError:
    with pytest.raises(RequestError) as caught:
        compiled(schema)
    return caught.value


# ------------------------------------------------------------------------------------------------ members and commas


@pytest.mark.parametrize("required", [[], ["b"], ["a", "d"], ["a", "b", "c", "d"]])
def test_every_subset_of_optional_members_is_written_with_its_commas(required: list[str]) -> None:
    accepts = compiled(objects({name: {"const": 1} for name in "abcd"}, required=required, additionalProperties=False))
    for chosen in itertools.product((True, False), repeat=4):
        names = list(itertools.compress("abcd", chosen))
        text = json.dumps(dict.fromkeys(names, 1))
        assert accepts(text) is set(required).issubset(names), text


def test_properties_stand_in_declared_order() -> None:
    accepts = compiled(objects({"z": {"const": 1}, "a": {"const": 2}}))
    assert accepts('{"z": 1, "a": 2}')
    assert not accepts('{"a": 2, "z": 1}')


def test_a_dangling_or_doubled_comma_is_never_written() -> None:
    accepts = compiled(objects({"a": {"const": 1}, "b": {"const": 2}}))
    assert not accepts('{"a": 1, }')
    assert not accepts('{, "b": 2}')
    assert not accepts('{"a": 1, , "b": 2}')


def test_undeclared_members_follow_the_declared_ones() -> None:
    accepts = compiled(objects({"a": {"const": 1}}, additionalProperties={"type": "boolean"}))
    assert accepts('{"a": 1, "x": true, "y": false}')
    assert accepts('{"x": true}')
    assert not accepts('{"x": true, "a": 1}')
    assert not accepts('{"x": 1}')


def test_an_undeclared_name_is_never_a_declared_one() -> None:
    accepts = compiled(objects({"a": {"const": 1}}, additionalProperties=True))
    assert accepts('{"ab": 2}')
    assert not accepts('{"a": 2}')
    assert not accepts('{"\\u0061": 2}')
    assert not accepts('{"a": 1, "a": 1}')


def test_a_required_name_without_a_property_must_stand_there() -> None:
    accepts = compiled({"type": "object", "required": ["id"], "additionalProperties": {"type": "integer"}})
    assert accepts('{"id": 7, "x": 1}')
    assert not accepts('{"x": 1}')
    assert not accepts('{"id": "7"}')


def test_an_optional_member_that_nothing_satisfies_is_left_out() -> None:
    accepts = compiled(objects({"a": False, "b": {"type": "integer", "enum": ["x"]}, "c": {"const": 1}}))
    assert accepts('{"c": 1}')
    assert not accepts('{"a": 1}')
    assert not accepts('{"b": "x"}')


def test_a_required_member_that_nothing_satisfies_leaves_no_value() -> None:
    assert refusal(objects({"a": False}, required=["a"])).code == "invalid_schema"


def test_a_name_matches_the_patterns_that_apply_to_it() -> None:
    schema = {
        "type": "object",
        "patternProperties": {"^a": {"type": "integer"}, "z$": {"minimum": 10, "type": "number"}},
        "additionalProperties": {"type": "boolean"},
    }
    accepts = compiled(schema)
    assert accepts('{"ab": 1, "bz": 10.5, "az": 10, "b": true}')
    assert not accepts('{"az": 9}')
    assert not accepts('{"az": 10.5}')
    assert not accepts('{"ab": true}')


def test_only_names_that_match_a_pattern_are_allowed_without_additional_ones() -> None:
    accepts = compiled({"type": "object", "patternProperties": {"^x-": {}}, "additionalProperties": False})
    assert accepts('{"x-a": 1, "x-b": []}')
    assert not accepts('{"y": 1}')


def test_property_names_hold_for_all_names() -> None:
    accepts = compiled(objects({"ab": {"const": 1}, "abcd": {"const": 2}}, propertyNames={"maxLength": 3}))
    assert accepts('{"ab": 1, "xyz": 0}')
    assert not accepts('{"abcd": 2}')
    assert not accepts('{"wxyz": 0}')


def test_listed_property_names_come_once_in_their_order() -> None:
    accepts = compiled({"type": "object", "propertyNames": {"enum": ["b", "a"]}, "minProperties": 2})
    assert accepts('{"b": 0, "a": 1}')
    assert not accepts('{"b": 0, "b": 1}')
    assert not accepts('{"b": 0}')


@pytest.mark.parametrize(("least", "most"), [(0, 0), (1, 1), (1, None), (0, 2), (1, 3)])
def test_members_are_counted_over_declared_and_other_ones(least: int, most: int | None) -> None:
    bounds = {"minProperties": least} | ({} if most is None else {"maxProperties": most})
    declared = {"a": {"const": 0}, "b": {"const": 0}}
    accepts = compiled(objects(declared, additionalProperties={"const": 0}, **bounds))
    for names in ("", "a", "b", "x", "ab", "bx", "xy", "abx", "axy", "abxy", "abwxy", "abvwxy"):
        within = least <= len(names) and (most is None or len(names) <= most)
        assert accepts(json.dumps(dict.fromkeys(names, 0))) is within, names


def test_one_member_more_than_the_required_ones_is_counted() -> None:
    members = {"a": {"const": 0}, "b": {"const": 0}}
    accepts = compiled(objects(members, required=["a", "b"], additionalProperties={"const": 0}, minProperties=3))
    assert [accepts(json.dumps(dict.fromkeys(names, 0))) for names in ("ab", "abx", "abxy")] == [False, True, True]


def test_free_names_are_not_counted_twice() -> None:
    """One that is written twice is one member, and that cannot be seen."""
    schema = {"type": "object", "minProperties": 2}
    assert "#'minProperties'" in str(refusal(schema)).replace(" ", "")
    assert compiled(schema, approximate=True)('{"x": 1, "x": 2}')
    declared = objects({"a": {}, "b": {}, "c": {}}, additionalProperties=False, minProperties=2)
    assert [compiled(declared)(text) for text in ('{"b": 1}', '{"a": 1, "c": 2}')] == [False, True]


def test_a_member_may_be_asked_for_by_kind() -> None:
    accepts = compiled({"type": "object", "not": {"additionalProperties": {"type": "string"}}})
    assert accepts('{"a": "x", "b": 1}')
    assert accepts('{"a": "x", "b": 1, "c": null}')
    assert not accepts('{"a": "x"}')
    assert not accepts("{}")


def test_a_member_of_a_kind_that_is_asked_for_cannot_be_taken_back() -> None:
    """The last of two members with one name counts, so those of the kind come last."""
    accepts = compiled({"type": "object", "not": {"additionalProperties": {"type": "string"}}})
    assert not accepts('{"a": 1, "a": "x"}')
    assert accepts('{"a": "x", "a": 1}')


def test_members_of_two_kinds_are_asked_for_where_their_names_differ() -> None:
    def lacking(pattern: str) -> object:
        return {"not": {"patternProperties": {pattern: {"type": "string"}}}}

    accepts = compiled({"type": "object", "allOf": [lacking("^a"), lacking("^b")]})
    assert accepts('{"x": "", "a1": 1, "b1": 2}')
    assert accepts('{"b1": 2, "a1": 1, "a2": 1}')
    assert not accepts('{"a1": 1, "b1": 2, "a1": ""}')
    assert not accepts('{"a1": 1}')
    assert "not" in str(refusal({"type": "object", "allOf": [lacking("^a"), lacking("a$")]}))


def test_two_hundred_optional_members_are_no_burden() -> None:
    names = [f"property_{index}" for index in range(200)]
    accepts = compiled(objects({name: {"type": "integer"} for name in names}, additionalProperties=False))
    assert accepts('{"property_7": 1, "property_199": 2}')
    assert not accepts('{"property_199": 2, "property_7": 1}')


def test_alternatives_of_large_objects_are_told_apart_as_they_are_read() -> None:
    members = {f"p{index}": {"type": "integer"} for index in range(40)}
    closed = objects(members, additionalProperties=False)
    accepts = compiled({"anyOf": [{**closed, "required": ["p0"]}, {**closed, "required": ["p39"]}]})
    assert accepts('{"p0": 1, "p20": 2}')
    assert accepts('{"p20": 2, "p39": 3}')
    assert not accepts('{"p20": 2}')


# ------------------------------------------------------------------------------------------------------------ arrays


@pytest.mark.parametrize(("least", "most"), [(0, None), (0, 0), (1, 1), (2, 3), (0, 2), (3, None)])
def test_items_are_counted(least: int, most: int | None) -> None:
    bounds = {"minItems": least} | ({} if most is None else {"maxItems": most})
    accepts = compiled({"type": "array", "items": {"const": 5}, **bounds})
    for length in range(6):
        assert accepts(json.dumps([5] * length)) is (least <= length and (most is None or length <= most))


def test_a_large_bound_is_a_counter() -> None:
    accepts = compiled({"type": "array", "items": {"const": 1}, "maxItems": 100_000})
    assert accepts(json.dumps([1] * 1_000))


def test_first_items_have_schemas_of_their_own() -> None:
    schema = {"type": "array", "prefixItems": [{"const": "a"}, {"const": "b"}], "items": {"type": "integer"}}
    accepts = compiled(schema)
    assert accepts("[]")
    assert accepts('["a"]')
    assert accepts('["a", "b", 3, 4]')
    assert not accepts('["b"]')
    assert not accepts('["a", 3]')


def test_an_array_ends_before_an_item_that_nothing_satisfies() -> None:
    accepts = compiled({"type": "array", "prefixItems": [{"const": 1}, False]})
    assert accepts("[1]")
    assert not accepts("[1, 2]")


def test_items_of_a_kind_are_counted() -> None:
    schema = {"type": "array", "contains": {"const": 7}, "minContains": 1, "maxContains": 2, "maxItems": 4}
    accepts = compiled({**schema, "items": {"type": "integer"}})
    for items in itertools.chain.from_iterable(itertools.product((3, 7), repeat=length) for length in range(6)):
        assert accepts(json.dumps(items)) is (1 <= items.count(7) <= 2 and len(items) <= 4), items


def test_an_item_that_must_be_there_needs_no_complement() -> None:
    accepts = compiled({"type": "array", "contains": {"type": "object", "required": ["id"]}})
    assert accepts('[1, {"id": 2}, 3]')
    assert not accepts("[]")
    assert not accepts('[{"no": 2}]')


def test_listed_items_are_not_repeated() -> None:
    accepts = compiled({"type": "array", "items": {"enum": ["a", "b", None]}, "uniqueItems": True})
    for items in itertools.chain.from_iterable(itertools.product(("a", "b", None), repeat=n) for n in range(5)):
        assert accepts(json.dumps(items)) is (len(set(items)) == len(items)), items


def test_equal_numbers_are_one_item_in_whatever_spelling() -> None:
    accepts = compiled({"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True})
    assert accepts("[1.0, 2]")
    assert not accepts("[1, 1.0]")


def test_unique_items_of_an_open_kind_are_refused_by_name() -> None:
    error = refusal(objects({"tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True}}))
    assert error.code == "unsupported_schema"
    assert "/properties/tags" in str(error)
    assert "uniqueItems" in str(error)


def test_unique_items_of_an_open_kind_are_approximated_if_asked_for() -> None:
    schema = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    store, root, notes = compile_constraint(Constraint("json_schema", json.dumps(schema), approximate=True))
    assert store.accepts(root, b'["a", "a"]')
    assert len(notes) == 1
    assert "uniqueItems" in notes[0]


# -------------------------------------------------------------------------------------------------------- whitespace


VALUE = {"type": "object", "properties": {"a": {"type": "array", "items": {"const": 1}}}, "required": ["a"]}
WRITTEN: dict[Whitespace, str] = {"fixed": '{"a": [1, 1]}', "compact": '{"a":[1,1]}', "free": '{\n  "a" :[ 1,1\t]\r\n}'}


@pytest.mark.parametrize("policy", WRITTEN)
def test_whitespace_is_as_the_policy_says(policy: Whitespace) -> None:
    accepts = compiled(VALUE, policy)
    assert accepts(WRITTEN[policy])
    assert [accepts(text) for text in WRITTEN.values()] == [
        policy in {"fixed", "free"},
        policy in {"compact", "free"},
        policy == "free",
    ]


def test_free_whitespace_is_bounded_everywhere() -> None:
    accepts = compiled(VALUE, "free")
    assert accepts('{"a":[' + 20 * " " + "1]}")
    for place in ('{%s"a":[]}', '{"a"%s:[]}', '{"a":%s[]}', '{"a":[%s]}', '{"a":[1%s]}', '{"a":[1,%s1]}', '{"a":[]%s}'):
        assert not accepts(place.replace("%s", 21 * " "))


@pytest.mark.parametrize("policy", WRITTEN)
def test_nothing_follows_the_value(policy: Whitespace) -> None:
    accepts = compiled(VALUE, policy)
    assert not accepts(WRITTEN[policy] + " ")
    assert not accepts(WRITTEN[policy] + "\n")


# --------------------------------------------------------------------------------------------------------- recursion


TREE = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["value"],
    "additionalProperties": False,
}


def test_a_schema_may_contain_itself() -> None:
    accepts = compiled(TREE)
    assert accepts('{"value": 1, "children": [{"value": 2}, {"value": 3, "children": []}]}')
    assert not accepts('{"value": 1, "children": [{"children": []}]}')


def test_values_nest_deep() -> None:
    accepts = compiled(True)
    assert accepts("[" * 300 + "]" * 300)
    assert accepts('{"a": ' * 300 + "null" + "}" * 300)
    assert not accepts("[" * 300 + "]" * 299)


def test_schemas_nest_deep() -> None:
    schema: object = {"const": 1}
    for _ in range(150):
        schema = {"type": "array", "items": schema, "minItems": 1}
    assert compiled(schema)("[" * 150 + "1" + "]" * 150)


def test_a_schema_that_must_contain_itself_has_no_value() -> None:
    endless = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    assert refusal(endless).code == "invalid_schema"


def test_any_json_value_is_a_value_of_true() -> None:
    accepts = compiled(True)
    for text in ('{"a": [1, -2.5e3, "x", null, {}]}', "true", '""', "0", "[[], {}]"):
        assert accepts(text)
    for text in ("", "[1,2]", "01", "'x'", '{"a" : 1}', "nul"):
        assert not accepts(text)
