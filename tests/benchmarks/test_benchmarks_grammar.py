"""The benchmark of grammars runs, and its rows say what came of the schemas. How fast anything is, no test says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import grammar
import pytest
from drive.grammar_runs import Run, Sample, measure
from drive.grammars import OurGrammar

from sgframe.testing.tokens import VOCABULARY, encode

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "grammar.py"
NAMES = {"type": "array", "items": {"enum": ["name", "true"]}, "maxItems": 2}


@pytest.fixture
def schemas(tmp_path: Path) -> Path:
    cases: list[tuple[object, list[object], list[object]]] = [
        (NAMES, [[], ["name"]], [["me"], ["name"] * 3]),
        ({"type": "null"}, [None], [0]),
        ({"$recursiveRef": "#/nowhere", "type": "nothing"}, [1], []),
    ]
    lines = [
        json.dumps({"id": f"s{place}", "group": "BFCL", "recursive": False, "schema": schema, "valid": v, "invalid": i})
        for place, (schema, v, i) in enumerate(cases)
    ]
    file = tmp_path / "schemas.jsonl"
    file.write_text("\n".join(lines))
    return file


@pytest.mark.slow
def test_three_schemas_give_every_row(schemas: Path) -> None:
    arguments = ("--schemas", schemas, "--model", "simulated", "--grammars", "compressed-fsm", "--json")
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    figures = {row["row"]: row["figures"]["compressed-fsm"] for row in report["rows"]}
    assert figures["compiled and right on every instance"] == pytest.approx(200 / 3)
    assert (figures["valid rejected"], figures["invalid accepted"], figures["hung or crashed"]) == (0, 0, 0)
    assert figures["forced"] > 50
    assert figures["mask warm, p50"] <= figures["mask cold, max"]


def test_what_a_run_tells() -> None:
    valid = [encode('["name", "true"]'), encode("[]")]
    sample = Sample("s", "BFCL", False, json.dumps(NAMES), valid, [encode('["me"]'), encode('["name"')])
    run = measure(OurGrammar(VOCABULARY), sample, [])
    assert (run.outcome, run.rejected, run.accepted, run.strange) == ("compiled", 0, 0, 0)
    assert run.tokens == len(run.cold) == len(run.warm) == sum(map(len, valid))
    assert 0 < run.forced < run.tokens


def test_what_is_refused_tells_why() -> None:
    run = measure(OurGrammar(VOCABULARY), Sample("s", "", False, '{"type": "nothing"}', [], []), [])
    assert run.outcome == "refused"
    assert "type" in run.reason


def test_shares_are_of_all_schemas_and_of_the_compiled_ones_tokens() -> None:
    runs = [
        Run("a", "BFCL", True, "compiled", tokens=10, forced=4, strange=1),
        Run("b", "Kubernetes", False, "compiled", tokens=30, forced=4, accepted=2),
        Run("c", "Kubernetes", True, "refused"),
        Run("d", "Kubernetes", False, "timeout"),
    ]
    assert list(grammar.counts(runs).values()) == [50.0, 25.0, 50.0, 0, 2, 1, 20.0, 40.0, 2.5]


def test_a_first_request_is_compiling_loading_and_all_masks() -> None:
    runs = [
        Run("a", "", False, "compiled", compile=1000, load=500, cold=[250, 250]),
        Run("b", "", False, "compiled", compile=9000),
    ]
    cost = {row: figure for (row, _), figure in grammar.costs(runs, frozenset({"a"})).items()}
    assert cost["first request, mean, schemas taken by all"] == 2.0
    assert (cost["compile, p50"], cost["compile, max"]) == (5.0, 9.0)


def test_ratios_are_by_ours_where_it_was_measured() -> None:
    quick = [Run("a", "", False, "compiled", compile=1000)]
    slow = [Run("a", "", False, "compiled", compile=3000)]
    both = {row.row: row.ratios for row in grammar.rows_of({"compressed-fsm": quick, "xgrammar": slow})}
    assert both["compile, p50"] == {"compressed-fsm": 1.0, "xgrammar": 3.0}
    assert both["compiled"] == {}
    assert all(row.ratios == {} for row in grammar.rows_of({"xgrammar": slow}))


def test_an_unknown_grammar_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        grammar._parser().parse_args(["--schemas", "x", "--grammars", "outlines"])
    assert "no adapter for 'outlines'; there is one for compressed-fsm" in capsys.readouterr().err
