"""Each error of the page on troubleshooting, in its words, as a start, a check or the doctor gives it."""

from __future__ import annotations

import errno
import resource
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import torch
from click.testing import CliRunner
from pages import blocks, table
from servers import SIMULATED, Server, served

from sgframe import Provider, hookimpl
from sgframe.assembly import plugins as assembly
from sgframe.assembly.plugins import BUILTIN, Plugin
from sgframe.errors import ModelError
from sgframe.front.tokenizer_manager import SHUTTING_DOWN
from sgframe.interfaces.backend import ExecutorSpec
from sgframe.interfaces.source import Checkpoint
from sgframe_cli.checks import machine, model, places
from sgframe_cli.group import main
from sgframe_hf import HfSettings
from sgframe_hf.source import HfSource
from sgframe_torch.needs import Needs

PAGE = "docs/troubleshooting.md"
BASE = ("--backend", "simulated", "--source", "simulated", "--model", "simulated", "--port", "0")


@hookimpl
def sgframe_policies() -> list[Provider]:
    return [Provider("lpm", f"{__name__}:Lpm", "another lpm")]


class Stage:
    """What a case needs of its surroundings: a folder, patches, and the command line."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch = folder, patch

    def check(self, *arguments: str, **environ: str) -> str:
        return self._run("config", "check", *arguments, **environ)

    def dry_run(self, *arguments: str) -> str:
        self.patch.setattr("sgframe_cli.starting.configure_logging", lambda settings, process: None)
        return self._run("serve", "--dry-run", *BASE, *arguments)

    def doctor(self, *arguments: str, **environ: str) -> str:
        return self._run("doctor", *BASE, *arguments, **environ)

    def _run(self, *arguments: str, **environ: str) -> str:
        result = CliRunner().invoke(main, arguments, env=environ)
        return result.stdout + result.stderr


def misspelt_key(stage: Stage) -> str:
    stage.patch.chdir(stage.folder)
    Path("deploy.toml").write_text("prot = 1\n")
    return stage.check("--config", "deploy.toml")


def two_plugins(stage: Stage) -> str:
    stage.patch.setitem(sys.modules, __name__, sys.modules[__name__])
    known = [*(Plugin(name, module) for name, module in BUILTIN.items()), Plugin("rival", __name__, "rival", "1")]
    stage.patch.setattr(assembly, "installed", lambda: known)
    return stage.check(*BASE)


def old_journal(stage: Stage) -> str:
    stage.patch.chdir(stage.folder)
    Path("old.journal").touch()
    return stage.dry_run("--journal", "old.journal")


def no_driver(stage: Stage) -> str:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    return stage.doctor("--backend", "cuda")


def no_cann(stage: Stage) -> str:
    stage.patch.delenv("ASCEND_HOME_PATH", raising=False)
    stage.patch.delenv("ASCEND_TOOLKIT_HOME", raising=False)
    return stage.doctor("--backend", "ascend")


def too_many_ranks(stage: Stage) -> str:
    found = SimpleNamespace(
        usable=True, joins=True, verifies=True, max_ranks=1, device="a GPU", dtypes=(), memory_bytes=0
    )
    stage.patch.setattr("sgframe.assembly.devices.probe", lambda choice: found)
    return stage.doctor("--backend", "cuda", "--tp-size", "2")


def no_room(stage: Stage) -> str:
    config = SimpleNamespace(
        hidden_size=8, num_attention_heads=2, num_hidden_layers=1, vocab_size=9, intermediate_size=8
    )
    spec = ExecutorSpec(Checkpoint("m", "", 64, 9, ()), "float32", max_rows=1, max_step_tokens=1)
    with pytest.raises(ModelError) as refused:
        Needs(spec, config, 64, torch.float32, 1, 2**30).check(2**20)
    return str(refused.value)


def little_memory(stage: Stage) -> str:
    (stage.folder / "model.safetensors").write_bytes(bytes(3 * 2**20))
    checkpoint = Checkpoint("simulated", str(stage.folder), 64, 9, ())
    stage.patch.setattr("sgframe_simulated.source.SimulatedSource.resolve", lambda *_: checkpoint)
    stage.patch.setattr(model, "probe", lambda choice: SimpleNamespace(memory_bytes=2 * 2**20))
    return stage.doctor()


def small_container(stage: Stage) -> str:
    stage.patch.setattr(machine, "CGROUPS", stage.folder)
    (stage.folder / "memory.max").write_text(str(2**30))
    (stage.folder / "memory.current").write_text(str(2**28))
    return stage.doctor()


def limited(stage: Stage, which: int, value: int) -> str:
    real = resource.getrlimit
    stage.patch.setattr(machine.resource, "getrlimit", lambda one: (value, value) if one == which else real(one))
    return stage.doctor()


def small_shared_memory(stage: Stage) -> str:
    stage.patch.setattr(machine.shutil, "disk_usage", lambda path: SimpleNamespace(free=64 * 2**20))
    return stage.doctor("--backend", "cpu", "--tp-size", "2")


def port_in_use(stage: Stage) -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        return stage.dry_run("--port", str(port)).replace(str(port), "30000")


def long_path(stage: Stage) -> str:
    folder = stage.folder / ("x" * 100)
    folder.mkdir()
    stage.patch.setattr("tempfile.tempdir", str(folder))
    return stage.dry_run("--transport", "zmq")


def read_only(stage: Stage) -> str:
    def refuse(**options: Any) -> str:
        raise OSError(errno.EROFS, "Read-only file system")

    stage.patch.setattr("tempfile.mkdtemp", refuse)
    return stage.dry_run()


def read_only_cache(stage: Stage) -> str:
    source = HfSource(HfSettings(cache_folder=str(stage.folder / "file" / "cache")))
    (stage.folder / "file").touch()
    with pytest.raises(ModelError) as refused:
        source.resolve("smollm2-135m", lambda what, done, total: None)
    return str(refused.value)


def no_place_for_kernels(stage: Stage) -> str:
    stage.patch.setattr(places, "_writable", lambda folder: False)
    return stage.doctor("--backend", "cpu")


CASES: dict[str, Callable[[Stage], str]] = {
    "unknown setting 'prot'": misspelt_key,
    "port: should be a valid integer, found 'x'": lambda stage: stage.check("--port", "x"),
    "unknown variable SGFRAME_SERVICE_HOST": lambda stage: stage.doctor(SGFRAME_SERVICE_HOST="10.0.0.1"),
    "port: should be a valid integer, found 'tcp:": lambda stage: stage.check(SGFRAME_PORT="tcp://10.0.0.1:30000"),
    "no plugin offers the policy": lambda stage: stage.check("--policy", "lpn"),
    "plugin.lpm.max_overtaken: nobody": lambda stage: stage.check("--policy", "fcfs", "--set", "lpm.max_overtaken=1"),
    "policy 'lpm' is offered more than once": two_plugins,
    "the journal old.journal": old_journal,
    "backend 'cuda' cannot run here": no_driver,
    "CANN is not set up": no_cann,
    "backend 'cuda' has room": too_many_ranks,
    "backend 'simulated' runs on one rank": lambda stage: stage.dry_run("--tp-size", "2"),
    "the model does not fit": no_room,
    "3 MiB of weights": little_memory,
    "the control group allows": small_container,
    "1.0 GiB for each process": lambda stage: limited(stage, resource.RLIMIT_AS, 2**30),
    "ranks on several devices": small_shared_memory,
    "port 30000 on 127.0.0.1": port_in_use,
    "cannot listen on": lambda stage: stage.dry_run("--host", "192.0.2.1", "--port", "30000"),
    "set the environment variable TMPDIR to a folder with": long_path,
    "no folder for the engine's sockets": read_only,
    "1024 at most": lambda stage: limited(stage, resource.RLIMIT_NOFILE, 1024),
    "there is no model": lambda stage: stage.doctor("--source", "hf", "--model", "nope"),
    "the hub model": lambda stage: stage.doctor(
        *("--source", "hf", "--model", "some/model", "--set", "hf.offline=true"), HF_HOME=str(stage.folder)
    ),
    "cannot write to the model cache": read_only_cache,
    "and so are compiled": no_place_for_kernels,
}
"""How each error comes about, by how it begins."""
ERRORS = [block.text.rstrip("\n") for block in blocks(PAGE, "text")]


def beginning(error: str) -> str:
    (found,) = (start for start in CASES if error.startswith(start))
    return found


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error[:40])
def test_an_error_comes_about_in_these_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str) -> None:
    told = CASES[beginning(error)](Stage(tmp_path, monkeypatch))
    assert error in told


def test_each_error_is_on_the_page_once() -> None:
    assert sorted(map(beginning, ERRORS)) == sorted(CASES)


# ------------------------------------------------------------------------------------------ of a running server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    limits = ("--max-running", "1", "--max-waiting", "1", "--api-key", "hunter2")
    with served(*SIMULATED, *limits) as server:
        yield server


BODY = {"model": "simulated", "prompt": "abc", "max_tokens": 4}
KEY = {"authorization": "Bearer hunter2"}
REQUESTS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "this server's context holds": (BODY | {"max_tokens": 5000}, KEY),
    "the API key is missing": (BODY, {}),
    "this server has": (BODY | {"model": "another"}, KEY),
    "requests are open, the limit is 2": (BODY | {"n": 3, "temperature": 1}, KEY),
}
REFUSALS = [(row[0], row[1].strip("`")) for row in table(PAGE, "| status | words | cause and remedy |")]


@pytest.mark.parametrize(("status", "words"), [row for row in REFUSALS if "shutting down" not in row[1]])
def test_a_request_is_refused_in_these_words(server: Server, status: str, words: str) -> None:
    (case,) = (case for start, case in REQUESTS.items() if words.startswith(start))
    body, headers = case
    answer = httpx.post(f"{server.url}/v1/completions", json=body, headers=headers, timeout=60)
    assert answer.status_code == int(status)
    assert words in answer.json()["error"]["message"]


def test_the_page_has_the_words_of_a_server_that_drains() -> None:
    assert ("503", SHUTTING_DOWN) in REFUSALS
