"""Errors of the tools, with the texts of Kafka's.

Kafka's tools print the class of the Java exception.  So do these: some exit with 0 on most errors,
so scripts can only look at the text.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_partition import TopicPartition

WRAPPER: Final = "java.util.concurrent.ExecutionException: "


def partition_text(partition: TopicPartition) -> str:
    """`topic-0`, as Kafka's TopicPartition.toString."""
    return f"{partition.topic}-{partition.partition}"


class ToolError(Exception):
    """The action failed; `str` of the error is the line that the tool prints."""


class KafkaError(ToolError):
    """A broker returned an error code.

    text  class and message of the Java exception; `str` of the error adds the ExecutionException
          that wraps it in most calls of Kafka's tool
    code  the error code of the response
    """

    def __init__(self, text: str, code: int = ErrorCode.UNKNOWN_SERVER_ERROR) -> None:
        super().__init__(WRAPPER + text)
        self.text = text
        self.code = code


def exception_of(code: int) -> tuple[str, str]:
    """The Java exception class of an error code, and its standard text.

    Source: Kafka 3.9's org.apache.kafka.common.protocol.Errors, of which kafka_exceptions.tsv has a
    row for each error of that release.
    """
    error = ErrorCode(code) if code in list(ErrorCode) else ErrorCode.UNKNOWN_SERVER_ERROR
    unknown = (
        f"org.apache.kafka.common.errors.{error.name}",
        f"The broker responds with error {code}.",
    )
    return _exceptions().get(error.name, unknown)


@cache
def _exceptions() -> dict[str, tuple[str, str]]:
    text = Path(__file__).with_name("kafka_exceptions.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines()[1:])
    return {error: (exception, message) for error, exception, message in rows}


def refused(code: int, message: str | None = None) -> KafkaError:
    """The error for an error code, which is not 0.

    message  replaces the standard text of the code unless it is None
    """
    name, text = exception_of(code)
    return KafkaError(f"{name}: {text if message is None else message}", code)


def timed_out(what: str) -> KafkaError:
    """The error when retries have used up the timeout."""
    return refused(ErrorCode.REQUEST_TIMED_OUT, what)
