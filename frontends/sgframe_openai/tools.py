"""The tools of a chat request: what the client sends, and the constraint that makes the model call them rightly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from sgframe.constraints import Tool, ToolConstraint
from sgframe.errors import RequestError
from sgframe_openai.tool_calls import BEGIN, END, SEPARATOR

MAX_NAME = 64
MAX_TOOLS = 512

_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_NAME}}}")
_NO_ARGUMENTS: dict[str, object] = {"type": "object", "properties": {}, "additionalProperties": False}


class FunctionDefinition(msgspec.Struct, omit_defaults=True):
    """``parameters`` is the JSON Schema of the arguments; without it there are none. A call always matches it, ``strict`` or
    not."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ToolDefinition(msgspec.Struct):
    """A function that the model may call."""

    type: Literal["function"]
    function: FunctionDefinition

    def shown(self) -> dict[str, Any]:
        """As chat templates expect it."""
        function = msgspec.to_builtins(self.function)
        function.pop("strict", None)
        return {"type": self.type, "function": function}


class FunctionName(msgspec.Struct):
    name: str


class NamedTool(msgspec.Struct, tag_field="type", tag="function"):
    """This function must be called."""

    function: FunctionName


class AllowedSubset(msgspec.Struct):
    mode: Literal["auto", "required"]
    tools: list[NamedTool]


class AllowedTools(msgspec.Struct, tag_field="type", tag="allowed_tools"):
    """Only these of the tools may be called."""

    allowed_tools: AllowedSubset


ToolChoice = Literal["none", "auto", "required"] | NamedTool | AllowedTools


@dataclass(frozen=True, slots=True)
class ToolUse:
    """``shown`` is what the model is told of all tools, ``constraint`` what it may call."""

    shown: list[dict[str, Any]]
    constraint: ToolConstraint


def tool_use(tools: list[ToolDefinition], choice: ToolChoice, parallel: bool) -> ToolUse | None:
    """What ``tools`` and ``choice`` ask for; None when nothing can be called. Raises RequestError."""
    _check_names([tool.function.name for tool in tools])
    match choice:
        case NamedTool(function=FunctionName(name=name)):
            called, required, parallel = _chosen(tools, [name]), True, False
        case AllowedTools(allowed_tools=AllowedSubset(mode=mode, tools=allowed)):
            called, required = _chosen(tools, [one.function.name for one in allowed]), mode == "required"
        case _:
            called, required = tools, choice == "required"
    if required and not called:
        raise RequestError("tool_choice wants a call, but there are no tools that may be called", param="tool_choice")
    if not called or choice == "none":
        return None
    callable_tools = [Tool(tool.function.name, _parameters(tool)) for tool in called]
    constraint = ToolConstraint(callable_tools, required, parallel, begin=BEGIN, end=END, separator=SEPARATOR)
    return ToolUse([tool.shown() for tool in tools], constraint)


def _parameters(tool: ToolDefinition) -> dict[str, object]:
    parameters = tool.function.parameters
    return _NO_ARGUMENTS if parameters is None else parameters


def _check_names(names: list[str]) -> None:
    if len(names) > MAX_TOOLS:
        raise RequestError(f"tools has {len(names)} entries, at most {MAX_TOOLS} are allowed", param="tools")
    for i, name in enumerate(names):
        where = f"tools[{i}].function.name"
        if not _NAME.fullmatch(name):
            raise RequestError(
                f"{where} is {name!r}; it must have 1 to {MAX_NAME} letters, digits, '_', '-' and '.'", param=where
            )
        if name in names[:i]:
            raise RequestError(f"{where}: there are two tools called {name!r}", param=where)


def _chosen(tools: list[ToolDefinition], names: list[str]) -> list[ToolDefinition]:
    """The tools called ``names``, in the order of ``tools``."""
    known = [tool.function.name for tool in tools]
    for name in names:
        if name not in known:
            raise RequestError(
                f"tool_choice names {name!r}, which is not in tools; they are {', '.join(known) or 'none'}",
                param="tool_choice",
            )
    return [tool for tool in tools if tool.function.name in names]
