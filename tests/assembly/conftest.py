"""Hook modules made on the spot."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from sgframe.assembly.plugins import Plugin

HEADER = """
from pydantic import BaseModel, Field, NonNegativeInt, computed_field, create_model
from sgframe import PluginSettings, Provider, hookimpl
"""
MakePlugin = Callable[..., Plugin]


@pytest.fixture
def make_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakePlugin:
    """``make_plugin("foo", code, distribution="sgframe-foo")``: an importable hook module with that code."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(name: str, code: str, distribution: str = "", version: str = "") -> Plugin:
        module = f"hooks_of_{distribution or name}".replace("-", "_")
        (tmp_path / f"{module}.py").write_text(HEADER + dedent(code))
        monkeypatch.delitem(sys.modules, module, raising=False)
        return Plugin(name, module, distribution, version)

    return make


@pytest.fixture
def policies(make_plugin: MakePlugin) -> MakePlugin:
    """``policies("foo", "a", "b", distribution=...)``: a plugin that offers fcfs's class as policies a and b."""

    def make(plugin: str, *names: str, distribution: str = "", version: str = "1.0", extra: str = "") -> Plugin:
        code = f"""
        @hookimpl
        def sgframe_policies():
            for name in {names!r}:
                yield Provider(name, "sgframe_basic.policy:FirstComeFirstServed", "a policy"{extra})
        """
        return make_plugin(plugin, code, distribution, version if distribution else "")

    return make
