"""The manifests: valid by Kubernetes' own schemas, with probes on /health and time to drain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from pages import HOUSE

from sgframe.assembly.settings import read_settings
from sgframe.interfaces.launcher import KILL_AFTER
from sgframe_cli.serve import CLOSE_GRACE

FOLDER = HOUSE / "examples" / "deploy" / "kubernetes"
MANIFESTS = sorted(file for file in (FOLDER / "base").glob("*.yaml") if file.name != "kustomization.yaml")
KUSTOMIZATIONS = sorted(FOLDER.glob("*/kustomization.yaml"))


def load(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text())


DEPLOYMENT: Mapping[str, Any] = load("base/deployment.yaml")
POD: Mapping[str, Any] = DEPLOYMENT["spec"]["template"]["spec"]
SERVER: Mapping[str, Any] = POD["containers"][0]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda file: file.name)
def test_a_manifest_follows_the_schema_of_its_kind(manifest: Any) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    kubernetes_validate.validate(yaml.safe_load(manifest.read_text()), "1.33", strict=True)


@pytest.mark.parametrize("kustomization", KUSTOMIZATIONS, ids=lambda file: file.parent.name)
def test_everything_that_a_kustomization_names_is_there(kustomization: Any) -> None:
    content = yaml.safe_load(kustomization.read_text())
    named = [*content["resources"], *(patch["path"] for patch in content.get("patches", ()))]
    named += [file for generator in content["configMapGenerator"] for file in generator["files"]]
    assert all((kustomization.parent / name).exists() for name in named)
    left = {file.name for file in kustomization.parent.iterdir()} - {"kustomization.yaml", *named}
    assert left == set()


def test_a_patch_changes_what_there_is() -> None:
    patch = load("gpu/gpu.yaml")
    assert (patch["kind"], patch["metadata"]["name"]) == ("Deployment", DEPLOYMENT["metadata"]["name"])
    (server,) = patch["spec"]["template"]["spec"]["containers"]
    assert server["name"] == SERVER["name"]
    assert load("gpu/volume.yaml")["metadata"]["name"] == load("base/volume.yaml")["metadata"]["name"]
    assert load("gpu/kustomization.yaml")["images"][0]["name"] == SERVER["image"].partition(":")[0]


@pytest.mark.parametrize("probe", ["startupProbe", "readinessProbe", "livenessProbe"])
def test_each_probe_asks_for_the_health_on_the_port_that_is_listened_to(probe: str) -> None:
    assert SERVER[probe]["httpGet"] == {"path": "/health", "port": "http"}
    assert SERVER["ports"] == [{"name": "http", "containerPort": 30000}]
    assert load("base/service.yaml")["spec"]["ports"][0]["targetPort"] == "http"


def test_a_first_start_has_half_an_hour() -> None:
    assert SERVER["startupProbe"]["periodSeconds"] * SERVER["startupProbe"]["failureThreshold"] == 1800


@pytest.mark.parametrize("overlay", ["base", "gpu"])
def test_a_pod_has_time_to_drain_before_it_is_killed(overlay: str) -> None:
    settings = read_settings(config_file=FOLDER / overlay / "deploy.toml").settings
    before = float(SERVER["lifecycle"]["preStop"]["exec"]["command"][1])
    after = CLOSE_GRACE + KILL_AFTER
    assert POD["terminationGracePeriodSeconds"] > before + settings.drain_timeout + after


def test_readiness_is_asked_more_often_than_the_time_before_the_end() -> None:
    assert SERVER["readinessProbe"]["periodSeconds"] < float(SERVER["lifecycle"]["preStop"]["exec"]["command"][1])


def test_a_service_does_not_set_the_servers_variables() -> None:
    assert load("base/service.yaml")["metadata"]["name"] == "sgframe", "SGFRAME_PORT, SGFRAME_SERVICE_HOST, …"
    assert POD["enableServiceLinks"] is False


def test_the_pod_has_no_rights_and_writes_to_volumes_alone() -> None:
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert POD["automountServiceAccountToken"] is False
    assert SERVER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounts = {mount["name"]: mount["mountPath"] for mount in SERVER["volumeMounts"]}
    assert mounts == {
        "settings": "/etc/sgframe",
        "models": "/var/cache/sgframe",
        "tmp": "/tmp",
        "shared-memory": "/dev/shm",
    }
    assert mounts.keys() == {volume["name"] for volume in POD["volumes"]}


def test_the_key_comes_from_a_secret() -> None:
    (key,) = SERVER["env"]
    assert key["name"] == "SGFRAME_API_KEY"
    assert "value" not in key


def test_labels_lead_from_the_service_to_the_pods() -> None:
    selector = load("base/service.yaml")["spec"]["selector"]
    assert (
        selector
        == DEPLOYMENT["spec"]["selector"]["matchLabels"]
        == DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    )
