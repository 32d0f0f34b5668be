"""The alert rules and the dashboard, judged by promtool and a Prometheus that scrapes a broker."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from odradek.broker.node.monitoring import METRICS_LISTENER
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.compacted import wait_until
from tests.support.ports import free_port
from tests.support.processes import LoggedProcess

CONFIG = Path("config")
RULES = CONFIG / "prometheus" / "alerts.yml"
PROMETHEUS = CONFIG / "prometheus" / "prometheus.yml"
METRIC = re.compile(r"\b(?:kafka|odradek)_\w+")
FIRES_WITHIN_S = 30.0
START_S = 60.0


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=START_S) as response:
        text: str = response.read().decode()
        return text


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
        ["test", "rules", "alerts_test.yml"],
    ):
        result = subprocess.run(
            ["promtool", *words], cwd=RULES.parent, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stdout + result.stderr


def test_broker_has_every_metric_that_rules_and_dashboard_ask_for(
    scraped: tuple[BrokerProcess, int],
) -> None:
    _, port = scraped
    text = fetched(f"http://127.0.0.1:{port}/metrics")
    names = {family.name for family in text_string_to_metric_families(text)}
    dashboard = json.loads((CONFIG / "grafana" / "odradek-brokers.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(expressions) > len(dashboard["panels"])
    for source in [RULES.read_text(), *expressions]:
        asked = {name.removesuffix("_total") for name in METRIC.findall(source)}
        assert asked, source
        assert asked <= names, f"{sorted(asked - names)} in {source}"


def test_alert_fires_after_a_kill_and_ends(
    scraped: tuple[BrokerProcess, int], tmp_path: Path
) -> None:
    broker, metrics_port = scraped
    own_port = free_port()
    address = f"127.0.0.1:{own_port}"
    config = PROMETHEUS.read_text()
    assert "127.0.0.1:9404" in config
    config = config.replace("127.0.0.1:9404", f"127.0.0.1:{metrics_port}").replace("5s", "1s")
    (tmp_path / "prometheus.yml").write_text(config)
    (tmp_path / RULES.name).write_text(RULES.read_text())
    command = [
        "prometheus",
        f"--config.file={tmp_path / 'prometheus.yml'}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address={address}",
    ]

    def firing() -> list[str]:
        alerts = json.loads(fetched(f"http://{address}/api/v1/alerts"))["data"]["alerts"]
        return [alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"]

    def value(expression: str) -> str | None:
        url = f"http://{address}/api/v1/query?query={expression}"
        result = json.loads(fetched(url))["data"]["result"]
        return result[0]["value"][1] if result else None

    with LoggedProcess(command, log=tmp_path / "prometheus.log") as prometheus:
        prometheus.wait_for_line("Server is ready", timeout_s=START_S)
        wait_until("a scrape", lambda: value("kafka_brokers") == "1", timeout_s=START_S)
        assert firing() == []
        broker.kill()
        # It fires after 15 s; the rest is for a machine that is busy.
        wait_until("an alert", lambda: "KafkaBrokerDown" in firing(), timeout_s=2 * FIRES_WITHIN_S)
        broker.start()
        wait_until("its end", lambda: firing() == [], timeout_s=START_S)
