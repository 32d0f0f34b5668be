"""`kafka.request.logger`: requests in the log, as long as its level asks for them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.broker.server.request_log import ELEMENTS_MAX, MessageText
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.compacted import wait_until

pytestmark = pytest.mark.client

BROKER = "0"
WAIT_S = 60.0
MARK = "Completed request:"
SECRET = "hunter2-of-the-store"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with odradek_broker(tmp_path_factory.mktemp("broker")) as process:
        yield process


def alter(broker: BrokerProcess, entity: str, name: str, change: str) -> None:
    command = [sys.executable, "-m", "odradek", "configs", "--bootstrap-server", broker.address]
    command += ["--alter", "--entity-type", entity, "--entity-name", name, "--add-config", change]
    result = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def set_level(broker: BrokerProcess, level: str) -> None:
    alter(broker, "broker-loggers", BROKER, f"kafka.request.logger={level}")


def logged(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "broker.log").read_text().splitlines()
    return [json.loads(line.partition(MARK)[2]) for line in lines if MARK in line]


def requests(folder: Path, name: str) -> list[dict[str, Any]]:
    return [row for row in logged(folder) if row["requestHeader"]["requestApiKeyName"] == name]


def produce(broker: BrokerProcess) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "client.id": 'a "b"\n'})
    producer.produce("events", b"secret record")
    assert producer.flush(WAIT_S) == 0


def test_requests_are_logged_while_the_level_is_debug(broker: BrokerProcess) -> None:
    produce(broker)
    assert logged(broker.folder) == []
    set_level(broker, "DEBUG")
    produce(broker)
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "g"})
    consumer.assign([TopicPartition("events", 0, 1)])
    assert consumer.poll(WAIT_S) is not None
    consumer.close()
    wait_until("a Fetch in the log", lambda: bool(requests(broker.folder, "FETCH")))
    (row,) = requests(broker.folder, "PRODUCE")
    assert row["requestHeader"]["clientId"] == 'a "b"\n'
    (topic,) = row["request"]["topicData"]
    assert topic["partitionData"][0]["recordsSizeInBytes"] > len(b"secret record")
    assert row["response"]["responses"][0]["partitionResponses"][0]["baseOffset"] == 1
    assert row["principal"] == "User:ANONYMOUS"
    assert 0 < row["localTimeMs"] <= row["totalTimeMs"]
    fetch = requests(broker.folder, "FETCH")[0]
    assert fetch["remoteTimeMs"] >= 0
    assert "secret record" not in (broker.folder / "broker.log").read_text()
    set_level(broker, "WARN")
    produce(broker)
    set_level(broker, "DEBUG")
    produce(broker)
    wait_until("another Produce", lambda: len(requests(broker.folder, "PRODUCE")) > 1)
    offsets = [
        row["response"]["responses"][0]["partitionResponses"][0]["baseOffset"]
        for row in requests(broker.folder, "PRODUCE")
    ]
    assert offsets == [1, 3], "2 was written at WARN"
    set_level(broker, "WARN")


def test_passwords_and_bytes_are_not_shown_and_lists_are_cut() -> None:
    resources = [
        AlterConfigsResource(
            resource_type=4,
            resource_name="0",
            configs=[
                AlterableConfig(name=name, config_operation=0, value=SECRET)
                for name in ("ssl.keystore.password", "listener.name.x.ssl.key.password")
            ],
        )
    ]
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
    shown = json.dumps(MessageText(1).of(request))
    assert (SECRET in shown, shown.count("(hidden)")) == (False, 2)
    login = SaslAuthenticateRequest(auth_bytes=SECRET.encode())
    assert MessageText(2).of(login) == {"authBytesSizeInBytes": len(SECRET)}
    groups = DeleteGroupsRequest(groups_names=[str(number) for number in range(ELEMENTS_MAX + 7)])
    names = MessageText(2).of(groups)
    assert names is not None
    shown_names = names["groupsNames"]
    assert isinstance(shown_names, list)
    assert shown_names[ELEMENTS_MAX:] == ["and 7 more"]
