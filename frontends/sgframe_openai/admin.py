"""The endpoints about the server itself: its models, health, parts and metrics, and its cache."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import msgspec
from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response

import sgframe
from sgframe.front.tokenizer_manager import SHUTTING_DOWN
from sgframe_openai.errors import ApiError, json_response
from sgframe_openai.service import Service, service_of

SILENT_AFTER = 5.0
"""Seconds without a beat after which a process counts as hung."""

router = APIRouter()


@router.get("/v1/models")
async def models(request: Request) -> Response:
    """The one model that is served."""
    return json_response({"object": "list", "data": [_model(service_of(request))]})


@router.get("/v1/models/{name:path}")
async def model(request: Request, name: str) -> Response:
    """The model called ``name``."""
    service = service_of(request)
    service.check_model(name)
    return json_response(_model(service))


def _model(service: Service) -> dict[str, Any]:
    return {
        "id": service.model_name,
        "object": "model",
        "created": service.started,
        "owned_by": "sgframe",
        "root": service.engine.settings.model,
        "max_model_len": service.engine.loaded.context_length,
    }


@router.get("/health")
async def health(request: Request) -> Response:
    """200 while every process lives and beats, and requests are taken; else 503 that says why not. Costs the engine
    nothing."""
    engine = service_of(request).engine
    processes = engine.health()
    reports = {name: asdict(process) for name, process in processes.items()}
    faults = [f"{name} is dead" for name, process in processes.items() if not process.alive]
    faults += [
        f"{name} has been silent for {process.beat_age:.1f} s in phase {process.phase!r}"
        for name, process in processes.items()
        if process.alive and process.beat_age > SILENT_AFTER
    ]
    if engine.dead is not None:
        faults.append(engine.dead)
    if faults:
        return _unhealthy("unhealthy", "; ".join(faults), reports)
    if engine.manager.draining:
        return _unhealthy("draining", SHUTTING_DOWN, reports)
    return json_response({"status": "ok", "processes": reports})


def _unhealthy(status: str, message: str, reports: dict[str, Any]) -> Response:
    error = ApiError(503, message, kind="server_error", code=status)
    return json_response({**error.envelope(), "status": status, "processes": reports}, error.status)


@router.get("/server_info")
async def server_info(request: Request) -> Response:
    """What runs here: the model, the part chosen for each seam, and the memory ledger."""
    service = service_of(request)
    engine, loaded = service.engine, service.engine.loaded
    return json_response(
        {
            "version": sgframe.__version__,
            "model_path": engine.checkpoint.folder or engine.settings.model,
            "served_model_name": service.model_name,
            "parts": {seam.value: choice.name for seam, choice in engine.choices.items()},
            "dtype": loaded.dtype,
            "vocab_size": loaded.vocab_size,
            "context_length": loaded.context_length,
            "slots": loaded.slots,
            "page_size": loaded.page_size,
            "ledger": [msgspec.structs.asdict(line) for line in loaded.ledger],
            "stats": msgspec.to_builtins(engine.stats()),
        }
    )


@router.get("/flush_cache", include_in_schema=False)
@router.post("/flush_cache")
async def flush_cache(request: Request) -> Response:
    """Forget every cached prefix that no running request holds."""
    return json_response({"flushed_tokens": await service_of(request).engine.flush_cache()})


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Prometheus' text format."""
    return Response(service_of(request).metrics.exposition(), headers={"content-type": CONTENT_TYPE_LATEST})


@router.api_route("/v1/responses", methods=["GET", "POST"], include_in_schema=False)
async def responses(request: Request) -> Response:
    """Says where to go instead."""
    raise ApiError(404, "/v1/responses is not offered by this server; use /v1/chat/completions", code="not_found")
