"""Times, compared with what Java 17 and Kafka 3.9.2 have parsed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.tools.consumer_groups.times import before, parse_datetime, parse_duration
from odradek.tools.errors import ToolError

NEW_YEAR_MS = 1_704_067_200_000


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("2024-01-01T03:00:00.000", 1_704_078_000_000),
        ("2024-01-01T03:00:00.000Z", 1_704_078_000_000),
        ("2024-1-1T3:0:0.000", 1_704_078_000_000),
        ("2024-01-01T03:00:00.1", 1_704_078_000_001),
        ("2024-01-01T03:00:00.12", 1_704_078_000_012),
        ("2024-01-01T03:00:00.123", 1_704_078_000_123),
        ("2024-01-01T03:00:00.1Z", 1_704_078_000_001),
        ("2024-01-01T03:00:00.12+01:00", 1_704_074_400_012),
        ("2024-01-01T03:00:00.1+01", 1_704_074_400_001),
        ("2024-01-01T03:00:00.1+01:00", 1_704_074_400_001),
        ("2024-02-29T23:59:59.999", 1_709_251_199_999),
        ("2024-01-01T03:00:00.000+01:0", 1_704_074_400_000),
        ("2024-01-01T03:00:00.000+0100", 1_704_074_400_000),
        ("2024-01-01T03:00:00.000+01", 1_704_074_400_000),
        ("2024-01-01T03:00:00.000-01:30", 1_704_083_400_000),
        ("2024-01-01T03:00:00.000-0130", 1_704_081_600_000),
        ("2024-01-01T03:00:00.000Zjunk", 1_704_078_000_000),
        ("2024-01-01T03:00:00.000 Z", 1_704_078_000_000),
        ("02024-01-01T03:00:00.000", 1_704_078_000_000),
        ("2024- 01-01T03:00:00.000", 1_704_078_000_000),
        ("  2024-01-01T03:00:00.000", 1_704_078_000_000),
        ("2024-01-01T3:4:5.678Z", 1_704_078_245_678),
        ("2024-001-0001T03:00:00.000", 1_704_078_000_000),
        ("2024-01-01T03:00:00.0", 1_704_078_000_000),
        ("2024-01-01T03:00:00.00", 1_704_078_000_000),
        ("2024-01-01T03:00:00. 12Z", 1_704_078_000_012),
        ("2024-01-01T03:00:00.12 Z", 1_704_078_000_012),
        ("2024-01-01T03:00:00.0001Z", 1_704_078_000_001),
        ("2024-01-01T03:00:00.0999Z", 1_704_078_000_999),
        ("2024-01-01T03:00:00.000+01:60", 1_704_074_400_000),
        ("2024-01-01T03:00:00.000+14:00", 1_704_027_600_000),
        ("2024-01-01T03:00:00.000+14:30", 1_704_027_600_000),
        ("2024-01-01T03:00:00.000-13:30", 1_704_124_800_000),
        ("2024-01-01T03:00:00.000-13:00", 1_704_124_800_000),
    ],
)
def test_datetime_is_parsed_as_in_java(text: str, expected_ms: int) -> None:
    assert parse_datetime(text) == expected_ms


@pytest.mark.parametrize(
    "text",
    [
        "2024-01-01T03:00:00.1234",
        "2024-01-01T03:00:00.123456Z",
        "2024-01-01T03:00:00",
        "2024-01-01T03:00",
        "2024-01-01T24:00:00.000",
        "2024-02-30T00:00:00.000",
        "2023-02-29T00:00:00.000",
        "2024-01-01T03:60:00.000",
        "2024-01-01T03:00:60.000",
        "2024-01-01T03:00:00.000+1:00",
        "2024-01-01T03:00:00.000+1",
        "2024-01-01T03:00:00.000+24:00",
        "2024-01-01T03:00:00.000+23:59",
        "2024-01-01T03:00:00.000+23:60",
        "2024-01-01T03:00:00.000z",
        "2024-01-01 T03:00:00.000",
        "0-01-01T03:00:00.000",
        "0000-01-01T03:00:00.000",
        "1900-02-29T00:00:00.000",
        "-2024-01-01T03:00:00.000",
        "2024-01-01T03:00:00,000",
        "2024-01-01T03:00:00.000T",
        "2024-01-01T03:00:00.000UTC",
        "2024-01-01T03:00:00.-01",
        "2024-00-01T03:00:00.000",
        "2024-01-00T03:00:00.000",
        "2024-01-01T03:00:00.000+",
        "2024-01-01T03:00:00.000-",
        "2024-01-01T03:00:00.000+0a",
        "292278995-01-01T03:00:00.000",
        "2024-01-01T03:00:00.1 2Z",
        "2024-01-01T03:00:00.000-14:00",
        "2024-01-01T03:00:00.000+15",
    ],
)
def test_datetime_that_java_rejects_is_an_error(text: str) -> None:
    with pytest.raises(ToolError) as raised:
        parse_datetime(text)
    zoned = text if any(mark in text.split("T")[1] for mark in "+-Z") else f"{text}Z"
    assert str(raised.value) == f'Unparseable date: "{zoned}"'


@pytest.mark.parametrize("text", ["2024-01-01", "2024-01-01T", "T", "", "2024-01-01t03:00:00.000"])
def test_date_without_a_time_is_an_error_of_its_own(text: str) -> None:
    with pytest.raises(ToolError, match=r"does not contain a 'T' according to ISO8601 format$"):
        parse_datetime(text)


@given(st.integers(-(10**13), 10**14))
def test_formatted_time_is_parsed_to_the_same_time(time_ms: int) -> None:
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)
    text = f"{time:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03}"
    assert parse_datetime(text) == time_ms
    assert parse_datetime(f"{text}-01:30") == time_ms + 90 * 60_000


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("PT1H", 1_704_063_600_000),
        ("P1D", 1_703_980_800_000),
        ("P1DT2H3M4S", 1_703_973_416_000),
        ("P1DT2H3M4.5S", 1_703_973_415_500),
        ("PT0.001S", 1_704_067_199_999),
        ("PT0.0019S", 1_704_067_199_998),
        ("PT-0.0011S", 1_704_067_200_001),
        ("-P1D", 1_704_153_600_000),
        ("-PT-1H", 1_704_063_600_000),
        ("+P1D", 1_703_980_800_000),
        ("P-1D", 1_704_153_600_000),
        ("P+1D", 1_703_980_800_000),
        ("PT1.S", 1_704_067_199_000),
        ("PT1,5S", 1_704_067_198_500),
        ("pt1h", 1_704_063_600_000),
        ("PT1.123456789S", 1_704_067_198_876),
        ("P100000D", -6_935_932_800_000),
        ("PT-0.5S", 1_704_067_200_500),
        ("-PT0.5S", 1_704_067_200_500),
        ("PT-1.5S", 1_704_067_201_500),
        ("P1dT1h", 1_703_977_200_000),
        ("P0D", 1_704_067_200_000),
        ("PT+1.5S", 1_704_067_198_500),
        ("P1DT-1H", 1_703_984_400_000),
    ],
)
def test_duration_before_a_time_is_computed_as_in_java(text: str, expected_ms: int) -> None:
    assert before(NEW_YEAR_MS * 10**6, text) == expected_ms


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("PT.5S", "Text cannot be parsed to a Duration"),
        ("P", "Text cannot be parsed to a Duration"),
        ("PT", "Text cannot be parsed to a Duration"),
        ("P1DT", "Text cannot be parsed to a Duration"),
        ("P1W", "Text cannot be parsed to a Duration"),
        ("P1M", "Text cannot be parsed to a Duration"),
        ("P1Y", "Text cannot be parsed to a Duration"),
        ("PT1M1H", "Text cannot be parsed to a Duration"),
        ("1H", "Text cannot be parsed to a Duration"),
        ("", "Text cannot be parsed to a Duration"),
        ("PT1.1234567890S", "Text cannot be parsed to a Duration"),
        ("PT1H ", "Text cannot be parsed to a Duration"),
        ("P99999999999999999999D", "Text cannot be parsed to a Duration: days"),
        ("P106751991167300D", "Instant exceeds minimum or maximum instant"),
        ("P106751991167301D", "Text cannot be parsed to a Duration: days"),
        ("PT9223372036854775807S", "Instant exceeds minimum or maximum instant"),
        ("PT9223372036854775808S", "Text cannot be parsed to a Duration: seconds"),
        ("PT2562047788015215H", "Instant exceeds minimum or maximum instant"),
        ("PT2562047788015216H", "Text cannot be parsed to a Duration: hours"),
        ("P365000000000D", "long overflow"),
        ("P365241780471D", "long overflow"),
        ("PT1S1S", "Text cannot be parsed to a Duration"),
        ("--PT1S", "Text cannot be parsed to a Duration"),
    ],
)
def test_duration_that_java_rejects_is_an_error_with_its_message(text: str, problem: str) -> None:
    with pytest.raises(ToolError) as raised:
        before(NEW_YEAR_MS * 10**6, text)
    assert str(raised.value) == problem


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**9 - 1))
def test_duration_is_the_sum_of_its_parts(days: int, seconds: int, nanoseconds: int) -> None:
    text = f"P{days}DT{seconds}.{nanoseconds:09}S"
    expected = (days * 86_400 + seconds) * 10**9 + nanoseconds
    assert parse_duration(text) == expected
    assert parse_duration(f"-{text}") == -expected
