"""Apache Kafka judges a directory that our broker wrote: its tool and its broker read it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.odradek.console_tools import ApacheTools
from tests.scripts.chapters.batches import batch, produce_request
from tests.scripts.differences import compare
from tests.scripts.log_directory import read_contents, write_records
from tests.scripts.normal import Masks
from tests.scripts.talk import Talk
from tests.support.apache import apache_kafka
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.moved_directory import seed_zookeeper, znodes
from tests.support.zookeeper import zookeeper

pytestmark = pytest.mark.judge

CHROOT = "/kafka"
SETTINGS = {"log.index.size.max.bytes": "1200", "log.cleaner.enable": "false"}
COMPLAINTS = re.compile(r"mismatch|isvalid: false|out of order|exception|not found", re.IGNORECASE)


class Written:
    """A stopped (or killed) broker's directory and what it served before."""

    def __init__(self, data: Path, contents: dict[str, Any]) -> None:
        self.data = data
        self.contents = contents


def write_directory(broker: BrokerProcess) -> dict[str, Any]:
    """Every kind of batch but transactions; what a reader then gets."""
    talk = Talk(broker.address)
    try:
        write_records(talk, broker.address, transactions=False)
        return read_contents(talk, Masks())
    finally:
        talk.close()


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    """A directory after a clean stop."""
    with odradek_broker(tmp_path_factory.mktemp("stopped"), overrides=SETTINGS) as broker:
        contents = write_directory(broker)
        assert broker.stop() == 0
        yield Written(broker.data, contents)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    """A directory after a kill."""
    with odradek_broker(tmp_path_factory.mktemp("killed"), overrides=SETTINGS) as broker:
        contents = write_directory(broker)
        broker.kill()
        yield Written(broker.data, contents)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheTools]:
    """Apache Kafka's tools in one JVM."""
    with ApacheTools(tmp_path_factory.mktemp("tools")) as tools:
        yield tools


def dump(written: Written, tools: ApacheTools, suffix: str, *arguments: str) -> str:
    """What DumpLogSegments says of all files of a kind."""
    files = sorted(str(path) for path in written.data.glob(f"*/*{suffix}"))
    assert files, f"there is no {suffix} file"
    done = tools("dump-log", ["--files", ",".join(files), *arguments])
    assert done.exit_code == 0, done.errors
    output = done.output + done.errors
    assert not COMPLAINTS.search(output), output
    return done.output


@pytest.mark.parametrize("state", ["stopped", "killed"])
def test_dump_log_segments_reads_every_file_without_a_warning(
    state: str, request: pytest.FixtureRequest, tools: ApacheTools
) -> None:
    written: Written = request.getfixturevalue(state)
    output = dump(written, tools, ".log", "--deep-iteration", "--print-data-log")
    stored = sum(
        len(batch["records"])
        for partition in written.contents.values()
        for batch in partition["records"]["batches"]
    )
    assert len(re.findall(r"^\| offset: ", output, re.MULTILINE)) >= stored
    if state == "stopped":
        dump(written, tools, ".index", "--index-sanity-check")
        dump(written, tools, ".index", "--verify-index-only")
        dump(written, tools, ".timeindex", "--verify-index-only")
        dump(written, tools, ".snapshot")


@pytest.mark.parametrize("state", ["stopped", pytest.param("killed", marks=pytest.mark.slow)])
def test_apache_kafka_opens_our_directory_and_serves_the_same(
    state: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    written: Written = request.getfixturevalue(state)
    shutil.copytree(written.data, tmp_path / "data")
    nodes = znodes(tmp_path / "data", 0)
    with zookeeper(tmp_path / "zookeeper") as coordinator:
        seed_zookeeper(coordinator, CHROOT, nodes)
        with apache_kafka(
            tmp_path, zookeeper_address=f"{coordinator}{CHROOT}", overrides=SETTINGS
        ) as apache:
            talk = Talk(apache.address)
            for name in written.contents:
                topic, _, _ = name.rpartition("-")
                talk.wait_for_topic(topic, 2 if topic == "plain" else 1)
            served = read_contents(talk, Masks())
            lines = [
                str(difference) for difference in compare("contents", written.contents, served)
            ]
            assert [line for line in lines if not is_of_the_move(line, state)] == []
            response = talk.quiet(produce_request("rolled", batch(2)), 9)
            stored = response.responses[0].partition_responses[0]
            assert (stored.error_code, stored.base_offset) == (0, 48)
            talk.close()


def is_of_the_move(difference: str, state: str) -> bool:
    """A kill may come before the checkpoint of the log starts was written."""
    return state == "killed" and "log_start_offset" in difference
