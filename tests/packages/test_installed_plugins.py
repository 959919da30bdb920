"""Plugins from outside as their authors ship them: wheels, in an environment where sgframe is one, too.

What is run of each are the steps of its own CI file.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml
from fresh_venv import FreshVenv
from pages import HOUSE, blocks, table

from sgframe_cli.new_plugin.package import SEAMS

EXAMPLES = HOUSE / "examples" / "plugins"
SIMULATED = "--source simulated --model simulated"
GENERATES = {
    "policy": (f"--backend simulated {SIMULATED} abc", "abca"),
    "cache": (f"--backend simulated {SIMULATED} abc", "abca"),
    "grammar": (f"--backend simulated {SIMULATED} --choice maybe --choice never a", "maybe"),
    "transport": (f"--backend simulated {SIMULATED} abc", "abca"),
    "backend": (f"{SIMULATED} abc", "abca"),
}
"""By seam: what follows ``sgframe generate --max-tokens 6``, and what it prints. The model repeats its start token, too."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def ci_steps(project: Path) -> list[str]:
    workflow = yaml.safe_load((project / ".github" / "workflows" / "test.yml").read_text())
    return [step["run"] for step in workflow["jobs"]["test"]["steps"] if "run" in step]


def check(venv: FreshVenv, project: Path, name: str, seam: str) -> None:
    """Its CI passes; what passes is what was installed; it is listed and chosen."""
    printed = [venv.shell(step, project) for step in ci_steps(project)]
    assert re.search(r"\d+ passed", printed[1])
    assert f"{seam} {name}" in printed[2]
    (module,) = project.glob("sgframe_*/__init__.py")
    assert (venv.site / module.parent.name / "py.typed").is_file()
    shutil.rmtree(module.parent)  # nothing stands in for what is installed
    listed = venv.shell(f"sgframe plugins --plugin {name}", project)
    assert re.search(rf"^\* +{seam} +{name} +{name} +sgframe-{name} 0\.1\.0 +ok", listed, re.MULTILINE), listed


@pytest.mark.parametrize("seam", SEAMS)
def test_what_new_plugin_writes_installs_passes_its_tests_and_serves(
    installed: FreshVenv, tmp_path: Path, seam: str
) -> None:
    name = f"first-{seam}"
    assert f"cd sgframe-{name}" in installed.shell(f"sgframe new-plugin {name} --seam {seam}", tmp_path)
    check(installed, tmp_path / f"sgframe-{name}", name, seam)
    words, text = GENERATES[seam]
    assert (
        installed.shell(f"sgframe generate --max-tokens 6 --plugin {name} {words}", tmp_path).splitlines()[-1] == text
    )


@pytest.mark.parametrize(
    ("name", "seam"), [("shortest-first", "policy"), ("gdsf", "cache"), ("numpy", "backend")], ids=lambda word: word
)
def test_an_example_installs_passes_its_tests_and_is_chosen(
    installed: FreshVenv, tmp_path: Path, name: str, seam: str
) -> None:
    project = tmp_path / f"sgframe-{name}"
    shutil.copytree(
        EXAMPLES / project.name, project, ignore=shutil.ignore_patterns("__pycache__", ".*_cache", ".hypothesis")
    )
    check(installed, project, name, seam)


def test_the_figures_of_the_eviction_strategy_are_those_of_the_command_beside_them(installed: FreshVenv) -> None:
    page = f"{(EXAMPLES / 'sgframe-gdsf').relative_to(HOUSE)}/README.md"
    installed.shell(f"pip install {EXAMPLES / 'sgframe-gdsf'}", HOUSE)
    _, simulate = (block.text for block in blocks(page, "sh"))
    printed = installed.shell(simulate, HOUSE)
    found = [line.split()[2:6] for line in printed.splitlines() if line.startswith("lpm ")]
    (lru, lfu, gdsf) = (found[start : start + 3] for start in (0, 3, 6))
    rows = [
        [f"{int(one[1]):,}", *(each[2] for each in (one, two, three)), one[3]]
        for one, two, three in zip(lru, lfu, gdsf, strict=True)
    ]
    assert table(page, "| slots | `lru` | `lfu` | GDSF | Belady |") == rows


def test_every_example_is_among_these() -> None:
    assert sorted(folder.name for folder in EXAMPLES.iterdir()) == [
        "sgframe-gdsf",
        "sgframe-numpy",
        "sgframe-shortest-first",
    ]
