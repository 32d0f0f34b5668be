"""Errors of the tools: the name of the error code, and a text.

Some tools exit with 0 on most errors, as Kafka's do, so scripts can only look at the text.
Differs from Kafka: its tools print Java's exception class in place of the name.
"""

from __future__ import annotations

from typing import Protocol

from odradek.bounded_files import read_rows
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_partition import TopicPartition


def partition_text(partition: TopicPartition) -> str:
    """`topic-0`, as Kafka's TopicPartition.toString."""
    return f"{partition.topic}-{partition.partition}"


class ToolError(Exception):
    """The action failed; `str` of the error is the line that the tool prints."""


class KafkaError(ToolError):
    """A broker returned an error code.

    text  `str` of the error
    code  the error code of the response
    """

    def __init__(self, text: str, code: int = ErrorCode.UNKNOWN_SERVER_ERROR) -> None:
        super().__init__(text)
        self.text = text
        self.code = code


def error_name(code: int) -> str:
    """The name of an error code; UNKNOWN_SERVER_ERROR for one that no release has."""
    is_defined = code in list(ErrorCode)
    return ErrorCode(code).name if is_defined else ErrorCode.UNKNOWN_SERVER_ERROR.name


def error_text(code: int) -> str:
    """The standard text of an error code.

    Source: Kafka 3.9's org.apache.kafka.common.protocol.Errors, of which error_texts.tsv has a row
    for each error.
    """
    texts = dict(read_rows(__file__, "error_texts.tsv"))
    return texts.get(error_name(code), f"The broker responds with error {code}.")


def refused(code: int, message: str | None = None) -> KafkaError:
    """The error for an error code, which is not 0.

    message  replaces the standard text of the code unless it is None
    """
    return KafkaError(
        f"{error_name(code)}: {error_text(code) if message is None else message}", code
    )


class HasErrorCode(Protocol):
    """A response or a part of one; some have an `error_message` besides."""

    error_code: int


def check(*parts: HasErrorCode) -> None:
    """Raise KafkaError for the first error code that is not 0."""
    for part in parts:
        if part.error_code:
            raise refused(part.error_code, getattr(part, "error_message", None))


def timed_out(what: str) -> KafkaError:
    """The error when retries have used up the timeout."""
    return refused(ErrorCode.REQUEST_TIMED_OUT, what)
