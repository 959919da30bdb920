"""sgframe's wheel, built once, and virtual environments with nothing but it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fresh_venv import FreshVenv, build_wheel, lend_packages
from pages import HOUSE


@pytest.fixture(scope="session")
def fresh_venv(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], FreshVenv]:
    """Makes a new environment, into which sgframe's wheel is installed."""
    shelf = tmp_path_factory.mktemp("shelf")
    wheel = build_wheel(HOUSE, shelf)
    lend_packages(shelf / "packages")

    def make() -> FreshVenv:
        fresh = FreshVenv(tmp_path_factory.mktemp("venv") / "venv", shelf / "packages")
        fresh.shell(f"pip install --no-compile {wheel}", Path.cwd())
        return fresh

    return make


@pytest.fixture
def installed(fresh_venv: Callable[[], FreshVenv]) -> FreshVenv:
    """An environment with sgframe in it, for one test."""
    return fresh_venv()
