"""The examples of the pages about tests, run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.testing import Broker
from tests.support.ports import free_port
from tests.support.tool_cache import PROJECT

PAGE = (PROJECT / "docs" / "testing.md").read_text()
LANGUAGES = (PROJECT / "docs" / "testing-languages.md").read_text()
PYTHON = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```$", re.M | re.S)
SCRIPT = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
RUN_TIMEOUT_S = 500.0
PRINT_BROKERS = """
import os
from confluent_kafka.admin import AdminClient
address = os.environ["KAFKA_BOOTSTRAP_SERVERS"]
brokers = AdminClient({"bootstrap.servers": address}).list_topics(timeout=60).brokers
assert [f"{one.host}:{one.port}" for one in brokers.values()] == [address]
"""

pytestmark = pytest.mark.client


def test_python_examples_pass(tmp_path: Path) -> None:
    blocks = PYTHON.findall(PAGE)
    for name, text in blocks:
        (tmp_path / name).write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers -p no:randomly\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--kafka-leaks=fail"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert len(blocks) == 17
    assert "20 passed" in done.stdout


USES_FIXTURE = """
import os
from kafka import KafkaProducer

def test_records(kafka):
    assert kafka.bootstrap_servers == os.environ["KAFKA_BOOTSTRAP_SERVERS"]
    topic = kafka.topic("orders")
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send(topic, b"one").get(60)
    assert [record.value for record in kafka.records(topic, 1)] == [b"one"]
"""


def test_examples_of_a_broker_elsewhere_use_it_and_leave_it_running(tmp_path: Path) -> None:
    blocks = dict(PYTHON.findall(PAGE))
    (tmp_path / "connected.py").write_text(blocks["connected.py"])
    (tmp_path / "conftest.py").write_text(blocks["conftest_connected.py"])
    (tmp_path / "test_fixture.py").write_text(USES_FIXTURE)
    with Broker({"listeners": f"PLAINTEXT://127.0.0.1:{free_port()}"}) as broker:
        environment = {
            **os.environ,
            "KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "KAFKA_CONTROL": broker.control.url,
            "ODRADEK_CONTROL_TOKEN": "none-is-needed-on-loopback",
        }
        pytest_command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--kafka-leaks=fail"]
        for arguments in (["connected.py"], pytest_command):
            done = subprocess.run(
                [sys.executable, *arguments],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=RUN_TIMEOUT_S,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
        assert "1 passed" in done.stdout
        assert broker.end_offsets("orders") == {0: 0}


def test_script_runs_a_command_with_a_broker_and_leaves_nothing(tmp_path: Path) -> None:
    (script,) = SCRIPT.findall(LANGUAGES)
    (tmp_path / "with-kafka.sh").write_text(script)
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        ["sh", "with-kafka.sh", sys.executable, "-c", PRINT_BROKERS],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "TMPDIR": str(tmp_path / "tmp"),
        },
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list((tmp_path / "tmp").iterdir())
