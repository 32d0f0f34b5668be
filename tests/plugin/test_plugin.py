"""The pytest plugin in a project of its own, run as a user runs it.

The sample project is copied into a folder outside of the repository; its files end with .txt here,
because it has modules of the same names as the broker's packages.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import create_autospec

import pytest

from odradek.pytest_plugin import pytest_configure
from tests.plugin.project_run import PASSED, copy_project, left_by_brokers, run_pytest

PLUGIN_ALONE = """
import sys
import odradek.pytest_plugin
print(sorted(name for name in sys.modules if name.startswith("odradek")))
"""

pytestmark = pytest.mark.client


def write_test(folder: Path, text: str) -> None:
    (folder / "test_it.py").write_text(text)


@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_sample_project_passes_with_workers_and_three_client_libraries(
    workers: int, tmp_path: Path
) -> None:
    copy_project(tmp_path)
    done = run_pytest(tmp_path, "-q", "-n", str(workers), "--kafka-leaks=fail")
    assert done.returncode == 0, done.stdout
    assert PASSED in done.stdout
    assert not left_by_brokers(tmp_path)


def test_unused_plugin_imports_nothing_else_and_starts_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", PLUGIN_ALONE], capture_output=True, text=True, check=True
    )
    assert done.stdout == "['odradek', 'odradek.pytest_plugin']\n"
    write_test(
        tmp_path,
        "import sys\n\n\ndef test_it():\n"
        "    assert not [one for one in sys.modules if one.startswith('odradek.testing')]\n",
    )
    done = run_pytest(tmp_path, "-q")
    assert done.returncode == 0, done.stdout
    assert not left_by_brokers(tmp_path)


def test_report_of_a_failed_test_has_the_logs_of_its_brokers(tmp_path: Path) -> None:
    write_test(
        tmp_path,
        "import pytest\n\n\n"
        "def test_one(kafka_broker):\n    assert not kafka_broker.pid\n\n\n"
        "@pytest.mark.kafka_cluster(brokers=2)\n"
        "def test_two(kafka_cluster):\n    assert len(kafka_cluster.brokers) != 2\n\n\n"
        "def test_shared(kafka):\n    assert not kafka.topic('orders')\n",
    )
    done = run_pytest(tmp_path, "-q")
    assert "3 failed" in done.stdout, done.stdout
    for name in ("kafka_broker", "broker 0", "broker 1", "the session's broker"):
        assert f"log of {name} ---" in done.stdout
    # The session's broker was ready before the test began.
    assert len(re.findall("odradek is ready on", done.stdout)) == 3
    assert not left_by_brokers(tmp_path)


LEAKING = """
import pytest
from confluent_kafka import Consumer, Producer

kept = []


def test_transaction(kafka):
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": kafka.name("copier")}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(kafka.topic("orders"), b"open")
    producer.flush(60)
    kept.append(producer)


def test_member(kafka):
    topic = kafka.topic("orders")
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": kafka.name("readers")}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic, b"one")
    assert producer.flush(60) == 0
    assert consumer.poll(60).value() == b"one"
    kept.append(consumer)


@pytest.fixture(scope="session")
def feed(kafka_session_broker):
    producer = Producer(
        {"bootstrap.servers": kafka_session_broker.bootstrap_servers, "client.id": "feed-1"}
    )
    yield producer
    producer.flush(60)


@pytest.fixture(scope="session")
def kafka_kept_clients():
    return ["feed-*"]


def test_connection(kafka):
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "client.id": "forgotten"}
    )
    producer.produce(kafka.topic("orders"), b"one")
    assert producer.flush(60) == 0
    kept.append(producer)


def test_failed(kafka):
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(kafka.topic("orders"), b"one")
    assert producer.flush(60) != 0


def test_connection_of_a_shared_client(kafka, feed):
    feed.produce(kafka.topic("orders"), b"one")
    assert feed.flush(60) == 0


def test_connection_of_a_client_in_a_cycle(kafka):
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(kafka.topic("orders"), b"one")
    assert producer.flush(60) == 0
    cycle = [producer]
    cycle.append(cycle)


def test_without_leaks(kafka):
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(kafka.topic("orders"), b"one")
    assert producer.flush(60) == 0
"""

ENDING = """
import os
import sys


def pytest_unconfigure():
    # librdkafka searches the brokers of what was kept for most of a minute, in a busy loop.
    sys.stdout.flush()
    os._exit(1)
"""


@pytest.mark.parametrize(
    ("choice", "summary"),
    [
        pytest.param("warn", "1 failed, 6 passed, 3 warnings", marks=pytest.mark.slow),
        ("fail", "1 failed, 6 passed, 3 errors"),
    ],
)
def test_leaks_are_reported_once_as_the_option_says(
    tmp_path: Path, choice: str, summary: str
) -> None:
    write_test(tmp_path, LEAKING)
    (tmp_path / "conftest.py").write_text(ENDING)
    done = run_pytest(tmp_path, "-q", f"--kafka-leaks={choice}")
    assert summary in done.stdout, done.stdout
    assert re.search(
        r"test_transaction leaves the transaction of copier-test-transaction-\d+ open"
        r", and (a connection|\d connections) of ",
        done.stdout,
    )
    assert re.search(
        r"test_member leaves members in group readers-test-member-\d+, and ", done.stdout
    )
    assert re.search(
        r"test_connection leaves (a connection|\d connections) of forgotten \(\S+ \S+\) open",
        done.stdout,
    )
    for name in ("test_failed", "of_a_shared_client", "of_a_client_in_a_cycle", "without_leaks"):
        assert f"{name} leaves" not in done.stdout


def test_timeout_of_records_is_an_option_of_the_ini_file(tmp_path: Path) -> None:
    write_test(
        tmp_path,
        "def test_one(kafka):\n    kafka.records(kafka.topic('orders'), 1)\n\n\n"
        "def test_two(kafka_broker):\n"
        "    kafka_broker.records(kafka_broker.create_topic('orders'), 1)\n\n\n"
        "def test_three(kafka_cluster):\n"
        "    kafka_cluster.records(kafka_cluster.create_topic('orders'), 1)\n",
    )
    done = run_pytest(tmp_path, "-q", "-o", "kafka_timeout_s=0.25")
    assert len(re.findall(r"^E .*has 0 of 1 records after 0.25 s", done.stdout, re.M)) == 3


def test_timeout_that_is_not_a_positive_number_stops_the_run(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "-q", "-o", "kafka_timeout_s=-1")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: kafka_timeout_s = -1: a number of seconds above 0 is allowed" in done.stderr


@pytest.mark.parametrize("value", ["soon", "0", "nan", "inf"])
def test_number_that_is_not_positive_or_not_finite_is_refused(value: str) -> None:
    config = create_autospec(pytest.Config, instance=True)
    config.getini.return_value = value
    with pytest.raises(pytest.UsageError, match="a number of seconds above 0 is allowed"):
        pytest_configure(config)


SECURED = """
import asyncio

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer


def test_session(kafka, kafka_security):
    topic = kafka.topic("orders")

    async def send():
        configs = {"bootstrap_servers": kafka.bootstrap_servers, **kafka_security.python_config()}
        async with AIOKafkaProducer(**configs) as producer:
            await producer.send_and_wait(topic, b"one")

    asyncio.run(send())
    assert len(kafka.records(topic, 1)) == 1


@pytest.mark.kafka_cluster(brokers=2)
def test_cluster(kafka_cluster, kafka_security):
    assert kafka_security.protocol == "EXPECTED"
    configs = {"bootstrap.servers": kafka_cluster.bootstrap_servers, "acks": "all"}
    producer = Producer({**configs, **kafka_security.confluent_config()})
    producer.produce(kafka_cluster.create_topic("orders"), b"one")
    assert producer.flush(60) == 0
    assert len(kafka_cluster.records("orders", 1)) == 1
"""


@pytest.mark.parametrize(
    ("words", "protocol"),
    [
        (("-o", "kafka_security=sasl_ssl"), "SASL_SSL"),
        (("-o", "kafka_security=ssl", "--kafka-security=plaintext"), "PLAINTEXT"),
    ],
)
def test_security_of_brokers_is_an_option(
    tmp_path: Path, words: tuple[str, ...], protocol: str
) -> None:
    write_test(tmp_path, SECURED.replace("EXPECTED", protocol))
    done = run_pytest(tmp_path, "-q", "--kafka-leaks=fail", *words)
    assert "2 passed" in done.stdout, done.stdout
    assert not left_by_brokers(tmp_path)


def test_security_that_is_no_protocol_stops_the_run(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "-q", "-o", "kafka_security=tls")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: kafka_security = tls: expected plaintext, ssl, " in done.stderr
