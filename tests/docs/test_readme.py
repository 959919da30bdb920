"""Whatever README.md and the pages of docs tell the reader to run, or to write, is run here as it stands there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pages import FIRST_USE, HOUSE, blocks, commands, distribution, environment, run, write_files
from servers import SIMULATED, Server, served

EXAMPLE = HOUSE / "examples" / "plugins" / "sgframe-shortest-first" / "sgframe_shortest_first"
SGFRAME = (sys.executable, "-m", "sgframe")
THREADS = ("--set", "cpu.threads=1")

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def deployment(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A folder with the config file and the schema that the page shows."""
    page = request.node.callspec.params["page"]
    for block in blocks(page, "toml")[:1]:
        (tmp_path / "deploy.toml").write_text(block.text)
    for block in blocks(page, "json")[:1]:
        (tmp_path / "person.json").write_text(block.text)
    (tmp_path / "docs").mkdir()
    return tmp_path


DRAWING = next(command for command in commands("docs/grammars.md") if command.startswith("sgframe grammar draw "))
EXPECTED = {
    '.venv/bin/sgframe generate "The capital of France is" --max-tokens 8': "Paris",
    ".venv/bin/sgframe models": "smollm2-135m",
    ".venv/bin/sgframe plugins": "radix",
    ".venv/bin/sgframe config show": "max_running",
    ".venv/bin/sgframe config check --config deploy.toml": "The settings are right: cache radix, policy lpm",
    "sgframe plugins": "radix",
    "sgframe config show": "max_running",
    "sgframe config check --config deploy.toml": "The settings are right: cache radix, policy lpm",
    "sgframe config schema": "max_running",
    'sgframe generate "Ada is 36. As JSON: " --json-schema person.json': '{"name": "',
    "sgframe generate \"Ada is 36. Her age: \" --regex '[0-9]{1,3} years'": " years",
    'sgframe generate "Ada is 36. She is " --choice young --choice old': "o",
    DRAWING: "minimised, 18 states; compressed, 3 states",
}
"""What must stand in the output of each command that ends by itself."""
SERVING = {
    "sgframe serve --policy fcfs": "policy fcfs",
    "sgframe serve --plugin fcfs": "policy fcfs",
    "sgframe serve --plugin no:cuda": "policy lpm",
    "sgframe serve --set lpm.max_overtaken=8192": "policy lpm",
    "sgframe serve --policy dfs-weight": "policy dfs-weight",
    "sgframe serve --set lpm.max_overtaken=65536": "policy lpm",
    "sgframe serve --admission peak": "policy lpm",
    "sgframe serve --no-overlap": "policy lpm",
    "sgframe serve --set radix.eviction=lfu": "cache radix",
    "sgframe serve --cache hash-chain --set hash-chain.block=64": "cache hash-chain",
    "sgframe serve --cache none": "cache none",
    "sgframe serve --shadow radix.eviction=slru": "cache radix",
    "sgframe serve --shadow policy=fcfs": "policy lpm",
    "sgframe serve --more-grammars llguidance,xgrammar": "grammar compressed-fsm",
    "sgframe serve --grammar llguidance": "grammar llguidance",
}
"""What must stand in the log of each command that starts a server."""


PAGES: Mapping[str, tuple[pytest.MarkDecorator, ...]] = {
    "README.md": (),
    "docs/plugins.md": (),
    "docs/caches.md": (pytest.mark.slow,),
    "docs/policies.md": (pytest.mark.slow,),
    "docs/grammars.md": (pytest.mark.slow,),
}


def without_comment(command: str) -> str:
    return command.partition("  #")[0].strip()


@pytest.mark.parametrize(
    ("page", "command"),
    [
        pytest.param(page, command, marks=marks)
        for page, marks in PAGES.items()
        for command in map(without_comment, commands(page))
        if command.startswith(("sgframe ", ".venv/bin/sgframe "))
    ],
)
def test_a_command_does_what_the_page_says(deployment: Path, page: str, command: str) -> None:
    _, *words = shlex.split(command)
    if words[0] == "serve":
        with served(*words[1:], *SIMULATED) as server:
            assert SERVING[command] in server.output
    else:
        assert EXPECTED[command] in run(*SGFRAME, *words, folder=deployment, environ=environment())


def test_each_other_command_of_the_readme_has_its_test() -> None:
    others = [command.split(" http")[0] for command in commands("README.md") if "sgframe " not in command]
    assert others == ["make serve", "make test", "curl"]


def make(target: str, arguments: str, tools: Path) -> list[str]:
    """The command for a ``make`` that finds everything installed, its commands in the folder ``tools``."""
    for name, command in {"python": sys.executable, "sgframe": shlex.join(SGFRAME)}.items():
        tool = tools / name
        tool.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        tool.chmod(0o755)
    installed = ["--old-file=.venv/.installed", "--old-file=.venv/.installed-test"]
    return ["make", *installed, f"BIN={tools}", f"ARGS={arguments}", target]


def test_make_serve_serves(tmp_path: Path, short_path: Path) -> None:
    environ = {**os.environ, **environment(), "TMPDIR": str(short_path)}
    command = make("serve", shlex.join(["--port", "0", *THREADS]), tmp_path)
    with subprocess.Popen(
        command, cwd=HOUSE, env=environ, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as making:
        assert making.stdout is not None
        ready = making.stdout.readline()
        paste = making.stdout.readline()
        os.killpg(making.pid, signal.SIGTERM)
        assert making.stdout.read() == "", "it has ended once nobody holds its output"
    url = re.fullmatch(r"sgframe is ready: model smollm2-135m on (http://\S+)\n", ready)
    assert url
    assert paste.startswith(f"curl {url[1]}/v1/chat/completions ")
    assert list(short_path.glob("sgframe-*")) == []


def test_make_test_finds_the_tests(tmp_path: Path) -> None:
    command = make("test", "--collect-only tests/house", tmp_path)
    assert "test_nothing_is_called_utils" in run(*command, folder=HOUSE, environ=environment())


@pytest.fixture(scope="module")
def demo() -> Iterator[Server]:
    with served(*THREADS, start_timeout=FIRST_USE) as server:
        yield server


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
def test_the_curl_command_gets_an_answer(demo: Server, tmp_path: Path) -> None:
    (command,) = (command for command in commands("README.md") if command.startswith("curl "))
    assert "http://127.0.0.1:30000/" in command
    asked = shlex.split(command.replace("http://127.0.0.1:30000", demo.url))
    assert '"content":' in run(*asked, "--silent", "--fail", folder=tmp_path, environ={})


def test_the_ready_line_offers_the_curl_command_of_the_readme(demo: Server) -> None:
    (command,) = (command for command in commands("README.md") if command.startswith("curl "))
    assert command.replace("http://127.0.0.1:30000", demo.url) in demo.output


def test_the_engine_script_says_paris(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(blocks("README.md", "python")[0].text)
    assert "Paris" in run(sys.executable, script, folder=tmp_path, environ=environment())


def test_the_program_of_the_readme_chooses(demo: Server) -> None:
    (program,) = (block.text for block in blocks("README.md", "python") if "second_opinion" in block.text)
    names: dict[str, Any] = {}
    exec(program.replace("http://127.0.0.1:30000", demo.url), names)
    assert names["state"]["city"] in ("Yes", "No")
    assert names["state"].trace().calls == 5


def test_the_plugin_of_the_readme_is_chosen_by_its_name(tmp_path: Path) -> None:
    *_, hooks, part = blocks("README.md", "python")
    write_files(tmp_path, hooks, part)
    distribution(tmp_path, re.findall(r"\[project\.entry-points\.sgframe\] (.+)$", hooks.first_line)[0])
    assert "`sgframe serve --plugin shortest`" in (HOUSE / "README.md").read_text()
    with served(*SIMULATED, "--plugin", "shortest", environ=environment(tmp_path)) as server, server.client() as client:
        assert client.get("/server_info").json()["parts"]["policy"] == "shortest"
        body = {"model": "simulated", "prompt": [[97] * 9, [98]], "max_tokens": 2}
        answer = client.post("/v1/completions", json=body).json()
        assert [choice["text"] for choice in answer["choices"]] == ["aa", "bb"]


def test_the_plugin_of_the_plugins_page_is_sound_by_its_own_tests(tmp_path: Path) -> None:
    hooks, tests, *_ = blocks("docs/plugins.md", "python")
    package = tmp_path / "sgframe_shortest_first"
    package.mkdir()
    (package / "__init__.py").write_text(hooks.text)
    shutil.copy(EXAMPLE / "policy.py", package)
    (tmp_path / "test_page.py").write_text(tests.text)
    distribution(tmp_path, blocks("docs/plugins.md", "toml")[1].text.splitlines()[1])
    options = ("-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(tmp_path))
    printed = run(
        sys.executable, "-m", "pytest", *options, "test_page.py", folder=tmp_path, environ=environment(tmp_path)
    )
    assert "passed" in printed
    listed = run(*SGFRAME, "plugins", "--plugin", "shortest-first", folder=tmp_path, environ=environment(tmp_path))
    assert re.search(r"^\* +policy +shortest-first", listed, re.MULTILINE)


def test_the_strategy_of_the_caches_page_is_sound_by_its_own_tests(tmp_path: Path) -> None:
    strategy, tests = blocks("docs/caches.md", "python")
    (tmp_path / "newest.py").write_text(strategy.text)
    (tmp_path / "test_newest.py").write_text(tests.text)
    pytest_quiet = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_newest.py")
    assert " passed" in run(*pytest_quiet, folder=tmp_path, environ=environment(tmp_path))
