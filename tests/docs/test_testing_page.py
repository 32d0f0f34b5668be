"""The examples of docs/testing.md, run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tool_cache import PROJECT

PAGE = (PROJECT / "docs" / "testing.md").read_text()
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
    assert len(blocks) == 14
    assert "19 passed" in done.stdout


def test_script_runs_a_command_with_a_broker_and_leaves_nothing(tmp_path: Path) -> None:
    (script,) = SCRIPT.findall(PAGE)
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
