"""TLS to ZooKeeper, credentials, and the ACLs of zookeeper.set.acl."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_digest_acl

from odradek.broker.settings.load import make_settings
from odradek.broker.settings.types import SettingsError
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.certificates import PASSWORD, Authority
from tests.support.ports import free_port
from tests.support.processes import LoggedProcess
from tests.support.zookeeper import ZooKeeperServer, zookeeper

WAIT_S = 60.0
LOCKED_CHANGED = b'{"version":2,"entity_path":"topics/locked"}'


@pytest.mark.judge
def test_znodes_have_the_acls_of_kafka(tmp_path: Path) -> None:
    """As ZkData.defaultAcls: what is below /config/users and /config/brokers may hold passwords."""
    with (
        zookeeper(tmp_path / "zookeeper") as address,
        odradek_broker(
            tmp_path / "broker",
            overrides={
                "zookeeper.connect": f"{address}/kafka",
                "zookeeper.set.acl": "true",
                "odradek.zookeeper.digest": "kafka:secret",
            },
        ),
    ):
        client = KazooClient(f"{address}/kafka", auth_data={("digest", "kafka:secret")})
        client.start(timeout=60)
        mine = make_digest_acl("kafka", "secret", all=True)
        expected = {
            "/": [mine, *READ_ACL_UNSAFE],
            "/brokers/ids/0": [mine, *READ_ACL_UNSAFE],
            "/controller": [mine, *READ_ACL_UNSAFE],
            "/config/topics": [mine, *READ_ACL_UNSAFE],
            "/config/users": [mine],
            "/config/brokers": [mine],
            "/consumers": OPEN_ACL_UNSAFE,
        }
        assert {path: client.get_acls(path)[0] for path in expected} == expected
        client.stop()
        client.close()
        stranger = KazooClient(f"{address}/kafka")
        stranger.start(timeout=60)
        assert stranger.get_children("/brokers/ids") == ["0"]
        with pytest.raises(NoAuthError):
            stranger.delete("/controller")
        with pytest.raises(NoAuthError):
            stranger.get_children("/config/users")
        stranger.stop()
        stranger.close()


@pytest.mark.judge
def test_topic_settings_that_an_acl_hides_hold_up_no_other_topic(tmp_path: Path) -> None:
    with (
        zookeeper(tmp_path / "zookeeper") as address,
        odradek_broker(
            tmp_path / "broker", overrides={"zookeeper.connect": f"{address}/kafka"}
        ) as broker,
    ):
        client = KazooClient(f"{address}/kafka")
        client.start(timeout=60)
        theirs = [make_digest_acl("stranger", "secret", all=True)]
        client.create("/config/topics/locked", b'{"version":1,"config":{}}', acl=theirs)
        client.create("/brokers/topics/locked", b'{"version":1,"partitions":{"0":[0]}}')
        broker.process.wait_for_line("config of topics locked: NoAuthorization", timeout_s=WAIT_S)
        admin = AdminClient({"bootstrap.servers": broker.address})
        (created,) = admin.create_topics([NewTopic("open", 1, 1)]).values()
        created.result(WAIT_S)
        client.create("/config/changes/config_change_", LOCKED_CHANGED, sequence=True)
        increment = ConfigEntry(
            "segment.ms", "7777777", incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ResourceType.TOPIC, "open", incremental_configs=[increment])
        (altered,) = admin.incremental_alter_configs([resource]).values()
        altered.result(WAIT_S)
        errors: list[object] = []
        producer = Producer({"bootstrap.servers": broker.address, "acks": "all"})
        for topic in ("locked", "open"):
            producer.produce(topic, b"v", on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(WAIT_S) == 0
        assert errors == [None, None]
        client.stop()
        client.close()
        assert broker.stop() == 0
        broker.start()
        producer = Producer({"bootstrap.servers": broker.address, "acks": "all"})
        producer.produce("locked", b"v", on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(WAIT_S) == 0
        assert errors == [None] * 3


def tls_server(folder: Path, authority: Authority) -> tuple[ZooKeeperServer, str]:
    """A server, and the address at which it speaks TLS with clients that have a certificate."""
    port = free_port()
    server = ZooKeeperServer(
        folder,
        lines=(
            f"secureClientPort={port}",
            "secureClientPortAddress=127.0.0.1",
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
            f"ssl.keyStore.location={authority.certify('server')}",
            f"ssl.trustStore.location={authority.trusted}",
            "ssl.clientAuth=need",
            "authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider",
        ),
    )
    return server, f"127.0.0.1:{port}"


def tls_settings(address: str, trusted: Path, key: Path) -> dict[str, str]:
    """Settings of a broker."""
    return {
        "zookeeper.connect": f"{address}/kafka",
        "zookeeper.connection.timeout.ms": "20000",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.truststore.location": str(trusted),
        "zookeeper.ssl.keystore.location": str(key),
    }


@pytest.mark.judge
def test_broker_registers_over_tls_with_its_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    server, address = tls_server(tmp_path / "zookeeper", authority)
    in_pkcs12 = {
        "zookeeper.ssl.keystore.password": PASSWORD,
        "zookeeper.ssl.truststore.password": PASSWORD,
    }
    certified = authority.issue("broker")
    try:
        server.start()
        for number, overrides in enumerate(
            (
                tls_settings(address, authority.trusted, certified.pem),
                tls_settings(address, authority.trusted_pkcs12(), certified.pkcs12()) | in_pkcs12,
            )
        ):
            with odradek_broker(
                tmp_path / f"broker{number}",
                overrides={**overrides, "broker.id": str(number), "zookeeper.set.acl": "true"},
            ):
                client = KazooClient(server.address)
                client.start(timeout=60)
                assert str(number) in client.get_children("/kafka/brokers/ids")
                acls = client.get_acls(f"/kafka/brokers/ids/{number}")[0]
                assert [(acl.id.scheme, acl.id.id) for acl in acls] == [
                    ("x509", "CN=broker"),
                    ("world", "anyone"),
                ]
                client.stop()
                client.close()
    finally:
        server.kill()


@pytest.mark.judge
def test_server_with_a_certificate_of_another_authority_is_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    other = Authority(tmp_path / "other")
    server, address = tls_server(tmp_path / "zookeeper", authority)
    try:
        server.start()
        overrides = tls_settings(address, other.trusted, authority.certify("broker"))
        overrides["zookeeper.connection.timeout.ms"] = "2000"
        folder = tmp_path / "broker"
        folder.mkdir()
        broker = BrokerProcess(folder, overrides=overrides)
        with LoggedProcess(broker.command(), log=folder / "log", folder=folder) as process:
            assert process.wait(timeout_s=WAIT_S) == 1
            assert "no connection to ZooKeeper" in process.tail()
    finally:
        server.kill()


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"zookeeper.set.acl": "true"}, "zookeeper.set.acl"),
        (
            {
                "zookeeper.ssl.client.enable": "true",
                "zookeeper.ssl.enabled.protocols": "TLSv1.1,TLSv1.2",
            },
            "zookeeper.ssl.enabled.protocols",
        ),
        ({"zookeeper.ssl.crl.enable": "true"}, "zookeeper.ssl.crl.enable"),
    ],
)
def test_security_that_is_not_served_stops_the_start(values: Mapping[str, str], name: str) -> None:
    with pytest.raises(SettingsError, match=name.replace(".", r"\.")):
        make_settings({"zookeeper.connect": "127.0.0.1:2181", **values})
