"""A broker whose control channel other machines reach, as in a container, and its token."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from odradek.testing import Broker, ConnectedBroker, ControlFailed
from odradek.testing.namespace import KafkaNamespace
from tests.support.ports import free_port
from tests.support.processes import LoggedProcess

WAIT_S = 60.0
START = [sys.executable, "-I", "-m", "odradek", "start", "--ephemeral", "--port", "0"]
TOKEN = "a-token-of-this-test"
ELSEWHERE = "127.0.0.9"
"""An address that is not the one of the default, and reaches a socket on 0.0.0.0."""

pytestmark = pytest.mark.client


class Started:
    """A broker that no handle of these tests has started."""

    def __init__(self, folder: Path, token: str, *arguments: str) -> None:
        self.control = f"{ELSEWHERE}:{free_port()}"
        port = free_port()
        self.bootstrap_servers = f"{ELSEWHERE}:{port}"
        listeners = [
            *("--override", f"listeners=PLAINTEXT://0.0.0.0:{port}"),
            *("--override", f"advertised.listeners=PLAINTEXT://{self.bootstrap_servers}"),
        ]
        command = [*START[:-2], *listeners, "--control", self.control.replace(ELSEWHERE, "0.0.0.0")]
        self.process = LoggedProcess(
            [*command, *arguments],
            log=folder / "broker.log",
            folder=folder,
            environment={"ODRADEK_CONTROL_TOKEN": token} if token else {},
        )
        self.process.wait_for_line(r"\bready\b", timeout_s=WAIT_S)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    running = Started(tmp_path_factory.mktemp("elsewhere"), TOKEN)
    yield running
    assert running.process.stop(timeout_s=WAIT_S) == 0


@pytest.fixture
def broker(started: Started) -> Iterator[ConnectedBroker]:
    with Broker.connect(started.bootstrap_servers, started.control, TOKEN) as connected:
        yield connected


def produce(broker: ConnectedBroker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, b"value")
    assert producer.flush(WAIT_S) == 0


def test_records_faults_clock_and_requests_are_those_of_the_broker(broker: ConnectedBroker) -> None:
    topic = broker.create_topic("orders", partitions=2)
    with broker.fault("Produce", topic=topic, error="NOT_LEADER_OR_FOLLOWER", times=2) as fault:
        produce(broker, topic)
        assert fault.wait(2) == 2
    assert [record.value for record in broker.records(topic, 1)] == [b"value"]
    assert sum(broker.requests("Produce").values()) >= 3
    ahead_ms = broker.clock.ahead_ms()
    assert broker.clock.advance(hours=1).elapsed_ms == 3_600_000
    assert abs(broker.clock.ahead_ms() - ahead_ms - 3_600_000) < 60_000
    names = KafkaNamespace(broker, "test")
    assert names.create_topic(names.name("more")).startswith("more-test")


def test_closing_removes_faults_and_leaves_the_broker_running(started: Started) -> None:
    with Broker.connect(started.bootstrap_servers, f"http://{started.control}", TOKEN) as first:
        first.create_topic("kept")
        first.fault("Metadata", drop=True)
        first.disk.slow(ms=1)
    with Broker.connect(started.bootstrap_servers, started.control, TOKEN) as second:
        assert second.control.get("/faults")["requests"] == []
        produce(second, "kept")
        assert len(second.records("kept", 1)) == 1


@pytest.mark.parametrize(
    "token", [None, "", "another-token-of-a-test", TOKEN[:-1], TOKEN + "x", "é"]
)
def test_other_token_is_refused(started: Started, token: str | None) -> None:
    broker = Broker.connect(started.bootstrap_servers, started.control, token)
    with pytest.raises(ControlFailed, match="the token is wrong") as failure:
        broker.wait_until_ready()
    assert failure.value.status == 401
    with pytest.raises(ControlFailed):
        broker.control.post("/retention")


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "0.0.0.0:9999"])
def test_address_of_other_machines_without_a_token_ends_the_start(address: str) -> None:
    done = run("--control", address)
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1
    assert "other machines reach it, so it needs a token" in done.stderr


@pytest.mark.parametrize("token", ["short", "with blanks in the middle", "x" * 2_000, ""])
def test_token_that_is_none_ends_the_start(token: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(token)
    done = run("--control", "0.0.0.0:0", "--control-token-file", str(file))
    assert done.returncode == 1
    assert f"the token of {file} is not 16 to 1,000" in done.stderr


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A start that is refused."""
    environment = {name: os.environ[name] for name in os.environ if "ODRADEK" not in name}
    return subprocess.run(
        [*START, *arguments],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
        env=environment,
    )


@pytest.mark.parametrize("address", ["", "1x", ":1", "host", "1.2.3.4:", "127.0.0.1:70000"])
def test_address_without_a_port_is_refused(address: str) -> None:
    done = run("--control", address)
    assert done.returncode == 2
    assert "--control" in done.stderr


def test_token_is_made_and_kept_in_a_file_of_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "token"
    tokens = []
    for _ in range(2):
        running = Started(tmp_path, "", "--control-token-file", str(file))
        try:
            tokens.append(file.read_text().strip())
            with Broker.connect(running.bootstrap_servers, running.control, tokens[0]) as broker:
                assert broker.control.get("/broker")["broker_id"] == 0
        finally:
            assert running.process.stop(timeout_s=WAIT_S) == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert tokens[0] == tokens[1]
    assert len(tokens[0]) >= 32
