"""The bare command: quick help, one module for each way to call it, and errors without a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module

import click
import pytest
from click.testing import CliRunner

import sgframe
from sgframe_cli.group import SUBCOMMANDS, main

SLOW = ("torch", "transformers", "pydantic", "zmq", "fastapi", "uvicorn", "numpy", "sgframe.assembly", "sgframe_lpm")


def python(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("option", ["--help", "-h", "--version"])
def test_help_and_version_import_nothing_slow_and_no_plugin(option: str) -> None:
    code = f"""
import sys
from sgframe_cli import main
main([{option!r}], standalone_mode=False)
print("SLOW", *(name for name in {SLOW!r} if name in sys.modules))
"""
    assert python("-c", code).stdout.splitlines()[-1] == "SLOW"


def test_the_version_is_the_packages() -> None:
    assert CliRunner().invoke(main, ["--version"]).output == f"sgframe, version {sgframe.__version__}\n"


def test_python_dash_m_is_the_same_command() -> None:
    run = python("-m", "sgframe", "--version")
    assert (run.returncode, run.stdout) == (0, f"sgframe, version {sgframe.__version__}\n")


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_subcommand_is_listed_and_there(name: str) -> None:
    module, _, attribute = SUBCOMMANDS[name].target.partition(":")
    command = getattr(import_module(module), attribute)
    assert isinstance(command, click.Command)
    assert command.name == name
    assert SUBCOMMANDS[name].summary in CliRunner().invoke(main, ["--help"]).output
    assert CliRunner().invoke(main, [name, "--help"]).exit_code == 0


def test_an_error_is_one_message_on_stderr_and_exit_code_2() -> None:
    run = python("-m", "sgframe", "config", "check", "--port", "abc")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "Error: port: should be a valid integer, found 'abc' (command line --port)\n"


def test_an_unknown_subcommand_is_refused() -> None:
    result = CliRunner().invoke(main, ["srve"])
    assert result.exit_code == 2
    assert "No such command 'srve'" in result.stderr


def test_a_plugins_subcommand_is_found_when_it_is_called(tmp_path) -> None:
    (tmp_path / "hello_hooks.py").write_text(
        "import click\nfrom sgframe import hookimpl\n"
        "@hookimpl\ndef sgframe_commands(cli):\n"
        "    cli.add_command(click.Command('hello', callback=lambda: click.echo('hello yourself')))\n"
        "    cli.add_command(click.Command('config', callback=lambda: click.echo('not mine')))\n"
    )
    info = tmp_path / "sgframe_hello-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sgframe-hello\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sgframe]\nhello = hello_hooks\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    assert python("-m", "sgframe", "hello", PYTHONPATH=path).stdout == "hello yourself\n"
    assert "hello" not in python("-m", "sgframe", "--help", PYTHONPATH=path).stdout
    assert "not mine" not in python("-m", "sgframe", "config", "check", PYTHONPATH=path).stdout
    blocked = python("-m", "sgframe", "hello", PYTHONPATH=path, SGFRAME_BLOCKED="hello")
    assert "No such command 'hello'" in blocked.stderr
