"""What docs/grammars.md and its neighbours tell the reader to ask a server for, asked of one whose model is simulated: it
says nothing sensible, and the grammar holds it to the form."""

from __future__ import annotations

import json
import os
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pages import FIRST_USE, HOUSE, blocks, distribution, environment, run, table, write_files
from servers import SIMULATED, Server, served

from sgframe import Engine, SamplingParams
from sgframe.constraints import Constraint

PAGE = "docs/grammars.md"
URL = "http://127.0.0.1:30000"
NAME = "smollm2-135m"
ASK = {"model": NAME, "messages": [{"role": "user", "content": 'say "5" or 5'}], "temperature": 0}
SMALL = {"type": "object", "properties": {"ok": {"enum": [1, 2]}}, "required": ["ok"], "additionalProperties": False}


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The grammar of docs/plugins.md, installed."""
    folder = tmp_path_factory.mktemp("plugin")
    of_grammar = [block for block in blocks("docs/plugins.md", "python") if "plain_choice" in block.first_line]
    write_files(folder, *of_grammar)
    distribution(folder, 'plain-choice = "sgframe_plain_choice"')
    return folder


@pytest.fixture(scope="module")
def server(plugin: Path) -> Iterator[Server]:
    more = ("--served-model-name", NAME, "--more-grammars", "plain-choice")
    with served(*SIMULATED, *more, environ=environment(plugin)) as ready:
        yield ready


def code(page: str, sign: str) -> str:
    (block,) = (block for block in blocks(page, "python") if sign in block.text)
    return block.text


def ask(server: Server, path: str = "chat/completions", **body: Any) -> tuple[int, Any]:
    with server.client() as client:
        answer = client.post(f"/v1/{path}", json={**ASK, **body})
        return answer.status_code, answer.json()


def content(server: Server, **body: Any) -> str:
    status, answer = ask(server, **body)
    assert status == 200, answer
    text: str = answer["choices"][0]["message"]["content"]
    return text


# ------------------------------------------------------------------------------------------ code of the pages


def test_the_code_that_asks_by_a_schema_gets_what_fits(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(code(PAGE, "person = {").replace(URL, server.url), names)
    printed = capsys.readouterr().out
    jsonschema.validate(json.loads(printed), names["person"])
    assert printed.startswith('{"name":"'), "it was to be compact"


def test_the_code_that_offers_a_tool_gets_a_call(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    exec(code(PAGE, "weather = {").replace(URL, server.url), {})
    assert re.fullmatch(
        r"""Function\(arguments='\{"city": "(Rome|Paris|Oslo)"\}', name='get_weather'\)\n""", capsys.readouterr().out
    )


def test_the_code_of_the_readme_gets_a_city(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    exec(code("README.md", "response_format").replace(URL, server.url), {})
    assert json.loads(capsys.readouterr().out)["city"] in ("Oslo", "Rome")


def test_the_engine_takes_a_constraint(capsys: pytest.CaptureFixture[str]) -> None:
    simulated = 'model="simulated", backend="simulated", source="simulated", transport="inproc"'
    exec(code(PAGE, "with Engine(").replace('model="smollm2-135m"', simulated), {})
    assert re.fullmatch(r"\{'old': (True|False)\} \d+\n", capsys.readouterr().out)


def test_the_walker_of_the_plugins_page_accepts_and_refuses() -> None:
    exec(code("docs/plugins.md", "walker = ").replace(NAME, "simulated"), {})


@pytest.mark.parametrize(
    ("example", "words"), [("structured_output.py", "as a pydantic model: Person("), ("tool_loop.py", "called: get_")]
)
def test_an_example_runs(server: Server, capsys: pytest.CaptureFixture[str], example: str, words: str) -> None:
    runpy.run_path(str(HOUSE / "examples" / example))["main"](f"{server.url}/v1")
    assert words in capsys.readouterr().out


# ------------------------------------------------------------------------------------------ ways to ask


@pytest.mark.parametrize(
    "said",
    [
        {"response_format": {"type": "json_schema", "json_schema": {"name": "small", "schema": SMALL}}},
        {"response_format": {"type": "json_object", "schema": SMALL}},
        {"json_schema": SMALL},
        {"json_schema": json.dumps(SMALL)},
        {"guided_json": SMALL},
        {"structured_outputs": {"json": SMALL}},
        {"json_schema": SMALL, "guided_decoding_backend": "auto"},
    ],
    ids=json.dumps,
)
def test_a_schema_can_be_said_in_all_these_ways(server: Server, said: dict[str, Any]) -> None:
    assert content(server, **said) in ('{"ok": 1}', '{"ok": 2}', '{"ok": 1.0}', '{"ok": 2.0}')


@pytest.mark.parametrize(
    ("said", "form"),
    [
        ({"response_format": {"type": "json_object"}}, r"\{.*"),
        ({"structured_outputs": {"json_object": True}}, r"\{.*"),
        ({"regex": "[a-c]{3}"}, "[a-c]{3}"),
        ({"guided_regex": "[a-c]{3}"}, "[a-c]{3}"),
        ({"structured_outputs": {"regex": "[a-c]{3}"}}, "[a-c]{3}"),
        ({"choice": ["yes", "no"]}, "yes|no"),
        ({"guided_choice": ["yes", "no"]}, "yes|no"),
        ({"structured_outputs": {"choice": ["yes", "no"]}}, "yes|no"),
        ({"choice": ["yes", "no"], "grammar": "plain-choice"}, "yes|no"),
    ],
    ids=json.dumps,
)
def test_and_so_can_the_other_kinds(server: Server, said: dict[str, Any], form: str) -> None:
    assert re.fullmatch(form, content(server, max_tokens=20, **said))


def test_a_text_completion_is_constrained_alike(server: Server) -> None:
    status, answer = ask(server, "completions", messages=None, prompt="say", regex="[a-c]{3}", logprobs=0)
    assert status == 200, answer
    assert re.fullmatch("[a-c]{3}", answer["choices"][0]["text"])
    assert answer["choices"][0]["logprobs"]["forced"] == [False] * 3
    assert answer["usage"]["sgframe"]["forced_tokens"] == 0


def test_forced_tokens_are_marked_and_counted(server: Server) -> None:
    _, answer = ask(server, json_schema=SMALL, logprobs=True, top_logprobs=1)
    entries = answer["choices"][0]["logprobs"]["content"]
    forced = [entry for entry in entries if entry.get("forced")]
    assert "".join(entry["token"] for entry in forced).startswith('{"ok": ')
    assert {(entry["logprob"], len(entry["top_logprobs"])) for entry in forced} == {(0.0, 0)}
    assert answer["usage"]["sgframe"]["forced_tokens"] == len(forced)


# ------------------------------------------------------------------------------------------ refusals


def test_a_refusal_is_the_one_that_the_page_shows(server: Server) -> None:
    tags = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    schema = {"type": "object", "properties": {"tags": tags}}
    shown = json.loads(blocks(PAGE, "json")[1].text)
    named = {"type": "json_schema", "json_schema": {"name": "tagged", "schema": schema}}
    assert ask(server, response_format=named) == (400, shown)
    status, answer = ask(server, json_schema=schema, approximate=True, max_tokens=9)
    assert (status, len(answer["usage"]["sgframe"]["approximations"])) == (200, 1)


def test_fields_that_are_not_offered_are_refused(server: Server) -> None:
    (listed,) = re.findall(r"^Not offered, and refused: ([^.]*)\.", (HOUSE / PAGE).read_text(), re.MULTILINE)
    for field in re.findall("`(.*?)`", listed):
        status, answer = ask(server, **{field: [{"name": "f"}] if field == "functions" else "x"})
        assert (status, answer["error"]["param"], answer["error"]["code"]) == (400, field, "unsupported_parameter")


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"json_schema": {"minimum": 2, "maximum": 1, "type": "integer"}}, "invalid_schema"),
        ({"json_schema": {"enum": []}}, "invalid_schema"),
        ({"regex": "("}, "invalid_regex"),
        ({"choice": []}, "invalid_choice"),
        ({"regex": r"(a)\1"}, "unsupported_regex"),
        ({"json_schema": {"uniqueItems": True}}, "unsupported_schema"),
        ({"regex": "a", "grammar": "plain-choice"}, "unsupported_constraint"),
        ({"regex": "a" * 2_000_001}, "grammar_too_large"),
        ({"regex": "a", "json_schema": SMALL}, None),
        (
            {"response_format": {"type": "json_object"}, "tools": [{"type": "function", "function": {"name": "f"}}]},
            None,
        ),
    ],
    ids=lambda value: json.dumps(value)[:60],
)
def test_the_codes_are_those_of_the_table(server: Server, said: dict[str, Any], code: str | None) -> None:
    status, answer = ask(server, **said)
    assert (status, answer["error"]["code"]) == (400, code)
    assert code is None or any(f"`{code}`" in row[0] for row in table(PAGE, "| `code` | |"))


# ------------------------------------------------------------------------------------------ slow


@pytest.mark.slow
def test_the_grammar_of_the_plugins_page_holds_the_contract(plugin: Path) -> None:
    options = ("-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(plugin))
    tests = (sys.executable, "-m", "pytest", *options, "test_plain_choice.py")
    assert " passed" in run(*tests, folder=plugin, environ=environment(plugin))


@pytest.mark.slow
@pytest.mark.timeout(FIRST_USE)
def test_with_and_without_jump_forward_the_model_writes_what_the_page_shows() -> None:
    names: dict[str, Any] = {}
    exec(code(PAGE, "person = {").partition("answer = ")[0], names)
    params = SamplingParams(temperature=0, constraint=Constraint("json_schema", json.dumps(names["person"])))
    _, tokens, text = table(PAGE, "| | tokens | text |")[0]
    for jump_forward in (True, False):
        with Engine(model=NAME, jump_forward=jump_forward, dtype="float32") as engine:
            output = engine.generate("Ada is 36 and lives in", params).outputs[0]
            written = [engine.tokenizer.token_bytes(token).decode() for token in output.tokens]
        shown = re.findall("`([^`]+)`", tokens)
        assert written[: len(shown)] == shown
        assert output.text.startswith(text.strip("`…").rstrip())
