"""Consumer groups as Apache Kafka's own tools and its console consumer see them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from odradek.broker.server.dispatch import FREE_UNITS
from odradek.broker.topics import partition_for
from odradek.protocol.errors import ErrorCode
from tests.clients.filling import RECORDS, Filling, commit
from tests.clients.members import Crew
from tests.odradek.console_tools import CONSUMER, ApacheTools
from tests.support.broker_process import BrokerProcess
from tests.support.wire import Wire

GroupsTool = Callable[..., str]

OFFSETS_PARTITIONS = 5
PARTITIONS = 4


@pytest.fixture
def filled(broker: BrokerProcess, topic: str) -> Filling:
    """A topic with records in each partition."""
    filling = Filling(broker.address, topic, PARTITIONS)
    filling.add()
    return filling


@pytest.fixture
def groups_tool(broker: BrokerProcess, apache_tools: Callable[[str], ApacheTools]) -> GroupsTool:
    """Run kafka-consumer-groups.sh; returns what it prints, and fails when it fails."""

    def run(*arguments: str) -> str:
        words = ["--bootstrap-server", broker.address, *arguments]
        done = apache_tools("3.9.2")("consumer-groups", words)
        assert done.exit_code == 0, done.output + done.errors
        return done.output + done.errors

    return run


@pytest.mark.parametrize("version", ["3.9.2", "4.3.0"])
def test_java_consumer_continues_at_its_committed_offset(
    broker: BrokerProcess, apache_tools: Callable[[str], ApacheTools], filled: Filling, version: str
) -> None:
    group = f"{filled.topic}-{version}"

    def consume(count: int) -> list[int]:
        done = apache_tools(version)(
            CONSUMER,
            [
                *("--bootstrap-server", broker.address, "--topic", filled.topic),
                *("--group", group, "--from-beginning"),
                *("--max-messages", str(count), "--timeout-ms", "60000"),
            ],
        )
        assert done.exit_code == 0, done.errors
        return [int(line) for line in done.output.split()]

    first = consume(RECORDS)
    rest = consume(RECORDS * (PARTITIONS - 1))
    assert sorted(first + rest) == sorted([*range(RECORDS)] * PARTITIONS)


def test_kafka_consumer_groups_lists_and_describes_groups(
    broker: BrokerProcess, groups_tool: GroupsTool, crowd: Crew, filled: Filling
) -> None:
    group, lag = filled.group, 5
    member = crowd.take("confluent-kafka")
    member.join(filled.topic, group, session_ms=30_000)
    filled.wait_until_committed(crowd, [member])
    member.pause()
    filled.add(lag)
    assert group in groups_tool("--list").split()
    described = groups_tool("--describe", "--group", group)
    rows = re.findall(
        rf"{group}\s+{filled.topic}\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(/\S+)\s+(\S+)",
        described,
    )
    assert sorted(row[:4] for row in rows) == [
        (str(partition), str(RECORDS), str(RECORDS + lag), str(lag))
        for partition in range(PARTITIONS)
    ], described
    assert {row[4:6] for row in rows} == {(member.now.member_id, "/127.0.0.1")}
    state = groups_tool("--describe", "--group", group, "--state")
    assert re.search(rf"{group}\s+127.0.0.1:{broker.port}\s+\(0\)\s+range\s+Stable\s+1\b", state)
    # A paused member is expelled where the tools take longer than its session.
    member.resume()
    filled.wait_until_committed(crowd, [member])
    assert "GroupNotEmptyException" in groups_tool("--delete", "--group", group)


def test_kafka_consumer_groups_resets_offsets_and_deletes_groups(
    broker: BrokerProcess, groups_tool: GroupsTool, filled: Filling
) -> None:
    topic = filled.topic
    group = ("--group", filled.group)
    to_three = ("--reset-offsets", "--topic", topic, "--to-offset", "3", "--execute")
    groups_tool(*group, *to_three)
    described = groups_tool("--describe", *group)
    assert len(re.findall(rf"{topic}\s+\d\s+3\s+{RECORDS}\s+{RECORDS - 3}\s", described)) == 4
    groups_tool(*group, "--delete-offsets", "--topic", f"{topic}:0")
    described = groups_tool("--describe", *group)
    assert len(re.findall(rf"{topic}\s+[123]\s+3\s", described)) == 3
    assert not re.search(rf"{topic}\s+0\s", described)
    # More than the broker deletes in one turn of its loop.
    others = [f"{filled.group}-{number}" for number in range(3 * FREE_UNITS)]
    with Wire(broker.address) as wire:
        for other in others:
            response = wire.call(commit(other, topic), 7).topics[0].partitions[0]
            assert response.error_code == ErrorCode.NONE
    named = [word for other in others for word in ("--group", other)]
    assert "successful" in groups_tool("--delete", *group, *named)
    left = groups_tool("--list").split()
    assert not {filled.group, *others}.intersection(left)


def test_kafka_dump_log_reads_the_records_of_the_coordinator(
    broker: BrokerProcess, apache_tools: Callable[[str], ApacheTools], crowd: Crew, filled: Filling
) -> None:
    (member,) = filled.gather(crowd, ["confluent-kafka"])
    filled.wait_until_committed(crowd, [member])
    index = partition_for(filled.group, OFFSETS_PARTITIONS)
    segment = broker.data / f"__consumer_offsets-{index}" / "00000000000000000000.log"
    done = apache_tools("3.9.2")("dump-log", ["--offsets-decoder", "--files", str(segment)])
    assert done.exit_code == 0, done.errors
    assert f'"group":"{filled.group}","topic":"{filled.topic}","partition":3' in done.output
    assert f'"offset":{RECORDS},"leaderEpoch":' in done.output
    assert f'"memberId":"{member.now.member_id}"' in done.output
    assert '"protocolType":"consumer","generation":1,"protocol":"range"' in done.output
