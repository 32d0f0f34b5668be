"""config/kubernetes/broker: what its pods make of their environment, and that its parts fit.

Its schemas are checked by tests/compose.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from odradek.broker.settings.listeners import Listener
from odradek.broker.settings.load import make_settings
from odradek.container.environment import container_config
from tests.support.tool_cache import PROJECT

BASE: Final = PROJECT / "config" / "kubernetes" / "broker"
POD_INDEX: Final = "metadata.labels['apps.kubernetes.io/pod-index']"


@pytest.fixture(scope="module")
def resources() -> dict[tuple[str, str], dict[str, Any]]:
    """What the base contains, by kind and name."""
    listed = yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == sorted(
        path.name for path in BASE.iterdir() if path.name != "kustomization.yaml"
    )
    documents = [row for name in listed for row in yaml.safe_load_all((BASE / name).read_text())]
    return {(row["kind"], row["metadata"]["name"]): row for row in documents}


def pod_environment(resources: dict[tuple[str, str], dict[str, Any]], index: int) -> dict[str, str]:
    """The variables of one pod, as the kubelet sets them."""
    stateful_set = resources["StatefulSet", "odradek"]
    (container,) = stateful_set["spec"]["template"]["spec"]["containers"]
    (source,) = container["envFrom"]
    fields = {
        "metadata.name": f"odradek-{index}",
        "metadata.namespace": "streaming",
        POD_INDEX: str(index),
    }
    environment = dict(resources["ConfigMap", source["configMapRef"]["name"]]["data"])
    for row in container["env"]:
        text = row.get("value") or fields[row["valueFrom"]["fieldRef"]["fieldPath"]]
        for name, value in environment.items():
            text = text.replace(f"$({name})", value)
        environment[row["name"]] = text
    return environment


def test_pods_have_settings_that_a_broker_takes(
    resources: dict[tuple[str, str], dict[str, Any]],
) -> None:
    for index in range(resources["StatefulSet", "odradek"]["spec"]["replicas"]):
        environment = pod_environment(resources, index)
        config = container_config(environment, {}, mounted=None, default={}, hostname="pod")
        assert config.warnings == ()
        settings = make_settings(config.settings)
        assert settings.broker_id == index
        host = f"odradek-{index}.odradek.streaming.svc"
        address = Listener("PLAINTEXT", host, 9092, "PLAINTEXT")
        assert settings.advertised_listeners == (address,)
        assert settings.zookeeper_connect == "zookeeper:2181/odradek"
        assert settings.min_insync_replicas < settings.default_replication_factor
        assert settings.default_replication_factor <= 3


def test_selectors_names_and_volumes_of_the_base_fit(
    resources: dict[tuple[str, str], dict[str, Any]],
) -> None:
    spec = resources["StatefulSet", "odradek"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels
    headless = resources["Service", spec["serviceName"]]["spec"]
    assert headless["clusterIP"] == "None"
    for service in (headless, resources["Service", "odradek-bootstrap"]["spec"]):
        assert service["selector"] == labels
    budget = resources["PodDisruptionBudget", "odradek"]["spec"]
    assert budget["selector"]["matchLabels"] == labels
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    volumes = [row["name"] for row in pod["volumes"]]
    volumes += [row["metadata"]["name"] for row in spec["volumeClaimTemplates"]]
    mounts = {row["name"]: row["mountPath"] for row in container["volumeMounts"]}
    assert sorted(mounts) == sorted(volumes)
    written = Path(pod_environment(resources, 0)["KAFKA_LOG_DIRS"])
    assert Path(mounts["data"]) in written.parents
