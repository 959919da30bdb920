"""What models see of tools, calls and answers, by chat templates of several kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from sgframe.interfaces.source import Tokenizer
from sgframe_hf.chat_template import ChatTemplate
from sgframe_openai.conversation import tokenize_chat
from sgframe_simulated.tokenizer import ByteTokenizer

CHATML = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
"""As SmolLM2's: it knows neither tools nor calls."""

ALTERNATING = (
    "{% if messages[0].role == 'system' %}{% set system = messages[0].content + ' | ' %}{% set messages = messages[1:] %}"
    "{% endif %}{% for m in messages %}"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}"
    "{% endif %}<{{ m.role }}>{{ system if loop.first else '' }}{{ m.content }}</{{ m.role }}>{% endfor %}<model>"
)
"""As Gemma 3's: turns of user and assistant, the system's words inside the first."""

HERMES = (
    "{% if tools %}<system>{{ tools | tojson }} Write <tool_call> {name, arguments} </tool_call></system>{% endif %}"
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
    "{% for c in m.tool_calls %}[{{ c.function.name }}({{ c.function.arguments | tojson }})]{% endfor %}"
    "</{{ m.role }}>{% endfor %}<assistant>"
)
"""As Qwen's and Hermes': tools, calls and answers, calls in the format that this server reads."""

FOREIGN = HERMES.replace("<tool_call> {name, arguments} </tool_call>", "[name(arguments)]")
"""Tools and calls in a format of its own."""

TOOL = {
    "type": "function",
    "function": {"name": "weather", "description": "Tells.", "parameters": {"type": "object", "properties": {}}},
}
SECTION = """\
You can call these tools:
{"type": "function", "function": {"name": "weather", "description": "Tells.", \
"parameters": {"type": "object", "properties": {}}}}

To call one, write a JSON object with its name and arguments between tags, and nothing after the last call:
<tool_call>
{"name": "NAME", "arguments": {…}}
</tool_call>
The answer comes between <tool_response> and </tool_response>."""

ROME = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}}
OSLO = {"id": "call_2", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
WRITTEN = """\
<tool_call>
{"name": "weather", "arguments": {"city":"Rome"}}
</tool_call>
<tool_call>
{"name": "weather", "arguments": {"city": "Oslo"}}
</tool_call>"""
ANSWERED = "<tool_response>\nSunny\n</tool_response>\n<tool_response>\nRain\n</tool_response>"

ASK: dict[str, Any] = {"role": "user", "content": "Where?"}
CALLED: list[dict[str, Any]] = [
    ASK,
    {"role": "assistant", "content": None, "tool_calls": [ROME, OSLO]},
    {"role": "tool", "tool_call_id": "call_1", "content": "Sunny"},
    {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "Rain"}]},
]


class Templated(ByteTokenizer):
    """With a Jinja template."""

    def __init__(self, source: str) -> None:
        self._template = ChatTemplate({"default": source}, {})

    def apply_chat_template(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Mapping[str, Any]] | None = None, **options: Any
    ) -> str:
        return self._template.render(messages, tools, options)


def prompt(template: str, messages: list[dict[str, Any]], *tools: Any) -> str:
    tokenizer: Tokenizer = Templated(template)
    tokens = tokenize_chat(tokenizer, messages, tools=tools)
    return b"".join(map(tokenizer.token_bytes, tokens)).decode()


def test_a_template_that_knows_calls_shows_the_tools_itself() -> None:
    assert prompt(HERMES, [ASK], TOOL) == (
        '<system>[{"type": "function", "function": {"name": "weather", "description": "Tells.", "parameters": {"type": '
        '"object", "properties": {}}}}] Write <tool_call> {name, arguments} </tool_call></system><user>Where?</user>'
        "<assistant>"
    )


@pytest.mark.parametrize("template", [CHATML, FOREIGN], ids=["no tools", "another format"])
def test_for_another_the_tools_become_a_system_message(template: str) -> None:
    assert prompt(template, [ASK], TOOL) == f"<system>{SECTION}</system><user>Where?</user><assistant>"


def test_the_tools_follow_what_the_system_message_says() -> None:
    messages = [{"role": "developer", "content": "Be brief."}, ASK]
    assert prompt(CHATML, messages, TOOL) == (f"<system>Be brief.\n\n{SECTION}</system><user>Where?</user><assistant>")


def test_a_template_that_renders_calls_gets_them_with_arguments_as_objects() -> None:
    assert prompt(HERMES, CALLED) == (
        '<user>Where?</user><assistant>[weather({"city": "Rome"})][weather({"city": "Oslo"})]</assistant>'
        "<tool>Sunny</tool><tool>Rain</tool><assistant>"
    )


def test_for_another_calls_and_answers_are_spelled_out_as_turns() -> None:
    assert prompt(CHATML, CALLED) == (
        f"<user>Where?</user><assistant>{WRITTEN}</assistant><user>{ANSWERED}</user><assistant>"
    )


@pytest.mark.parametrize("template", [CHATML, FOREIGN], ids=["no tools", "another format"])
def test_calls_and_tools_are_told_in_one_format(template: str) -> None:
    assert prompt(template, CALLED, TOOL) == (
        f"<system>{SECTION}</system><user>Where?</user><assistant>{WRITTEN}</assistant><user>{ANSWERED}</user><assistant>"
    )


def test_roles_alternate_where_the_template_insists() -> None:
    messages = [*CALLED, {"role": "user", "content": "Well?"}]
    assert prompt(ALTERNATING, messages, TOOL) == (
        f"<user>{SECTION} | Where?</user><assistant>{WRITTEN}</assistant><user>{ANSWERED}\nWell?</user><model>"
    )


def test_text_before_a_call_stays_before_it() -> None:
    spoken = {"role": "assistant", "content": "Let me see.", "tool_calls": [OSLO]}
    assert "<assistant>Let me see.\n<tool_call>\n" in prompt(CHATML, [ASK, spoken])


@pytest.mark.parametrize(
    ("arguments", "written"), [("", "{}"), ('{"city": "Ro', '{"city": "Ro'), ({"city": "Røros"}, '{"city": "Røros"}')]
)
def test_odd_arguments_are_written_as_they_came(arguments: Any, written: str) -> None:
    call = {"function": {"name": "weather", "arguments": arguments}}
    messages = [ASK, {"role": "assistant", "tool_calls": [call]}]
    assert f'{{"name": "weather", "arguments": {written}}}\n' in prompt(CHATML, messages)


def test_users_who_speak_twice_are_left_alone() -> None:
    assert prompt(CHATML, [ASK, ASK]) == "<user>Where?</user><user>Where?</user><assistant>"
