"""Listeners on every interface: clients that we did not write reach them over both families."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from tests.clients.contract import EARLIEST, How
from tests.clients.libraries import connect
from tests.clients.records import build_messages, expect
from tests.support.broker_process import odradek_broker
from tests.support.ports import free_port
from tests.support.wire import Wire

WAIT_S = 60.0
SETTINGS = {"offsets.topic.num.partitions": "5", "group.initial.rebalance.delay.ms": "0"}
HOSTS = {"127.0.0.1": "127.0.0.1", "[::1]": "0:0:0:0:0:0:0:1"}
"""How a client dials, and how it is shown."""


@pytest.mark.parametrize("advertised", HOSTS)
@pytest.mark.parametrize(
    ("library", "listening"),
    [("confluent-kafka", ""), ("kafka-python", "0.0.0.0"), ("aiokafka", "[::]")],
)
def test_every_interface_serves_clients_of_both_families(
    tmp_path: Path, library: str, advertised: str, listening: str
) -> None:
    port = free_port()
    overrides = {
        **SETTINGS,
        "listeners": f"PLAINTEXT://{listening}:{port}",
        "advertised.listeners": f"PLAINTEXT://{advertised}:{port}",
    }
    with odradek_broker(tmp_path, overrides=overrides, port=port):
        for number, bootstrap in enumerate(HOSTS):
            client = connect(library, f"{bootstrap}:{port}", tmp_path)
            try:
                sent = build_messages(client.abilities, 0)
                client.produce(f"t{number}", sent, How(acks="all"))
                got = client.read(f"t{number}", 0, EARLIEST, len(sent)).messages()
                expect(sent, got, first_offset=0, timed=client.abilities.chooses_timestamps)
            finally:
                client.close()


@pytest.mark.parametrize("advertised", HOSTS)
def test_members_are_shown_as_java_shows_their_addresses(tmp_path: Path, advertised: str) -> None:
    port = free_port()
    overrides = {
        **SETTINGS,
        "listeners": f"PLAINTEXT://:{port}",
        "advertised.listeners": f"PLAINTEXT://{advertised}:{port}",
    }
    with odradek_broker(tmp_path, overrides=overrides, port=port):
        settings: dict[str, Any] = {
            "bootstrap.servers": f"{advertised}:{port}",
            "group.id": "g",
            "auto.offset.reset": "earliest",
        }
        client = connect("confluent-kafka", f"{advertised}:{port}", tmp_path)
        client.produce("t", build_messages(client.abilities, 0), How(acks="all"))
        client.close()
        consumer = Consumer(settings)
        try:
            consumer.subscribe(["t"])
            assert consumer.poll(WAIT_S) is not None
            with Wire(f"127.0.0.1:{port}") as wire:
                group = wire.call(DescribeGroupsRequest(groups=["g"]), 5).groups[0]
            (member,) = group.members
            assert member.client_host == f"/{HOSTS[advertised]}"
        finally:
            consumer.close()
