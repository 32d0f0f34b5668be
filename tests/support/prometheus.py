"""A Prometheus with the rules of config/prometheus that scrapes brokers each second."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.support.ports import free_port
from tests.support.processes import LoggedProcess

FOLDER: Final = Path("config/prometheus")
SAMPLE_TARGET: Final = '["127.0.0.1:9404"]'
START_S: Final = 60.0


def fetched(url: str) -> str:
    """The text at a URL."""
    with urllib.request.urlopen(url, timeout=START_S) as response:
        text: str = response.read().decode()
        return text


class Prometheus:
    """What it says, asked over its HTTP API."""

    def __init__(self, address: str) -> None:
        self._address = address

    def _asked(self, path: str) -> Any:
        return json.loads(fetched(f"http://{self._address}/api/v1/{path}"))["data"]

    def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        alerts = self._asked("alerts")["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def value(self, expression: str) -> str | None:
        """The first result of a query."""
        result = self._asked(f"query?query={urllib.parse.quote(expression)}")["result"]
        return result[0]["value"][1] if result else None


@contextmanager
def prometheus(folder: Path, metrics_ports: Sequence[int]) -> Iterator[Prometheus]:
    """A running Prometheus; the sample configuration with other targets and intervals."""
    config = (FOLDER / "prometheus.yml").read_text()
    assert SAMPLE_TARGET in config
    targets = json.dumps([f"127.0.0.1:{port}" for port in metrics_ports])
    config = config.replace(SAMPLE_TARGET, targets).replace("5s", "1s")
    (folder / "prometheus.yml").write_text(config)
    (folder / "alerts.yml").write_text((FOLDER / "alerts.yml").read_text())
    address = f"127.0.0.1:{free_port()}"
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'prometheus'}",
        f"--web.listen-address={address}",
    ]
    with LoggedProcess(command, log=folder / "prometheus.log") as process:
        process.wait_for_line("Server is ready", timeout_s=START_S)
        yield Prometheus(address)
