"""The new group protocol (KIP-848) with the libraries that support it, and upgrades to it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from odradek.broker.topics import partition_for
from tests.clients.filling import Filling
from tests.clients.members import WAIT_S, Crew, Member, owners, reads
from tests.odradek.console_tools import ApacheTools
from tests.support.apache import DUMP_LOG_TOOL
from tests.support.broker_process import BrokerProcess, odradek_broker

GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
DUMP_LOG_TOOLS = {"3.9.2": DUMP_LOG_TOOL, "4.3.0": "org.apache.kafka.tools.DumpLogSegments"}
NEW = "consumer"
"""Given instead of an assignor."""
PARTITIONS = 6
OFFSETS_PARTITIONS = 3
SESSION_MS = 10_000
"""A static member that comes back within it keeps its partitions, on a busy machine too."""
HEARTBEAT_MS = 1_500
"""Also librdkafka's time-out of a heartbeat.  It repeats a heartbeat that timed out unchanged, and
the response does not contain the partitions to revoke again: a later response costs the rebalance
timeout (with Apache Kafka 4.3, too)."""
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
}
LIBRARIES = ("java-4.3.0", "java-3.9.2", "confluent-kafka", "franz-go")


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Our broker with short heartbeat intervals."""
    with odradek_broker(tmp_path_factory.mktemp("kip848"), overrides=SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def processes(
    own_broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Crew]:
    """Processes for members."""
    crew = Crew(own_broker.address, tmp_path_factory.mktemp("kip848-members"))
    yield crew
    crew.close()


@pytest.fixture
def team(processes: Crew) -> Iterator[Crew]:
    """The members of a test; they leave at its end."""
    yield processes
    processes.end_test()


@pytest.fixture
def filling(own_broker: BrokerProcess, topic: str) -> Filling:
    """An empty topic."""
    return Filling(own_broker.address, topic, PARTITIONS)


def have_all(members: list[Member]) -> bool:
    """Whether each partition has one owner among the members."""
    return owners(members, PARTITIONS) == [1] * PARTITIONS


@pytest.mark.parametrize(
    "library",
    [
        pytest.param(library, marks=[pytest.mark.slow] if library == "java-3.9.2" else [])
        for library in LIBRARIES
    ],
)
def test_every_record_is_read_once_when_members_join_leave_and_are_killed(
    team: Crew, filling: Filling, library: str
) -> None:
    members = filling.gather(team, [library] * 3, NEW)
    filling.add()
    filling.wait_until_committed(team, members)
    team.dismiss(members[1])
    rest = [members[0], members[2]]
    team.wait_until(lambda: have_all(rest), "the others take over what was left")
    filling.add()
    filling.wait_until_committed(team, members)
    members[2].kill()
    team.wait_until(lambda: have_all(rest[:1]), "the last one takes over from the dead")
    filling.add()
    filling.wait_until_committed(team, members)
    assert reads(members) == filling.places()


def test_members_of_all_libraries_share_one_group(team: Crew, filling: Filling) -> None:
    members = filling.gather(team, LIBRARIES, NEW)
    filling.add()
    filling.wait_until_committed(team, members)
    assert reads(members) == filling.places()


@pytest.mark.parametrize("library", ["java-4.3.0", "confluent-kafka"])
def test_returning_static_member_keeps_its_partitions(
    team: Crew, filling: Filling, library: str
) -> None:
    members = [team.take(library), team.take(library)]
    for number, member in enumerate(members):
        member.join(filling.topic, filling.group, NEW, f"i{number}")
    filling.wait_until_shared(team, members)
    filling.add()
    filling.wait_until_committed(team, members)
    had = members[0].now.owned
    other = len(members[1].now.of_kind("assigned", "revoked", "lost"))
    before = members[0].now.reads
    team.dismiss(members[0])
    members[0].join(filling.topic, filling.group, NEW, "i0")
    team.wait_until(lambda: members[0].now.owned == had, "it has again what it had")
    filling.add()
    filling.wait_until_committed(team, members)
    assert len(members[1].now.of_kind("assigned", "revoked", "lost")) == other
    assert sorted(before + reads(members)) == filling.places()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_java_group_is_upgraded_and_downgraded_between_protocols(
    team: Crew, filling: Filling, strategy: str
) -> None:
    members_of_both = filling.gather(team, ["java-4.3.0", "java-2.8.2"], strategy)
    past = []

    def go_on(present: list[Member]) -> None:
        team.wait_until(lambda: have_all(present), "each partition has one owner")
        filling.add()
        filling.wait_until_committed(team, members_of_both)

    def add(assignor: str, present: list[Member]) -> list[Member]:
        member = team.take("java-4.3.0")
        member.join(filling.topic, filling.group, assignor)
        members_of_both.append(member)
        present = [*present, member]
        filling.wait_until_shared(team, present)
        go_on(present)
        return present

    old = list(members_of_both)
    go_on(old)
    mixed = add(NEW, old)
    for leaving in old:
        team.dismiss(leaving)
        past.append(leaving)
        mixed = [member for member in mixed if member is not leaving]
        go_on(mixed)
    back = add(strategy, mixed)
    team.dismiss(mixed[0])
    go_on(back[1:])
    assert reads(members_of_both) == filling.places(), (
        "every record is read once, by whatever protocol"
    )


def test_members_continue_after_the_broker_was_killed(tmp_path: Path, topic: str) -> None:
    with odradek_broker(tmp_path / "broker", overrides=SETTINGS) as broker:
        filling = Filling(broker.address, topic, PARTITIONS)
        crew = Crew(broker.address, tmp_path)
        try:
            members = filling.gather(crew, ["confluent-kafka", "java-4.3.0"], NEW)
            filling.add()
            filling.wait_until_committed(crew, members)
            broker.kill()
            broker.start()
            filling.add()
            filling.wait_until_committed(crew, members)
            assert have_all(members)
            assert reads(members) == filling.places(), "what was committed is not read again"
        finally:
            crew.end_test()
            crew.close()


def test_apaches_tool_and_log_dump_read_the_group(
    own_broker: BrokerProcess,
    apache_tools: Callable[[str], ApacheTools],
    team: Crew,
    filling: Filling,
) -> None:
    def groups_tool(*words: str) -> str:
        """Run kafka-consumer-groups.sh of 4.3; returns its output."""
        at = ["--bootstrap-server", own_broker.address]
        done = apache_tools("4.3.0").run(GROUPS_TOOL, [*at, *words])
        assert done.exit_code == 0, done.output + done.errors
        return done.output

    members = filling.gather(team, ["confluent-kafka"], NEW)
    filling.add()
    filling.wait_until_committed(team, members)
    group = filling.group
    state = groups_tool("--describe", "--group", group, "--state", "--verbose")
    assert re.search(
        rf"{group}\s+127.0.0.1:{own_broker.port}\s+\(0\)\s+uniform\s+Stable\s+2\s+2\s+1", state
    )
    described = groups_tool("--describe", "--group", group, "--members", "--verbose")
    partitions = ",".join(map(str, range(PARTITIONS)))
    assert re.search(
        rf"{group}\s+\S+\s+/127.0.0.1\s+\S+\s+{PARTITIONS}\s+2\s+{filling.topic}:{partitions}",
        described,
    )
    listed = groups_tool("--list", "--type", "consumer", "--state", "stable")
    assert re.search(rf"{group}\s+Consumer\s+Stable", listed)
    index = partition_for(group, OFFSETS_PARTITIONS)
    segment = own_broker.data / f"__consumer_offsets-{index}" / "00000000000000000000.log"
    for version, tool in DUMP_LOG_TOOLS.items():
        words = ["--offsets-decoder", "--files", str(segment)]
        done = apache_tools(version).run(tool, words)
        assert done.exit_code == 0, done.errors
        for kind in ("3", "5", "6", "7", "8"):
            match = re.search(
                rf'"type":"{kind}".*?"groupId":"{group}".*?payload: \{{"version"', done.output
            )
            assert match, f"{version} shows no record of type {kind}"


def test_subscription_by_regular_expression_receives_matching_topics(
    own_broker: BrokerProcess, topic: str
) -> None:
    expected = {f"{topic}-x{number}" for number in range(2)}
    fillings = [Filling(own_broker.address, name, 2) for name in (*sorted(expected), f"{topic}-y")]
    topics: set[str] = set()
    consumer = Consumer(
        {
            "bootstrap.servers": own_broker.address,
            "group.id": fillings[0].group,
            "group.protocol": NEW,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(
        [f"^{topic}-x.*"],
        on_assign=lambda _, given: topics.update(partition.topic for partition in given),
    )
    try:
        deadline = time.monotonic() + WAIT_S
        # A topic that the broker has just made may come later than the other.
        while topics != expected:
            consumer.poll(0.1)
            assert time.monotonic() < deadline, topics
    finally:
        consumer.close()
