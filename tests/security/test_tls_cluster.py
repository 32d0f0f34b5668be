"""Brokers that reach each other over mutual TLS."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.broker_cluster import BrokerCluster
from tests.support.certificates import Authority
from tests.support.ports import free_port

pytestmark = pytest.mark.client

WAIT_S = 60.0


def test_three_brokers_replicate_over_mutual_tls(tmp_path: Path) -> None:
    """Controller, fetchers and clients use it; a broker of another authority stays outside."""
    authority = Authority(tmp_path / "certificates")
    cluster = BrokerCluster(
        tmp_path,
        zookeeper_connect=None,
        overrides={
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:SSL",
            "inter.broker.listener.name": "INTERNAL",
            "listener.name.internal.ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.trusted),
        },
    )
    for number, broker in cluster.brokers.items():
        port = free_port()
        broker.overrides["ssl.keystore.location"] = str(authority.certify(f"broker-{number}"))
        broker.overrides["listeners"] = f"PLAINTEXT://{broker.address},INTERNAL://127.0.0.1:{port}"
    try:
        cluster.start_all()
        cluster.wait_for_brokers()
        cluster.create_topic("replicated", partitions=3)
        errors: list[object] = []
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        for number in range(3_000):
            producer.produce(
                "replicated", b"%d" % number, on_delivery=lambda error, _: errors.append(error)
            )
        assert producer.flush(WAIT_S) == 0
        assert errors == [None] * 3_000
        cluster.kill(3)
        cluster.wait_until_complete("replicated", isr=2)
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none"})
        consumer.assign([TopicPartition("replicated", partition, 0) for partition in range(3)])
        values: list[bytes | None] = []
        while len(values) < 3_000:
            batch = consumer.consume(3_000 - len(values), WAIT_S)
            assert batch
            values += [message.value() for message in batch]
        consumer.close()
        assert sorted(int(value or b"") for value in values) == list(range(3_000))
        # The broker comes back with a certificate that the others do not trust.
        stranger = Authority(tmp_path / "stranger", "stranger").certify("broker-3")
        cluster.brokers[3].overrides["ssl.keystore.location"] = str(stranger)
        cluster.start(3)
        cluster.brokers[3].process.wait_for_line("Failed authentication", timeout_s=WAIT_S)
        assert 3 not in cluster.partitions("replicated", of=1)[0].isr_nodes
    finally:
        cluster.close()
