"""Tools in prompts. Models whose chat template explains calls as this server reads them get tools and calls through it;
for others both are written out as text, in messages that every template knows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sgframe.errors import RequestError
from sgframe.interfaces.source import Tokenizer
from sgframe_openai.tool_calls import BEGIN, END, written_call

Message = dict[str, Any]

_USER: Message = {"role": "user", "content": "?"}
_TOOL = {
    "type": "function",
    "function": {"name": "look_up", "description": "", "parameters": {"type": "object", "properties": {}}},
}
_CALL = {"name": "look_up", "arguments": {"key": "asked"}}
_CALLED: list[Message] = [
    _USER,
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "call_0123456789abcdef01234567", "type": "function", "function": _CALL}],
    },
    {"role": "tool", "tool_call_id": "call_0123456789abcdef01234567", "name": "look_up", "content": "answered"},
]

_SECTION = """\
You can call these tools:
{tools}

To call one, write a JSON object with its name and arguments between tags, and nothing after the last call:
{example}
The answer comes between <tool_response> and </tool_response>."""


def explains_tools(tokenizer: Tokenizer) -> bool:
    """Whether the chat template shows tools, and asks for calls in the format of ``tool_calls``."""
    text = _rendered(tokenizer, [_USER], tools=[_TOOL])
    return all(part in text for part in ("look_up", BEGIN.strip(), END.strip(), "arguments"))


def renders_calls(tokenizer: Tokenizer) -> bool:
    """Whether the chat template shows earlier calls and their answers, in whatever format."""
    text = _rendered(tokenizer, _CALLED)
    return all(part in text for part in ("look_up", "asked", "answered"))


def has_calls(messages: Sequence[Message]) -> bool:
    """Whether ``messages`` tell of calls."""
    return any(message["role"] == "tool" or "tool_calls" in message for message in messages)


def with_section(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[Message]:
    """``messages`` with a system message that tells of ``tools``, after what the first one says itself."""
    example = written_call("NAME", "{…}")
    section = _SECTION.format(tools="\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools), example=example)
    if messages and messages[0]["role"] == "system":
        first, *rest = messages
        return [{**first, "content": f"{first['content']}\n\n{section}"}, *rest]
    return [{"role": "system", "content": section}, *messages]


def spelled_out(messages: Sequence[Message]) -> list[Message]:
    """``messages`` with calls as the assistant's text and answers as the user's.

    Answers are one message with each other and with what the user says next to them: templates may insist on turns.
    """
    spelled: list[Message] = []
    mergeable = False
    for message in messages:
        is_answer = message["role"] == "tool"
        role = "user" if is_answer else message["role"]
        content = _answer(message) if is_answer else _with_calls(message)
        if spelled and role == "user" == spelled[-1]["role"] and (is_answer or mergeable):
            spelled[-1] = {**spelled[-1], "content": f"{spelled[-1]['content']}\n{content}"}
        else:
            spelled.append({"role": role, "content": content})
        mergeable = is_answer
    return spelled


def _answer(message: Message) -> str:
    return f"<tool_response>\n{message['content']}\n</tool_response>"


def _with_calls(message: Message) -> str:
    """The model's own words: arguments that came as text stay as they were written."""
    parts = [message["content"]] if message["content"] else []
    for call in message.get("tool_calls", ()):
        arguments = call["function"].get("arguments") or "{}"
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        parts.append(written_call(call["function"]["name"], text))
    return "\n".join(parts)


def _rendered(tokenizer: Tokenizer, messages: Sequence[Message], **options: Any) -> str:
    """By the chat template; nothing where it refuses."""
    try:
        return tokenizer.apply_chat_template(messages, **options)
    except RequestError:
        return ""
