"""``sgframe config schema``: what an editor learns of a config file."""

from __future__ import annotations

import json
import sys
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner
from pydantic import Field

from sgframe import PluginSettings, Provider, hookimpl
from sgframe.assembly import plugins as assembly
from sgframe.assembly.plugins import BUILTIN, Plugin
from sgframe_cli.group import main


class TimidSettings(PluginSettings):
    """Settings of the policy.

    Attributes:
        fear: how many requests it dares
            to run at once.
    """

    fear: int = 3
    hope: int = Field(1, description="what it waits for")


@hookimpl
def sgframe_policies() -> list[Provider]:
    return [Provider("timid", f"{__name__}:Timid", "runs little", TimidSettings)]


@pytest.fixture
def schema(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    known = [*(Plugin(name, module) for name, module in BUILTIN.items()), Plugin("timid", __name__, "timid", "1")]
    monkeypatch.setattr(assembly, "installed", lambda: known)
    result = CliRunner().invoke(main, ["config", "schema"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_it_is_a_schema(schema: Any) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_every_setting_is_described(schema: Any) -> None:
    assert schema["properties"]["port"] == {
        "default": 30000,
        "description": "Port to listen on; 0: a free one",
        "maximum": 65535,
        "minimum": 0,
        "title": "Port",
        "type": "integer",
    }
    plugin = schema["properties"]["plugin"]["properties"]
    tables = {"": schema} | {f"plugin.{name}.": table for name, table in plugin.items()}
    settings = {prefix + name: about for prefix, table in tables.items() for name, about in table["properties"].items()}
    assert "plugin.radix.eviction" in settings
    assert [name for name, about in settings.items() if not about.get("description")] == []


def test_each_installed_part_has_its_table_with_descriptions_by_field_or_by_docstring(schema: Any) -> None:
    tables = schema["properties"]["plugin"]["properties"]
    assert {"cuda", "ascend", "radix", "timid"} <= tables.keys()
    assert tables["timid"]["description"] == "runs little"
    assert tables["timid"]["properties"]["fear"]["description"] == "how many requests it dares to run at once."
    assert tables["timid"]["properties"]["hope"]["description"] == "what it waits for"
    assert (
        tables
        == schema["properties"]["plugin"]["properties"]
        | schema["$defs"]["ShadowSettings"]["properties"]["plugin"]["properties"]
    )


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"policy": "timd"}, "'timd' is not one of"),
        ({"prot": 1}, "'prot' was unexpected"),
        ({"port": "1"}, "'1' is not of type 'integer'"),
        ({"plugin": {"timid": {"faer": 1}}}, "'faer' was unexpected"),
        ({"shadow": {"plugin": {"radix": {"evictoin": "lru"}}}}, "'evictoin' was unexpected"),
    ],
)
def test_an_editor_sees_the_mistake(schema: Any, document: Any, message: str) -> None:
    with pytest.raises(jsonschema.ValidationError) as found:
        jsonschema.validate(document, schema)
    assert message in found.value.message


@pytest.mark.parametrize(
    "document",
    [
        {"policy": "timid", "plugin": {"timid": {"fear": 2}}},
        {"kv_memory": 2**30, "compile_memory": "1GiB"},
        {"shadow": {"policy": "fcfs", "plugin": {"timid": {"fear": 1}}}},
        {"plugin": {"from-another-machine": {"any": "thing"}}},
    ],
)
def test_an_editor_lets_pass_what_is_right(schema: Any, document: Any) -> None:
    jsonschema.validate(document, schema)
