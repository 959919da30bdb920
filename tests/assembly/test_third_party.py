"""A part from outside: installed as a package, found by its entry point, chosen by name; no line of sgframe changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugins" / "sgframe-shortest-first"


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with ``folder`` on its path, before everything that this process has on its own."""
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the example package."""
    folder = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, "--target", folder, EXAMPLE], check=True)
    return folder


def test_the_example_is_listed_and_marked_when_chosen(installed: Path) -> None:
    run = python(installed, "-m", "sgframe", "plugins", "--json", "--plugin", "shortest-first")
    (row,) = (row for row in json.loads(run.stdout) if row["plugin"] == "shortest-first")
    assert row == {
        "seam": "policy",
        "name": "shortest-first",
        "summary": "least work left first; who is overtaken counts for less, at max_overtaken tokens for nothing",
        "chosen": True,
        "plugin": "shortest-first",
        "source": "sgframe-shortest-first 0.1.0",
        "state": "ok",
        "reason": "",
    }


@pytest.mark.parametrize(
    ("value", "code", "message"),
    [
        ("8", 0, "policy shortest-first"),
        ("many", 2, "plugin.shortest-first.max_overtaken: should be a valid integer, found 'many' (command line --set"),
    ],
)
def test_the_examples_settings_are_its_own(installed: Path, value: str, code: int, message: str) -> None:
    words = ["--plugin", "shortest-first", "--set", f"shortest-first.max_overtaken={value}"]
    run = python(
        installed, "-m", "sgframe", "config", "check", *words, "--backend", "simulated", "--source", "simulated"
    )
    assert run.returncode == code
    assert message in run.stdout + run.stderr


def test_the_examples_own_tests_pass(installed: Path) -> None:
    options = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", "--rootdir", str(EXAMPLE)]
    run = python(installed, "-m", "pytest", *options, "-c", os.devnull, str(EXAMPLE / "tests"))
    assert run.returncode == 0, run.stdout


def distribution(folder: Path, name: str, version: str, plugin: str) -> None:
    module = name.replace("-", "_")
    (folder / f"{module}.py").write_text(
        "from sgframe import Provider, hookimpl\n"
        "@hookimpl\ndef sgframe_policies():\n"
        "    return [Provider('fair', 'sgframe_basic.policy:FirstComeFirstServed')]\n"
    )
    info = folder / f"{module}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[sgframe]\n{plugin} = {module}\n")


def test_two_distributions_that_claim_one_name_are_refused_with_both_named(tmp_path: Path) -> None:
    distribution(tmp_path, "sgframe-alpha", "0.3.0", "alpha")
    distribution(tmp_path, "sgframe-beta", "1.2.0", "beta")
    run = python(tmp_path, "-m", "sgframe", "config", "check", "--plugin", "fair")
    assert run.returncode == 2
    assert run.stderr.splitlines() == [
        "Error: policy 'fair' is offered more than once:",
        "  policy 'fair' of plugin 'alpha' (sgframe-alpha 0.3.0)",
        "  policy 'fair' of plugin 'beta' (sgframe-beta 1.2.0)",
        "  block all but one: --plugin no:alpha or --plugin no:beta",
    ]
    mended = python(tmp_path, "-m", "sgframe", "config", "check", "--plugin", "fair", "--plugin", "no:beta")
    assert (mended.returncode, "policy fair" in mended.stdout) == (0, True)
