"""/v1/chat/completions: messages through the model's own template, answered in OpenAI's chat shape."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from sgframe_openai.answer import EventStream, whole
from sgframe_openai.body import read_body
from sgframe_openai.chat_writer import ChatWriter
from sgframe_openai.conversation import tokenize_chat
from sgframe_openai.gate import request_id_of
from sgframe_openai.generation import attended
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
    params, use = body.sampling(), body.tool_use
    tokenizer = service.engine.tokenizer
    tools = use.shown if use else ()
    tokens = await asyncio.to_thread(tokenize_chat, tokenizer, body.messages, body.chat_template_kwargs, tools)
    batch = await attended(request.receive, service.submit([tokens], params, body, request_id_of(request)))
    writer = ChatWriter(service.head("chatcmpl"), tokenizer, with_tools=use is not None)
    if body.stream:
        return EventStream(batch, writer, body.options)
    return await whole(request.receive, batch, body.n, writer)
