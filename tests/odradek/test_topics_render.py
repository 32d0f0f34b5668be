from __future__ import annotations

from uuid import UUID

import pytest

from odradek.tools.errors import ToolError
from odradek.tools.options import Options
from odradek.tools.topics.describe import parse_topic_id
from odradek.tools.topics.options import REPORTS
from odradek.tools.topics.render import (
    Config,
    DescribedPartition,
    DescribedReassignment,
    Topic,
    is_shown,
    partition_line,
    topic_id_text,
    topic_line,
)

WHOLE = DescribedPartition(0, 1, [1, 2, 3], [1, 2, 3], None, None)
SHORT = DescribedPartition(0, 1, [1, 2, 3], [1, 2], None, None)
ALONE = DescribedPartition(0, 1, [1, 2, 3], [1], None, None)
DEAD = DescribedPartition(0, 9, [9, 2, 3], [9, 2, 3], None, None)
LEADERLESS = DescribedPartition(0, None, [1, 2, 3], [1, 2, 3], [2], [])
MIN_2 = {"min.insync.replicas": Config("2", is_default=False)}
LIVE = (1, 2, 3)
ID = UUID(int=1)


@pytest.mark.parametrize(
    ("partition", "reports"),
    [
        (WHOLE, []),
        (SHORT, ["under-replicated-partitions", "at-min-isr-partitions"]),
        (ALONE, ["under-replicated-partitions", "under-min-isr-partitions"]),
        (DEAD, ["unavailable-partitions"]),
        (LEADERLESS, ["unavailable-partitions", "under-min-isr-partitions"]),
    ],
)
def test_report_includes_exactly_the_partitions_it_selects(
    partition: DescribedPartition, reports: list[str]
) -> None:
    for report in REPORTS:
        shown = is_shown(Options({report: []}), partition, MIN_2, reassignment=None, live=LIVE)
        assert shown == (report in reports), report


def test_replica_that_is_being_added_does_not_make_a_partition_under_replicated() -> None:
    reassigned = DescribedPartition(0, 1, [1, 2, 3], [1, 2], None, None)
    report = Options({"under-replicated-partitions": []})
    reassignment = DescribedReassignment([1, 2, 3], [3], [])
    assert is_shown(report, reassigned, MIN_2, reassignment=None, live=LIVE)
    assert not is_shown(report, reassigned, MIN_2, reassignment=reassignment, live=LIVE)
    # A reassignment that was over before the partition was described does not count.
    done = DescribedReassignment([4, 5], [4, 5], [])
    assert is_shown(report, reassigned, MIN_2, reassignment=done, live=LIVE)


def test_topic_line_has_the_overridden_configs() -> None:
    configs = {
        "retention.ms": Config("5", is_default=False),
        "segment.bytes": Config("1", is_default=True),
        "secret": Config(None, is_default=False),
    }
    assert topic_line(Topic("a", ID, [WHOLE]), configs, None) == (
        "Topic: a\tTopicId: AAAAAAAAAAAAAAAAAAAAAQ\tPartitionCount: 1\tReplicationFactor: 3"
        "\tConfigs: retention.ms=5,secret=null"
    )
    assert topic_line(
        Topic("a", UUID(int=0), [WHOLE]), {}, DescribedReassignment([1, 2, 3], [3], [])
    ) == ("Topic: a\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: ")


def test_partition_line_has_leader_reassignment_and_eligible_replicas() -> None:
    assert partition_line("a", SHORT, None) == (
        "\tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2"
        "\tElr: N/A\tLastKnownElr: N/A"
    )
    assert partition_line("a", LEADERLESS, DescribedReassignment([1, 2, 3], [3], [1, 2])) == (
        "\tTopic: a\tPartition: 0\tLeader: none\tReplicas: 1,2,3\tIsr: 1,2,3"
        "\tAdding Replicas: 3\tRemoving Replicas: 1,2\tElr: 2\tLastKnownElr: "
    )


def test_printed_topic_id_is_parsed_to_the_same_id() -> None:
    topic_id = UUID("fbffbfff-1234-4678-9abc-def012345678")
    assert parse_topic_id(topic_id_text(topic_id)) == topic_id
    assert parse_topic_id(topic_id_text(topic_id) + "==") == topic_id


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a c", "Illegal base64 character 20"),
        ("a+c", "Illegal base64 character 2b"),
        ("abc", "Input string `abc` decoded as 2 bytes, which is not equal to the expected 16"),
        ("a", "Input string `a` is not base64"),
        ("x" * 25, "Input string with prefix `xxxxxxxxxxxxxxxxxxxxxxxx` is too long"),
    ],
)
def test_invalid_topic_id_is_an_error(text: str, message: str) -> None:
    with pytest.raises(ToolError) as raised:
        parse_topic_id(text)
    assert str(raised.value).startswith(message)
