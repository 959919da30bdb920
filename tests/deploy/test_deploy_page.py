"""The page on deploying: its commands do what it says, and what they name is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from pages import HOUSE, blocks, commands, table
from servers import SIMULATED, served

from sgframe.assembly.assemble import configure
from sgframe.assembly.providers import Seam
from sgframe_cli import starting
from sgframe_cli.group import main

PAGE = "docs/deployment.md"
DEPLOY = HOUSE / "examples" / "deploy"
COMMANDS = [command.partition("  #")[0].strip() for command in commands(PAGE)]
OURS = [command for command in COMMANDS if command.startswith("sgframe ")]
EXPECTED = {
    "config check": "The settings are right: cache radix, policy lpm",
    "doctor": "Nothing was found that would make a server with these settings fail here",
    "serve --dry-run": "Dry run: all of this could start. Nothing is left running.",
    "plugins --explain": "which command line --policy overrides",
    "config show": "two-parts-swapped.toml:5",
    "config schema": '"title": "sgframe settings"',
}
"""What must stand in the output of each command that ends by itself."""


@pytest.mark.parametrize("command", [command for command in OURS if not command.startswith("sgframe serve --config")])
def test_a_command_does_what_the_page_says(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HOUSE)
    monkeypatch.setenv("SGFRAME_PORT", "0")
    monkeypatch.setattr(starting, "configure_logging", lambda settings, process: None)
    _, *words = shlex.split(command.partition(">")[0])
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    (said,) = (said for start, said in EXPECTED.items() if " ".join(words).startswith(start))
    assert said in result.stdout


@pytest.mark.slow  # other files start servers of every kind
def test_the_server_of_the_page_starts() -> None:
    (command,) = (command for command in OURS if command.startswith("sgframe serve --config"))
    with served("--config", str(HOUSE / shlex.split(command)[-1]), *SIMULATED) as server:
        assert "cache radix" in server.output


def test_every_path_of_a_command_is_there() -> None:
    paths = [word for command in COMMANDS for word in command.split() if word.startswith("examples/")]
    assert len(paths) > 10
    assert [path for path in paths if not (HOUSE / path).exists()] == []


def test_every_folder_that_kubectl_applies_is_a_kustomization() -> None:
    applied = [command.split()[-1] for command in COMMANDS if command.startswith("kubectl apply -k")]
    assert [Path(folder).name for folder in applied] == ["base", "gpu"]
    assert all((HOUSE / folder / "kustomization.yaml").is_file() for folder in applied)


def test_every_image_that_is_run_is_built() -> None:
    built = re.findall(r"^docker build .*--target (\w+) -t (\S+)", "\n".join(COMMANDS), re.MULTILINE)
    assert built == [("cpu", "sgframe:cpu"), ("cuda", "sgframe:cuda")]
    stages = re.findall(r"^FROM \S+ AS (\S+)$", (DEPLOY / "container" / "Dockerfile").read_text(), re.MULTILINE)
    assert {target for target, _ in built} <= set(stages)
    run = {word for command in COMMANDS if command.startswith("docker run") for word in command.split() if ":c" in word}
    assert {image for image in run if image.startswith("sgframe:")} == {image for _, image in built}


def test_the_job_for_prometheus_is_that_of_compose() -> None:
    (block,) = blocks(PAGE, "yaml")
    (job,) = yaml.safe_load(block.text)["scrape_configs"]
    (own,) = yaml.safe_load((DEPLOY / "container" / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    assert job["job_name"] == own["job_name"], "alerts ask for it"
    assert job.keys() == own.keys()


def test_every_config_file_is_listed() -> None:
    listed = [row[0].strip("`") for row in table(PAGE, "| file in `examples/deploy/settings` | for |")]
    assert sorted(listed) == sorted({file.stem for file in (DEPLOY / "settings").iterdir()})


@pytest.mark.parametrize("page", [PAGE, "docs/troubleshooting.md", "examples/deploy/README.md"])
def test_every_link_leads_somewhere(page: str) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", (HOUSE / page).read_text()):
        file = (HOUSE / page).parent / target if target else HOUSE / page
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_time_that_the_page_gives_systemd_is_that_of_the_unit() -> None:
    (seconds,) = re.findall(
        r"^TimeoutStopSec=(\d+)$", (DEPLOY / "systemd" / "sgframe.service").read_text(), re.MULTILINE
    )
    assert f"raised above {int(seconds) - 10}\nseconds" in (HOUSE / PAGE).read_text()


def test_the_swapped_parts_are_two() -> None:
    choices = configure(config_file=DEPLOY / "settings" / "two-parts-swapped.toml").choose()
    assert (choices[Seam.CACHE].name, choices[Seam.POLICY].name) == ("hash-chain", "dfs-weight")
