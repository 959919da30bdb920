"""Calls in an output's text, however it comes in pieces."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgframe_openai.tool_calls import CallPiece, ToolCallReader, written_call

ROME = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'
OSLO = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


def read(pieces: Iterable[str]) -> tuple[str, list[tuple[str, str]]]:
    """The text between the calls, and (name, arguments) of each call."""
    reader = ToolCallReader()
    said = [one for piece in pieces for one in reader.feed(piece)] + reader.finish()
    calls: list[tuple[str, str]] = []
    for one in said:
        if isinstance(one, CallPiece):
            assert one.index == len(calls) - (one.name is None)
            name, arguments = ("", "") if one.name is not None else calls.pop()
            calls.append((one.name or name, arguments + one.arguments))
    return "".join(one for one in said if isinstance(one, str)), calls


def test_a_call_is_written_as_it_is_read() -> None:
    assert written_call("weather", '{"city": "Rome"}') == ROME
    assert read([ROME]) == ("", [("weather", '{"city": "Rome"}')])


@pytest.mark.parametrize(
    ("text", "said", "calls"),
    [
        ("", "", []),
        ("Hello.\n", "Hello.\n", []),
        (ROME + "\n" + OSLO, "", [("weather", '{"city": "Rome"}'), ("weather", '{"city": "Oslo"}')]),
        ("Let me see.\n" + ROME, "Let me see.", [("weather", '{"city": "Rome"}')]),
        (ROME + "\n", "", [("weather", '{"city": "Rome"}')]),
        (ROME + "\nDone.", "\nDone.", [("weather", '{"city": "Rome"}')]),
        ('<tool_call>\n{"name":"f","arguments":{}}\n</tool_call>', "", [("f", "{}")]),
        ('<tool_call>\n{ "name" :\n"f" , "arguments" : { } }\n</tool_call>', "", [("f", "{ }")]),
        (
            '<tool_call>\n{"name": "f", "arguments": {"a": [{}, "}\\"{"]}}\n</tool_call>',
            "",
            [("f", '{"a": [{}, "}\\"{"]}')],
        ),
        (
            '<tool_call>\n{"name": "f", "arguments": {"a": "</tool_call>"}}\n</tool_call>',
            "",
            [("f", '{"a": "</tool_call>"}')],
        ),
    ],
)
def test_calls_and_the_text_around_them(text: str, said: str, calls: list[tuple[str, str]]) -> None:
    assert read([text]) == (said, calls)
    assert read(text) == (said, calls), "one character at a time"


@pytest.mark.parametrize(
    ("text", "said", "calls"),
    [
        ("Well <tool", "Well <tool", []),
        ('<tool_call>\n{"name": "weath', '<tool_call>\n{"name": "weath', []),
        ('<tool_call>\n{"name": "weather"', "", [("weather", "")]),
        ('<tool_call>\n{"name": "weather", "arguments": {"city": "Ro', "", [("weather", '{"city": "Ro')]),
        (ROME[:-3], "", [("weather", '{"city": "Rome"}')]),
    ],
)
def test_an_output_that_is_cut_gives_what_is_there(text: str, said: str, calls: list[tuple[str, str]]) -> None:
    assert read([text]) == read(text) == (said, calls)


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>weather</tool_call>",
        "<tool_call>\nweather\n</tool_call>",
        '<tool_call>\n{"arguments": {}}\n</tool_call> and on',
        "a < b <tool <tool_call <tool_call> c",
    ],
)
def test_what_is_no_call_is_text(text: str) -> None:
    assert read([text]) == read(text) == (text, [])


def test_text_comes_at_once_and_what_may_become_a_call_is_held_back() -> None:
    reader = ToolCallReader()
    assert reader.feed("Well.") == ["Well."]
    assert reader.feed(" \n") == []
    assert reader.feed("<tool") == []
    assert reader.feed("box> ") == [" \n<toolbox>"]
    assert reader.feed('<tool_call>\n{"name": "f", "argum') == [CallPiece(0, name="f")]
    assert reader.feed('ents": {"a": "b') == [CallPiece(0, arguments='{"a": "b')]
    assert reader.inside
    assert reader.feed('c"}}\n</tool_call>') == [CallPiece(0, arguments='c"}')]
    assert not reader.inside


TAGS = ["<tool_call>", "</tool_call>", "\n"]
FRAGMENTS = st.sampled_from([*TAGS, '{"name": "f"', ', "arguments": ', "{", "}", '"', "\\", "a"])


@given(st.lists(FRAGMENTS, max_size=20).map("".join), st.data())
def test_no_text_makes_it_fail_and_pieces_do_not_matter(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert read(pieces) == read([text])
