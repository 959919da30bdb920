"""The JSON schema of a config file: every setting, and a table for each part that the installed plugins offer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from sgframe.assembly.choosing import SHADOWED
from sgframe.assembly.plugins import Offer, Plugins
from sgframe.assembly.providers import Seam
from sgframe.assembly.settings import Settings

DIALECT = "https://json-schema.org/draft/2020-12/schema"
SIZES = ("kv_memory", "journal_limit", "compile_memory")
"""Settings that take a number of bytes, too, which their type does not tell."""
_ATTRIBUTE = re.compile(r"^    (\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)


def config_schema(plugins: Plugins) -> dict[str, Any]:
    """The schema, in JSON's own types. A seam's setting must name a part that is on offer for it."""
    models: dict[type[BaseModel], None] = dict.fromkeys(
        [Settings, *(offer.provider.settings for offer in plugins.offers())]
    )
    references, document = models_json_schema([(model, "validation") for model in models])
    definitions = document["$defs"]
    found = {model: definitions[references[model, "validation"]["$ref"].removeprefix("#/$defs/")] for model in models}
    settings, shadow = found[Settings]["properties"], definitions["ShadowSettings"]["properties"]
    settings["plugin"]["properties"] = _tables(plugins.offers(), found)
    shadow["plugin"]["properties"] = _tables((offer for seam in SHADOWED for offer in plugins.offers(seam)), found)
    for seam in Seam:
        settings[seam.value]["enum"] = sorted({offer.name for offer in plugins.offers(seam)})
    for key in SIZES:
        settings[key]["type"] = ["string", "integer"]
    needed = {"ShadowSettings": definitions["ShadowSettings"]} | _inner(definitions, found)
    return {"$schema": DIALECT, **found[Settings], "title": "sgframe settings", "$defs": needed}


def _tables(offers: Iterable[Offer], found: Mapping[type[BaseModel], dict[str, Any]]) -> dict[str, Any]:
    """Part → the schema of its table. Parts of one name in several seams share a table."""
    tables: dict[str, Any] = {}
    for offer in offers:
        own = found[offer.provider.settings]
        empty = {
            "type": "object",
            "description": offer.provider.summary,
            "properties": {},
            "additionalProperties": False,
        }
        tables.setdefault(offer.name, empty)["properties"] |= _described(own)
    return tables


def _described(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table's settings, each with the description of its field or the one that the model's docstring has of it."""
    told = {name: " ".join(text.split()) for name, text in _ATTRIBUTE.findall(table.get("description", ""))}
    properties: dict[str, dict[str, Any]] = table.get("properties", {})
    return {
        name: {**({"description": told[name]} if name in told else {}), **schema} for name, schema in properties.items()
    }


def _inner(definitions: Mapping[str, Any], found: Mapping[type[BaseModel], dict[str, Any]]) -> dict[str, Any]:
    """What the tables refer to: models and enumerations within settings models."""
    tables = [id(schema) for schema in found.values()]
    return {name: schema for name, schema in definitions.items() if id(schema) not in tables}
