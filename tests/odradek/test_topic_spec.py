from __future__ import annotations

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.tools.errors import ToolError
from odradek.tools.options import Options
from odradek.tools.topics.queries import check
from odradek.tools.topics.topic_spec import check_new, parse_assignment, parse_configs, read_spec


@pytest.mark.parametrize(
    ("text", "assignment"),
    [
        ("", []),
        ("7", [[7]]),
        ("1:2,2:3", [[1, 2], [2, 3]]),
        (" 1 : 2 , 2 : 3 ,", [[1, 2], [2, 3]]),
        ("1:2:,2:3", [[1, 2], [2, 3]]),
    ],
)
def test_assignment_is_parsed_into_brokers_by_partition(
    text: str, assignment: list[list[int]]
) -> None:
    assert parse_assignment(text) == assignment


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1:x", 'For input string: "x"'),
        ("1,,1", 'For input string: ""'),
        ("1:1", "Partition replica lists may not contain duplicate entries: 1"),
        ("2:1,1:2:3", "Partition 1 has different replication factor: [1, 2, 3]"),
    ],
)
def test_invalid_assignment_is_an_error(text: str, message: str) -> None:
    with pytest.raises(ToolError) as raised:
        parse_assignment(text)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("texts", "configs"),
    [
        ([], {}),
        (["retention.ms=1"], {"retention.ms": "1"}),
        ([" retention.ms = 1 "], {"retention.ms": "1"}),
        (["retention.ms=1", "retention.ms=2"], {"retention.ms": "2"}),
        (
            ["cleanup.policy=compact,delete", "segment.bytes=1000"],
            {"cleanup.policy": "compact,delete", "segment.bytes": "1000"},
        ),
    ],
)
def test_configs_are_parsed_into_pairs(texts: list[str], configs: dict[str, str]) -> None:
    assert parse_configs(texts) == configs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("retention.ms", "requirement failed: Invalid topic config"),
        ("retention.ms=", "requirement failed: Invalid topic config"),
        ("=", "requirement failed: Invalid topic config"),
        ("retention.ms=1=2", "requirement failed: Invalid topic config"),
        ("=1", "Unknown topic config name: "),
        ("retention=1", "Unknown topic config name: retention"),
        (
            "max.compaction.lag.ms=0",
            "Invalid value 0 for configuration max.compaction.lag.ms: Value must be at least 1",
        ),
    ],
)
def test_invalid_config_is_an_error_before_the_request(text: str, message: str) -> None:
    with pytest.raises(ToolError) as raised:
        parse_configs([text])
    assert str(raised.value).startswith(message)


def test_contradictory_compaction_lags_are_an_error() -> None:
    with pytest.raises(ToolError) as raised:
        parse_configs(["min.compaction.lag.ms=5", "max.compaction.lag.ms=3"])
    assert str(raised.value) == (
        "conflict topic config setting min.compaction.lag.ms (5) > max.compaction.lag.ms (3)"
    )


@pytest.mark.parametrize(
    ("values", "is_refused"),
    [
        ({}, False),
        ({"partitions": ["1"], "replication-factor": ["1"]}, False),
        ({"replication-factor": ["32767"]}, False),
        ({"replication-factor": ["32768"]}, True),
        ({"replication-factor": ["0"]}, True),
        ({"partitions": ["0"]}, True),
        ({"partitions": ["-1"]}, True),
        ({"topic": [""]}, True),
    ],
)
def test_partitions_and_replication_factor_out_of_bounds_are_errors(
    values: dict[str, list[str]], is_refused: bool
) -> None:
    spec = read_spec(Options({"topic": ["a"], **values}))
    if is_refused:
        with pytest.raises(ToolError):
            check_new(spec)
    else:
        check_new(spec)


def test_error_has_the_message_of_the_response_or_of_its_code() -> None:
    check(ErrorCode.NONE, "nothing wrong")
    for code, message, text in (
        (ErrorCode.INVALID_CONFIG, "no such thing", "no such thing"),
        (ErrorCode.REQUEST_TIMED_OUT, None, "The request timed out."),
        (ErrorCode.TOPIC_DELETION_DISABLED, "", "Topic deletion is disabled."),
        (3210, None, "The broker responds with the unknown error 3210."),
    ):
        with pytest.raises(ToolError) as raised:
            check(code, message)
        assert str(raised.value) == text
