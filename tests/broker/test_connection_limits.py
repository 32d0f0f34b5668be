"""Limits of connections that were set over the wire: the way back, with a client of librdkafka."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.support.broker_process import PROGRAM, BrokerProcess, odradek_broker

WAIT_S = 60.0


def alter_all_brokers(address: str, settings: str) -> None:
    """Set dynamic settings of all brokers, for which librdkafka has no name."""
    words = ["configs", "--bootstrap-server", address, "--alter", "--entity-type", "brokers"]
    words += ["--entity-default", "--add-config", settings]
    subprocess.run([sys.executable, *PROGRAM, *words], check=True, timeout=WAIT_S)


def alter(address: str, name: str, value: str | None) -> None:
    """Set or remove a dynamic setting of the broker."""
    kind = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry(name, value or "", incremental_operation=kind)
    resource = ConfigResource(ResourceType.BROKER, "0", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": address})
    (altered,) = admin.incremental_alter_configs([resource], request_timeout=WAIT_S).values()
    altered.result(WAIT_S)


@pytest.mark.client
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max.connections", "1"),
        ("max.connections.per.ip", "1"),
        ("max.connections.per.ip.overrides", "127.0.0.1:0"),
    ],
)
def test_limit_set_over_the_wire_can_be_changed_again_by_this_machine(
    tmp_path: Path, name: str, value: str
) -> None:
    with odradek_broker(tmp_path) as broker:
        alter(broker.address, name, value)
        alter(broker.address, name, None)
        alter(broker.address, name, value)
        assert broker.stop() == 0
        broker.start()
        alter(broker.address, name, None)
        assert broker.stop() == 0


class ForgettingBroker(BrokerProcess):
    """Starts with the option."""

    def command(self) -> list[str]:
        return [*super().command(), "--forget-dynamic-settings"]


@pytest.mark.client
def test_start_forgets_dynamic_settings_and_says_which(tmp_path: Path) -> None:
    with odradek_broker(tmp_path) as broker:
        alter(broker.address, "max.connections", "4")
        alter_all_brokers(broker.address, "log.retention.ms=86400000,num.io.threads=9")
        assert broker.stop() == 0
        again = broker.successor(ForgettingBroker)
    try:
        again.start()
        lines = "\n".join(again.process.lines())
        assert "dynamic settings of broker 0 are removed: max.connections\n" in lines
        removed = "dynamic settings of all brokers are removed: log.retention.ms, num.io.threads"
        assert removed in lines
        resource = ConfigResource(ResourceType.BROKER, "0")
        admin = AdminClient({"bootstrap.servers": again.address})
        (described,) = admin.describe_configs([resource]).values()
        entries = described.result(WAIT_S)
        assert entries["max.connections"].value == "2147483647"
        assert not [entry for entry in entries.values() if "DYNAMIC" in str(entry.source)]
        assert again.stop() == 0
        # They are gone from the tree, too.
        after = again.successor(BrokerProcess).start()
        assert "dynamic settings of" not in "\n".join(after.process.lines())
        assert after.stop() == 0
    finally:
        again.close()
