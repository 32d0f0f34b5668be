"""Regular expressions of subscriptions: whole names, Kafka's words, bounded cost."""

from __future__ import annotations

import tracemalloc
from uuid import UUID

import pytest
import re2

from odradek.broker.group.consumer.regexes import RegexMatching
from odradek.broker.group.consumer.subscription_regex import TopicRegex, check_regex
from odradek.broker.group.consumer.topics import TopicDirectory
from odradek.controller.image.image import Image, TopicImage
from odradek.protocol.errors import BrokerError, ErrorCode

LONGEST_NAME = "a" * 249


def test_whole_name_must_match() -> None:
    regex = TopicRegex("orders-[0-9]+")
    assert regex.matches("orders-17")
    assert not any(map(regex.matches, ("orders-", "my-orders-1", "orders-1-dead", "orders-1\n")))


def test_invalid_expression_is_refused_with_kafkas_message() -> None:
    with pytest.raises(BrokerError) as refused:
        check_regex("(foo")
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.value.message == (
        "SubscribedTopicRegex `(foo` is not a valid regular expression: missing closing )."
    )


@pytest.mark.parametrize(
    "regex", ["(x+x+)+y", "(a|a)*b", "(a*)*b", "((a?){30}a{30}){5}b", "(.*a){30}b", "(a|aa|aaa)+b"]
)
def test_expression_that_backtracks_elsewhere_is_matched_in_linear_time(regex: str) -> None:
    assert not TopicRegex(regex).matches(LONGEST_NAME)


@pytest.mark.parametrize("regex", [r"\pL{900}", "." * 32_000, "(a{100}){100}", "(a{500}){3}"])
def test_expression_that_would_take_much_memory_is_refused(regex: str) -> None:
    with pytest.raises(BrokerError) as refused:
        check_regex(regex)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize(
    "regex",
    [r"\\C", r"\Q\C\E", r"[\\C]", r"\pC", r"\Qa{9999999999}", r"(?P<a>x)(?P<b>y)", "a{012}"],
)
def test_expression_that_resembles_an_unsupported_one_is_accepted(regex: str) -> None:
    assert TopicRegex(regex).regex == regex


def test_checked_expressions_are_not_kept_in_the_cache_of_the_library() -> None:
    for number in range(300):
        check_regex(f"topic-{number}")
    assert re2._Regexp._make.cache_info().currsize == 0


def test_matchings_that_wait_share_the_names_of_topics() -> None:
    topics = {name: TopicImage(name, UUID(int=1), {}) for name in map(str, range(10_000))}
    image = Image(topics=topics)
    directory = TopicDirectory(lambda: image)
    directory.refresh()
    tracemalloc.start()
    try:
        waiting = [RegexMatching(("9.*",), directory) for _ in range(100)]
        image = Image(topics={})
        directory.refresh()
        while not waiting[0].step():
            pass
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()
    assert len(waiting[0].matches["9.*"]) == 1_111
