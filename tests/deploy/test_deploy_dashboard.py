"""Dashboard and alerts ask for what a running server serves: every metric, and every label of it."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from pages import HOUSE
from prometheus_client.parser import text_string_to_metric_families
from servers import SIMULATED, served

CONTAINER = HOUSE / "examples" / "deploy" / "container"
DASHBOARD = json.loads((CONTAINER / "grafana" / "dashboards" / "sgframe.json").read_text())
RULES = [
    rule
    for group in yaml.safe_load((CONTAINER / "prometheus" / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
TARGETS = [(panel["title"], target) for panel in DASHBOARD["panels"] for target in panel["targets"]]
QUERIES = [(title, target["expr"]) for title, target in TARGETS] + [(rule["alert"], rule["expr"]) for rule in RULES]
OF_PROMETHEUS = {"instance", "job"}
"""Labels that Prometheus gives to all that it scrapes."""


@pytest.fixture(scope="module")
def metrics() -> Iterator[dict[str, set[str]]]:
    """Labels by metric, of a server with a shadow that has answered."""
    body = {"model": "simulated", "prompt": "abc", "max_tokens": 4}
    with served(*SIMULATED, "--shadow", "policy=fcfs") as server, server.client() as client:
        for more in ({}, {}, {"regex": "[ab]+"}):
            assert client.post("/v1/completions", json=body | more).status_code == 200
        found = defaultdict(set)
        for family in text_string_to_metric_families(client.get("/metrics").text):
            for sample in family.samples:
                found[sample.name] |= sample.labels.keys()
        yield dict(found)


def selectors(query: str) -> list[tuple[str, set[str]]]:
    """Each metric that ``query`` selects, with the labels it selects by."""
    found = re.findall(r"\b((?:sgframe_|up\b)\w*)(?:\{([^}]*)\})?", query)
    return [(name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))) for name, matchers in found]


def grouping(query: str) -> set[str]:
    return {
        label.strip() for labels in re.findall(r"\b(?:by|without) \(([^)]*)\)", query) for label in labels.split(",")
    }


@pytest.mark.parametrize(("title", "query"), QUERIES)
def test_a_query_asks_for_what_is_served(metrics: dict[str, set[str]], title: str, query: str) -> None:
    selected = selectors(query)
    assert selected, "the query selects nothing of ours"
    labels = set(OF_PROMETHEUS)
    for name, asked in selected:
        served_labels = metrics.get(name) if name != "up" else set()
        assert served_labels is not None, f"{title}: the server has no metric {name}"
        assert asked <= served_labels | OF_PROMETHEUS, f"{title}: {name} has no such labels"
        labels |= served_labels
    assert grouping(query) <= labels


@pytest.mark.parametrize(("title", "target"), TARGETS)
def test_a_legend_names_labels_that_are_left(title: str, target: dict[str, Any]) -> None:
    assert set(re.findall(r"\{\{ *(\w+) *\}\}", target["legendFormat"])) <= grouping(target["expr"])


@pytest.mark.parametrize(("title", "query"), QUERIES)
def test_a_query_can_be_parsed(title: str, query: str) -> None:
    parser = pytest.importorskip("promql_parser", reason="promql-parser is not installed")
    parser.parse(query.replace("$__rate_interval", "1m").replace("$instance", ".*"))


def test_each_metric_of_the_server_has_a_place_in_the_dashboard(metrics: dict[str, set[str]]) -> None:
    drawn = {name for _, query in QUERIES for name, _ in selectors(query)}
    left_out = {
        "sgframe_shadow_overtaken_tokens",
        "sgframe_shadow_service_overtaken_tokens",
        "sgframe_compile_seconds_total",
    }
    families = {re.sub(r"_(bucket|count|sum|created)$", "", name) for name in metrics if not name.endswith("_created")}
    assert {name for name in families if not any(one.startswith(name) for one in drawn)} == left_out | {
        "sgframe_shadow_service_cached_tokens_total"
    }


def test_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [(x, place["y"]) for place in places for x in range(place["x"], place["x"] + place["w"])]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(places)


def test_grafana_finds_the_source_that_is_provisioned() -> None:
    (source,) = yaml.safe_load((CONTAINER / "grafana" / "datasources" / "prometheus.yaml").read_text())["datasources"]
    assert source["type"] == "prometheus"
    asked = {target["datasource"]["uid"] for _, target in TARGETS}
    assert asked == {"${datasource}"}
    assert [one["query"] for one in DASHBOARD["templating"]["list"] if one["type"] == "datasource"] == ["prometheus"]
