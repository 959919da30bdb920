"""The bodies that endpoints parse or write themselves, described in /openapi.json."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

_PLACE = "#/components/schemas/{name}"


def documented(schema: type[msgspec.Struct]) -> dict[str, Any]:
    """A route's ``openapi_extra`` that says its body is a ``schema``."""
    return {"requestBody": {"required": True, "content": _json(schema)}}


def answered(schema: type[msgspec.Struct]) -> dict[str, Any]:
    """A route's ``openapi_extra`` that says its answer is a ``schema``."""
    return {"responses": {"200": {"description": "OK", "content": _json(schema)}}}


def _json(schema: type[msgspec.Struct]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _PLACE.format(name=schema.__name__)}}}


def describe(app: FastAPI, schemas: Sequence[type[msgspec.Struct]]) -> None:
    """Make ``app``'s OpenAPI document, written when first asked for, define ``schemas``."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            _, components = msgspec.json.schema_components(schemas, ref_template=_PLACE)
            app.openapi_schema = get_openapi(title=app.title, version=app.version, routes=app.routes)
            app.openapi_schema.setdefault("components", {}).setdefault("schemas", {}).update(components)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]
