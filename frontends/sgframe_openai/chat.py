"""/v1/chat/completions: messages through the model's own template, answered in OpenAI's chat shape."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from sgframe.front.outputs import Delta
from sgframe.interfaces.source import Tokenizer
from sgframe_openai.answer import EventStream, Writer, whole
from sgframe_openai.body import read_body
from sgframe_openai.conversation import tokenize_chat
from sgframe_openai.gate import request_id_of
from sgframe_openai.generation import Batch, Output
from sgframe_openai.logprobs import chat_logprobs
from sgframe_openai.openapi import documented
from sgframe_openai.schema_chat import ChatBody
from sgframe_openai.service import service_of

router = APIRouter()


@router.post("/v1/chat/completions", openapi_extra=documented(ChatBody))
async def chat_completions(request: Request) -> Response:
    """Answer a conversation."""
    service = service_of(request)
    body = await read_body(request, ChatBody)
    service.check_model(body.model)
    body.check()
    tokenizer = service.engine.tokenizer
    tokens = await asyncio.to_thread(tokenize_chat, tokenizer, body.messages, body.chat_template_kwargs)
    batch = await service.submit([tokens], body.sampling(), body, request_id_of(request))
    writer = ChatWriter(service.head("chatcmpl"), tokenizer)
    if body.stream:
        return EventStream(batch, writer, body.options)
    return await whole(request.receive, batch, body.n, writer)


class ChatWriter(Writer):
    """A stream opens each choice with the role and ends it with the finish reason, in chunks without text."""

    kind = "chat.completion"
    chunk_kind = "chat.completion.chunk"

    def __init__(self, head: dict[str, Any], tokenizer: Tokenizer) -> None:
        super().__init__(head)
        self._tokenizer = tokenizer
        self._opened: set[int] = set()

    def chunks(self, batch: Batch, prompt: int, delta: Delta) -> Iterable[dict[str, Any]]:
        if delta.index not in self._opened:
            self._opened.add(delta.index)
            yield _chunk(delta.index, {"role": "assistant", "content": ""})
        if delta.text or delta.logprobs:
            logprobs = None if delta.logprobs is None else chat_logprobs(self._tokenizer, delta.logprobs)
            yield _chunk(delta.index, {"content": delta.text}, logprobs)
        if delta.finish_reason:
            end = {"finish_reason": delta.finish_reason, "matched_stop": delta.stop_match}
            yield {**_chunk(delta.index, {}), **end}

    def choices(self, batch: Batch, outputs: list[list[Output]]) -> list[dict[str, Any]]:
        return [self._choice(index, output) for index, output in enumerate(outputs[0])]

    def _choice(self, index: int, output: Output) -> dict[str, Any]:
        return {
            "index": index,
            "message": {"role": "assistant", "content": output.text, "refusal": None},
            "logprobs": None if output.logprobs is None else chat_logprobs(self._tokenizer, output.logprobs),
            "finish_reason": output.finish_reason,
            "matched_stop": output.stop_match,
        }


def _chunk(index: int, delta: dict[str, Any], logprobs: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": None}
