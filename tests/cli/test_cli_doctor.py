"""``sgframe doctor``: each thing that would make serving fail is found, with its remedy, and its exit code says so."""

from __future__ import annotations

import json
import os
import resource
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sgframe import Provider, hookimpl
from sgframe.assembly import plugins as assembly
from sgframe.assembly.plugins import BUILTIN, Plugin
from sgframe.interfaces.source import CatalogueEntry, Checkpoint, ModelSource
from sgframe_cli.checks import machine, model, places, service
from sgframe_cli.group import main

SIMULATED = ("--backend", "simulated", "--source", "simulated", "--model", "simulated", "--port", "0")


class Shelf(ModelSource):
    """Has one model to fetch, and one on disk with 3 MiB of weights."""

    folder = ""

    def __init__(self, settings: Any) -> None:
        pass

    def catalogue(self) -> list[CatalogueEntry]:
        return [CatalogueEntry("far", "a model elsewhere", "Apache-2.0", 5 * 2**20, False)]

    def resolve(self, name: str, progress: Any) -> Checkpoint:
        return Checkpoint(name, self.folder, 2048, 100, ())

    def tokenizer(self, checkpoint: Checkpoint) -> Any:
        raise NotImplementedError


@hookimpl
def sgframe_model_sources() -> list[Provider]:
    return [Provider("shelf", f"{__name__}:Shelf", "models on a shelf")]


@pytest.fixture(autouse=True)
def known_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    known = [*(Plugin(name, module) for name, module in BUILTIN.items()), Plugin("shelf", __name__, "pytest", "1")]
    monkeypatch.setattr(assembly, "installed", lambda: known)


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Limits to set, by resource."""
    given: dict[int, int] = {}
    real = resource.getrlimit
    monkeypatch.setattr(
        machine.resource, "getrlimit", lambda which: (given[which],) * 2 if which in given else real(which)
    )
    return given


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The files of control groups, of which there is one."""
    monkeypatch.setattr(machine, "CGROUPS", tmp_path)
    return tmp_path


def run(*arguments: object, **environ: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *SIMULATED, *map(str, arguments)], env=environ)


def found(*arguments: object, **environ: str) -> dict[str, dict[str, str]]:
    """Findings by subject."""
    report = json.loads(run("--json", *arguments, **environ).stdout)
    return {finding["subject"]: finding for finding in report["findings"]}


def only_fault(*arguments: object, **environ: str) -> tuple[str, str, str]:
    """Subject, finding and remedy of the one fault that is reported; the exit code must say that there is one."""
    result = run("--json", *arguments, **environ)
    faults = [finding for finding in json.loads(result.stdout)["findings"] if finding["state"] == "fault"]
    assert result.exit_code == 1
    assert len(faults) == 1, faults
    return faults[0]["subject"], faults[0]["found"], faults[0]["remedy"]


# ------------------------------------------------------------------------------------------ the report


def test_a_service_that_could_start_is_healthy() -> None:
    result = run("--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["healthy"]) == (0, True)
    areas = {"machine", "limits", "packages", "devices", "parts", "sockets", "places", "model"}
    assert {finding["area"] for finding in report["findings"]} == areas
    assert {finding["state"] for finding in report["findings"]} <= {"ok", "note", "warning"}


def test_the_text_says_so_at_its_end() -> None:
    result = run()
    assert result.exit_code == 0
    assert "\nsockets\n  ok      transport inproc: carried a message in " in run("--transport", "inproc").stdout
    assert "Nothing was found that would make a server with these settings fail here" in result.stdout.splitlines()[-1]


def test_the_text_has_faults_with_remedies_and_counts_them() -> None:
    result = run("--dtype", "float16", "--journal", "/nowhere/journal")
    assert result.exit_code == 1
    assert (
        "  fault   dtype: simulated does not compute in float16\n          → say --dtype auto, or one of float32\n"
        in (result.stdout)
    )
    assert result.stdout.splitlines()[-1].startswith("A server with these settings would fail here: 2 faults")


def test_the_machine_is_looked_at_even_where_the_settings_cannot_be_read() -> None:
    subject, text, _ = only_fault("--port", "x")
    assert (subject, text) == ("read", "port: should be a valid integer, found 'x' (command line --port)")
    assert "cores" in found("--port", "x")


def test_parts_that_cannot_be_chosen_are_a_fault() -> None:
    subject, text, _ = only_fault("--policy", "lpn")
    assert subject == "parts"
    assert text.startswith("no plugin offers the policy 'lpn' (command line --policy); did you mean 'lpm'?")


def test_parts_that_cannot_be_built_are_a_fault() -> None:
    subject, text, _ = only_fault("--set", "radix.eviction=nomod:X")
    assert subject == "build"
    assert "the eviction strategy 'nomod:X' cannot be imported" in text


def test_it_leaves_nothing_behind(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(short_path))
    journal = short_path / "journal"
    assert run("--journal", journal).exit_code == 0
    assert list(short_path.iterdir()) == []


# ------------------------------------------------------------------------------------------ devices


def test_devices_that_are_not_there_are_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    monkeypatch.delenv("ASCEND_TOOLKIT_HOME", raising=False)
    subject, text, _ = only_fault("--backend", "ascend")
    assert subject == "ascend"
    assert text.startswith("backend 'ascend' cannot run here: ")
    assert "CANN is not set up (source its set_env.sh)" in text
    assert "can run here: cpu, simulated; choose one, for example --backend cpu" in text


def test_devices_that_are_not_chosen_are_only_noted() -> None:
    assert found()["cpu"]["found"].endswith("(not chosen)")
    assert found()["ascend"]["state"] in ("note", "ok")


# ------------------------------------------------------------------------------------------ sockets


def test_a_port_that_is_taken_is_a_fault() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert only_fault("--port", port) == (
            "listen",
            f"port {port} on 127.0.0.1 is in use by another process; stop that one or choose another with --port",
            "",
        )


def test_a_path_that_is_too_long_for_unix_sockets_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    subject, text, _ = only_fault("--transport", "zmq")
    assert subject == "transport zmq"
    assert "set the environment variable TMPDIR to a folder with a shorter path" in text
    assert list(folder.iterdir()) == []
    assert found("--transport", "zmq", "--set", "zmq.scheme=tcp")["transport zmq"]["state"] == "ok"


def test_a_meeting_point_that_is_not_this_machines_is_a_fault() -> None:
    arguments = ("--backend", "cpu", "--tp-size", 2, "--nnodes", 2, "--dist-addr", "192.0.2.1:29500")
    subject, text, remedy = only_fault(*arguments)
    assert (subject, text) == ("dist_addr", "192.0.2.1:29500: Cannot assign requested address")
    assert "--dist-addr" in remedy


# ------------------------------------------------------------------------------------------ limits


def test_too_few_open_files_for_the_clients_are_a_warning(limits: dict[int, int]) -> None:
    limits[resource.RLIMIT_NOFILE] = 1024
    files = found()["open files"]
    assert files["state"] == "warning"
    assert files["found"] == "1024 at most, but max_running 64 and max_waiting 10000 may take 10096"
    assert files["remedy"].startswith("raise the hard limit to 10096 (LimitNOFILE= in systemd")
    assert found("--max-waiting", 64)["open files"]["state"] == "ok"


def test_too_few_open_files_to_start_are_a_fault(limits: dict[int, int]) -> None:
    limits[resource.RLIMIT_NOFILE] = 16
    assert only_fault()[0] == "open files"


@pytest.mark.parametrize(("gibibytes", "state"), [(1, "fault"), (100, "warning")])
def test_a_limit_of_address_space_is_told(limits: dict[int, int], gibibytes: int, state: str) -> None:
    limits[resource.RLIMIT_AS] = gibibytes * 2**30
    assert found()["address space"]["state"] == state
    assert found()["address space"]["remedy"].startswith("lift it (ulimit -v unlimited)")


def test_the_limits_of_a_container_are_told(groups: Path) -> None:
    (groups / "memory.max").write_text(str(2**30))
    (groups / "memory.current").write_text(str(2**28))
    (groups / "cpu.max").write_text("50000 100000")
    memory, cores = found()["memory"], found()["cores"]
    assert memory["state"] == "warning"
    assert memory["found"].startswith("768 MiB free of ")
    assert "the control group allows 1.0 GiB, of which 256 MiB are taken" in memory["found"]
    assert cores["state"] == "warning"
    assert "the control group grants the time of 0.5" in cores["found"]
    assert "--set cpu.threads=1" in cores["remedy"]


def test_a_container_without_limits_is_as_the_machine(groups: Path) -> None:
    (groups / "memory.max").write_text("max")
    (groups / "cpu.max").write_text("max 100000")
    assert (found()["memory"]["state"], found()["cores"]["state"]) == ("ok", "ok")


@pytest.mark.parametrize(("ranks", "state"), [(1, "note"), (4, "warning")])
def test_the_shared_memory_of_a_container_is_too_small_for_ranks(
    monkeypatch: pytest.MonkeyPatch, ranks: int, state: str
) -> None:
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda path: SimpleNamespace(free=64 * 2**20))
    shared = found("--backend", "cpu", "--tp-size", ranks)["shared memory"]
    assert shared["state"] == state
    assert "docker run --shm-size=1g" in shared["remedy"]


# ------------------------------------------------------------------------------------------ places


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be written; as root everything could be."""

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise PermissionError

    monkeypatch.setattr(places.tempfile, "TemporaryFile", refuse)


def test_folders_that_cannot_be_written_are_told(nowhere: None, tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "HF_HOME": str(tmp_path / "hub")}
    findings = found("--source", "hf", "--backend", "cpu", **environ)
    assert findings["models"]["found"].startswith(f"{tmp_path}/cache, ")
    assert "nothing can be written there" in findings["models"]["found"]
    assert findings["models"]["remedy"].startswith("set the environment variable XDG_CACHE_HOME to")
    assert findings["models of the hub"]["remedy"].startswith("set the environment variable HF_HOME to")
    assert findings["compiled kernels"]["state"] == "warning"
    assert "compiled at each start" in findings["compiled kernels"]["found"]
    assert "NUMBA_CACHE_DIR" in findings["compiled kernels"]["remedy"]


def test_the_folder_that_the_sources_settings_name_is_looked_at(tmp_path: Path) -> None:
    findings = found("--source", "hf", "--set", f"hf.cache_folder={tmp_path}/models")
    assert findings["models"]["found"].startswith(f"{tmp_path}/models, ")


def test_a_folder_that_the_sources_settings_name_has_its_remedy_there(nowhere: None, tmp_path: Path) -> None:
    remedy = found("--source", "hf", "--set", f"hf.cache_folder={tmp_path}")["models"]["remedy"]
    assert remedy == "set hf.cache_folder to a folder that can be written to"


def test_the_home_of_a_user_who_is_not_there_is_taken_as_it_stands(tmp_path: Path) -> None:
    findings = found("--source", "hf", "--set", "hf.cache_folder='~nobody_here/models'", HF_HOME="~nobody_here/hub")
    assert findings["models"]["found"].startswith("~nobody_here/models, ")
    assert findings["models of the hub"]["found"].startswith("~nobody_here/hub/hub, ")


# ------------------------------------------------------------------------------------------ the model


def test_a_model_that_is_nowhere_is_a_fault(tmp_path: Path) -> None:
    subject, text, _ = only_fault("--source", "hf", "--model", tmp_path / "nope")
    assert subject == str(tmp_path / "nope")
    assert "no folder or .gguf file at" in text


def test_a_file_that_is_no_model_is_a_fault(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("buy milk")
    subject, text, _ = only_fault("--source", "hf", "--model", file)
    assert subject == str(file)
    assert text.startswith(f"{file} is a file but no GGUF")


def test_a_model_to_fetch_is_a_note() -> None:
    far = found("--source", "shelf", "--model", "far")["far"]
    assert (far["state"], far["found"]) == ("note", "is not on this machine: a first start fetches 5 MiB")


def test_a_disk_too_small_for_a_model_to_fetch_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "free_at", lambda folder: 2**20)
    _, text, remedy = only_fault("--source", "shelf", "--model", "far")
    assert "1 MiB are free in" in text
    assert "XDG_CACHE_HOME" in remedy


def test_a_hub_id_that_is_not_here_is_a_note_unless_nothing_may_be_fetched(tmp_path: Path) -> None:
    arguments = ("--source", "hf", "--model", "some/model")
    assert found(*arguments, HF_HOME=str(tmp_path))["some/model"]["state"] == "note"
    _, text, _ = only_fault(*arguments, "--set", "hf.offline=true", HF_HOME=str(tmp_path))
    assert "the hub model some/model is not on this machine and the hf source is set to offline" in text


def test_a_gguf_file_is_found_and_not_converted(tmp_path: Path) -> None:
    file = tmp_path / "small.gguf"
    file.write_bytes(b"GGUF" + bytes(100))
    assert found("--source", "hf", "--model", file)[str(file)]["state"] == "ok"


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A device with 2 MiB, and a model with 3 MiB of weights."""
    monkeypatch.setattr(Shelf, "folder", str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(bytes(3 * 2**20))
    monkeypatch.setattr(model, "probe", lambda choice: SimpleNamespace(memory_bytes=2 * 2**20))


def test_weights_larger_than_memory_are_a_warning_for_they_may_be_held_in_less(small_memory: None) -> None:
    fit = found("--source", "shelf")["weights and KV"]
    assert (fit["state"], fit["found"]) == ("warning", "3 MiB of weights; each rank can plan with 2 MiB")
    assert fit["remedy"] == "lower --kv-memory, share the model (--tp-size), or choose a smaller one"


def test_kv_larger_than_memory_is_a_fault(small_memory: None) -> None:
    assert only_fault("--source", "shelf", "--kv-memory", "1GiB")[0] == "weights and KV"


# ------------------------------------------------------------------------------------------ packages


@pytest.fixture
def required(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the distribution of the shelf requires."""
    requirements: list[str] = []
    real = service.metadata.requires
    monkeypatch.setattr(service.metadata, "requires", lambda name: requirements if name == "pytest" else real(name))
    yield requirements


def test_a_package_that_is_missing_is_a_fault(required: list[str]) -> None:
    required += ["click", "no-such-package>=2", "another; extra == 'more'"]
    assert only_fault("--source", "shelf", "--model", "far")[1:] == (
        "is not installed, and pytest needs it",
        "pip install 'no-such-package>=2'",
    )


def test_a_package_of_another_version_is_a_warning(required: list[str]) -> None:
    required.append("click<1")
    click = found("--source", "shelf", "--model", "far")["click"]
    assert click["state"] == "warning"
    assert click["found"].startswith("pytest needs click<1, found is ")


def test_a_plugin_that_does_not_load_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [*(Plugin(name, module) for name, module in BUILTIN.items()), Plugin("worm", "no_such_module", "worm", "1")]
    monkeypatch.setattr(assembly, "installed", lambda: known)
    worm = found()["plugin 'worm' (worm 1)"]
    assert worm["state"] == "warning"
    assert worm["remedy"] == "upgrade or uninstall worm, or leave it out by --plugin no:worm"


def test_it_asks_of_the_environment_nothing_that_a_server_would_refuse() -> None:
    subject, text, _ = only_fault(SGFRAME_SERVICE_HOST="10.0.0.1")
    assert subject == "read"
    assert text.startswith("unknown variable SGFRAME_SERVICE_HOST")
    assert os.environ.get("SGFRAME_SERVICE_HOST") is None
