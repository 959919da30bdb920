"""Dockerfile and compose: linted by their own tools where those are installed, and held to what the server asks for."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import pytest
import yaml
from pages import HOUSE

from sgframe.assembly.settings import read_settings

CONTAINER = HOUSE / "examples" / "deploy" / "container"
DOCKERFILE = (CONTAINER / "Dockerfile").read_text()
COMPOSE: Mapping[str, Any] = yaml.safe_load((CONTAINER / "compose.yaml").read_text())
CUDA: Mapping[str, Any] = yaml.safe_load((CONTAINER / "compose.cuda.yaml").read_text())
LINTED = ("Dockerfile", "compose.yaml", "compose.cuda.yaml")


def lint(*command: object) -> str:
    """What a linter has to say; empty if nothing."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=60)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def stage(name: str) -> str:
    """The instructions of one stage."""
    (found,) = re.findall(rf"^FROM \S+ AS {name}$(.*?)(?=^FROM |\Z)", DOCKERFILE, re.MULTILINE | re.DOTALL)
    return found


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="hadolint is not installed")
def test_hadolint_has_nothing_to_say() -> None:
    assert lint("hadolint", "--no-color", CONTAINER / "Dockerfile") == ""


@pytest.mark.skipif(find_spec("check_jsonschema") is None, reason="check-jsonschema is not installed")
def test_the_compose_files_follow_the_specification() -> None:
    files = CONTAINER / "compose.yaml", CONTAINER / "compose.cuda.yaml"
    assert lint(sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", *files) == ""


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_has_nothing_to_say() -> None:
    assert lint("promtool", "check", "config", CONTAINER / "prometheus" / "prometheus.yml") == ""


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_an_image_runs_as_a_user_without_rights(target: str) -> None:
    assert stage(target).rstrip().endswith("USER 10001:10001")


def test_the_cpu_image_is_what_is_built_when_no_target_is_named() -> None:
    assert re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE, re.MULTILINE)[-1] == "cpu"


def test_the_health_check_asks_the_server() -> None:
    assert "/health" in re.findall(r"HEALTHCHECK .*?\n.*CMD (.+)", stage("base"))[0]
    assert "127.0.0.1:30000" in stage("base")
    assert "SGFRAME_PORT=30000" in stage("base")


def test_everything_is_pinned() -> None:
    images = re.findall(r"^ARG PYTHON=(\S+)", DOCKERFILE, re.MULTILINE) + [
        service["image"].partition(":")[2] for name, service in COMPOSE["services"].items() if name != "sgframe"
    ]
    assert len(images) == 3
    assert all(re.match(r"v?\d+\.\d+\.\d+", image) for image in images)
    assert "PIP_CONSTRAINT=/src/constraints.txt" in stage("wheel")


def test_no_secret_is_written_down() -> None:
    texts = [re.sub(r"^\s*#.*$", "", (CONTAINER / name).read_text(), flags=re.MULTILINE) for name in LINTED]
    said = [
        found for text in texts for found in re.findall(r"(?i)\w*(?:key|password|secret|token)\w*\s*[:=]\s*(\S+)", text)
    ]
    assert said == ["${SGFRAME_API_KEY:-}", "${GRAFANA_PASSWORD:?choose"]


def test_the_wheel_gets_its_sources_and_no_more() -> None:
    allowed = re.findall(r"^!(.+)$", (CONTAINER / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    assert set(allowed) == {
        *("core", "plugins", "backends", "frontends"),
        *("pyproject.toml", "constraints.txt", "README.md", "LICENSE"),
    }
    assert all((HOUSE / name).exists() for name in allowed)


@pytest.mark.parametrize("compose", [COMPOSE, CUDA], ids=["cpu", "cuda"])
def test_a_container_may_drain_before_it_is_killed(compose: Mapping[str, Any]) -> None:
    server = compose["services"]["sgframe"]
    (mounted,) = (volume.split(":")[0] for volume in server["volumes"] if "deploy.toml" in volume)
    settings = read_settings(config_file=CONTAINER / mounted).settings
    assert float(server["stop_grace_period"].removesuffix("s")) > settings.drain_timeout + 10


def test_everything_that_is_mounted_is_there() -> None:
    mounts = [
        volume
        for service in (*COMPOSE["services"].values(), *CUDA["services"].values())
        for volume in service["volumes"]
    ]
    for source, *_ in (mount.split(":") for mount in mounts):
        assert (CONTAINER / source).exists() if source.startswith(".") else source in COMPOSE["volumes"], source


def test_prometheus_asks_the_server_where_it_listens() -> None:
    (job,) = yaml.safe_load((CONTAINER / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["sgframe:30000"]}]
    assert job["job_name"] == "sgframe"
