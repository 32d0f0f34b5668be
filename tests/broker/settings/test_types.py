import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.settings.rules import (
    Between,
    EachOf,
    MinusOneOr,
    OneOf,
    Shape,
    Value,
    ValueRule,
    broken_rule,
    parse_rule,
    protocol_version,
    rule_text,
)
from odradek.broker.settings.types import (
    READ_ONLY,
    ConfigType,
    Definition,
    Importance,
    InvalidValueError,
    double_text,
    parse_value,
    value_text,
)


def definition(config_type: ConfigType, rule: ValueRule | None = None) -> Definition:
    return Definition("the.key", config_type, None, rule, Importance.MEDIUM, READ_ONLY, "A key.")


@pytest.mark.parametrize(
    ("config_type", "text", "value"),
    [
        (ConfigType.BOOLEAN, "true", True),
        (ConfigType.BOOLEAN, " FALSE ", False),
        (ConfigType.INT, "+5", 5),
        (ConfigType.INT, " -2147483648\t", -2147483648),
        (ConfigType.INT, "007", 7),
        (ConfigType.SHORT, "32767", 32767),
        (ConfigType.LONG, "9223372036854775807", 2**63 - 1),
        (ConfigType.DOUBLE, "0.5", 0.5),
        (ConfigType.DOUBLE, "1e3", 1000.0),
        (ConfigType.DOUBLE, "1.", 1.0),
        (ConfigType.DOUBLE, "2.5f", 2.5),
        (ConfigType.DOUBLE, "-Infinity", -math.inf),
        (ConfigType.STRING, "  a b  ", "a b"),
        (ConfigType.STRING, "", ""),
        (ConfigType.LIST, "", ()),
        (ConfigType.LIST, "a , b,c", ("a", "b", "c")),
        (ConfigType.LIST, "a,,b,", ("a", "", "b", "")),
        (ConfigType.CLASS, " a.B ", "a.B"),
        (ConfigType.PASSWORD, " s ", "s"),
    ],
)
def test_text_becomes_a_value_of_its_type(config_type: ConfigType, text: str, value: Value) -> None:
    assert parse_value(definition(config_type), text) == value


@pytest.mark.parametrize(
    ("config_type", "text", "allowed"),
    [
        (ConfigType.BOOLEAN, "yes", "Expected value to be either true or false"),
        (ConfigType.BOOLEAN, "1", "Expected value to be either true or false"),
        (ConfigType.BOOLEAN, "", "Expected value to be either true or false"),
        (ConfigType.INT, "2147483648", "Not a number of type INT"),
        (ConfigType.INT, "-2147483649", "Not a number of type INT"),
        (ConfigType.INT, "1.5", "Not a number of type INT"),
        (ConfigType.INT, "1_000", "Not a number of type INT"),
        (ConfigType.INT, "0x10", "Not a number of type INT"),
        (ConfigType.INT, "", "Not a number of type INT"),
        (ConfigType.INT, "+", "Not a number of type INT"),
        (ConfigType.INT, "9" * 5000, "Not a number of type INT"),
        (ConfigType.INT, "٣", "Not a number of type INT"),
        (ConfigType.SHORT, "32768", "Not a number of type SHORT"),
        (ConfigType.LONG, "9223372036854775808", "Not a number of type LONG"),
        (ConfigType.DOUBLE, "x", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "nan", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "inf", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "1_0", "Not a number of type DOUBLE"),
        (ConfigType.CLASS, " ", "Expected the name of a class"),
    ],
)
def test_error_of_an_invalid_value_names_key_value_and_what_is_allowed(
    config_type: ConfigType, text: str, allowed: str
) -> None:
    with pytest.raises(InvalidValueError) as raised:
        parse_value(definition(config_type), text)
    assert str(raised.value) == f"Invalid value {text} for configuration the.key: {allowed}"


@pytest.mark.parametrize(
    ("config_type", "rule", "good", "bad", "allowed"),
    [
        (ConfigType.INT, Between(1, None), "1", "0", "Value must be at least 1"),
        (ConfigType.INT, Between(1, 17), "17", "18", "Value must be no more than 17"),
        (ConfigType.DOUBLE, Between(0, 1), "1", "1.5", "Value must be no more than 1"),
        (ConfigType.INT, MinusOneOr(1, 9), "-1", "0", "between 1 and 9 or equal to -1"),
        (ConfigType.INT, MinusOneOr(1, None), "99", "-2", "at least 1 or equal to -1"),
        (ConfigType.STRING, OneOf(("a", "b")), "a", "A", "String must be one of: a, b"),
        (ConfigType.STRING, OneOf(("A",), is_case_ignored=True), "a", "b", "insensitive): A"),
        (ConfigType.LIST, EachOf(("a", "b")), "b,a", "a,c", "String must be one of: a, b"),
        (ConfigType.STRING, Shape.NOT_EMPTY, "a", " ", "String must be non-empty"),
        (ConfigType.STRING, Shape.PROTOCOL_VERSION, "3.9", "5.0", "a version of Apache Kafka"),
        (ConfigType.LIST, Shape.THROTTLED_REPLICAS, "0:1,2:3", "0", "[partitionId]:[brokerId]"),
    ],
)
def test_each_rule_accepts_valid_and_refuses_invalid_values(
    config_type: ConfigType, rule: ValueRule, good: str, bad: str, allowed: str
) -> None:
    parse_value(definition(config_type, rule), good)
    with pytest.raises(InvalidValueError, match=r"the\.key") as raised:
        parse_value(definition(config_type, rule), bad)
    assert allowed in raised.value.allowed
    assert "\n" not in str(raised.value)


def test_list_names_the_item_that_is_wrong() -> None:
    with pytest.raises(InvalidValueError, match="Invalid value c for configuration"):
        parse_value(definition(ConfigType.LIST, EachOf(("a",))), "a,c")


def test_value_that_is_not_set_breaks_no_rule() -> None:
    for rule in (Between(1, None), OneOf(("a",)), EachOf(("a",)), Shape.NOT_NULL, MinusOneOr(1, 9)):
        assert broken_rule(rule, None) is None


def test_secret_does_not_appear_in_its_error() -> None:
    secret = definition(ConfigType.PASSWORD, OneOf(("a",)))
    with pytest.raises(InvalidValueError) as raised:
        parse_value(secret, "hunter2")
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (None, None),
        (Between(0, None), "[0,...]"),
        (Between(None, 5), "[...,5]"),
        (Between(1, 5), "[1,...,5]"),
        (MinusOneOr(1, 9), "[1,...,9] or -1"),
        (MinusOneOr(1, None), "[1,...] or -1"),
        (OneOf(("a", "b")), "[a, b]"),
        (OneOf(("A",), is_case_ignored=True), "(case insensitive) [A]"),
        (EachOf(("a", "b")), "[a, b]"),
        (Shape.NOT_EMPTY, "non-empty string"),
    ],
)
def test_rule_is_written_as_in_kafkas_tables(rule: ValueRule | None, text: str | None) -> None:
    assert rule_text(rule) == text
    assert parse_rule(text or "", isinstance(rule, EachOf)) == rule


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (0.5, "0.5"),
        (1.0, "1.0"),
        (-2.25, "-2.25"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (0.000_123_4, "1.234E-4"),
        (1.5e-7, "1.5E-7"),
        (9_999_999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12_345_678.9, "1.23456789E7"),
        (-1e16, "-1.0E16"),
        (-1.25e300, "-1.25E300"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (5e-324, "5.0E-324"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_number_is_written_as_java_does(value: float, text: str) -> None:
    assert double_text(value) == text


@given(st.floats(allow_nan=False))
def test_written_number_reads_back_the_same(value: float) -> None:
    assert parse_value(definition(ConfigType.DOUBLE), double_text(value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, None), (True, "true"), (False, "false"), (("a", "b"), "a,b"), ((), ""), (7, "7")],
)
def test_value_text_equals_kafkas(value: Value, text: str | None) -> None:
    assert value_text(value) == text


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("3.9", "3.9-IV0"),
        ("3.9-IV0", "3.9-IV0"),
        ("3.9.2", "3.9-IV0"),
        ("3.7", "3.7-IV4"),
        ("0.8.2", "0.8.2"),
        ("0.10.2.1", "0.10.2-IV0"),
        ("4.0-IV1", "4.0-IV1"),
        ("3.9-IV1", None),
        ("3.9-IV00", None),
        ("0.8.2-IV0", None),
        ("3", None),
        ("0.11", None),
        ("", None),
        ("4.4", None),
    ],
)
def test_versions_between_brokers_are_those_up_to_4_0(text: str, version: str | None) -> None:
    assert protocol_version(text) == version
