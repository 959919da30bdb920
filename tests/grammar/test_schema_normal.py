"""The normal form of JSON schemas: what each keyword means, judged on values by reading the shapes.

``jsonschema`` is the judge of random schemas; here and there the shapes themselves are written out.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgframe.errors import RequestError
from sgframe_fsm.errors import GrammarTooLarge, InvalidSchema, Unsupported
from sgframe_fsm.expressions.store import Store
from sgframe_fsm.leaves.numbers import NumberSpec
from sgframe_fsm.leaves.strings import StringSpec, admits
from sgframe_fsm.schema.normal import Document
from sgframe_fsm.schema.shapes import (
    NEVER,
    ArrayShape,
    Booleans,
    Const,
    Members,
    Null,
    NumberShape,
    ObjectShape,
    Schema,
    Shape,
    StringShape,
)
from sgframe_fsm.schema.values import identity, type_of


class Reading:
    """Judges values by the shapes of a document: the meaning that emission must give them."""

    def __init__(self, schema: Any, *, approximate: bool = False) -> None:
        self.store = Store()
        self.document = Document(parsed(schema), self.store, approximate=approximate)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        return self.document.shapes(self.document.root)

    def accepts(self, value: Any) -> bool:
        found = self.within(self.document.root, parsed(value))
        assert found == self.document.holds(self.document.root, parsed(value)), "the shapes and the keywords disagree"
        return found

    def within(self, schema: Schema, value: Any) -> bool:
        return any(self.fits(shape, value) for shape in self.document.shapes(schema))

    def fits(self, shape: Shape, value: Any) -> bool:
        match shape:
            case Const():
                return shape.key == identity(value)
            case Null():
                return value is None
            case Booleans():
                return isinstance(value, bool)
            case NumberShape():
                return type_of(value) == type_of(1) and shape.spec.admits(Decimal(value))
            case StringShape():
                return isinstance(value, str) and admits(self.store, shape.spec, value)
            case ArrayShape():
                return isinstance(value, list) and self.array(shape, value)
            case ObjectShape():
                return isinstance(value, dict) and self.object(shape, value)

    def array(self, shape: ArrayShape, items: list[Any]) -> bool:
        schemas = shape.prefix + (shape.items,) * len(items)
        counts = (
            (each, sum(self.within(each.schema, item) for item in items[each.start :])) for each in shape.contains
        )
        return (
            between(shape.min_items, len(items), shape.max_items)
            and not (shape.unique and len({identity(item) for item in items}) < len(items))
            and all(self.within(schema, item) for schema, item in zip(schemas, items, strict=False))
            and all(between(each.least, count, each.most) for each, count in counts)
        )

    def object(self, shape: ObjectShape, members: dict[str, Any]) -> bool:
        declared = {each.name: each for each in shape.properties}
        others = {name: value for name, value in members.items() if name not in declared}
        return (
            between(shape.min_properties, len(members), shape.max_properties)
            and all(each.name in members for each in shape.properties if each.required)
            and all(self.within(declared[name].schema, members[name]) for name in members if name in declared)
            and all(self.within(shape.names, name) for name in others)
            and all(self.other(group, name, value) for group in shape.others for name, value in others.items())
            and all(
                any(admits(self.store, some.name, name) and self.within(some.value, others[name]) for name in others)
                for some in shape.some
            )
        )

    def other(self, group: Members, name: str, value: Any) -> bool:
        found = [
            schema for pattern, schema in group.patterns if admits(self.store, StringSpec(patterns=(pattern,)), name)
        ]
        return all(self.within(schema, value) for schema in found or [group.additional])


def between(least: int, count: int, most: int | None) -> bool:
    return least <= count and (most is None or count <= most)


def parsed(value: Any) -> Any:
    return json.loads(json.dumps(value), parse_float=Decimal)


def refused(schema: Any) -> RequestError:
    with pytest.raises(RequestError) as caught:
        visit(Reading(schema).document)
    return caught.value


def visit(document: Document) -> int:
    """Normalise every schema that can be reached; how many there are."""
    seen: set[Schema] = set()
    waiting = [document.root]
    while waiting:
        schema = waiting.pop()
        if schema in seen:
            continue
        seen.add(schema)
        for shape in document.shapes(schema):
            if isinstance(shape, ArrayShape):
                waiting += [*shape.prefix, shape.items, *(each.schema for each in shape.contains)]
            elif isinstance(shape, ObjectShape):
                waiting += [each.schema for each in shape.properties] + [each.value for each in shape.some]
                for group in shape.others:
                    waiting += [group.additional, *(schema for _, schema in group.patterns)]
    return len(seen)


# ---------------------------------------------------------------------------------------------- one schema, its shapes


def test_true_and_an_annotated_empty_schema_are_every_value() -> None:
    assert len(Reading(True).shapes) == len(Reading({"title": "anything", "x-note": 1}).shapes) == 6


def test_false_is_no_value() -> None:
    assert Reading(False).shapes == ()


def test_integer_is_a_number_that_is_whole() -> None:
    assert Reading({"type": "integer"}).shapes == (NumberShape(NumberSpec(integer=True)),)


def test_integer_beside_number_adds_nothing() -> None:
    assert Reading({"type": ["integer", "number"]}).shapes == (NumberShape(NumberSpec()),)


def test_a_keyword_speaks_of_its_own_type_only() -> None:
    reading = Reading({"minLength": 3})
    assert reading.accepts(1)
    assert reading.accepts([])
    assert not reading.accepts("ab")


def test_bounds_merge_to_the_tighter_one() -> None:
    (shape,) = Reading(
        {"type": "number", "minimum": 1, "exclusiveMinimum": 1, "maximum": 9, "exclusiveMaximum": 12}
    ).shapes
    assert shape == NumberShape(NumberSpec(low=Decimal(1), low_open=True, high=Decimal(9)))


def test_draft_4_says_by_a_boolean_that_a_bound_is_excluded() -> None:
    (shape,) = Reading({"type": "number", "minimum": 1, "exclusiveMinimum": True}).shapes
    assert shape == NumberShape(NumberSpec(low=Decimal(1), low_open=True))


def test_items_as_a_list_is_the_prefix_of_older_drafts() -> None:
    reading = Reading({"items": [{"type": "null"}], "additionalItems": {"type": "string"}})
    assert reading.accepts([None, "a"])
    assert not reading.accepts([None, None])
    assert not reading.accepts(["a"])


def test_a_known_format_is_asserted_and_an_unknown_one_is_not() -> None:
    assert not Reading({"format": "date"}).accepts("tomorrow")
    assert Reading({"format": "phone-number"}).accepts("tomorrow")


def test_nullable_is_an_unknown_keyword() -> None:
    assert not Reading({"type": "string", "nullable": True}).accepts(None)


# ------------------------------------------------------------------------------------------------- constants and enums


def test_constants_are_filtered_by_the_keywords_beside_them() -> None:
    schema = {"enum": [1, "abc", "a", None, 2.5], "type": ["string", "integer"], "minLength": 2}
    assert [shape.value for shape in Reading(schema).shapes if isinstance(shape, Const)] == [1, "abc"]


def test_constants_are_filtered_by_not_and_by_references() -> None:
    schema = {
        "enum": [{"a": 1}, {"a": True}, {}],
        "not": {"required": ["a"], "properties": {"a": {"const": True}}},
        "allOf": [{"$ref": "#/$defs/filled"}],
        "$defs": {"filled": {"minProperties": 1}},
    }
    assert Reading(schema).shapes == (Const({"a": 1}, identity({"a": 1})),)


def test_one_and_true_differ_but_one_and_one_point_nought_do_not() -> None:
    assert Reading({"const": 1}).accepts(1.0)
    assert not Reading({"const": 1}).accepts(True)
    assert not Reading({"const": [False]}).accepts([0])


def test_equal_constants_are_one_shape() -> None:
    assert len(Reading({"enum": [1, 1.0, {"a": 1, "b": 2}, {"b": 2, "a": 1}]}).shapes) == 2


def test_an_empty_enum_is_no_value() -> None:
    assert Reading({"enum": []}).shapes == ()


# ------------------------------------------------------------------------------------------------------------- objects


def test_properties_stand_in_the_order_of_the_text_whichever_keyword_brings_them() -> None:
    schema = {
        "allOf": [{"$ref": "#/$defs/base"}],
        "properties": {"own": {}},
        "anyOf": [{"properties": {"late": {}}}],
        "required": ["undeclared"],
        "$defs": {"base": {"properties": {"inherited": {}}}},
        "type": "object",
    }
    assert names(schema) == ["inherited", "own", "late", "undeclared"]


def test_alternatives_written_before_the_properties_come_first() -> None:
    branch = {"properties": {"kind": {"const": 1}}, "required": ["kind"]}
    other = {"properties": {"kind": {"const": 2}}, "required": ["kind"]}
    assert names({"type": "object", "oneOf": [branch, other], "properties": {"own": {}}}) == ["kind", "own"]


def names(schema: Any) -> list[str]:
    shape = Reading(schema).shapes[0]
    assert isinstance(shape, ObjectShape)
    return [each.name for each in shape.properties]


def test_a_pattern_applies_to_declared_names_too() -> None:
    reading = Reading({"properties": {"ab": {"minimum": 1}}, "patternProperties": {"^a": {"maximum": 3}}})
    assert reading.accepts({"ab": 2})
    assert not reading.accepts({"ab": 4})
    assert not reading.accepts({"ab": 0})


def test_additional_properties_of_one_schema_bind_the_properties_of_another() -> None:
    reading = Reading({"allOf": [{"properties": {"a": {}}, "additionalProperties": False}, {"properties": {"b": {}}}]})
    assert reading.accepts({"a": 1})
    assert not reading.accepts({"b": 1})


def test_a_declared_name_that_property_names_forbid_never_stands() -> None:
    (shape,) = Reading({"type": "object", "properties": {"long": {}}, "propertyNames": {"maxLength": 2}}).shapes
    assert isinstance(shape, ObjectShape)
    assert shape.properties[0].schema == NEVER


def test_a_required_name_that_cannot_stand_makes_the_object_impossible() -> None:
    assert Reading({"type": "object", "required": ["a"], "properties": {"a": False}}).shapes == ()


# ----------------------------------------------------------------------------------------------------------- combining


def test_all_of_meets_type_by_type() -> None:
    schema = {"allOf": [{"type": ["string", "integer"], "maxLength": 5}, {"type": ["string", "null"], "minLength": 2}]}
    assert Reading(schema).shapes == (StringShape(StringSpec(2, 5)),)


def test_siblings_of_a_reference_apply() -> None:
    reading = Reading({"$ref": "#/$defs/text", "maxLength": 2, "$defs": {"text": {"type": "string"}}})
    assert reading.accepts("ab")
    assert not reading.accepts("abc")
    assert not reading.accepts(1)


def test_any_of_is_a_union_within_its_siblings() -> None:
    reading = Reading({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})
    assert reading.accepts({"a": 1, "b": 1})
    assert not reading.accepts({})
    assert not reading.accepts(1)


def test_one_of_what_differs_in_type_is_the_plain_union() -> None:
    shapes = Reading({"oneOf": [{"type": "string"}, {"type": "null"}]}).shapes
    assert shapes == (StringShape(StringSpec()), Null())


def test_one_of_what_a_discriminator_tells_apart_is_the_plain_union() -> None:
    branches = [{"properties": {"kind": {"const": kind}, kind: {}}, "required": ["kind"]} for kind in ("cat", "dog")]
    shapes = Reading({"type": "object", "oneOf": branches}).shapes
    assert [len(shape.properties) for shape in shapes if isinstance(shape, ObjectShape)] == [2, 2]


def test_a_discriminator_may_be_required_beside_the_one_of() -> None:
    branches = [{"properties": {"kind": {"enum": kinds}}} for kinds in (["a", "b"], ["c"])]
    assert len(Reading({"type": "object", "required": ["kind"], "oneOf": branches}).shapes) == 2


def test_one_of_lets_what_fits_two_branches_through_to_neither() -> None:
    reading = Reading({"oneOf": [{"type": "integer"}, {"minimum": 2}]})
    assert reading.accepts(1)
    assert reading.accepts(2.5)
    assert not reading.accepts(3)
    assert not reading.accepts(1.5)


def test_patterns_and_lengths_tell_strings_apart() -> None:
    shapes = Reading({"type": "string", "oneOf": [{"pattern": "^a"}, {"pattern": "^b"}, {"maxLength": 0}]}).shapes
    assert len(shapes) == 3


def test_closed_objects_without_required_members_overlap_in_the_empty_one() -> None:
    branches = [{"properties": {name: {}}, "additionalProperties": False} for name in ("key", "keys")]
    reading = Reading({"type": "object", "oneOf": branches})
    assert reading.accepts({"key": 1})
    assert reading.accepts({"keys": 1})
    assert not reading.accepts({})


@pytest.mark.parametrize(
    ("schema", "inside", "outside"),
    [
        ({"type": "string"}, 1, "a"),
        ({"type": "integer"}, 1.5, 1),
        ({"enum": [1, "a", None]}, 2, None),
        ({"const": {"a": [1]}}, {"a": [1, 2]}, {"a": [1]}),
        ({"minimum": 3}, 2, 3),
        ({"pattern": "^a", "type": "string"}, "ba", "ab"),
        ({"maxLength": 2}, "abc", "ab"),
        ({"required": ["a", "b"]}, {"a": 1}, {"a": 1, "b": 2}),
        ({"properties": {"a": {"const": 1}}}, {"a": 2}, {"b": 2}),
        ({"patternProperties": {"^a": {"type": "null"}}}, {"ab": 1}, {"b": 1}),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"b": 1}, {"a": 1}),
        ({"propertyNames": {"enum": ["a", "b"]}}, {"c": 1}, {"a": 1}),
        ({"minProperties": 2}, {"a": 1}, {"a": 1, "b": 1}),
        ({"items": {"type": "null"}}, [None, 1], [None]),
        ({"prefixItems": [{"type": "null"}]}, [1], []),
        ({"contains": {"type": "null"}}, [1], [1, None]),
        ({"anyOf": [{"type": "string"}, {"minimum": 3}]}, 2, 3),
        ({"allOf": [{"type": "string"}, {"minLength": 2}]}, "a", "ab"),
        ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, 3, 1),
        ({"not": {"type": "string"}}, "a", 1),
        ({"if": {"type": "string"}, "then": {"minLength": 2}, "else": False}, 1, "ab"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, {"b": 1}),
    ],
)
def test_not_is_the_complement(schema: Any, inside: Any, outside: Any) -> None:
    reading = Reading({"not": schema})
    assert reading.accepts(inside)
    assert not reading.accepts(outside)


def test_if_decides_between_then_and_else() -> None:
    condition = {"properties": {"kind": {"const": "static"}}, "required": ["kind"]}
    reading = Reading(
        {"type": "object", "if": condition, "then": {"required": ["serve"]}, "else": {"required": ["run"]}}
    )
    assert reading.accepts({"kind": "static", "serve": 1})
    assert reading.accepts({"run": 1})
    assert not reading.accepts({"kind": "static", "run": 1})
    assert not reading.accepts({"serve": 1})


def test_dependencies_of_draft_7_are_both_dependent_keywords() -> None:
    reading = Reading({"dependencies": {"a": ["b"], "c": {"maxProperties": 1}}})
    assert reading.accepts({"a": 1, "b": 1})
    assert not reading.accepts({"a": 1})
    assert not reading.accepts({"c": 1, "b": 1})


def test_unevaluated_properties_know_what_the_branch_that_holds_has_looked_at() -> None:
    branches = [{"properties": {name: {}}, "required": [name]} for name in ("a", "b")]
    reading = Reading({"properties": {"own": {}}, "oneOf": branches, "unevaluatedProperties": False})
    assert reading.accepts({"own": 1, "a": 1})
    assert not reading.accepts({"own": 1, "a": 1, "c": 1})


def test_unevaluated_items_begin_behind_the_longest_prefix() -> None:
    schema = {"prefixItems": [{}], "allOf": [{"prefixItems": [{}, {}]}], "unevaluatedItems": {"type": "null"}}
    assert Reading(schema).accepts([1, 1, None])
    assert not Reading(schema).accepts([1, 1, 1])


# ---------------------------------------------------------------------------------------------------------- references


def test_a_recursive_schema_has_finitely_many_subschemas() -> None:
    tree = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}}
    assert visit(Reading(tree).document) == 2
    assert Reading(tree).accepts({"children": [{"children": []}]})
    assert not Reading(tree).accepts({"children": [{"children": 1}]})


@pytest.mark.parametrize(
    "reference",
    ["#/$defs/a~1b%25", "#here", "item.json", "http://example.com/item.json#/$defs/inner", "item.json#within"],
)
def test_references_within_the_document(reference: str) -> None:
    inner = {"$anchor": "within", "type": "null"}
    schema = {
        "$id": "http://example.com/root.json",
        "$ref": reference,
        "$defs": {
            "a/b%": {"type": "null"},
            "anchored": {"$anchor": "here", "type": "null"},
            "item": {"$id": "item.json", "type": "null", "$defs": {"inner": inner}},
        },
    }
    assert Reading(schema).shapes == (Null(),)


def test_a_pointer_is_relative_to_the_enclosing_id() -> None:
    item = {"$id": "http://example.com/item", "$ref": "#/$defs/x", "$defs": {"x": {"type": "null"}}}
    assert Reading({"allOf": [item], "$defs": {"x": {"type": "string"}}}).shapes == (Null(),)


def test_an_id_of_draft_4_names_a_schema() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "$ref": "#a",
        "definitions": {"x": {"id": "#a", "enum": [1]}},
    }
    assert Reading(schema).accepts(1)


def test_a_dynamic_reference_with_one_target_is_a_reference() -> None:
    schema = {"items": {"$dynamicRef": "#node"}, "$defs": {"x": {"$dynamicAnchor": "node", "type": "null"}}}
    assert not Reading(schema).accepts([1])


def test_a_dynamic_reference_that_depends_on_the_caller_is_refused() -> None:
    inner = {"$id": "list", "items": {"$dynamicRef": "#x"}, "$defs": {"d": {"$dynamicAnchor": "x"}}}
    error = refused({"$ref": "list", "$defs": {"list": inner, "x": {"$dynamicAnchor": "x", "type": "null"}}})
    assert "#/$defs/list/items '$dynamicRef'" in str(error)


def test_a_reference_out_of_the_document_is_refused_by_name() -> None:
    error = refused({"items": {"$ref": "https://example.com/other.json"}})
    assert error.code == "unsupported_schema"
    assert "#/items '$ref': 'https://example.com/other.json'" in str(error)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"allOf": [{"$ref": "#"}]},
        {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
        {"not": {"$ref": "#"}},
    ],
)
def test_a_schema_that_leads_back_to_itself_for_the_same_value_is_invalid(schema: Any) -> None:
    assert isinstance(refused(schema), InvalidSchema)


# ------------------------------------------------------------------------------------------------- malformed and bounds


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ({"type": "nonsense"}, "# 'type'"),
        ({"items": {"type": 5}}, "#/items 'type'"),
        ({"properties": {"a/b": {"minLength": -1}}}, "#/properties/a~1b 'minLength'"),
        ({"required": "a"}, "# 'required'"),
        ({"$ref": "#/nope"}, "# '$ref'"),
        ({"$ref": "#nope"}, "# '$ref'"),
        ({"properties": {"a": 5}}, "#/properties/a"),
        ({"anyOf": []}, "# 'anyOf'"),
        ({"multipleOf": 0}, "# 'multipleOf'"),
        ({"type": "string", "minItems": 2.5}, "# 'minItems'"),
        ({"enum": ["a"], "pattern": "("}, "# 'pattern'"),
        ([], "#"),
    ],
)
def test_a_malformed_schema_is_refused_by_pointer_and_keyword(schema: Any, where: str) -> None:
    error = refused(schema)
    assert error.code == "invalid_schema"
    assert f" {where}: " in str(error)


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ({"items": {"format": "idn-hostname"}}, "#/items 'format'"),
        ({"not": {"uniqueItems": True}}, "#/not 'uniqueItems'"),
        ({"not": {"items": {"multipleOf": 2}}}, "#/not/items 'multipleOf'"),
        ({"properties": {"a": {"oneOf": [{"multipleOf": 2}, {"minimum": 1}]}}}, "#/properties/a 'oneOf'"),
        ({"$schema": "https://example.com/my-dialect"}, "# '$schema'"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_pointer_and_keyword(schema: Any, where: str) -> None:
    error = refused(schema)
    assert isinstance(error, Unsupported)
    assert f" {where}: " in str(error)


def test_approximations_allow_more_and_say_so() -> None:
    reading = Reading({"oneOf": [{"multipleOf": 2}, {"minimum": 1}]}, approximate=True)
    assert all(reading.within(reading.document.root, value) for value in (-2, 1, 2))
    assert not reading.within(reading.document.root, -1)
    assert ["'oneOf'" in note or "'multipleOf'" in note for note in reading.document.approximations] == [True]


def nested(keyword: str, depth: int, beside: list[Any]) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(depth):
        schema = {keyword: [*beside, schema]}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        nested("allOf", 300, []),
        nested("anyOf", 300, [{"type": "null"}]),
        nested("oneOf", 300, [{"type": "null"}]),
        nested("oneOf", 12, [{"oneOf": [{"minLength": 2}, {"required": ["a"]}]}, {"maxLength": 3}]),
        {"allOf": [{"anyOf": [{"required": [f"{row}{column}"]} for column in range(3)]} for row in range(12)]},
    ],
)
def test_schemas_without_bound_to_the_work_are_refused(schema: Any) -> None:
    assert isinstance(refused(schema), GrammarTooLarge)


def test_depth_of_the_value_is_no_limit() -> None:
    schema: Any = {"type": "string"}
    for _ in range(300):
        schema = {"type": "object", "properties": {"a": schema}}
    assert visit(Reading(schema).document) == 301


def test_many_discriminated_branches_and_conditions_are_worked_out() -> None:
    conditions = [
        {"if": {"properties": {"kind": {"const": kind}}}, "then": {"required": [f"of {kind}"]}} for kind in range(15)
    ]
    kinds = {"type": "object", "properties": {"kind": {"enum": list(range(15))}}, "required": ["kind"]}
    assert len(Reading({**kinds, "allOf": conditions}).shapes) == 15


# --------------------------------------------------------------------------------------------------------- random ones

NAMES = st.sampled_from(["a", "b", "ab"])
SCALARS = st.none() | st.booleans() | st.integers(-1, 4) | st.sampled_from(["", "a", "b", "ab", "abc"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "ab", "c"]), inner, max_size=3)
    ),
    max_leaves=6,
)
KINDS = ["null", "boolean", "integer", "number", "string", "array", "object"]


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    few = st.integers(0, 2)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from([*KINDS, ["string", "object"]]),
            "properties": st.dictionaries(NAMES, inner, max_size=2),
            "additionalProperties": inner,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), inner, max_size=1),
            "propertyNames": inner,
            "prefixItems": several,
            "items": inner,
            "contains": inner,
            "minContains": few,
            "anyOf": several,
            "oneOf": several,
            "allOf": several,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "dependentSchemas": st.dictionaries(NAMES, inner, max_size=1),
            "unevaluatedProperties": inner,
            "unevaluatedItems": inner,
        },
    )


PLAIN = st.booleans() | st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(KINDS),
        "enum": st.lists(VALUES, max_size=2),
        "const": VALUES,
        "minimum": st.integers(-1, 3),
        "exclusiveMaximum": st.integers(-1, 4),
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 2),
        "multipleOf": st.just(2),
        "pattern": st.sampled_from(["a", "^a", "b$", "^[ab]+$"]),
        "required": st.lists(NAMES, max_size=2, unique=True),
        "minItems": st.integers(0, 2),
        "maxItems": st.integers(0, 2),
        "uniqueItems": st.booleans(),
        "minProperties": st.integers(0, 2),
        "maxProperties": st.integers(0, 2),
        "dependentRequired": st.just({"a": ["b"]}),
    },
)


def sparse(schema: Any) -> Any:
    """At most four keywords, so that some value is likely to fit."""
    return dict(list(schema.items())[:4]) if isinstance(schema, dict) else schema


SCHEMAS = st.recursive(PLAIN.map(sparse), lambda inner: keywords(inner).map(sparse), max_leaves=6)


@settings(max_examples=60, deadline=None)
@given(SCHEMAS, st.lists(VALUES, min_size=8, max_size=8))
def test_shapes_hold_the_values_that_the_schema_holds(schema: Any, values: list[Any]) -> None:
    """And where a schema cannot be honoured, its approximation holds at least those."""
    judge = jsonschema.Draft202012Validator(schema)
    reading, exact = Reading(schema), True
    try:
        visit(reading.document)
    except Unsupported:
        reading, exact = Reading(schema, approximate=True), False
        visit(reading.document)
        assert reading.document.approximations
    for value in values:
        if exact:
            assert reading.accepts(value) is judge.is_valid(value), value
        elif judge.is_valid(value):
            assert reading.within(reading.document.root, parsed(value)), value
