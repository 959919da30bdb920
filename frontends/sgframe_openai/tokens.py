"""/tokenize and /detokenize: the tokenizer alone, without the model. Bodies and answers as vLLM has them."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from sgframe.errors import RequestError
from sgframe_openai.body import read_body
from sgframe_openai.conversation import tokenize_chat
from sgframe_openai.errors import json_response
from sgframe_openai.openapi import documented
from sgframe_openai.service import Service, service_of
from sgframe_openai.text import detokenize
from sgframe_openai.tools import ToolDefinition

router = APIRouter()


class TokenizeBody(msgspec.Struct):
    """Either ``prompt`` or ``messages``, these with the ``tools`` that a chat would send. ``model`` may be left out."""

    model: str | None = None
    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    tools: list[ToolDefinition] = msgspec.field(default_factory=list)
    add_special_tokens: bool = True


class DetokenizeBody(msgspec.Struct):
    """``model`` may be left out."""

    tokens: list[int]
    model: str | None = None


@router.post("/tokenize", openapi_extra=documented(TokenizeBody))
async def tokenize(request: Request) -> Response:
    """Token ids of a prompt, or of a conversation as the model's template renders it."""
    service = service_of(request)
    body = await read_body(request, TokenizeBody)
    _check_model(service, body.model)
    tokens = await asyncio.to_thread(_encode, service, body)
    return json_response(
        {"tokens": tokens, "count": len(tokens), "max_model_len": service.engine.loaded.context_length}
    )


@router.post("/detokenize", openapi_extra=documented(DetokenizeBody))
async def detokenize_tokens(request: Request) -> Response:
    """The text of token ids, special tokens by their names."""
    service = service_of(request)
    body = await read_body(request, DetokenizeBody)
    _check_model(service, body.model)
    tokenizer = service.engine.tokenizer
    for i, token in enumerate(body.tokens):
        if not 0 <= token < tokenizer.vocab_size:
            raise RequestError(
                f"tokens[{i}] is {token}; this model's token ids are 0 to {tokenizer.vocab_size - 1}", param="tokens"
            )
    return json_response({"prompt": await asyncio.to_thread(detokenize, tokenizer, body.tokens)})


def _check_model(service: Service, name: str | None) -> None:
    if name is not None:
        service.check_model(name)


def _encode(service: Service, body: TokenizeBody) -> list[int]:
    tokenizer = service.engine.tokenizer
    if (body.prompt is None) == (body.messages is None):
        raise RequestError("send either prompt or messages", param="prompt")
    if body.messages is not None:
        return tokenize_chat(tokenizer, body.messages, tools=[tool.shown() for tool in body.tools])
    if body.tools:
        raise RequestError("tools belong to messages; a prompt has none", param="tools")
    return tokenizer.encode(body.prompt or "", add_special_tokens=body.add_special_tokens)
