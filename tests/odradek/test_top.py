"""`odradek top` on a terminal and on a pipe, beside a real cluster."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.protocol.topic_partition import TopicPartition as Partition
from odradek.tools.steering.cluster_queries import BrokerDisks, PartitionStatus
from odradek.tools.steering.top import TopSample, page
from tests.odradek.console_tools import our_command, our_tool_here
from tests.support.broker_cluster import BrokerCluster, broker_cluster
from tests.support.compacted import wait_until

pytestmark = [pytest.mark.client, pytest.mark.timeout(300)]

WAIT_S = 60.0
ROWS, COLUMNS = 30, 160
ESCAPES = re.compile(rb"\x1b(\[[0-9;?]*[A-Za-z]|[()][A-Z0-9]|[=>78])")


def sample(at_s: float, records: int, lag: int | None) -> TopSample:
    """Broker 1 leads a partition of 1 KiB for each record; broker 2 follows; 3 is away."""
    key, late = Partition("t", 0), Partition("t", 1)
    return TopSample(
        at_s,
        "abc",
        2,
        {1: "a:1", 2: "b:2"},
        {
            key: PartitionStatus((1, 2), 1, (1, 2)),
            late: PartitionStatus((2, 3), 2, (2,)),
            Partition("t", 2): PartitionStatus((3,), -1, (3,)),
        },
        {key: records, late: 0},
        {1: BrokerDisks({key: records * 1024}, 1 << 30)},
        {"readers": lag, "done": 0},
    )


def test_page_shows_rates_of_two_samples_and_what_is_wrong() -> None:
    lines = list(page(sample(12.0, 300, 70), sample(10.0, 100, 50), sort="records"))
    text = "\n".join(re.sub(" +", " ", line) for line in lines)
    for line in (
        "Cluster abc controller 2 brokers 2",
        "Partitions 3 offline 1 (t-2) under-replicated 1 (t-1)",
        "Not registered, with replicas: 3",
        "1 a:1 1 1 0 100/s 100.0 KiB/s 300.0 KiB 1023.7 MiB",
        "2 b:2 1 2 1 0/s - - -",
        "Groups 2, with lag 1",
        "readers 70 +10/s",
    ):
        assert line in text.splitlines(), text
    assert text.index("1 a:1") < text.index("2 b:2")
    by_leaders = list(page(sample(12.0, 1, None), None, sort="leaders", error="b:2 is away"))
    assert "! b:2 is away" in by_leaders
    assert any(line.split() == ["readers", "unknown", "-"] for line in by_leaders)


def test_groups_that_no_sample_has_are_unknown() -> None:
    unknown = sample(12.0, 300, 70)._replace(lags=None, problems=("groups: b:2 is away",))
    lines = list(page(unknown, sample(10.0, 100, 50)))
    assert "! groups: b:2 is away" in lines
    assert lines[-1] == "Groups unknown"
    assert any(
        line.split() == ["readers", "70", "-"] for line in page(sample(14.0, 1, 70), unknown)
    )


def test_group_does_not_move_the_cursor_of_a_terminal() -> None:
    named = sample(12.0, 300, 70)._replace(lags={"\x1b[2J\nqué": 70})
    (line,) = (line for line in page(named, None) if "qué" in line)
    assert line.split() == [r"\x1b[2J\nqué", "70", "-"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    folder = tmp_path_factory.mktemp("top")
    with broker_cluster(folder, zookeeper_connect=None) as brokers:
        brokers.create_topic("orders", assignment={0: [1, 2, 3], 1: [2, 3, 1], 2: [1, 3, 2]})
        producer = Producer({"bootstrap.servers": brokers.bootstrap})
        for number in range(50):
            producer.produce("orders", b"%d" % number, partition=0)
        assert producer.flush(60) == 0
        consumer = Consumer({"bootstrap.servers": brokers.bootstrap, "group.id": "readers"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 8)], asynchronous=False)
        consumer.close()
        yield brokers


@contextmanager
def load(address: str) -> Iterator[None]:
    """Records to partition 0, until the block ends."""
    ended = threading.Event()
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0})

    def send() -> None:
        while not ended.wait(0.02):
            producer.produce("orders", b"v" * 1000, partition=0)
            producer.poll(0)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        assert producer.flush(30) == 0


def test_once_prints_brokers_rates_and_lag(cluster: BrokerCluster) -> None:
    words = ["--bootstrap-server", cluster.bootstrap, "--once", "--interval-ms", "1000"]
    rows: dict[str, list[str]] = {}

    def has_rate() -> bool:
        """Whether records came within the interval: the machine may stand still for as long."""
        done = our_tool_here("top", words)
        assert done.exit_code == 0, done
        assert "under-replicated 0" in done.output
        rows.update({line.split()[0]: line.split() for line in done.output.splitlines() if line})
        return int(rows["1"][5].removesuffix("/s")) > 0

    with load(cluster.bootstrap):
        wait_until("a rate", has_rate, timeout_s=WAIT_S)
    for broker_id in (1, 2, 3):
        assert rows[str(broker_id)][1] == cluster.brokers[broker_id].address
    assert rows["3"][5] == "0/s"
    assert int(rows["readers"][1]) >= 42


def test_groups_are_unknown_while_a_broker_is_away(tmp_path: Path) -> None:
    long_session = {"zookeeper.session.timeout.ms": "300000"}
    with broker_cluster(tmp_path, zookeeper_connect=None, overrides=long_session) as brokers:
        consumer = Consumer({"bootstrap.servers": brokers.bootstrap, "group.id": "readers"})
        brokers.create_topic("orders", assignment={0: [1]})
        consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
        consumer.close()
        words = ["--bootstrap-server", brokers.bootstrap, "--once", "--interval-ms", "1"]
        assert "Groups 1, with lag 0" in our_tool_here("top", words).output
        brokers.kill(3)
        done = our_tool_here("top", words)
    assert done.exit_code == 0, done
    assert done.output.endswith("\nGroups unknown\n")
    assert re.search("^! groups: .*cannot be reached", done.output, re.M)


class Terminal:
    """A process on a terminal of its own, and what it has drawn."""

    def __init__(self, command: list[str], kind: str) -> None:
        self._fd, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.process = subprocess.Popen(
            command,
            stdin=child,
            stdout=child,
            stderr=child,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # for SIGWINCH
            env=os.environ | {"TERM": kind},
        )
        os.close(child)
        self._drawn = b""

    def press(self, key: str) -> None:
        os.write(self._fd, key.encode())

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait_for(self, pattern: str) -> None:
        """Until something is drawn; what was drawn until then is forgotten."""
        deadline_s = monotonic() + WAIT_S
        while not (match := re.search(pattern.encode(), ESCAPES.sub(b" ", self._drawn))):
            left_s = deadline_s - monotonic()
            assert left_s > 0, f"{pattern!r} is not drawn: {self._drawn[-3000:]!r}"
            if select.select([self._fd], [], [], left_s)[0]:
                self._drawn += os.read(self._fd, 65536)
        assert match is not None
        self._drawn = b""

    def end(self) -> int:
        """The exit code, once the process has ended."""
        try:
            while select.select([self._fd], [], [], WAIT_S)[0]:
                os.read(self._fd, 65536)
        except OSError:
            pass  # The terminal is closed: the process has ended.
        return self.process.wait(WAIT_S)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._fd)


def test_terminal_is_refreshed_sorted_and_left(cluster: BrokerCluster) -> None:
    words = ["--bootstrap-server", cluster.bootstrap, "--interval-ms", "300"]
    terminal = Terminal(our_command("top", words), "xterm")
    try:
        terminal.wait_for("sort brokers by id.*controller.*readers")
        with load(cluster.bootstrap):
            terminal.wait_for(r"[1-9]\d*/s")
        terminal.press("s")
        terminal.wait_for("bytes")
        terminal.resize(5, 20)
        terminal.wait_for("Cluster")
        terminal.press("q")
        assert terminal.end() == 0
    finally:
        terminal.close()


@pytest.mark.parametrize("kind", ["dumb", "no-such-terminal", ""])
def test_terminal_without_a_cursor_gets_the_page_once(cluster: BrokerCluster, kind: str) -> None:
    words = ["--bootstrap-server", cluster.bootstrap, "--interval-ms", "100"]
    terminal = Terminal(our_command("top", words), kind)
    try:
        terminal.wait_for("Groups 1, with lag 1")
        assert terminal.end() == 0
    finally:
        terminal.close()


STARTED = """
import socket, sys, time
def connect(*arguments, **options):
    print(time.process_time(), *sorted(sys.modules))
    raise OSError("no network")
socket.create_connection = connect
from odradek.command import main
main(["top", "--bootstrap-server", "127.0.0.1:1"])
"""


def test_start_imports_no_library_before_the_first_request() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", STARTED],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    modules = done.stdout.split()[1:]
    libraries = ("curses", "asyncio", "uvloop", "ssl", "kazoo", "cryptography", "confluent_kafka")
    assert not [name for name in libraries if name in modules]
