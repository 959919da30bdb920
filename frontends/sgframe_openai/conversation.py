"""Chat messages as clients send them → messages as a model's template wants them → token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from sgframe.errors import RequestError
from sgframe.interfaces.source import Tokenizer
from sgframe_openai.body import convert
from sgframe_openai.tool_prompt import explains_tools, has_calls, renders_calls, spelled_out, with_section

ROLES = ("system", "developer", "user", "assistant", "tool")


class Part(msgspec.Struct):
    type: str
    text: str | None = None


class Function(msgspec.Struct):
    name: str
    arguments: str | dict[str, Any] = ""


class ToolCall(msgspec.Struct):
    function: Function


class Message(msgspec.Struct):
    """The fields that must be right; others of a message go to the template as they are."""

    role: str
    content: str | list[Part] | None = None
    tool_calls: list[ToolCall] | None = None


def tokenize_chat(
    tokenizer: Tokenizer,
    messages: Sequence[dict[str, Any]],
    options: dict[str, Any] | None = None,
    tools: Sequence[dict[str, Any]] = (),
) -> list[int]:
    """Token ids of a conversation, ready for the assistant's next turn (also after an assistant's message).

    Raises RequestError, with the template's words where it was the template that refused.
    """
    rendered = [_template_message(raw, f"messages[{i}]") for i, raw in enumerate(messages)]
    variables = dict(options or {})
    if tools and explains_tools(tokenizer):
        variables["tools"] = tools
    elif tools:
        rendered = with_section(spelled_out(rendered), tools)
    elif has_calls(rendered) and not renders_calls(tokenizer):
        rendered = spelled_out(rendered)
    text = tokenizer.apply_chat_template(list(map(_with_parsed_arguments, rendered)), **variables)
    return tokenizer.encode(text, add_special_tokens=False)


def _template_message(raw: dict[str, Any], where: str) -> dict[str, Any]:
    message = convert(raw, Message, where)
    if message.role not in ROLES:
        raise RequestError(f"{where}.role is {message.role!r}; known are {', '.join(ROLES)}", param=f"{where}.role")
    if message.content is None and not message.tool_calls:
        raise RequestError(f"{where}.content is missing", param=f"{where}.content")
    present = {name: value for name, value in raw.items() if value is not None}
    present["role"] = "system" if message.role == "developer" else message.role
    present["content"] = _text(message.content, f"{where}.content")
    if not message.tool_calls:
        present.pop("tool_calls", None)
    return present


def _text(content: str | list[Part] | None, where: str) -> str:
    """Parts are joined as they stand: nothing is put between them."""
    if isinstance(content, str):
        return content
    for i, part in enumerate(content or ()):
        if part.type != "text" or part.text is None:
            raise RequestError(
                f"{where}[{i}] is a {part.type!r} part; this server reads parts of type 'text' with a text only",
                param=f"{where}[{i}]",
            )
    return "".join(part.text or "" for part in content or ())


def _with_parsed_arguments(message: dict[str, Any]) -> dict[str, Any]:
    """Templates want the arguments of a call as an object; OpenAI's format has them as JSON text."""
    if "tool_calls" not in message:
        return message
    return {**message, "tool_calls": [_parsed(call) for call in message["tool_calls"]]}


def _parsed(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    try:
        arguments = msgspec.json.decode(function.get("arguments", ""), type=dict[str, Any])
    except (msgspec.DecodeError, TypeError, RecursionError):
        return call
    return {**call, "function": {**function, "arguments": arguments}}
