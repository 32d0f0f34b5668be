"""`odradek container-config` and `container-start` as processes, with a client of librdkafka."""

from __future__ import annotations

import os
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odradek.container.config_command import main as config_command
from odradek.runtime.java_properties import parse_properties
from tests.cluster.acknowledged import read_all
from tests.support.apache import apache_kafka
from tests.support.apache_kraft import apache_kraft_node
from tests.support.client_errors import LOGIN, wait_for_error
from tests.support.ports import free_port
from tests.support.processes import LoggedProcess
from tests.support.zookeeper import zookeeper

READY_TIMEOUT_S: Final = 120.0
COMMAND: Final = [sys.executable, "-I", "-m", "odradek"]
CLEAN: Final = {"PATH": os.environ["PATH"]}


def printed(environment: Mapping[str, str], *words: str) -> tuple[int, str, str]:
    """(exit code, standard output, standard error) of container-config."""
    done = subprocess.run(
        [*COMMAND, "container-config", *words],
        env={**CLEAN, **environment},
        capture_output=True,
        text=True,
        timeout=READY_TIMEOUT_S,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_config_is_printed_with_secrets_hidden_and_unknown_variables_named() -> None:
    environment = {
        "KAFKA_SSL_KEY_PASSWORD": "hush",
        "KAFKA_NUM_PARTITION": "2",
        "HOSTNAME_COMMAND": "printf '%s\\n' \"$NAME\"",
        "NAME": "inner",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://_{HOSTNAME_COMMAND}:9092",
    }
    code, output, errors = printed(environment, "KAFKA_NODE_ID=7")
    assert code == 0
    lines = output.splitlines()
    assert {"ssl.key.password=[hidden]", "node.id=7"} <= set(lines)
    assert "advertised.listeners=PLAINTEXT://inner:9092" in lines
    assert lines == sorted(lines)
    assert "hush" not in output + errors
    unknown = "Unknown setting num.partition has no effect; did you mean num.partitions?"
    assert errors == f"odradek: KAFKA_NUM_PARTITION: {unknown}\n"


REFUSED: Final = {
    "KAFKA_NUM_IO_THREADS": ({"KAFKA_NUM_IO_THREADS": "0"}, "Value must be at least 1"),
    "KAFKA_LISTENERS": ({"KAFKA_LISTENERS": "OTHER://:1"}, "No security protocol for OTHER"),
    "KAFKA_ADVERTISED_LISTENERS": (
        {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://0.0.0.0:9092"},
        "0.0.0.0 is not an address that clients can connect to",
    ),
    "RACK_COMMAND": ({"RACK_COMMAND": "exit 3"}, "it ended with 3"),
    "KAFKA_SSL_KEY_CREDENTIALS": ({"KAFKA_SSL_KEY_CREDENTIALS": "none"}, "No such file"),
    "KAFKA_CREATE_TOPICS": ({"KAFKA_CREATE_TOPICS": "t"}, "expected name:partitions:replicas"),
}


@pytest.mark.parametrize(("variable", "case"), REFUSED.items())
def test_refused_variable_is_one_line_and_exit_code_one(
    variable: str, case: tuple[dict[str, str], str]
) -> None:
    environment, reason = case
    code, output, errors = printed(environment)
    assert (code, output) == (1, "")
    assert errors.startswith(f"odradek: {variable}")
    assert errors.count("\n") == 1
    assert reason in errors


def test_start_with_a_refused_variable_ends_with_one_line_and_writes_nothing(
    tmp_path: Path,
) -> None:
    environment = {**CLEAN, "KAFKA_LOG_DIRS": f"{tmp_path}/data", "KAFKA_NUM_IO_THREADS": "0"}
    command = [*COMMAND, "container-start"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("odradek: KAFKA_NUM_IO_THREADS: Invalid value 0 ")
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_written_file_has_the_values_and_only_its_owner_reads_it(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_LISTENERS", "PLAINTEXT://h:9092")
    file = tmp_path / "server.properties"
    # Without os.environ, where a value has no NUL and no surrogates either.
    assert config_command([f"KAFKA_SSL_KEY_PASSWORD={value}", "--write", str(file)]) == 0
    assert parse_properties(file.read_bytes())["ssl.key.password"] == value
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


STARTED: Final = (
    r"^\[KafkaServer id=7\] started",
    r"Kafka Server started",
    r"Transitioning from RECOVERY to RUNNING",
)


def test_started_container_prints_the_lines_others_wait_for_and_creates_its_topics(
    tmp_path: Path,
) -> None:
    port = free_port()
    environment = {
        "KAFKA_BROKER_ID": "7",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://localhost:{port}",
        "KAFKA_LOG_DIRS": f"{tmp_path}/data",
        "KAFKA_CREATE_TOPICS": "one:3:1,two:1:1:compact --config=retention.ms=77",
        "KAFKA_LOG4J_ROOT_LOGLEVEL": "WARN",
        "PYTHONUNBUFFERED": "1",
    }
    with LoggedProcess(
        [*COMMAND, "container-start"],
        log=tmp_path / "log",
        folder=tmp_path,
        environment=environment,
        is_executed=True,
    ) as process:
        for line in STARTED:
            process.wait_for_line(line, timeout_s=READY_TIMEOUT_S)
        admin = AdminClient({"bootstrap.servers": f"localhost:{port}"})
        assert list(admin.list_topics(timeout=60).brokers) == [7]
        for topic in ("one", "two"):
            process.wait_for_line(rf"Created topic {topic}\.", timeout_s=READY_TIMEOUT_S)
        topics = admin.list_topics(timeout=60).topics
        assert {name: len(topics[name].partitions) for name in ("one", "two")} == {
            "one": 3,
            "two": 1,
        }
        resource = ConfigResource(ResourceType.TOPIC, "two")
        (described,) = admin.describe_configs([resource]).values()
        configs = described.result(60)
        assert configs["cleanup.policy"].value == "compact"
        assert configs["retention.ms"].value == "77"
        assert process.stop() == 0
    assert not [line for line in process.lines() if re.search("Traceback|CRITICAL", line)]


def test_node_with_roles_is_formatted_and_another_cluster_id_is_refused(tmp_path: Path) -> None:
    port, controller = free_port(), free_port()
    environment = {
        "KAFKA_NODE_ID": "3",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": f"3@localhost:{controller}",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENERS": f"PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller}",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://localhost:{port}",
        "KAFKA_LOG_DIRS": f"{tmp_path}/data",
        "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    }
    command = [*COMMAND, "container-start"]
    settings = "; settings of the environment (odradek container-config prints them) -- try"
    for cluster_id in (environment["CLUSTER_ID"], ""):
        given = {**environment, "CLUSTER_ID": cluster_id}
        with LoggedProcess(command, log=tmp_path / "log", environment=given) as process:
            process.wait_for_line(r"\[KafkaServer id=3\] started", timeout_s=READY_TIMEOUT_S)
            admin = AdminClient({"bootstrap.servers": f"localhost:{port}"})
            assert str(admin.list_topics(timeout=60).cluster_id) == environment["CLUSTER_ID"]
            process.wait_for_line(re.escape(settings), timeout_s=READY_TIMEOUT_S)
            assert process.stop() == 0
    before = contents(tmp_path / "data")
    other = "abcdefghijklmnopqrstuv"
    line = refused_start({**environment, "CLUSTER_ID": other})
    assert other in line
    assert contents(tmp_path / "data") == before

    # Scripts that format a directory themselves call a part of the image with another id.
    with LoggedProcess(
        [*command, "--keep-cluster-id"],
        log=tmp_path / "log",
        environment={**environment, "CLUSTER_ID": other},
    ) as process:
        process.wait_for_line(r"\[KafkaServer id=3\] started", timeout_s=READY_TIMEOUT_S)
        assert process.stop() == 0


def refused_start(environment: Mapping[str, str]) -> str:
    """The one line with which a container ends."""
    done = subprocess.run(
        [*COMMAND, "container-start"],
        env={**CLEAN, **environment},
        capture_output=True,
        text=True,
        timeout=READY_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def contents(folder: Path) -> dict[str, bytes]:
    """The files below a folder, by path."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_port_in_use_is_one_line_and_nothing_is_written(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        environment = {
            "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
            "KAFKA_LOG_DIRS": f"{tmp_path}/data",
        }
        assert f"cannot listen on PLAINTEXT://127.0.0.1:{port}" in refused_start(environment)
    assert not list(tmp_path.iterdir())


@pytest.mark.judge
def test_volume_of_apache_kafka_with_kraft_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    with apache_kraft_node(tmp_path / "apache", version="3.9.2") as apache:
        AdminClient({"bootstrap.servers": apache.address}).create_topics([NewTopic("t", 1, 1)])
    before = contents(apache.data)
    controller = free_port()
    environment = {
        "KAFKA_NODE_ID": "0",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": f"0@localhost:{controller}",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENERS": f"PLAINTEXT://localhost:0,CONTROLLER://localhost:{controller}",
        "KAFKA_LOG_DIRS": str(apache.data),
    }
    line = refused_start(environment)
    assert "has the metadata of a cluster of Apache Kafka in KRaft mode" in line
    assert "MirrorMaker" in line
    assert contents(apache.data) == before


@pytest.mark.judge
@pytest.mark.slow
def test_volume_of_apache_kafka_with_zookeeper_is_taken_over(tmp_path: Path) -> None:
    with zookeeper(tmp_path / "zookeeper") as address:
        with apache_kafka(tmp_path / "apache", zookeeper_address=address) as apache:
            producer = Producer({"bootstrap.servers": apache.address, "acks": "all"})
            for number in range(100):
                producer.produce("kept", b"%d" % number)
            assert producer.flush(60) == 0
        port = free_port()
        environment = {
            "KAFKA_BROKER_ID": "0",
            "KAFKA_ZOOKEEPER_CONNECT": address,
            "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
            "KAFKA_LOG_DIRS": str(apache.data),
        }
        with LoggedProcess(
            [*COMMAND, "container-start"], log=tmp_path / "log", environment=environment
        ) as process:
            process.wait_for_line("odradek is ready", timeout_s=READY_TIMEOUT_S)
            assert read_all(f"127.0.0.1:{port}", "kept", 1) == {0: list(range(100))}
            assert process.stop(timeout_s=30) == 0


@pytest.mark.parametrize("named_by", ["users", "KAFKA_OPTS", "mounted"])
def test_users_of_bitnami_and_of_a_jaas_file_log_in(named_by: str, tmp_path: Path) -> None:
    users = {"KAFKA_CLIENT_USERS": "alice,bob", "KAFKA_CLIENT_PASSWORDS": "of-alice,of-bob"}
    if named_by != "users":
        jaas = tmp_path / "kafka_jaas.conf"
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        options = 'user_alice="of-alice" user_bob="of-bob"'
        jaas.write_text(f"client.KafkaServer {{ {module} required {options}; }};\n")
        users = {"KAFKA_OPTS": f"-Xmx1g -Djava.security.auth.login.config={jaas}"}
    if named_by == "mounted":
        users = {"KAFKA_MOUNTED_CONF_DIR": str(tmp_path)}
    ports = {"CLIENT": free_port(), "INTERNAL": free_port()}
    listeners = ",".join(f"{name}://localhost:{port}" for name, port in ports.items())
    environment = {
        "KAFKA_CFG_LISTENERS": listeners,
        "KAFKA_CFG_ADVERTISED_LISTENERS": listeners,
        "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "CLIENT:SASL_PLAINTEXT,INTERNAL:PLAINTEXT",
        "KAFKA_CFG_INTER_BROKER_LISTENER_NAME": "INTERNAL",
        "KAFKA_CFG_SASL_ENABLED_MECHANISMS": "PLAIN",
        "KAFKA_CFG_LOG_DIRS": f"{tmp_path}/data",
        **users,
    }
    address = f"localhost:{ports['CLIENT']}"
    with LoggedProcess(
        [*COMMAND, "container-start"],
        log=tmp_path / "log",
        folder=tmp_path,
        environment=environment,
    ) as process:
        process.wait_for_line("Kafka Server started", timeout_s=READY_TIMEOUT_S)
        for user in ("alice", "bob"):
            admin = AdminClient(sasl_configs(address, user, f"of-{user}"))
            assert len(admin.list_topics(timeout=60).brokers) == 1
        errors: list[KafkaError] = []
        configs = sasl_configs(address, "alice", "of-bob")
        configs["error_cb"] = errors.append
        stranger = AdminClient(configs)
        with pytest.raises(KafkaException):
            stranger.list_topics(timeout=2)
        wait_for_error(stranger, errors, LOGIN)
        assert process.stop(timeout_s=30) == 0
    shown = (tmp_path / "log").read_text()
    assert not [word for word in ("of-alice", "of-bob") if word in shown]


def sasl_configs(address: str, user: str, password: str) -> dict[str, Any]:
    """Configs of librdkafka for a login with PLAIN."""
    return {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
        "log_level": 0,
    }


@pytest.mark.parametrize("coordination", ["own", "roles", "zookeeper"])
def test_users_of_scram_are_stored_before_the_start(coordination: str, tmp_path: Path) -> None:
    ports = {"CLIENT": free_port(), "INTERNAL": free_port()}
    listeners = ",".join(f"{name}://localhost:{port}" for name, port in ports.items())
    environment = {
        "KAFKA_CFG_LISTENERS": listeners,
        "KAFKA_CFG_ADVERTISED_LISTENERS": listeners,
        "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "CLIENT:SASL_PLAINTEXT,"
        "INTERNAL:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "KAFKA_CFG_INTER_BROKER_LISTENER_NAME": "INTERNAL",
        "KAFKA_CFG_SASL_ENABLED_MECHANISMS": "SCRAM-SHA-256,SCRAM-SHA-512",
        "KAFKA_CFG_SASL_MECHANISM_INTER_BROKER_PROTOCOL": "SCRAM-SHA-512",
        "KAFKA_CFG_LOG_DIRS": f"{tmp_path}/data",
        "KAFKA_CLIENT_USERS": "alice,bob",
        "KAFKA_CLIENT_PASSWORDS": "of-alice,of-bob",
        "KAFKA_INTER_BROKER_USER": "brokers",
        "KAFKA_INTER_BROKER_PASSWORD": "of-brokers",
    }
    with ExitStack() as stack:
        if coordination == "zookeeper":
            address = stack.enter_context(zookeeper(tmp_path / "zookeeper"))
            environment["KAFKA_CFG_ZOOKEEPER_CONNECT"] = f"{address}/chroot"
        elif coordination == "roles":
            controller = f"localhost:{free_port()}"
            environment["KAFKA_CFG_LISTENERS"] += f",CONTROLLER://{controller}"
            environment["KAFKA_CFG_CONTROLLER_LISTENER_NAMES"] = "CONTROLLER"
            environment["KAFKA_CFG_CONTROLLER_QUORUM_VOTERS"] = f"1@{controller}"
            environment["KAFKA_CFG_PROCESS_ROLES"] = "broker,controller"
            environment["KAFKA_CFG_NODE_ID"] = "1"
            environment["KAFKA_CFG_SASL_MECHANISM_CONTROLLER_PROTOCOL"] = "PLAIN"
            environment["KAFKA_CONTROLLER_USER"] = "controllers"
            environment["KAFKA_CONTROLLER_PASSWORD"] = "of-controllers"
        for start in ("first", "again"):
            log = tmp_path / f"{start}.log"
            command = [*COMMAND, "container-start"]
            with LoggedProcess(
                command, log=log, folder=tmp_path, environment=environment
            ) as process:
                process.wait_for_line("Kafka Server started", timeout_s=READY_TIMEOUT_S)
                for user, mechanism in product(
                    ("alice", "bob"), ("SCRAM-SHA-256", "SCRAM-SHA-512")
                ):
                    configs = sasl_configs(f"localhost:{ports['CLIENT']}", user, f"of-{user}")
                    configs["sasl.mechanism"] = mechanism
                    assert len(AdminClient(configs).list_topics(timeout=60).brokers) == 1
                assert process.stop(timeout_s=30) == 0
            assert not re.search("of-(alice|bob|brokers)", log.read_text())
