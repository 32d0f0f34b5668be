from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.tools.canary import command as canary
from odradek.tools.lag import command as lag
from odradek.tools.options import Flag, OptionsError, help_text, scan
from odradek.tools.steering import rebalance, rolling_restart, top
from odradek.tools.steering.execution import STALL_TIMEOUT_MS
from odradek.tools.steering.goals import SOFT_GOALS
from odradek.web_console import command as console

FLAGS = (
    Flag("list", "Print names."),
    Flag("topic", "A name.", "name"),
    Flag("partitions", "How many.", "number"),
)


@pytest.mark.parametrize(
    ("words", "topic"),
    [
        (["--topic", "a"], "a"),
        (["--topic=a"], "a"),
        (["-topic", "a"], "a"),
        (["-topic=a"], "a"),
        (["--topic=a=b"], "a=b"),
        (["--topic="], ""),
        (["--topic", ""], ""),
        (["--topic", "--list"], "--list"),
        (["--topic", "-1"], "-1"),
        (["--topic", "--"], "--"),
        (["a", "--topic", "b", "c", "-"], "b"),
        (["--", "--topic", "b"], None),
        ([], None),
    ],
)
def test_value_is_the_next_word_or_follows_an_equals_sign(
    words: list[str], topic: str | None
) -> None:
    options = scan(FLAGS, words)
    assert options.value("topic") == topic
    assert options.has("topic") == (topic is not None)
    assert not options.has("list")


@pytest.mark.parametrize("words", [["--list"], ["-list"], ["--list=no"], ["--list", "--list"]])
def test_option_without_a_value_is_given_or_not(words: list[str]) -> None:
    assert scan(FLAGS, words).has("list")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--bogus"], "bogus is not a recognized option"),
        (["--bogus=1"], "bogus is not a recognized option"),
        (["--lis"], "lis is not a recognized option"),
        (["-bogus"], "b is not a recognized option"),
        (["--list", "--topic"], "Option topic requires an argument"),
    ],
)
def test_unknown_option_is_an_error(words: list[str], message: str) -> None:
    with pytest.raises(OptionsError) as raised:
        scan(FLAGS, words)
    assert str(raised.value) == message
    assert not raised.value.shows_help


def test_option_given_twice_is_an_error_when_one_value_is_read() -> None:
    options = scan(FLAGS, ["--topic", "a", "--topic", "b"])
    assert options.values("topic") == ["a", "b"]
    with pytest.raises(OptionsError) as raised:
        options.value("topic")
    assert str(raised.value) == (
        "Found multiple arguments for option topic, but you asked for only one"
    )


@pytest.mark.parametrize("text", ["", "x", "1.0", " 1", "1_000", "0x10", "2147483648", "--list"])
def test_number_outside_of_int32_is_an_error(text: str) -> None:
    with pytest.raises(OptionsError) as raised:
        scan(FLAGS, ["--partitions", text]).number("partitions")
    assert str(raised.value) == f"Cannot parse argument '{text}' of option partitions"


@pytest.mark.parametrize(
    ("text", "number"), [("3", 3), ("-1", -1), ("+7", 7), ("007", 7), ("-2147483648", -(2**31))]
)
def test_signed_numbers_are_accepted(text: str, number: int) -> None:
    assert scan(FLAGS, ["--partitions", text]).number("partitions") == number
    assert scan(FLAGS, []).number("partitions") is None


@given(st.lists(st.text(max_size=8), max_size=6))
def test_word_without_a_dash_is_not_an_option(words: list[str]) -> None:
    plain = [word.lstrip("-") for word in words]
    options = scan(FLAGS, plain)
    assert not any(options.has(flag.name) for flag in FLAGS)


@given(st.lists(st.text(max_size=8), max_size=6))
def test_every_word_after_an_option_with_a_value_is_the_value(texts: list[str]) -> None:
    words = [word for text in texts for word in ("--topic", text)]
    assert scan(FLAGS, words).values("topic") == texts


def test_help_has_a_line_for_every_option() -> None:
    lines = help_text(FLAGS).splitlines()
    assert [line.split()[0] for line in lines] == ["--list", "--partitions", "--topic"]
    assert all(len(line) <= 100 for line in lines)


@pytest.mark.parametrize(
    ("flags", "name", "default"),
    [
        (canary.FLAGS, "topic", canary.TOPIC),
        (canary.FLAGS, "interval-ms", canary.INTERVAL_MS),
        (canary.FLAGS, "timeout-ms", canary.TIMEOUT_MS),
        (canary.FLAGS, "summary-interval-ms", canary.SUMMARY_INTERVAL_MS),
        (console.FLAGS, "listen", console.DEFAULT_LISTEN),
        (lag.FLAGS, "minutes", lag.MINUTES),
        (lag.FLAGS, "interval-ms", lag.INTERVAL_MS),
        (lag.FLAGS, "cluster", lag.CLUSTER),
        (rebalance.FLAGS, "batch", rebalance.BATCH),
        (rebalance.FLAGS, "stall-timeout-ms", STALL_TIMEOUT_MS),
        (rebalance.FLAGS, "goals", ",".join(SOFT_GOALS)),
        (rebalance.FLAGS, "sample-ms", rebalance.SAMPLE_MS),
        (rolling_restart.FLAGS, "timeout-ms", rolling_restart.TIMEOUT_MS),
        (top.FLAGS, "interval-ms", top.INTERVAL_MS),
    ],
)
def test_default_in_the_help_is_the_one_that_is_used(
    flags: Sequence[Flag], name: str, default: object
) -> None:
    (flag,) = [flag for flag in flags if flag.name == name]
    assert f"(default: {default})" in flag.meaning
