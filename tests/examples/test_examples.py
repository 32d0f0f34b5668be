"""Each example is run on a broker as examples/README.md says, and prints what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.odradek.console_tools import our_tool
from tests.support import tool_cache
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.built_examples import EXAMPLES, built
from tests.support.pipeline_job import PipelineJob
from tests.support.programs import go_compiler

README = (EXAMPLES / "README.md").read_text()
PIPELINES = (tool_cache.PROJECT / "docs" / "pipelines" / "index.md").read_text()
PIPELINE = EXAMPLES / "pipeline" / "greetings.toml"
JUNIT_LAUNCHER = "org.junit.platform:junit-platform-console-standalone:1.11.4"
GREETINGS = "0 hello\n1 from\n2 Odradek\n"
RUN_TIMEOUT_S = 500.0
PYTHON = ("confluent_greetings.py", "kafka_python_greetings.py", "aiokafka_greetings.py")

pytestmark = pytest.mark.client


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with the settings of `make run`: groups of one member need not wait for more."""
    overrides = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.replication.factor": "1"}
    with odradek_broker(tmp_path_factory.mktemp("broker"), overrides=overrides) as running:
        yield running


def printed_by(command: Sequence[str], folder: Path) -> str:
    """Standard output of a program that must succeed."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def as_written(*words: str) -> list[str]:
    """A command that stands in the README, letter by letter."""
    assert f"`{' '.join(words)}`".replace("libs/*", "'libs/*'") in README, words
    return list(words)


def test_readme_shows_what_the_programs_print() -> None:
    indented = "".join(f"    {line}\n" for line in GREETINGS.splitlines())
    assert indented in README


@pytest.mark.parametrize("program", PYTHON)
def test_python_program_prints_its_records(program: str, broker: BrokerProcess) -> None:
    assert f"python examples/python/{program}`" in README
    command = [sys.executable, f"examples/python/{program}", broker.address]
    assert printed_by(command, tool_cache.PROJECT) == GREETINGS


def test_java_program_prints_its_records(broker: BrokerProcess) -> None:
    fetch = as_written("mvn", "-q", "dependency:copy-dependencies", "-DoutputDirectory=libs")
    run = as_written("java", "-cp", "libs/*", "Greetings.java")
    assert printed_by([*run, broker.address], built("java", fetch)) == GREETINGS


def test_go_program_prints_its_records(broker: BrokerProcess) -> None:
    run = as_written("go", "run", ".")
    run[0] = go_compiler()
    assert printed_by([*run, broker.address], EXAMPLES / "go") == GREETINGS


def test_node_program_prints_its_records(broker: BrokerProcess) -> None:
    folder = built("node", as_written("npm", "install"))
    run = as_written("node", "greetings.js")
    assert printed_by([*run, broker.address], folder) == GREETINGS


def passed_with_odradek(command: Sequence[str], folder: Path) -> None:
    """A test program that starts brokers as `odradek`, and must pass."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_junit_test_starts_its_broker_and_passes() -> None:
    """As `mvn test`, by JUnit's own launcher: Maven takes several times the time of the test."""
    assert "`mvn test`" in README
    fetch = " && ".join(
        (
            "mvn -q -B dependency:copy-dependencies -DoutputDirectory=libs",
            f"mvn -q -B dependency:copy -Dartifact={JUNIT_LAUNCHER} -DoutputDirectory=launcher",
            "javac -nowarn -cp 'libs/*' -d classes src/test/java/KafkaTest.java",
        )
    )
    folder = built("java-junit", ["sh", "-c", fetch])
    (launcher,) = (folder / "launcher").iterdir()
    libraries = ":".join(str(jar) for jar in sorted((folder / "libs").glob("[!j]*.jar")))
    words = ("execute", "--disable-banner", "--select-class", "KafkaTest", "--fail-if-no-tests")
    java = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-jar", str(launcher))
    passed_with_odradek([*java, *words, "-cp", f"classes:{libraries}"], folder)


def test_go_test_starts_its_broker_and_passes() -> None:
    run = as_written("go", "test", ".")
    run[0] = go_compiler()
    passed_with_odradek([*run, "-count=1"], EXAMPLES / "go")


def test_node_test_starts_its_broker_and_passes() -> None:
    folder = built("node", as_written("npm", "install"))
    passed_with_odradek(as_written("node", "--test"), folder)


def test_pipeline_is_valid_and_its_page_shows_it() -> None:
    words = "odradek pipeline run examples/pipeline/greetings.toml --mode available_now"
    assert f"`{words}`" in README
    text = PIPELINE.read_text()
    assert f"```toml\n{text[text.index('[pipeline]') :]}```" in PIPELINES
    checked = our_tool("pipeline", ["check", str(PIPELINE)])
    assert checked.exit_code == 0, checked.errors


@pytest.mark.slow
def test_pipeline_writes_the_words_in_capital_letters(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    program = [sys.executable, "examples/python/confluent_greetings.py", broker.address]
    printed_by(program, tool_cache.PROJECT)
    file = tmp_path / "greetings.toml"
    file.write_text(
        PIPELINE.read_text()
        .replace("127.0.0.1:9092", broker.address)
        .replace('"data/', f'"{tmp_path}/')
    )
    job = PipelineJob(file, log=tmp_path / "job.log", arguments=["--mode", "available_now"])
    try:
        job.finish()
    finally:
        job.close()
    lines = [
        json.loads(line)
        for part in (tmp_path / "greetings").glob("*.json")
        for line in part.read_text().splitlines()
    ]
    shown = re.findall(r"^```json\n(.*?)^```$", PIPELINES, re.M | re.S)[0].splitlines()
    assert [json.loads(line) for line in shown] == lines[:3]
