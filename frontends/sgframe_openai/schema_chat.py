"""The body of /v1/chat/completions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from sgframe.errors import RequestError
from sgframe.sampling import MAX_LOGPROBS, SamplingParams
from sgframe_openai.schema import GenerationBody, within
from sgframe_openai.structured import Demand
from sgframe_openai.tools import ToolChoice, ToolDefinition, ToolUse, tool_use

_RESERVED = frozenset({"messages", "conversation", "tools", "documents", "chat_template", "add_generation_prompt"})
_RESERVED |= {"tokenize", "return_tensors", "return_dict", "continue_final_message"}


class ChatBody(GenerationBody, kw_only=True):
    """Without ``max_completion_tokens`` or ``max_tokens`` (the first wins) an answer may fill the rest of the context.

    ``tools`` are functions that the model may call, as ``tool_choice`` says: ``auto``, ``required``, one by its name, or
    ``allowed_tools``; arguments always match the schemas. With ``none`` they are not shown to the model either.
    ``chat_template_kwargs`` sets plain variables of the model's template.
    """

    messages: list[dict[str, Any]]
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    logprobs: bool = False
    top_logprobs: int = 0
    tools: list[ToolDefinition] = msgspec.field(default_factory=list)
    tool_choice: ToolChoice = "auto"
    parallel_tool_calls: bool = True
    chat_template_kwargs: dict[str, str | bool | int | float] = msgspec.field(default_factory=dict)

    def check(self) -> None:
        super().check()
        if not self.messages:
            raise RequestError("messages is empty; send at least one message", param="messages")
        if self.limit is not None and self.limit < 1:
            raise RequestError(f"{self._limit_name} must be at least 1, found {self.limit}", param=self._limit_name)
        within("top_logprobs", self.top_logprobs, 0, MAX_LOGPROBS)
        if self.top_logprobs and not self.logprobs:
            raise RequestError("top_logprobs needs logprobs: true", param="top_logprobs")
        if taken := sorted(_RESERVED & self.chat_template_kwargs.keys()):
            raise RequestError(f"chat_template_kwargs cannot set {taken[0]!r}", param="chat_template_kwargs")

    @property
    def tool_use(self) -> ToolUse | None:
        """The tools that may be called; None without any. Raises RequestError."""
        return tool_use(self.tools, self.tool_choice, self.parallel_tool_calls)

    def demands(self) -> Iterator[Demand]:
        yield from super().demands()
        if (use := self.tool_use) is not None:
            yield Demand("tools", "tools", msgspec.json.encode(use.constraint).decode())

    @property
    def limit(self) -> int | None:
        """Most tokens of an answer."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def _limit_name(self) -> str:
        return "max_tokens" if self.max_completion_tokens is None else "max_completion_tokens"

    def sampling(self) -> SamplingParams:
        return SamplingParams(
            **self.shared_sampling(),
            max_tokens=self.limit,
            logprobs=self.top_logprobs if self.logprobs else None,
        )

    def client_names(self) -> Mapping[str, str]:
        own = {"max_tokens": self._limit_name, "logprobs": "top_logprobs", "prompt": "messages"}
        return {**super().client_names(), **own}
