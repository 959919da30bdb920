"""The JSON-Schema-Test-Suite and real schemas, byte for byte: what compiles is right on every instance."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from schema_data import real_schemas, schema_test_suite

from sgframe.constraints import Constraint
from sgframe.errors import RequestError
from sgframe_fsm.compiling import compile_constraint
from sgframe_fsm.expressions.store import Expr, Store

MOST_ORDERS = 720
REFUSALS = {"unsupported_schema", "unsupported_regex", "grammar_too_large"}
NOT_OFFERED = {"optional/format/hostname: validation of A-label (punycode) host names"}
"""Which labels that begin with xn-- are valid is no regular language: none is written."""
ANNOTATION = "is only an annotation by default"
"""Formats are asserted here, as the specification allows."""


@pytest.fixture(params=[10, pytest.param(1, marks=pytest.mark.slow)], ids=["a tenth", "all"])
def every(request: pytest.FixtureRequest) -> int:
    """Of how many cases one is looked at."""
    found: int = request.param
    return found


def compiled(schema: object) -> tuple[Store, Expr] | RequestError:
    try:
        store, root, _ = compile_constraint(Constraint("json_schema", json.dumps(schema)))
    except RequestError as error:
        return error
    store.budget.left = 1 << 40
    return store, root


def orders(value: Any) -> Iterator[Any]:
    """``value`` with the members of its objects in every order: the grammar fixes one, the suite knows none."""
    if isinstance(value, list):
        yield from (list(items) for items in itertools.product(*(list(orders(item)) for item in value)))
    elif isinstance(value, dict):
        members = [[(name, inner) for inner in orders(member)] for name, member in value.items()]
        for chosen in itertools.product(*members):
            yield from map(dict, itertools.permutations(chosen))
    else:
        yield value


def accepted(store: Store, root: Expr, values: Iterable[Any]) -> bool:
    texts = (json.dumps(value, ensure_ascii=False) for value in itertools.islice(values, MOST_ORDERS))
    return any(store.accepts(root, text.encode()) for text in texts)


def verdict(schema: object, instances: list[tuple[str, Iterable[Any], bool]]) -> str:
    """``right``, ``refused`` by name, or ``wrong`` and how. An instance is given in the orders in which it may stand."""
    found = compiled(schema)
    if isinstance(found, RequestError):
        if found.code in REFUSALS:
            return "refused"
        satisfiable = any(valid for _, _, valid in instances)
        return "right" if found.code == "invalid_schema" and not satisfiable else f"wrong: {found}"
    wrong = [told for told, values, valid in instances if accepted(*found, values) is not valid]
    return f"wrong: {wrong}" if wrong else "right"


def test_the_json_schema_test_suite_is_met_or_refused_by_name(every: int) -> None:
    verdicts: dict[str, str] = {}
    for case in schema_test_suite()[::every]:
        instances = [(told, orders(value), valid) for told, value, valid in case["tests"] if ANNOTATION not in told]
        name = f"{case['file']}: {case['case']}"
        verdicts[name] = "stricter" if name in NOT_OFFERED else verdict(case["schema"], instances)
    counts = Counter(verdict.partition(":")[0] for verdict in verdicts.values())
    print(f"JSON-Schema-Test-Suite: {dict(counts)}")
    assert {case: how for case, how in verdicts.items() if how.startswith("wrong")} == {}
    assert counts["right"] / len(verdicts) >= 0.8


def test_real_schemas_are_met_or_refused_by_name(every: int) -> None:
    verdicts: dict[str, str] = {}
    recursive = set()
    for case in real_schemas()[::every]:
        instances = [("valid", [value], True) for value in case["valid"]]
        instances += [("invalid", [value], False) for value in case["invalid"]]
        verdicts[case["id"]] = verdict(case["schema"], instances)
        if case["recursive"]:
            recursive.add(case["id"])
    counts = Counter(verdict.partition(":")[0] for verdict in verdicts.values())
    among_recursive = Counter(verdicts[case].partition(":")[0] for case in recursive)
    print(f"real schemas: {dict(counts)}; among the recursive ones: {dict(among_recursive)}")
    assert {case: how for case, how in verdicts.items() if how.startswith("wrong")} == {}
    assert counts["right"] / len(verdicts) >= 0.9
    assert among_recursive["right"] / len(recursive) >= 0.85
