"""The alert rules and the dashboard, judged by promtool and a Prometheus that scrapes a broker."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from odradek.broker.node.monitoring import METRICS_LISTENER
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.compacted import wait_until
from tests.support.ports import free_port
from tests.support.prometheus import START_S, fetched, prometheus

CONFIG = Path("config")
RULES = CONFIG / "prometheus" / "alerts.yml"
PROMETHEUS = CONFIG / "prometheus" / "prometheus.yml"
METRIC = re.compile(r"\b(?:kafka|odradek)_\w+")
FIRES_WITHIN_S = 30.0


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, int]]:
    """A broker, and the port of its metrics."""
    port = free_port()
    overrides = {METRICS_LISTENER: str(port)}
    with odradek_broker(tmp_path_factory.mktemp("broker"), overrides=overrides) as broker:
        yield broker, port


def test_promtool_judges_the_rules() -> None:
    for words in (
        ["check", "rules", RULES.name],
        ["check", "config", PROMETHEUS.name],
        ["check", "config", "compose.yml"],
        ["test", "rules", "alerts_test.yml"],
    ):
        result = subprocess.run(
            ["promtool", *words], cwd=RULES.parent, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stdout + result.stderr


def test_compose_file_has_prometheus_and_grafana_where_its_profile_is_asked_for() -> None:
    services = yaml.safe_load(Path("docker-compose.yml").read_text())["services"]
    both = [services[name] for name in ("prometheus", "grafana")]
    assert [service["profiles"] for service in both] == [["monitoring"], ["monitoring"]]
    brokers = [name for name in services if name.startswith("broker-")]
    scraped = yaml.safe_load((PROMETHEUS.parent / "compose.yml").read_text())["scrape_configs"]
    settings = Path("config/docker/cluster.properties").read_text()
    (port,) = re.findall(rf"^{METRICS_LISTENER}=0\.0\.0\.0:(\d+)$", settings, re.M)
    targets = [f"{broker}:{port}" for broker in brokers]
    assert scraped[0]["static_configs"] == [{"targets": targets}]
    mounts = [mount.split(":") for service in both for mount in service["volumes"]]
    assert all(Path(mount[0]).exists() for mount in mounts if mount[0].startswith("."))
    folder = Path("config/docker/grafana/provisioning")
    (source,) = yaml.safe_load((folder / "datasources" / "prometheus.yml").read_text())[
        "datasources"
    ]
    assert (source["type"], source["url"]) == ("prometheus", "http://prometheus:9090")
    dashboards = yaml.safe_load((folder / "dashboards" / "odradek.yml").read_text())["providers"]
    path = dashboards[0]["options"]["path"]
    assert ["./config/grafana", path, "ro"] in mounts


def test_broker_has_every_metric_that_rules_and_dashboard_ask_for(
    scraped: tuple[BrokerProcess, int],
) -> None:
    _, port = scraped
    text = fetched(f"http://127.0.0.1:{port}/metrics")
    names = {family.name for family in text_string_to_metric_families(text)}
    dashboard = json.loads((CONFIG / "grafana" / "odradek-brokers.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(expressions) > len(dashboard["panels"])
    names.add("odradek_certificate_expiry_timestamp_seconds")  # this broker has no TLS
    for source in [RULES.read_text(), *expressions]:
        asked = {name.removesuffix("_total") for name in METRIC.findall(source)}
        assert asked, source
        assert asked <= names, f"{sorted(asked - names)} in {source}"


def test_alert_fires_after_a_kill_and_ends(
    scraped: tuple[BrokerProcess, int], tmp_path: Path
) -> None:
    broker, metrics_port = scraped
    with prometheus(tmp_path, [metrics_port]) as watching:
        wait_until("a scrape", lambda: watching.value("kafka_brokers") == "1", timeout_s=START_S)
        assert watching.firing() == set()
        broker.kill()
        # It fires after 15 s; the rest is for a machine that is busy.
        wait_until(
            "an alert", lambda: "KafkaBrokerDown" in watching.firing(), timeout_s=2 * FIRES_WITHIN_S
        )
        broker.start()
        wait_until("its end", lambda: watching.firing() == set(), timeout_s=START_S)
