"""Errors of the console tools: the lines of Kafka's tools, without stack traces.

Source: Kafka 3.9's ConsoleProducer, ConsoleConsumer and ErrorLoggingCallback; its
tools-log4j.properties (`[time] LEVEL text (logger)` on stderr).
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable
from typing import Any, Final

KAFKA_EXCEPTION: Final = "org.apache.kafka.common.KafkaException"
CONFIG_EXCEPTION: Final = "org.apache.kafka.common.config.ConfigException"
TIMEOUT_EXCEPTION: Final = "org.apache.kafka.common.errors.TimeoutException"
_ERRORS: Final = "org.apache.kafka.common.errors"
_EXCEPTIONS: Final = {
    "MSG_SIZE_TOO_LARGE": "RecordTooLargeException",
    "INVALID_MSG_SIZE": "RecordTooLargeException",
    "TOPIC_EXCEPTION": "InvalidTopicException",
    "UNKNOWN_TOPIC_OR_PART": "UnknownTopicOrPartitionException",
    "NOT_ENOUGH_REPLICAS": "NotEnoughReplicasException",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "NotEnoughReplicasAfterAppendException",
    "TOPIC_AUTHORIZATION_FAILED": "TopicAuthorizationException",
    "GROUP_AUTHORIZATION_FAILED": "GroupAuthorizationException",
    "CLUSTER_AUTHORIZATION_FAILED": "ClusterAuthorizationException",
    "INVALID_RECORD": "InvalidRecordException",
    "INVALID_MSG": "CorruptRecordException",
    "FENCED_INSTANCE_ID": "FencedInstanceIdException",
    "_MSG_TIMED_OUT": "TimeoutException",
    "_AUTHENTICATION": "SaslAuthenticationException",
    "_SSL": "SslAuthenticationException",
}
"""Error names of librdkafka -> exception classes of Kafka."""


_TEXTS: Final = {
    "MSG_SIZE_TOO_LARGE": (
        "The request included a message larger than the max message size the server will accept."
    ),
    "NOT_ENOUGH_REPLICAS": (
        "Messages are rejected since there are fewer in-sync replicas than required."
    ),
}
"""Kafka's messages where those of librdkafka differ."""
_NO_OFFSET: Final = "org.apache.kafka.clients.consumer.NoOffsetForPartitionException"
_OUT_OF_RANGE: Final = "org.apache.kafka.clients.consumer.OffsetOutOfRangeException"


class ConsoleError(Exception):
    """The tool ends; the text is the first line of the stack trace of Kafka's tool."""

    def __init__(self, kind: str, text: str, *, exit_code: int = 1) -> None:
        """kind  the Java exception class, for scripts that look for it"""
        super().__init__(f"{kind}: {text}" if text else kind)
        self.exit_code = exit_code


class AuthenticationError(ConsoleError):
    """The broker does not accept this client, or is not trusted by it; to try again is in vain."""


def check_subscription(topic: str | None, pattern: str | None) -> None:
    """Refuse an empty topic and an empty pattern, as Kafka's consumer does.

    raises  ConsoleError
    """
    for text, what in ((topic, "collection"), (pattern, "pattern")):
        if text == "":
            contains = "contain null or empty topic" if what == "collection" else "be empty"
            raise ConsoleError(
                "java.lang.IllegalArgumentException",
                f"Topic {what} to subscribe to cannot {contains}",
            )


def check_group(group: str) -> None:
    """Refuse an empty group, at which librdkafka ends the process.

    raises  ConsoleError
    """
    if not group:
        raise ConsoleError(
            f"{_ERRORS}.InvalidGroupIdException", "The configured groupId is invalid."
        )


def log(level: str, text: str, logger: str) -> None:
    """Print a line on stderr in the log format of Kafka's tools."""
    now = datetime.datetime.now(tz=datetime.UTC).astimezone()
    time = f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03}"
    print(f"[{time}] {level} {text} ({logger})", file=sys.stderr, flush=True)


def print_exception(error: ConsoleError) -> None:
    """Print an exception on stderr as those of Kafka's tools that catch it: its message first."""
    line = str(error).partition("\n")[0]
    print(f"{line.partition(': ')[2]}\n{error}\n", file=sys.stderr, flush=True)


def exception_line(error: Any) -> str:
    """An error of librdkafka as Kafka's exception class and message.

    error  a confluent_kafka.KafkaError
    """
    name, text = error.name(), error.str()
    if name == "_AUTO_OFFSET_RESET":
        return f"{_NO_OFFSET if 'No offset' in text else _OUT_OF_RANGE}: {text}"
    kind = _EXCEPTIONS.get(name)
    text = _TEXTS.get(name, text)
    return f"{_ERRORS}.{kind}: {text}" if kind else f"{KAFKA_EXCEPTION}: {text}"


def exception_of(error: Any) -> tuple[str, str]:
    """Kafka's exception class and message of a confluent_kafka.KafkaError."""
    kind, _, text = exception_line(error).partition(": ")
    return kind, text


def run_uncaught(run: Callable[[], int]) -> int:
    """Run; an exception that Kafka's tool does not catch is a line on stderr and its exit code."""
    try:
        return run()
    except ConsoleError as error:
        print(f'Exception in thread "main" {error}', file=sys.stderr)
        return error.exit_code
