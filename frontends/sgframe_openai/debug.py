"""What a server tells of its inside to those who were allowed to ask: the prefix cache."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from sgframe.assembly.providers import Seam
from sgframe_openai.cached_tree import PREVIEW, CachedTree, cached_tree
from sgframe_openai.errors import ApiError, json_response
from sgframe_openai.openapi import answered
from sgframe_openai.service import service_of
from sgframe_openai.text import detokenize

MAX_NODES = 10_000

router = APIRouter()


class TreeQuery(BaseModel, extra="forbid"):
    """What /debug/tree can be asked."""

    limit: int = Field(1000, ge=1, le=MAX_NODES, description="Most nodes of the answer; the hottest are told.")


@router.get(
    "/debug/tree",
    openapi_extra=answered(CachedTree),
    responses={"4XX": {"description": "An error in OpenAI's envelope."}},  # keeps fastapi from announcing its own 422
)
async def debug_tree(request: Request, query: Annotated[TreeQuery, Query()]) -> Response:
    """The prefixes that the cache holds, those that saved most computation first. Needs the setting ``debug_tree``."""
    engine = service_of(request).engine
    shown = engine.settings.debug_tree
    if shown == "off":
        raise ApiError(
            404,
            "this server does not show its prefix cache; start it with --debug-tree lengths, or --debug-tree text to see "
            "the beginnings of cached texts, too",
            code="debug_tree_off",
        )
    name = engine.choices[Seam.CACHE].name
    text = partial(detokenize, engine.tokenizer) if shown == "text" else None
    description = await engine.describe_cache(query.limit, PREVIEW if text else 0)
    return await asyncio.to_thread(lambda: json_response(cached_tree(name, description, text)))
