"""The audit log of a broker with users and ACLs, written by requests of librdkafka."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from odradek.broker.handlers.shared.table import ADMINISTRATIVE
from odradek.broker.server.audit import AUDITED
from tests.odradek.console_tools import our_tool_here
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.compacted import wait_until

pytestmark = pytest.mark.client
WAIT_S = 60.0
PASSWORD = "a-secret-password"
LISTENER = "listener.name.sasl_plaintext.plain.sasl.jaas.config"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder: Path = tmp_path_factory.mktemp("audited")
    process = BrokerProcess(folder)
    process.overrides = {
        "listeners": f"SASL_PLAINTEXT://{process.address}",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN",
        LISTENER: "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="admin" password="{PASSWORD}" user_admin="{PASSWORD}" user_eve="{PASSWORD}";',
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin",
        "odradek.audit.log": str(folder / "audit.log"),
    }
    try:
        yield process.start()
    finally:
        process.close()


def configs(broker: BrokerProcess, user: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": PASSWORD,
        "client.id": f"tool of {user}",
    }


def admin_file(broker: BrokerProcess) -> Path:
    """Properties with which a tool logs in as admin."""
    path = broker.folder / "admin.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="admin" password="{PASSWORD}";\n'
    )
    return path


def lines(broker: BrokerProcess) -> list[dict[str, Any]]:
    text = (broker.folder / "audit.log").read_text()
    return [json.loads(line) for line in text.splitlines()]


def requests(broker: BrokerProcess, name: str) -> list[dict[str, Any]]:
    """The lines of one API."""
    return [line for line in lines(broker) if line["request"] == name and "targets" in line]


def test_audit_log_has_the_principal_and_the_targets_but_no_secret(broker: BrokerProcess) -> None:
    admin = AdminClient(configs(broker, "admin"))
    admin.create_topics([NewTopic("ledger", 2, 1)])["ledger"].result(WAIT_S)
    with pytest.raises(KafkaException, match="already exists"):
        admin.create_topics([NewTopic("ledger", 2, 1)])["ledger"].result(WAIT_S)
    first, second = [
        row for row in requests(broker, "CreateTopics") if row["targets"] == ["ledger"]
    ]
    assert first.pop("time").endswith("Z")
    assert first == {
        "request": "CreateTopics",
        "principal": "User:admin",
        "host": "127.0.0.1",
        "client_id": "tool of admin",
        "targets": ["ledger"],
        "errors": {},
        "refused": False,
        "succeeded": True,
    }
    assert second["errors"] == {"TOPIC_ALREADY_EXISTS": 1}
    assert not second["refused"]
    assert not second["succeeded"]
    entry = ConfigEntry("retention.ms", "77000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "ledger", incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(WAIT_S)
    (altered,) = requests(broker, "IncrementalAlterConfigs")
    assert altered["targets"] == ["2:ledger: retention.ms"]
    binding = AclBinding(
        ResourceType.TOPIC,
        "ledger",
        ResourcePatternType.LITERAL,
        "User:eve",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    admin.create_acls([binding])[binding].result(WAIT_S)
    (added,) = requests(broker, "CreateAcls")
    assert added["targets"] == ["User:eve on ledger"]
    scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    user = UserScramCredentialUpsertion("bob", scram, b"another-secret")
    admin.alter_user_scram_credentials([user])["bob"].result(WAIT_S)
    (credentials,) = requests(broker, "AlterUserScramCredentials")
    assert credentials["targets"] == ["bob"]
    text = (broker.folder / "audit.log").read_text()
    assert "secret" not in text
    assert "77000" not in text
    assert stat.S_IMODE((broker.folder / "audit.log").stat().st_mode) == 0o600


def test_commit_is_logged_unless_a_member_of_the_group_sends_it(broker: BrokerProcess) -> None:
    admin = AdminClient(configs(broker, "admin"))
    admin.create_topics([NewTopic("read", 1, 1)])["read"].result(WAIT_S)
    group = {"group.id": "readers", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**configs(broker, "admin"), **group})
    consumer.subscribe(["read"])
    wait_until("assignment", lambda: consumer.poll(0.1) is None and consumer.assignment())
    consumer.commit(offsets=[TopicPartition("read", 0, 3)], asynchronous=False)
    assert requests(broker, "OffsetCommit") == []
    reset = ConsumerGroupTopicPartitions("readers", [TopicPartition("read", 0, 1)])
    admin.alter_consumer_group_offsets([reset])["readers"].result(WAIT_S)
    consumer.close()
    admin.alter_consumer_group_offsets([reset])["readers"].result(WAIT_S)
    (refused, done) = requests(broker, "OffsetCommit")
    for row in (refused, done):
        assert (row["principal"], row["targets"]) == ("User:admin", ["readers: read"])
    assert (refused["errors"], refused["succeeded"]) == ({"UNKNOWN_MEMBER_ID": 1}, False)
    assert done["succeeded"]
    names = ["--bootstrap-server", broker.address, "--command-config", str(admin_file(broker))]
    chosen = ["--group", "readers", "--topic", "read"]
    reset_by_tool = ["--reset-offsets", "--to-latest", "--execute"]
    for action in (reset_by_tool, ["--delete-offsets"]):
        assert our_tool_here("consumer-groups", [*names, *chosen, *action]).exit_code == 0
    for row in (requests(broker, "OffsetCommit")[-1], *requests(broker, "OffsetDelete")):
        assert (row["targets"], row["succeeded"]) == (["readers: read"], True)
    assert len(requests(broker, "OffsetCommit")) == 3


def test_refused_request_is_logged_with_the_denial(broker: BrokerProcess) -> None:
    eve = AdminClient(configs(broker, "eve"))
    with pytest.raises(KafkaException):
        eve.create_topics([NewTopic("stolen", 1, 1)])["stolen"].result(WAIT_S)

    def refused() -> list[dict[str, Any]]:
        rows = requests(broker, "CreateTopics")
        return [row for row in rows if row["principal"] == "User:eve"]

    (row,) = wait_until("the line", refused, timeout_s=WAIT_S)
    assert (row["targets"], row["refused"], row["succeeded"]) == (["stolen"], True, False)
    assert row["errors"] == {"TOPIC_AUTHORIZATION_FAILED": 1}
    denials = [line for line in lines(broker) if line.get("allowed") is False]
    assert {(line["principal"], line["operation"]) for line in denials} >= {("User:eve", "Create")}


def test_records_and_the_log_of_the_broker_have_no_audit_lines(broker: BrokerProcess) -> None:
    admin = AdminClient(configs(broker, "admin"))
    admin.create_topics([NewTopic("busy", 1, 1)])["busy"].result(WAIT_S)
    before = len(lines(broker))
    producer = Producer(configs(broker, "admin"))
    for _ in range(100):
        producer.produce("busy", b"x")
    assert producer.flush(WAIT_S) == 0
    assert len(lines(broker)) == before
    assert "odradek.audit" not in (broker.folder / "broker.log").read_text()


def test_level_of_the_logger_turns_the_lines_on_and_off(tmp_path: Path) -> None:
    with odradek_broker(tmp_path) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})

        def set_level(level: str) -> None:
            words = ["--alter", "--entity-type", "broker-loggers", "--entity-name", "0"]
            change = ["--add-config", f"odradek.audit.requests={level}"]
            command = ["--bootstrap-server", broker.address, *words, *change]
            assert our_tool_here("configs", command).exit_code == 0

        admin.create_topics([NewTopic("before", 1, 1)])["before"].result(WAIT_S)
        set_level("INFO")
        admin.create_topics([NewTopic("during", 1, 1)])["during"].result(WAIT_S)
        log = broker.folder / "broker.log"
        wait_until("the line", lambda: '"targets": ["during"]' in log.read_text())
        set_level("FATAL")
        admin.create_topics([NewTopic("after", 1, 1)])["after"].result(WAIT_S)
        text = log.read_text()
        assert '"before"' not in text
        assert '"after"' not in text


def test_file_that_cannot_be_written_stops_the_start(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, overrides={"odradek.audit.log": str(tmp_path / "no" / "log")})
    with pytest.raises(Exception, match=r"odradek.audit.log: .*/no/log cannot be written: No such"):
        broker.start()


def test_every_administrative_api_is_audited() -> None:
    assert AUDITED.keys() == ADMINISTRATIVE
