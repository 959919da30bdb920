"""The application: endpoints, that of programs among them, error envelope and gate around one engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI

import sgframe
from sgframe_openai import admin, chat, completions, debug, errors, tokens
from sgframe_openai.cached_tree import CachedTree
from sgframe_openai.gate import Gate
from sgframe_openai.metrics import Metrics
from sgframe_openai.openapi import describe
from sgframe_openai.schema_chat import ChatBody
from sgframe_openai.schema_completions import CompletionBody
from sgframe_openai.service import Service
from sgframe_programs.endpoint import programs_route
from sgframe_programs.session import Session

if TYPE_CHECKING:
    from sgframe.front.async_engine import AsyncEngine


def create_app(engine: AsyncEngine) -> FastAPI:
    """An ASGI application that answers from ``engine``, which must have started and is not closed here."""
    app = FastAPI(title="sgframe", version=sgframe.__version__, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.service = service = Service(engine, Metrics(engine.stats, engine.compiler_stats, engine.replica_states))
    for module in (chat, completions, tokens, admin, debug):
        app.include_router(module.router)
    app.router.routes.append(
        programs_route(
            lambda namespace: Session(engine, namespace=namespace), service.model_name, engine.loaded.context_length
        )
    )
    errors.install(app)
    describe(app, [ChatBody, CompletionBody, tokens.TokenizeBody, tokens.DetokenizeBody, CachedTree])
    app.add_middleware(Gate, api_key=engine.settings.api_key)
    return app
