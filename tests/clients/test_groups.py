"""Consumer groups as clients use them: share, take over, commit, resume, be looked at."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.group.coordinator import partition_for
from tests.clients.confluent_client import Confluent
from tests.clients.contract import How, Message
from tests.support.apache import CONSOLE_CONSUMER_TOOL, DUMP_LOG_TOOL, run_tool
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.processes import LoggedProcess

GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
OFFSETS_PARTITIONS = 5
PARTITIONS = 4
RECORDS = 20
WAIT_S = 40.0
ALL = "assigned 0,1,2,3$"
HALF = "assigned (0,1|2,3)$"

StartMember = Callable[..., LoggedProcess]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker whose groups do not wait for further members."""
    overrides = {
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    }
    with odradek_broker(tmp_path_factory.mktemp("groups"), overrides=overrides) as running:
        yield running


@pytest.fixture
def start_member(broker: BrokerProcess, tmp_path: Path) -> Iterator[StartMember]:
    """Members in processes of their own; what is left of them is killed."""
    members: list[LoggedProcess] = []

    def start(library: str, topic: str, group: str, *instance: str) -> LoggedProcess:
        command = [sys.executable, "-m", "tests.clients.group_member", library, broker.address]
        log = tmp_path / f"member-{len(members)}.log"
        members.append(LoggedProcess([*command, topic, group, *instance], log=log))
        return members[-1]

    yield start
    for member in members:
        member.kill()


@pytest.fixture
def filled(broker: BrokerProcess, topic: str) -> str:
    """A topic with records in each partition."""
    client = Confluent(broker.address)
    client.create_topic(topic, PARTITIONS)
    client.produce(topic, messages(RECORDS), How(acks="all"))
    return topic


def messages(count: int) -> list[Message]:
    """As many for each partition."""
    return [
        Message(
            partition=partition,
            timestamp_ms=1_700_000_000_000 + number,
            key=None,
            value=f"{partition}-{number}".encode(),
            headers=(),
        )
        for partition in range(PARTITIONS)
        for number in range(count)
    ]


def groups_tool(broker: BrokerProcess, folder: Path, *arguments: str) -> str:
    """kafka-consumer-groups.sh: what it printed."""
    done = run_tool(GROUPS_TOOL, ["--bootstrap-server", broker.address, *arguments], folder=folder)
    assert done.exit_code == 0, done.output + done.errors
    return done.output


each_library = pytest.mark.parametrize("library", ["kafka-python", "confluent-kafka"])


@each_library
def test_two_members_share_and_the_survivor_takes_over_when_one_is_killed(
    start_member: StartMember, filled: str, library: str
) -> None:
    first = start_member(library, filled, f"{filled}-group")
    first.wait_for_line(ALL, timeout_s=WAIT_S)
    second = start_member(library, filled, f"{filled}-group")
    given = second.wait_for_line(HALF, timeout_s=WAIT_S)
    kept = first.wait_for_line(HALF, timeout_s=WAIT_S)
    assert given != kept, "no partition has two owners"
    first.kill()
    second.wait_for_line(ALL, timeout_s=WAIT_S)


@each_library
def test_a_group_resumes_at_its_committed_offsets_after_the_broker_was_killed(
    broker: BrokerProcess, start_member: StartMember, filled: str, library: str
) -> None:
    group = f"{filled}-group"
    member = start_member(library, filled, group)
    for partition in range(PARTITIONS):
        member.wait_for_line(f"committed {partition} {RECORDS}$", timeout_s=WAIT_S)
    member.kill()
    broker.kill()
    broker.start()
    Confluent(broker.address).produce(filled, messages(1), How(acks="all"))
    member = start_member(library, filled, group)
    for partition in range(PARTITIONS):
        member.wait_for_line(f"committed {partition} {RECORDS + 1}$", timeout_s=WAIT_S)
    commits = [line for line in member.lines() if line.startswith("committed")]
    assert len(commits) == PARTITIONS, "nothing is read again"


@each_library
def test_a_static_member_that_returns_keeps_its_partitions_and_nobody_else_notices(
    start_member: StartMember, filled: str, library: str
) -> None:
    group = f"{filled}-group"
    first = start_member(library, filled, group, "one")
    first.wait_for_line(ALL, timeout_s=WAIT_S)
    second = start_member(library, filled, group, "two")
    given = second.wait_for_line(HALF, timeout_s=WAIT_S)
    first.wait_for_line(HALF, timeout_s=WAIT_S)
    noticed = [line for line in first.lines() if line.startswith("assigned")]
    second.kill()
    second = start_member(library, filled, group, "two")
    assert second.wait_for_line(HALF, timeout_s=WAIT_S) == given
    assert [line for line in first.lines() if line.startswith("assigned")] == noticed


@pytest.mark.parametrize("version", ["3.9.2", "4.3.0"])
def test_the_java_consumer_subscribes_commits_and_goes_on_where_it_was(
    broker: BrokerProcess, filled: str, tmp_path: Path, version: str
) -> None:
    def consume(count: int) -> list[str]:
        done = run_tool(
            CONSOLE_CONSUMER_TOOL,
            [
                *("--bootstrap-server", broker.address, "--topic", filled),
                *("--group", f"{filled}-{version}", "--from-beginning"),
                *("--max-messages", str(count), "--timeout-ms", "30000"),
            ],
            folder=tmp_path,
            version=version,
        )
        assert done.exit_code == 0, done.errors
        return done.output.split()

    first = consume(RECORDS)
    rest = consume(RECORDS * (PARTITIONS - 1))
    assert sorted(first + rest) == sorted((one.value or b"").decode() for one in messages(RECORDS))


def test_kafka_consumer_groups_lists_and_describes(
    broker: BrokerProcess, start_member: StartMember, filled: str, tmp_path: Path
) -> None:
    group = f"{filled}-group"
    member = start_member("confluent-kafka", filled, group)
    for partition in range(PARTITIONS):
        member.wait_for_line(f"committed {partition} {RECORDS}$", timeout_s=WAIT_S)
    assert group in groups_tool(broker, tmp_path, "--list").split()
    described = groups_tool(broker, tmp_path, "--describe", "--group", group)
    rows = re.findall(
        rf"{group}\s+{filled}\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(/\S+)\s+(\S+)", described
    )
    assert sorted(row[:4] for row in rows) == [
        (str(partition), str(RECORDS), str(RECORDS), "0") for partition in range(PARTITIONS)
    ], described
    assert {row[5] for row in rows} == {"/127.0.0.1"}
    state = groups_tool(broker, tmp_path, "--describe", "--group", group, "--state")
    assert re.search(rf"{group}\s+127.0.0.1:{broker.port}\s+\(0\)\s+range\s+Stable\s+1\b", state)
    refused = run_tool(
        GROUPS_TOOL,
        ["--bootstrap-server", broker.address, "--delete", "--group", group],
        folder=tmp_path,
    )
    assert "GroupNotEmptyException" in refused.output + refused.errors


def test_kafka_consumer_groups_resets_and_deletes(
    broker: BrokerProcess, filled: str, tmp_path: Path
) -> None:
    group = ("--group", f"{filled}-reset")
    to_three = ("--reset-offsets", "--topic", filled, "--to-offset", "3", "--execute")
    groups_tool(broker, tmp_path, *group, *to_three)
    described = groups_tool(broker, tmp_path, "--describe", *group)
    assert len(re.findall(rf"{filled}\s+\d\s+3\s+{RECORDS}\s+{RECORDS - 3}\s", described)) == 4
    groups_tool(broker, tmp_path, *group, "--delete-offsets", "--topic", f"{filled}:0")
    described = groups_tool(broker, tmp_path, "--describe", *group)
    assert len(re.findall(rf"{filled}\s+[123]\s+3\s", described)) == 3
    assert not re.search(rf"{filled}\s+0\s", described)
    assert "successful" in groups_tool(broker, tmp_path, "--delete", *group)
    assert group[1] not in groups_tool(broker, tmp_path, "--list").split()


def test_kafka_dump_log_reads_what_the_coordinator_has_written(
    broker: BrokerProcess, start_member: StartMember, filled: str, tmp_path: Path
) -> None:
    group = f"{filled}-group"
    member = start_member("confluent-kafka", filled, group)
    member.wait_for_line(f"committed 3 {RECORDS}$", timeout_s=WAIT_S)
    member.kill()
    index = partition_for(group, OFFSETS_PARTITIONS)
    segment = broker.data / f"__consumer_offsets-{index}" / "00000000000000000000.log"
    done = run_tool(DUMP_LOG_TOOL, ["--offsets-decoder", "--files", str(segment)], folder=tmp_path)
    assert done.exit_code == 0, done.errors
    assert f'"group":"{group}","topic":"{filled}","partition":3' in done.output
    assert f'"offset":{RECORDS},"leaderEpoch":' in done.output
    assert '"protocolType":"consumer","generation":1,"protocol":"range"' in done.output
