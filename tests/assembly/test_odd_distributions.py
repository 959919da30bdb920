"""What is installed may be damaged, or be there twice: it is listed with its name, and no other is harmed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sgframe.assembly.choosing import choose
from sgframe.assembly.plugins import BUILTIN, Broken, Plugins, load_plugins
from sgframe.assembly.providers import Seam
from sgframe.assembly.settings import Settings
from sgframe.errors import PluginError

HOOKS = """
from sgframe import Provider, hookimpl
@hookimpl
def sgframe_policies():
    return [Provider("fair", "sgframe_basic.policy:FirstComeFirstServed")]
"""
METADATA = "Metadata-Version: 2.1\nName: sgframe-odd\nVersion: 1.0\n"
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """``install("sgframe-odd", "[sgframe]\\nodd = ...")``: a distribution in a folder on the path."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(name: str, entry_points: str | bytes, metadata: str | None = None, code: str = HOOKS) -> None:
        module = name.replace("-", "_")
        monkeypatch.delitem(sys.modules, module, raising=False)
        (tmp_path / f"{module}.py").write_text(code)
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        if metadata != "":
            (info / "METADATA").write_text(metadata or METADATA.replace("sgframe-odd", name))
        data = entry_points if isinstance(entry_points, bytes) else entry_points.encode()
        (info / "entry_points.txt").write_bytes(data)

    return install


def broken() -> Broken:
    """The only plugin that is broken; all that is built in must be there."""
    found = load_plugins()
    assert set(BUILTIN) <= {plugin.name for plugin in found.loaded}
    (broken,) = found.broken
    return broken


@pytest.mark.parametrize(
    ("entry_points", "metadata", "said"),
    [
        (
            "[sgframe]\nodd = sgframe_gone",
            METADATA,
            "plugin 'odd' (sgframe-odd 1.0) failed: its entry point names the module sgframe_gone, which is not there; "
            "upgrade or uninstall sgframe-odd, or leave it out by --plugin no:odd",
        ),
        (
            "[sgframe]\nodd = sgframe_gone.hooks:module",
            METADATA,
            "plugin 'odd' (sgframe-odd 1.0) failed: its entry point names the module sgframe_gone.hooks, which is not there",
        ),
        (
            "[sgframe]\nodd = no module!",
            METADATA,
            "plugin 'odd' (sgframe-odd 1.0) failed: its entry point must name a module, found 'no module!'",
        ),
        (
            "[sgframe]\nodd = json:absent",
            METADATA,
            "plugin 'odd' (sgframe-odd 1.0) failed: AttributeError: module 'json' has no attribute 'absent'",
        ),
        (
            "[sgframe]\nodd = sgframe_odd",
            "",
            "plugin 'odd' (sgframe_odd-1.0.dist-info) failed: its metadata lacks name or version; install it anew",
        ),
        (
            "[sgframe]\nodd = sgframe_odd",
            "Metadata-Version: 2.1\nVersion: 1.0\n",
            "plugin 'odd' (sgframe_odd-1.0.dist-info 1.0) failed: its metadata lacks name or version; install it anew",
        ),
        (
            "[sgframe]\nodd = sgframe_odd",
            "Metadata-Version: 2.1\nName: sgframe-odd\n",
            "plugin 'odd' (sgframe-odd) failed: its metadata lacks name or version; install it anew",
        ),
        (
            "[sgframe]\nodd",
            METADATA,
            "plugin 'sgframe_odd-1.0.dist-info' (sgframe_odd-1.0.dist-info) failed: its entry points cannot be read",
        ),
        (
            b"[sgframe]\nodd = \xff\xfe",
            METADATA,
            "plugin 'sgframe_odd-1.0.dist-info' (sgframe_odd-1.0.dist-info) failed: its entry points cannot be read "
            "('utf-8' codec can't decode byte 0xff",
        ),
    ],
)
def test_a_damaged_distribution_is_named(install: Install, entry_points: str, metadata: str, said: str) -> None:
    install("sgframe-odd", entry_points, metadata)
    assert str(broken()).startswith(said)


def test_a_damaged_distribution_hides_no_other(install: Install) -> None:
    install("sgframe-odd", b"\xff")
    install("sgframe-fair", "[sgframe]\nfair = sgframe_fair")
    assert "fair" in [plugin.name for plugin in load_plugins().loaded]


def refused(plugins: Plugins) -> list[str]:
    with pytest.raises(PluginError) as caught:
        choose(plugins, Settings(policy="fair"), seams=[Seam.POLICY])
    return str(caught.value).splitlines()


def test_two_distributions_with_one_entry_point_are_told_apart(install: Install) -> None:
    install("sgframe-fair", "[sgframe]\nfair = sgframe_fair")
    install("sgframe-fork", "[sgframe]\nfair = sgframe_fair")
    assert refused(load_plugins()) == [
        "policy 'fair' is offered more than once:",
        "  policy 'fair' of plugin 'fair' (sgframe-fair 1.0)",
        "  policy 'fair' of plugin 'fair' (sgframe-fork 1.0)",
        "  block all but one: --plugin no:sgframe-fair or --plugin no:sgframe-fork",
    ]
    assert choose(load_plugins(["sgframe-fork"]), Settings(policy="fair"), seams=[Seam.POLICY])


def test_a_distribution_that_takes_a_built_in_name_can_be_left_out(install: Install) -> None:
    install("sgframe-fork", "[sgframe]\nbasic = sgframe_fork", code=HOOKS.replace("fair", "fcfs"))
    with pytest.raises(PluginError, match=r"block all but one: --plugin no:sgframe-fork$"):
        choose(load_plugins(), Settings(policy="fcfs"), seams=[Seam.POLICY])


def test_the_command_lists_whatever_is_installed(install: Install, tmp_path: Path) -> None:
    install("sgframe-exits", "[sgframe]\nexits = sgframe_exits", code="import sys; sys.exit('gone')")
    install("sgframe-prints", "[sgframe]\nprints = sgframe_prints", code="print('[')" + HOOKS)
    install("sgframe-odd", b"[sgframe]\n\xff")
    run = subprocess.run(
        [sys.executable, "-m", "sgframe", "plugins", "--json"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert run.returncode == 0, run.stderr
    states = {row["plugin"]: row["state"] for row in json.loads(run.stdout)}
    assert (states["exits"], states["sgframe_odd-1.0.dist-info"], states["prints"]) == ("broken", "broken", "ok")
    assert "plugin 'prints' (sgframe-prints 1.0) prints '[' while it is listed" in run.stderr
