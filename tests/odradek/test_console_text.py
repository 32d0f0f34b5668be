"""Parsing of lines into records, and printing of fields, without a broker."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.tools.console.consumer.formatters import (
    SERIALIZATION,
    double_text,
    find_deserializer,
    find_formatter,
    float_text,
)
from odradek.tools.console.consumer.internal_topics import STORED_FORMATTERS
from odradek.tools.console.errors import ConsoleError
from odradek.tools.console.producer.command import parse_options, producer_properties
from odradek.tools.console.producer.line_reader import LineReader, LineRecord, lines_of
from odradek.tools.console.properties import PRODUCER, check_properties, for_library, parse_pairs
from odradek.tools.java_patterns import compile_java_pattern


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-12.5, "-12.5"),
        (100.0, "100.0"),
        (1234567.0, "1234567.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1.5e300, "1.5E300"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (5e-324, "5.0E-324"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_doubles_are_printed_as_in_java(value: float, text: str) -> None:
    # Java 19 and later print the smallest double as 4.9E-324, which is the same number.
    assert double_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1, "0.1"), (3.4028234663852886e38, "3.4028235E38"), (16777216.0, "1.6777216E7")],
)
def test_floats_are_printed_with_the_fewest_digits(value: float, text: str) -> None:
    assert float_text(struct.unpack(">f", struct.pack(">f", value))[0]) == text


@given(st.floats(allow_nan=False))
def test_text_of_a_double_parses_to_the_same_double(value: float) -> None:
    assert float(double_text(value).replace("Infinity", "inf")) == value


@given(st.floats(width=32, allow_nan=False))
def test_text_of_a_float_parses_to_the_same_float(value: float) -> None:
    text = float_text(value).replace("Infinity", "inf")
    assert struct.pack(">f", float(text)) == struct.pack(">f", value)


@given(st.integers(-(2**63), 2**63 - 1))
def test_longs_are_printed_as_decimal_numbers(number: int) -> None:
    deserialize = find_deserializer(f"{SERIALIZATION}LongDeserializer", {}, is_key=True)
    assert deserialize(number.to_bytes(8, "big", signed=True)) == str(number).encode()


@given(st.binary())
def test_bytes_are_printed_unchanged(data: bytes) -> None:
    """Java prints the address of the array."""
    deserialize = find_deserializer(f"{SERIALIZATION}ByteArrayDeserializer", {}, is_key=False)
    assert deserialize(data) == data


@pytest.mark.parametrize(
    ("former", "name"),
    [
        ("transaction.TransactionLog$TransactionLogMessage", "TransactionLogMessageFormatter"),
        ("group.GroupMetadataManager$OffsetsMessage", "OffsetsMessageFormatter"),
        ("group.GroupMetadataManager$GroupMetadataMessage", "GroupMetadataMessageFormatter"),
    ],
)
def test_former_name_of_a_formatter_prints_the_json_of_the_new_one(
    former: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    formatter = find_formatter(f"kafka.coordinator.{former}Formatter", {})
    assert formatter is STORED_FORMATTERS[name]
    assert f"Please use org.apache.kafka.tools.consumer.{name} instead" in capsys.readouterr().err


def test_deserializer_of_another_package_is_an_error() -> None:
    with pytest.raises(ConsoleError, match="ClassNotFoundException: LongDeserializer"):
        find_deserializer("LongDeserializer", {}, is_key=True)


def test_lines_end_as_in_java_and_invalid_utf_8_is_replaced() -> None:
    data = io.BytesIO(b"a\nb\r\nc\rd\r\n\r\n\xffe\x0bf")
    assert list(lines_of(data)) == ["a", "b", "c", "d", "", "\ufffde\x0bf"]


NAMES = st.text("abc", min_size=1, max_size=4)


@given(key=NAMES, value=NAMES, headers=st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=3))
def test_line_reader_splits_what_was_joined(
    key: str, value: str, headers: list[tuple[str, str]]
) -> None:
    reader = LineReader({"parse.key": "true", "parse.headers": " TRUE "})
    pairs = ",".join(f"{name}:{text}" for name, text in headers)
    record = reader.read(f"{pairs}\t{key}\t{value}", 1)
    assert record == LineRecord(key, value, [(name, text.encode()) for name, text in headers])


@pytest.mark.parametrize(
    ("pattern", "matches", "differs"),
    [(r"\Qa.b\E.*", "a.bc", "aXbc"), (r"\p{Alpha}\p{Digit}+", "a12", "12"), (r"\w", "a", "\u00e4")],
)
def test_patterns_match_as_in_java(pattern: str, matches: str, differs: str) -> None:
    compiled = compile_java_pattern(pattern)
    assert compiled.fullmatch(matches)
    assert not compiled.fullmatch(differs)


def test_flags_override_properties_which_override_defaults() -> None:
    at = ["--bootstrap-server", "h:1", "--topic", "t"]
    words = ["--producer-property", "linger.ms=7", "--producer-property", "acks=1", "--timeout"]
    properties = producer_properties(parse_options([*at, *words, "9"]))
    assert (properties["linger.ms"], properties["acks"]) == ("9", "1")
    assert (properties["retries"], properties["request.timeout.ms"]) == ("3", "1500")
    assert properties["compression.type"] == "none"
    check_properties(PRODUCER, properties)
    configs = for_library(PRODUCER, properties)
    # Kafka's producer is idempotent by default, but not with acks=1.
    assert configs["enable.idempotence"] is False
    assert configs["queue.buffering.max.kbytes"] == 32 * 1024
    properties = producer_properties(parse_options(at))
    assert for_library(PRODUCER, properties)["enable.idempotence"] is True


@given(st.dictionaries(NAMES, st.text("ab= ", max_size=4)))
def test_value_may_contain_an_equals_sign(pairs: dict[str, str]) -> None:
    assert parse_pairs(f"{name}={value}" for name, value in pairs.items()) == pairs
    assert parse_pairs(["name"]) == {"name": ""}
