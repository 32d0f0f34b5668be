"""Plans as comma-separated values, compared with what Kafka 3.9.2 has parsed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.consumer_groups.plan_csv import ResetPlan, export_plans, parse_plans, parse_row
from odradek.tools.errors import ToolError


@pytest.mark.parametrize(
    ("line", "topic", "index", "offset"),
    [
        ("t,0,5", "t", 0, 5),
        ("t,,5", "t", 0, 5),
        ("t,0,", "t", 0, 0),
        ("t,0", "t", 0, 0),
        ("t", "t", 0, 0),
        ("  ", "  ", 0, 0),
        ("\r", "", 0, 0),
        (",1,2", "", 1, 2),
        ("t, 1 ,\t2 ", "t", 1, 2),
        ("t,+1,2", "t", 1, 2),
        ("t,-1,-2", "t", -1, -2),
        ("t,01,002", "t", 1, 2),
        ("t,1,2,", "t", 1, 2),
        ('"t",1,2', "t", 1, 2),
        ('"a""b",1,2', 'a"b', 1, 2),
        ('"a,b",1,2', "a,b", 1, 2),
        (' "t" ,1,2', ' "t" ', 1, 2),
        ('t"x",1,2', 't"x"', 1, 2),
        ('t,"1","2"', "t", 1, 2),
        ("t,1,2\r", "t", 1, 2),
        ("t,1,2\rx", "t", 1, 2),
        ("#t,1,2", "#t", 1, 2),
        ("t,1,9223372036854775807", "t", 1, 2**63 - 1),
    ],
)
def test_row_without_a_group_is_parsed_as_in_kafka(
    line: str, topic: str, index: int, offset: int
) -> None:
    assert parse_row(line, "g") == ("g", TopicPartition(topic, index), offset)


@pytest.mark.parametrize(
    ("line", "group", "topic", "index", "offset"),
    [
        ("g,t,0,5", "g", "t", 0, 5),
        ("t,1,2", "t", "1", 2, 0),
        ('"a,b",t,1,2,', "a,b", "t", 1, 2),
        ("t,9223372036854775807,1", "t", "9223372036854775807", 1, 0),
    ],
)
def test_row_with_a_group_has_four_values(
    line: str, group: str, topic: str, index: int, offset: int
) -> None:
    assert parse_row(line, None) == (group, TopicPartition(topic, index), offset)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("", "No content to map due to end-of-input"),
        ("t,1.5,2", 'Cannot deserialize value of type `int` from String "1.5"'),
        ("t,1,1e2", 'Cannot deserialize value of type `long` from String "1e2"'),
        ("t,- 1,2", 'Cannot deserialize value of type `int` from String "- 1"'),
        ("g,t,0,5", 'Cannot deserialize value of type `int` from String "t"'),
        ("t,2147483648,2", "Numeric value (2147483648) out of range of int"),
        ("t,1,9223372036854775808", "Numeric value (9223372036854775808) out of range of long"),
        ("t,1,2,3", 'Too many entries: expected at most 3 (value #3 (1 chars) "3")'),
        ("t,1,2,,", 'Too many entries: expected at most 3 (value #3 (0 chars) "")'),
        ('"t,1,2', "Missing closing quote for value"),
        ('"t"x,1,2', "Unexpected character ('x' (code 120)): Expected column separator"),
    ],
)
def test_invalid_row_is_an_error_with_kafkas_message(line: str, problem: str) -> None:
    with pytest.raises(ToolError) as raised:
        parse_row(line, "g")
    assert problem in str(raised.value)


def test_first_line_decides_whether_rows_have_groups() -> None:
    assert parse_plans("t,0,5\nt,1,6\n", ["g"]) == {
        "g": {TopicPartition("t", 0): 5, TopicPartition("t", 1): 6}
    }
    assert parse_plans("a,t,0,5\nb,t,1,6\na,t,0,7", ["a"]) == {
        "a": {TopicPartition("t", 0): 7},
        "b": {TopicPartition("t", 1): 6},
    }
    assert parse_plans("t,0,5", ["a", "b"]) == {"t": {TopicPartition("0", 5): 0}}


@pytest.mark.parametrize("text", ["", "\n", "t,0,5\n\nt,1,6", "t,0,5\ng,t,0,6"])
def test_one_invalid_line_fails_the_whole_file(text: str) -> None:
    with pytest.raises(ToolError):
        parse_plans(text, ["g"])


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("a-topic.of_some", "a-topic.of_some"),
        ("x" * 24, "x" * 24),
        ("x" * 25, f'"{"x" * 25}"'),
        ("a b", '"a b"'),
        ('a"b', '"a""b"'),
        ("a,b", '"a,b"'),
        ("a;b", "a;b"),
        ("", ""),
    ],
)
def test_names_are_quoted_as_in_kafka(name: str, written: str) -> None:
    plans: dict[str, ResetPlan] = {name: {TopicPartition("t", 1): 2}}
    assert export_plans(plans, [name]) == "t,1,2\n"
    assert export_plans(plans, []) == f"{written},t,1,2\n"


names = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), min_size=1, max_size=30
)
partitions = st.builds(TopicPartition, names, st.integers(0, 2**31 - 1))
plans_of = st.dictionaries(partitions, st.integers(0, 2**63 - 1), min_size=1, max_size=4)


@given(st.dictionaries(names, plans_of, min_size=2, max_size=4))
def test_exported_plans_of_several_groups_are_parsed_to_the_same_plans(
    plans: dict[str, ResetPlan],
) -> None:
    assert parse_plans(export_plans(plans, list(plans)), list(plans)) == plans


@given(names, plans_of)
def test_exported_plan_of_one_group_is_parsed_to_the_same_plan(group: str, plan: ResetPlan) -> None:
    assert parse_plans(export_plans({group: plan}, [group]), [group]) == {group: plan}
