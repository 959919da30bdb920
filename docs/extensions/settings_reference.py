"""The directive ``settings``: every setting of sgframe and of its built-in parts, from the models that check them.

What stands on the page is the JSON schema of a config file, in words. Knows no setting by name, but where the parts' are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from sgframe.assembly.plugins import BUILTIN, Plugin, Plugins, load_plugins
from sgframe_cli.schema import config_schema

Schema = Mapping[str, Any]
KINDS = {
    "array": "list",
    "boolean": "true or false",
    "integer": "whole number",
    "null": "unset",
    "number": "number",
    "object": "table",
    "string": "text",
}
BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
}


def built_in() -> Plugins:
    """The parts that come with sgframe, whatever else is installed where the site is made."""
    return load_plugins(plugins=[Plugin(name, module) for name, module in BUILTIN.items()])


def reference(plugins: Plugins) -> Iterator[str]:
    """Markdown, line by line: a ``confval`` for each setting, under a heading for each part that has any."""
    schema = config_schema(plugins)
    settings, inner = schema["properties"], schema["$defs"]
    yield "## Of the server\n"
    for key, setting in settings.items():
        yield from _entry(key, setting)
        for table in _tables_in(setting):
            yield from _entries(f"{key}.", inner[table]["properties"])
    yield "## Of the parts\n\nA part that does not stand here has nothing to set.\n"
    for name, table in settings["plugin"]["properties"].items():
        if table["properties"]:
            seams = " and ".join(offer.seam.value for offer in plugins.offers() if offer.name == name)
            yield f"### `[plugin.{name}]`\n\nThe {seams} `{name}`: {table['description']}.\n"
            yield from _entries(f"plugin.{name}.", table["properties"])


def _entries(prefix: str, settings: Mapping[str, Schema]) -> Iterator[str]:
    for key, setting in settings.items():
        yield from _entry(prefix + key, setting)


def _entry(key: str, setting: Schema) -> Iterator[str]:
    yield f"```{{confval}} {key}"
    yield f":type: {kind(setting)}"
    if setting.get("default") is not None:
        yield f":default: `{json.dumps(setting['default'], ensure_ascii=False)}`"
    if "description" in setting:
        yield f"\n{setting['description']}."
    yield "```\n"


def kind(setting: Schema) -> str:
    """Which values it takes, in words."""
    if "anyOf" in setting:
        return " or ".join(map(kind, setting["anyOf"]))
    if "$ref" in setting:
        return KINDS["object"]
    if "enum" in setting:
        return "one of " + ", ".join(f"`{value}`" for value in setting["enum"])
    named = setting["type"] if isinstance(setting["type"], list) else [setting["type"]]
    bounds = [f"{words} {setting[bound]}" for bound, words in BOUNDS.items() if bound in setting]
    return ", ".join([" or ".join(KINDS[name] for name in named), *bounds])


def _tables_in(setting: Schema) -> Iterator[str]:
    for choice in setting.get("anyOf", [setting]):
        if "$ref" in choice:
            yield choice["$ref"].removeprefix("#/$defs/")


class SettingsReference(SphinxDirective):
    """``{settings}``, without argument or content."""

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n".join(reference(built_in())), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("settings", SettingsReference)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
