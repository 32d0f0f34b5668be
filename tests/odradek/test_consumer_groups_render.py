"""Tables: widths, dashes and line feeds."""

from __future__ import annotations

import pytest

from odradek.protocol.messages.find_coordinator import Coordinator
from odradek.protocol.messages.list_groups import ListedGroup
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.consumer_groups.describe import (
    OffsetRow,
    assignment_text,
    deletions_table,
    groups_table,
    members_table,
    offsets_table,
    plans_table,
    state_table,
)
from odradek.tools.consumer_groups.queries import Description, Member

T0 = TopicPartition("t", 0)
MEMBER = Member("client-1", None, "client", "/127.0.0.1", [T0])


def test_offset_row_has_the_lag_and_dashes_for_missing_values() -> None:
    assert OffsetRow("g", T0, 3, 10, MEMBER).columns() == [
        *("g", "t", "0", "3", "10", "7"),
        *("client-1", "/127.0.0.1", "client"),
    ]
    assert OffsetRow("g", T0, None, 10, None).columns() == ["g", "t", "0", "-", "10", *"----"]
    assert OffsetRow("g", T0, 12, 10, None).columns()[5] == "-2"


def test_offset_columns_are_at_least_fifteen_wide() -> None:
    long = OffsetRow("g" * 20, TopicPartition("t" * 21, 0), 1, 2, None)
    head, first, second = offsets_table([long, OffsetRow("g", T0, 1, 2, MEMBER)])[1:].split("\n")
    assert head.index("TOPIC") == first.index("t") == second.index("t") == 21
    assert head.index("PARTITION") == first.index("0") == 43
    assert head.index("HOST") == second.index("/127") == head.index("CONSUMER-ID") + 16
    assert head.endswith(" CLIENT-ID")
    assert second.endswith(" client")


def test_instance_column_is_shown_when_a_member_has_an_instance_id() -> None:
    table = members_table("g", [MEMBER], verbose=False)
    assert "GROUP-INSTANCE-ID" not in table
    static = MEMBER._replace(instance_id="an-instance-of-some-length")
    empty, head, first, second, end = members_table("g", [MEMBER, static], verbose=True).split("\n")
    assert (empty, end) == ("", "")
    assert head.index("GROUP-INSTANCE-ID") == second.index("an-instance")
    assert first.index("/127") == second.index("/127") == head.index("HOST")
    assert head.endswith("#PARTITIONS     ASSIGNMENT")
    assert first.endswith(" 1               (0)")


def test_group_without_members_has_the_header_only() -> None:
    head = "GROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS     "
    assert members_table("g" * 30, None, verbose=False) == f"\n{head}\n"


@pytest.mark.parametrize(
    ("partitions", "text"),
    [
        ([], "-"),
        ([T0], "(0)"),
        ([("t", 2), ("t", 10), ("t", 0)], "(0,10,2)"),
        ([("z", 1), ("a", 3), ("z", 0)], "(0,1), (3)"),
    ],
)
def test_assignment_lists_partition_numbers_by_topic(
    partitions: list[tuple[str, int]], text: str
) -> None:
    assert assignment_text([TopicPartition(*partition) for partition in partitions]) == text


def test_group_state_is_one_row() -> None:
    where = Coordinator(
        key="g",
        node_id=4,
        host="a-host-with-a-long-name",
        port=9092,
        error_code=0,
        error_message="",
    )
    table = state_table("g", Description("Stable", "range", [MEMBER], where))
    empty, head, row = table.split("\n")
    assert empty == ""
    assert head.index("COORDINATOR (ID)") == row.index("a-host") == 34
    assert "a-host-with-a-long-name:9092  (4) range" in row
    assert row.endswith("Stable          1")


def test_group_column_is_ten_wider_than_the_longest_name() -> None:
    rows = [
        ListedGroup(group_id=name, protocol_type="", group_state="Empty", group_type="Classic")
        for name in ("g", "g" * 17)
    ]
    head, *lines = groups_table(rows, has_type=True, has_state=True).split("\n")
    assert head.index("TYPE") == 28
    assert [line.index("Classic") for line in lines] == [28, 28]
    assert groups_table(rows, has_type=False, has_state=True).split("\n")[0].index("STATE") == 28
    assert groups_table([], has_type=True, has_state=False) == f"{'GROUP':25} {'TYPE':20}"


def test_reset_and_deletion_rows_are_separate_lines() -> None:
    table = plans_table({"g": {T0: 5}, "h": {}})
    assert table == (
        f"\n{'GROUP':30} {'TOPIC':30} {'PARTITION':10} {'NEW-OFFSET':15}\n"
        f"{'g':30} {'t':30} {'0':10} {'5':15}\n"
    )
    assert plans_table({}) == ""
    table = deletions_table([(T0, "Successful"), (TopicPartition("u", -1), "Error: :it is not")])
    assert table == (
        f"\n{'TOPIC':30} {'PARTITION':15} {'STATUS':15}\n{'t':30} {'0':15} {'Successful':15}\n"
        f"{'u':30} {'Not Provided':15} Error: :it is not\n"
    )
