"""Prometheus beside three brokers: what it says while two of them are dead."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.broker.node.monitoring import METRICS_LISTENER
from tests.support.broker_cluster import broker_cluster
from tests.support.compacted import wait_until
from tests.support.ports import free_port
from tests.support.prometheus import prometheus

FIRES_WITHIN_S = 30.0
BUSY = 3
"""How many times longer a busy machine may take."""
ENDS_WITHIN_S = 120.0


@pytest.mark.slow
def test_alerts_fire_after_kills_and_end_after_the_restart(ensemble: str, tmp_path: Path) -> None:
    ports = {broker_id: free_port() for broker_id in (1, 2, 3)}
    with (
        broker_cluster(
            tmp_path,
            zookeeper_connect=f"{ensemble}/{tmp_path.name}",
            overrides={"min.insync.replicas": "2"},
            of_broker={key: {METRICS_LISTENER: str(port)} for key, port in ports.items()},
        ) as cluster,
        prometheus(tmp_path, list(ports.values())) as watching,
    ):
        cluster.create_topic("records", partitions=3)
        brokers = "sum(up) + sum(kafka_controller_kafkacontroller_activecontrollercount)"
        wait_until("scrapes of all", lambda: watching.value(brokers) == "4")
        assert watching.firing() == set()
        controller = cluster.controller()
        for broker_id in [controller, *(key for key in ports if key != controller)][:2]:
            cluster.kill(broker_id)
        wait_until(
            "alerts",
            lambda: watching.firing() >= {"KafkaBrokerDown", "KafkaUnderMinIsr"},
            timeout_s=BUSY * FIRES_WITHIN_S,
        )
        cluster.start_all()
        cluster.wait_until_complete("records")
        wait_until("their end", lambda: watching.firing() == set(), timeout_s=ENDS_WITHIN_S)
