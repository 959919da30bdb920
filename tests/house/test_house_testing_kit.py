"""``sgframe.testing`` is there for who imports it, and for nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import sgframe.testing
from sgframe.testing import EchoBackend, InprocTransport, NoCache, StepClock

PYPROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
CONTRACTS = [name for name in sgframe.testing.__all__ if name.endswith("Contract")]


def printed(code: str, *, without: tuple[str, ...] = ()) -> str:
    """What ``code`` prints in a Python that does not find the modules ``without``."""
    hide = f"import sys; sys.modules.update(dict.fromkeys({without!r}))\n"
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run([sys.executable, "-c", hide + code], env=environ, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_every_name_can_be_imported() -> None:
    assert all(getattr(sgframe.testing, name) is not None for name in sgframe.testing.__all__)
    with pytest.raises(AttributeError, match=r"module 'sgframe\.testing' has no attribute 'grammar_runner'"):
        _ = sgframe.testing.grammar_runner


def test_nothing_is_registered_with_pytest() -> None:
    assert "pytest11" not in PYPROJECT["project"].get("entry-points", {})
    assert [point for point in entry_points(group="pytest11") if point.value.startswith("sgframe")] == []


def test_importing_the_kit_imports_no_test_tool_and_no_part() -> None:
    code = "import sys, sgframe.testing; print([each for each in sys.modules if each.split('.')[0] in %r])"
    parts = ("pytest", "hypothesis", "sgframe_basic", "sgframe_simulated", "torch", "numpy", "pluggy")
    assert printed(code % (parts,)) == "[]"


def test_what_is_no_contract_needs_no_test_tool() -> None:
    names = [name for name in sgframe.testing.__all__ if name not in CONTRACTS]
    code = f"from sgframe.testing import {', '.join(names)}; print('imported')"
    assert printed(code, without=("pytest", "hypothesis")) == "imported"


@pytest.mark.parametrize(
    ("name", "missing"),
    [(name, "pytest") for name in CONTRACTS if name not in ("LauncherContract", "PolicyContract")]
    + [("PolicyContract", "hypothesis"), ("CacheContract", "hypothesis")],
)
def test_a_contract_without_its_tools_says_what_to_install(name: str, missing: str) -> None:
    code = f"try:\n    from sgframe.testing import {name}\nexcept ImportError as error:\n    print(error)"
    assert printed(code, without=(missing,)) == (
        f"sgframe.testing.{name} is a set of pytest tests, and {missing} is not installed; pip install hypothesis pytest"
    )


def test_the_doubles_are_built_in_parts() -> None:
    from sgframe_basic import cache, inproc

    assert (NoCache, InprocTransport) == (cache.NoCache, inproc.InprocTransport)
    assert EchoBackend(page_size=16).probe().page_size == 16


def test_the_clock_stands_still_until_it_is_moved() -> None:
    clock = StepClock()
    assert (clock(), clock()) == (0.0, 0.0)
    clock.now += 1.5
    assert clock() == 1.5
