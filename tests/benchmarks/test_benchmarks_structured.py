"""Real schemas, served: which are asked for, what counts as right, and what the rounds come to. No test says how fast."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from drive import jumps
from drive.client import Answer, Endpoint, Request, RequestFailed
from drive.jump_report import Comparison, Difference, Report, Rounds, report_on
from drive.jumps import Load, Part, Round, ask_all
from drive.machine import this_machine
from drive.schemas import RECORD, VERDICT, Sample, is_valid, read_samples
from servers import SIMULATED

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "structured.py"
NAMES = {"type": "array", "items": {"enum": ["name", "true"]}, "maxItems": 2}
LOAD = Load(tokens=20, concurrency=2)


def lines(file: Path, groups: dict[str, int], schema: object = NAMES) -> Path:
    cases = [(f"{group}-{i}", group) for group, count in groups.items() for i in range(count)]
    file.write_text("\n".join(json.dumps({"id": i, "group": g, "schema": schema, "valid": [[]]}) for i, g in cases))
    return file


def answer(text: str = "[]", tokens: int = 4, forced: int = 0, *, ended: bool = True) -> Answer:
    return Answer(0.0, 1.0, 2.0, 9, tokens, forced, text, ended)


def test_a_limit_takes_of_each_group_its_part(tmp_path: Path) -> None:
    file = lines(tmp_path / "s.jsonl", {"Kubernetes": 6, "BFCL": 2, "Snowplow": 4})
    assert [one.id for one in read_samples(file, 6)] == [
        *("BFCL-0", "Kubernetes-0", "Kubernetes-2", "Kubernetes-4", "Snowplow-0", "Snowplow-2")
    ]
    assert len(read_samples(file, None)) == len(read_samples(file, 99)) == 12


@pytest.mark.parametrize(("group", "is_call"), [("BFCL", True), ("Glaiveai2K", True), ("Kubernetes", False)])
def test_which_groups_are_function_calls(group: str, is_call: bool) -> None:
    assert Sample("s", group, NAMES).is_call is is_call


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ('["name"]', True),
        (' [ "true",\n"name" ] ', True),
        ('["me"]', False),
        ('["name"', False),
        ('["name"]]', False),
        ("", False),
    ],
)
def test_what_is_valid(text: str, valid: bool) -> None:
    assert is_valid(text, NAMES) is valid


def test_only_json_is_json() -> None:
    assert is_valid("1e3", {"type": "number"})
    assert not is_valid("NaN", {"type": "number"})


def test_a_schema_goes_as_response_format_and_its_answer_may_end() -> None:
    endpoint = Endpoint("http://x", {"model": "m"}, never_stop={"ignore_eos": True})
    body = json.loads(endpoint.body(Request("hello", 9, chat=True, schema=NAMES)))
    assert body["response_format"]["json_schema"]["schema"] == NAMES
    assert body["messages"] == [{"role": "user", "content": "hello"}]
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("m", 0, 9)
    assert "ignore_eos" not in body
    assert json.loads(endpoint.body(Request("hello", 9)))["ignore_eos"] is True


PERSON = {"full_name": "J" * 30, "birth_year": 2030, "children": 12, "marital_status": "divorced", "employed": False}


@pytest.mark.parametrize(
    ("schema", "longest"),
    [
        (VERDICT, {"verdict": "good", "score": 100}),
        (RECORD, PERSON | {"languages": [{"language": "l" * 15, "years": 99}] * 3}),
    ],
    ids=["verdict", "record"],
)
def test_the_fixed_schemas_bound_every_answer(schema: dict[str, Any], longest: dict[str, Any]) -> None:
    assert is_valid(json.dumps(longest), schema)
    assert not is_valid(json.dumps(longest | {"more": 1}), schema)
    assert all(not is_valid(json.dumps({k: v for k, v in longest.items() if k != key}), schema) for key in longest)


async def test_refusals_are_told_apart_from_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [Sample("a", "BFCL", NAMES), Sample("b", "Kubernetes", {"not": 1}), Sample("c", "Kubernetes", NAMES)]
    status = 400

    async def complete(endpoint: Endpoint, request: Request) -> Answer:
        if request.schema == NAMES:
            return answer(tokens=len(request.prompt))
        raise RequestFailed(status, "no such keyword")

    monkeypatch.setattr(jumps, "complete", complete)
    whole = await ask_all(Endpoint("http://x"), samples, LOAD)
    assert (list(whole.calls.answers), list(whole.others.answers)) == (["a"], ["c"])
    assert whole.all.refused == {"b": "status 400: no such keyword"}
    assert whole.all.tokens == 2 * len(samples[0].prompt)
    status = 500
    with pytest.raises(RequestFailed, match="no such keyword"):
        await ask_all(Endpoint("http://x"), samples, LOAD)


def rounds(text: str, *seconds: float) -> Rounds:
    """One run for each of ``seconds``, which a round takes for its function call, and thrice that for the others."""

    def one(second: float) -> Round:
        calls = Part({"a": answer('["name"]', 10, 5)}, {}, second)
        others = {"b": answer(text, 20, 1), "c": answer("[", 10, ended=False)}
        return Round(calls, Part(others, {"d": "status 400: no"}, 3 * second))

    return Rounds([one(second) for second in seconds], [one(second / 2) for second in seconds])


@pytest.fixture
def report() -> Report:
    samples = [Sample(name, "BFCL" if name == "a" else "Snowplow", NAMES) for name in "abcd"]
    return report_on(
        this_machine(), samples, LOAD, rounds('["true"]', 1.0, 2.0, 0.5), rounds('["tree"]', 2.0, 2.0, 4.0)
    )


def test_rates_are_medians_of_the_runs(report: Report) -> None:
    figures = {row.what: (row.jumping.median, row.plain.median, row.ratio) for row in report.rows}
    assert figures == {
        "function calls, prompts new": (10.0, 5.0, 2.0),
        "all, prompts new": (10.0, 5.0, 2.0),
        "function calls, prompts cached": (20.0, 10.0, 2.0),
        "all, prompts cached": (20.0, 10.0, 2.0),
    }
    assert report.rows[0].jumping.values == [10.0, 5.0, 20.0]
    assert report.rows[0].jumping.spread == 1.5


def test_forced_tokens_are_shares_of_those_with_jump_forward(report: Report) -> None:
    assert report.forced == {"function calls": 0.5, "all": 0.15}


def test_valid_are_counted_among_the_answers_that_ended(report: Report) -> None:
    assert (report.jumping.answers, report.jumping.ended, report.jumping.valid) == (18, 12, 12)
    assert (report.plain.ended, report.plain.valid, report.plain.invalid) == (12, 6, ["b"])


def test_texts_are_compared_and_the_first_difference_shown(report: Report) -> None:
    assert report.texts == Comparison(2, 0, [Difference("b", '["tr', 'ue"]', 'ee"]')])
    assert report.jumping.repeated == 3
    assert "refused d: status 400: no" in report.details()
    assert "different b, after '[\"tr':" in report.details()


@pytest.mark.parametrize(
    ("jumping", "plain", "counts"),
    [
        (answer('["name', ended=False), answer('["na', ended=False), (0, 1, 0)),
        (answer('["name"]'), answer('["na', ended=False), (0, 1, 0)),
        (answer("1"), answer("12", ended=False), (0, 0, 1)),
    ],
    ids=["both cut", "one cut", "one ended"],
)
def test_where_a_text_is_cut_is_no_difference(jumping: Answer, plain: Answer, counts: tuple[int, int, int]) -> None:
    one, other = ([Round(Part({"a": each}, {}, 1.0), Part({}, {}, 0.0))] for each in (jumping, plain))
    texts = report_on(this_machine(), [Sample("a", "BFCL", NAMES)], LOAD, Rounds(one, one), Rounds(other, other)).texts
    assert (texts.same, texts.cut, len(texts.different)) == counts


def test_a_server_that_takes_no_schema_is_no_result() -> None:
    nothing = Round(Part({}, {"a": "status 400: no"}, 1.0), Part({}, {}, 0.0))
    with pytest.raises(ValueError, match="refused every schema; a: status 400: no"):
        report_on(this_machine(), [Sample("a", "BFCL", NAMES)], LOAD, Rounds([nothing], [nothing]), Rounds())


@pytest.mark.slow
def test_both_servers_are_asked_and_agree(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
    schemas = lines(tmp_path / "s.jsonl", {"BFCL": 1, "Kubernetes": 2}, RECORD)
    serve = " ".join([sys.executable, "-m", "sgframe", "serve", "--port", port, *SIMULATED])
    arguments = ("--serve", serve, "--url", f"http://127.0.0.1:{port}", "--schemas", schemas, "--runs", "1", "--json")
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *map(str, arguments), "--max-tokens", "512"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["schemas"], report["function_calls"], report["refused"], report["texts"]["same"]) == (3, 1, {}, 3)
    assert report["jumping"] == report["plain"] == {"answers": 6, "ended": 6, "valid": 6, "invalid": [], "repeated": 3}
    assert report["forced"]["all"] > 0.3
    assert len(report["rows"]) == 4
