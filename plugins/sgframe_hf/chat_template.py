"""Renders conversations by a model's own chat template: Jinja, in a sandbox, with what templates written for
transformers expect (https://huggingface.co/docs/transformers/chat_templating). Knows nothing of tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from sgframe.errors import ModelError, RequestError


class _GenerationTag(Extension):
    """``{% generation %}…{% endgeneration %}`` marks assistant text for training; its body is rendered as it is."""

    tags = {"generation"}  # noqa: RUF012 (the base class declares it so)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(format: str) -> str:
    return datetime.now().strftime(format)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Unlike Jinja's own, leaves HTML characters alone: a prompt is no web page."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


class ChatTemplate:
    """A model's templates by name, compiled. ``special_tokens`` are variables such as ``bos_token``.

    Raises ModelError for a template that is not valid Jinja.
    """

    def __init__(self, sources: Mapping[str, str], special_tokens: Mapping[str, str]) -> None:
        environment = _environment()
        self._special_tokens = dict(special_tokens)
        self._templates: dict[str, jinja2.Template] = {}
        for name, source in sources.items():
            try:
                self._templates[name] = environment.from_string(source)
            except jinja2.TemplateSyntaxError as error:
                raise ModelError(f"the chat template {name!r}, line {error.lineno}, is not valid: {error}") from error

    def __bool__(self) -> bool:
        return bool(self._templates)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        options: Mapping[str, Any],
    ) -> str:
        """See Tokenizer.apply_chat_template. ``options`` are further variables for the template."""
        template = self._choose(tools)
        if not messages:
            raise RequestError("messages is empty; send at least one message", param="messages")
        variables: dict[str, Any] = {
            "add_generation_prompt": True,
            "documents": None,
            **self._special_tokens,
            **options,
        }
        variables.update(messages=[_plain(message) for message in messages], tools=list(tools) if tools else None)
        try:
            return template.render(variables)
        except jinja2.TemplateError as error:
            raise RequestError(str(error.message), param="messages") from error
        except Exception as error:  # a template is a program: it can fail on these messages in any way
            reason = "they are nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise RequestError(
                f"the model's chat template cannot render these messages: {reason}", param="messages"
            ) from error

    def _choose(self, tools: Sequence[Mapping[str, Any]] | None) -> jinja2.Template:
        if not self._templates:
            raise RequestError(
                "the model has no chat template, so it is a base model and cannot chat; use /v1/completions",
                param="messages",
            )
        names = ("tool_use", "default") if tools else ("default",)
        for name in names:
            if name in self._templates:
                return self._templates[name]
        raise RequestError(
            f"the model has chat templates only for {', '.join(sorted(self._templates))}, none for plain chat",
            param="messages",
        )


def _plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """Templates handle a missing key but print ``None``; only ``content`` they all expect."""
    return {"content": "", **{key: value for key, value in message.items() if value is not None}}


def template_sources(folder: Path, tokenizer_config: Mapping[str, Any]) -> dict[str, str]:
    """The templates of a model folder by name: files win over what tokenizer_config.json holds."""
    found: dict[str, str] = {}
    if (single := folder / "chat_template.jinja").is_file():
        found["default"] = single.read_text("utf-8")
    for path in sorted((folder / "additional_chat_templates").glob("*.jinja")):
        found[path.stem] = path.read_text("utf-8")
    declared = tokenizer_config.get("chat_template")
    if found or declared is None:
        return found
    if isinstance(declared, str):
        return {"default": declared}
    return {entry["name"]: entry["template"] for entry in declared}
