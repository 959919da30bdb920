"""What docs/observing.md tells the reader to run is run, on a server whose model is simulated."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
from page_session import fences
from pages import blocks, commands, environment, run
from servers import SIMULATED, served

from sgframe.assembly.assemble import configure

PAGE = "docs/observing.md"
COMMANDS = [command.partition("  #")[0].strip() for command in commands(PAGE)]
SERVE, TREE, *REPLAYS = sorted(COMMANDS, key=lambda command: ("serve" not in command, "tree" not in command))


def keys(shown: object, prefix: str = "") -> set[str]:
    """Of an object and those in it, dotted."""
    if not isinstance(shown, dict):
        return set()
    return {f"{prefix}{key}" for key in shown}.union(*(keys(value, f"{prefix}{key}.") for key, value in shown.items()))


def typed(command: str, folder: Path) -> str:
    """What the command prints."""
    return run(sys.executable, "-m", *shlex.split(command), folder=folder, environ=environment())


def test_the_page_has_the_commands_that_are_run_here() -> None:
    assert [command.split()[1] for command in (SERVE, TREE, *REPLAYS)] == ["serve", "tree", "replay", "replay"]


def test_the_shadow_can_be_said_in_a_file_as_on_the_command_line(tmp_path: Path) -> None:
    (block,) = blocks(PAGE, "toml")
    (tmp_path / "deploy.toml").write_text(block.text)
    shadow = configure(config_file=tmp_path / "deploy.toml").choose().shadow
    assert shadow
    assert (shadow.policy.name, shadow.cache.settings) == ("fcfs", {"eviction": "slru"})
    assert SERVE == "sgframe serve --shadow policy=fcfs --shadow radix.eviction=slru"


@pytest.mark.slow
def test_the_commands_show_what_the_page_says(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    options = (*SIMULATED, *shlex.split(SERVE)[2:], "--debug-tree", "text", "--journal", str(journal))
    with served(*options) as server, server.client() as client:
        body = {"model": "simulated", "prompt": "abcd" * 50, "max_tokens": 4}
        _, usage = (client.post("/v1/completions", json=body).json()["usage"] for _ in range(2))
        drawn = typed(TREE.replace("http://127.0.0.1:30000", server.url), tmp_path)
    shown = json.loads(blocks(PAGE, "json")[0].text)
    assert keys(usage) <= keys(shown)
    header = next(block.first_line for block in fences(PAGE) if block.text.startswith("TOKENS"))
    assert header.split() in [line.split() for line in drawn.splitlines()]
    whole, until = (replay.replace("FILE", str(journal)) for replay in REPLAYS)
    assert "every one as recorded" in typed(whole, tmp_path)
    assert "1 running, 0 waiting" in typed(until.replace("1200", "2"), tmp_path)
