"""`odradek replica-verification` and Apache Kafka's tool find the same differences of replicas."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client
from odradek.tools.replica_verification.comparison import Batch, Fetched, Lag, compare, largest_lag
from tests.odradek.cluster_tools import TestCluster, our_cluster, our_tool, produce, settle
from tests.odradek.console_tools import MAIN_CLASSES
from tests.support import maven
from tests.support.apache import JUDGE_VERSION, java_command
from tests.support.apache_cluster import apache_cluster, log_directories
from tests.support.processes import LoggedProcess

NAME = "replica-verification"
LINE_TIMEOUT_S = 90.0
STAMP = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}: ")
ORDERS = TopicPartition("orders", 0)
CRC_POSITION = 17
BATCHES = 10


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestCluster]:
    """Three brokers of Apache Kafka; a topic of theirs has BATCHES batches in each partition."""
    with apache_cluster(tmp_path_factory.mktemp("cluster")) as brokers:
        at = TestCluster(brokers.bootstrap, brokers.zookeeper, brokers.folder)
        make_topics(at, "equal", "checksums", "offsets")
        yield at


def make_topics(cluster: TestCluster, *topics: str) -> None:
    """Create topics with one partition on all brokers, which has BATCHES batches."""
    words = ["--bootstrap-server", cluster.bootstrap, "--create", "--replica-assignment", "1:2:3"]
    for topic in topics:
        assert our_tool("topics", [*words, "--topic", topic]).exit_code == 0
        settle(cluster)
        with closing(Client(cluster.bootstrap)) as client:
            produce(client, topic, 0, BATCHES, 100)
    settle(cluster)


@contextmanager
def verification(
    cluster: TestCluster, folder: Path, topic: str, *, is_ours: bool
) -> Iterator[LoggedProcess]:
    """The tool, which reads a topic from its start."""
    words = ["--broker-list", cluster.bootstrap, "--topics-include", topic, "--time", "-2"]
    words += ["--report-interval-ms", "200", "--max-wait-ms", "100"]
    if is_ours:
        command = [sys.executable, "-I", "-m", "odradek", NAME, *words]
    else:
        libraries = maven.broker_libraries(JUDGE_VERSION)
        command = java_command(libraries, MAIN_CLASSES[NAME], words, heap="160m")
    with LoggedProcess(command, log=folder / f"{topic}-{is_ours}.log") as process:
        yield process


def said(cluster: TestCluster, folder: Path, topic: str, pattern: str, *, is_ours: bool) -> str:
    """The first line in which the pattern is found, without its time."""
    with verification(cluster, folder, topic, is_ours=is_ours) as process:
        return STAMP.sub("", process.wait_for_line(pattern, timeout_s=LINE_TIMEOUT_S))


def damage(cluster: TestCluster, topic: str, batch: int, offset: int, data: bytes) -> None:
    """Overwrite bytes of a batch on broker 2."""
    (file,) = (
        path / f"{topic}-0" / f"{0:020}.log"
        for path in log_directories(cluster.folder, 2)
        if (path / f"{topic}-0").exists()
    )
    size = file.stat().st_size // BATCHES
    with open(file, "r+b") as log:
        log.seek(batch * size + offset)
        log.write(data)


@pytest.mark.judge
@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "apache"])
def test_equal_replicas_have_no_lag(cluster: TestCluster, tmp_path: Path, is_ours: bool) -> None:
    line = said(cluster, tmp_path, "equal", f"at offset {BATCHES} among", is_ours=is_ours)
    assert line == f"max lag is 0 for partition equal-0 at offset {BATCHES} among 1 partitions"


@pytest.mark.judge
def test_both_tools_find_the_replicas_of_our_brokers_equal_and_then_a_difference(
    tmp_path: Path,
) -> None:
    with our_cluster(tmp_path) as cluster:
        make_topics(cluster, "equal")
        for is_ours in (True, False):
            line = said(cluster, tmp_path, "equal", f"offset {BATCHES} among", is_ours=is_ours)
            end = f"lag is 0 for partition equal-0 at offset {BATCHES} among 1 partitions"
            assert line == f"max {end}"
        damage(cluster, "equal", 3, CRC_POSITION, b"\xff\xff\xff\xfe")
        lines = [
            said(cluster, tmp_path, "equal", "unmatched checksum", is_ours=is_ours)
            for is_ours in (True, False)
        ]
        assert lines[0] == lines[1]


@pytest.mark.judge
def test_both_tools_report_a_batch_with_another_checksum(
    cluster: TestCluster, tmp_path: Path
) -> None:
    damage(cluster, "checksums", 3, CRC_POSITION, b"\xff\xff\xff\xfe")
    lines = [
        said(cluster, tmp_path, "checksums", "unmatched checksum", is_ours=is_ours)
        for is_ours in (True, False)
    ]
    assert lines[0] == lines[1]
    assert re.fullmatch(
        r"partition checksums-0 has unmatched checksum at offset 3; replica 1's checksum \d+; "
        r"replica 2's checksum 4294967294",
        lines[0],
    )


@pytest.mark.judge
def test_both_tools_end_when_offsets_differ(cluster: TestCluster, tmp_path: Path) -> None:
    damage(cluster, "offsets", 4, 0, (3).to_bytes(8, "big"))
    lines = [
        said(cluster, tmp_path, "offsets", "doesn't match", is_ours=is_ours)
        for is_ours in (True, False)
    ]
    expected = "partition offsets-0: replica 1's offset 4 doesn't match replica 2's offset 3"
    assert lines == [expected, expected]
    words = ["--broker-list", cluster.bootstrap, "--topics-include", "offsets", "--time", "-2"]
    assert our_tool(NAME, words).exit_code == 1


@pytest.mark.judge
def test_no_matching_topic_and_invalid_pattern_are_reported(cluster: TestCluster) -> None:
    at = ["--broker-list", cluster.bootstrap]
    result = our_tool(NAME, [*at, "--topics-include", "nothing"])
    assert (result.exit_code, result.output) == (1, "")
    assert "] ERROR No topics found. [topics-include] if specified, is either" in result.errors
    result = our_tool(NAME, [*at, "--topic-white-list", "["])
    assert (result.exit_code, result.errors) == (1, "[ is an invalid regex\n")


@pytest.mark.parametrize(
    ("words", "exit_code", "message"),
    [
        ([], 2, "Validate that all replicas"),
        (["--help"], 1, "Validate that all replicas"),
        (["--time", "1"], 2, 'Missing required argument "[broker-list]"'),
        (
            ["--broker-list", "a:1", "--topics-include", "a", "--topic-white-list", "b"],
            2,
            'Option "[topics-include]" can\'t be used with option "[topic-white-list]"',
        ),
        (
            ["--broker-list", "127.0.0.1:1", "--time", "soon"],
            2,
            "Cannot parse argument 'soon' of option time",
        ),
    ],
)
def test_invalid_command_line_is_reported(words: list[str], exit_code: int, message: str) -> None:
    result = our_tool(NAME, words)
    assert (result.exit_code, result.output) == (exit_code, "")
    assert result.errors.startswith(message)


LOGS = st.lists(st.integers(1, 5), max_size=8)
"""Records in each batch."""


def batches(sizes: list[int]) -> list[Batch]:
    """Batches from offset 0 on."""
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    return [Batch(end - 1, 1000 + end) for end in ends]


@given(LOGS, st.integers(0, 40), st.integers(0, 40))
def test_equal_logs_are_compared_up_to_the_lowest_high_watermark(
    sizes: list[int], first: int, second: int
) -> None:
    log = batches(sizes)
    result = compare(ORDERS, 0, {1: Fetched(first, log), 2: Fetched(second, log)})
    ends = [batch.last_offset + 1 for batch in log if batch.last_offset < min(first, second)]
    assert result == (max(ends, default=0), [], False)


@given(LOGS.filter(bool), st.data())
def test_every_batch_with_another_checksum_is_reported(
    sizes: list[int], data: st.DataObject
) -> None:
    log = batches(sizes)
    wrong = data.draw(st.sets(st.sampled_from(range(len(log)))))
    other = [
        Batch(batch.last_offset, 7 if index in wrong else batch.checksum)
        for index, batch in enumerate(log)
    ]
    result = compare(ORDERS, 0, {1: Fetched(99, log), 2: Fetched(99, other), 3: Fetched(99, log)})
    assert result.next_offset == sum(sizes)
    assert not result.is_fatal
    assert [int(line.split()[7].rstrip(";")) for line in result.mismatches] == [
        log[index].last_offset for index in sorted(wrong)
    ]


def test_replica_that_does_not_respond_delays_the_comparison() -> None:
    result = compare(ORDERS, 5, {1: Fetched(9, [Batch(5, 1)]), 2: Fetched()})
    assert result == (5, [], False)


def test_largest_lag_is_that_of_the_partition_furthest_below_its_high_watermark() -> None:
    bills = TopicPartition("bills", 3)
    offsets = {ORDERS: 5, bills: 2}
    assert largest_lag(offsets, {ORDERS: 7, bills: 9}) == Lag(7, bills, 2)
    assert largest_lag(offsets, {ORDERS: -1, bills: -1}).line(2) == (
        "max lag is -1 for partition null at offset -1 among 2 partitions"
    )
