"""confluent-kafka, the client library of the console tools; an optional dependency."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any, Final

from odradek.extras import missing_library
from odradek.tools.console.errors import (
    CONFIG_EXCEPTION,
    KAFKA_EXCEPTION,
    TIMEOUT_EXCEPTION,
    AuthenticationError,
    ConsoleError,
    exception_of,
    log,
)
from odradek.tools.errors import ToolError

MISSING: Final = f"{missing_library('confluent-kafka', 'tools')}, or pip install confluent-kafka"
LOGGER: Final = "librdkafka"
SECURITY_ERRORS: Final = ("_AUTHENTICATION", "_SSL")
"""Neither side accepts the other: Kafka's clients end here."""
REPEAT_S: Final = 60.0
"""The shortest interval between two log lines for the same error."""


class LibraryMissingError(ToolError):
    """confluent-kafka is not installed; the message says how to install it."""


def library() -> Any:
    """The module confluent_kafka.

    raises  LibraryMissingError
    """
    try:
        import confluent_kafka
    except ImportError as error:
        raise LibraryMissingError(MISSING) from error
    return confluent_kafka


def build(kind: str, configs: dict[str, Any]) -> Any:
    """Create a client.

    kind     Producer or Consumer
    raises   LibraryMissingError; ConsoleError for invalid configs
    """
    module = library()
    check_addresses(kind, configs["bootstrap.servers"])
    prefix = f"[{kind} clientId={configs['client.id']}]"
    configs = {
        **configs,
        # No log lines on stderr: the callback reports the same errors.
        "log_level": 0,
        "error_cb": _error_logger(prefix),
    }
    try:
        return getattr(module, kind)(configs)
    except module.KafkaException as error:
        raise ConsoleError(CONFIG_EXCEPTION, error.args[0].str()) from error


def _error_logger(prefix: str) -> Callable[[Any], None]:
    logged_at: dict[str, float] = {}

    def log_error(error: Any) -> None:
        if error.name() in SECURITY_ERRORS:
            # librdkafka tries again for ever.
            raise AuthenticationError(*exception_of(error))
        # Each failed attempt to connect is an error.
        now = time.monotonic()
        name = error.name()
        if name not in logged_at or now - logged_at[name] > REPEAT_S:
            logged_at[name] = now
            log("ERROR" if error.fatal() else "WARN", f"{prefix} {error.str()}", LOGGER)

    return log_error


def check_addresses(kind: str, servers: str) -> None:
    """Check that an address can be resolved; librdkafka would retry for ever.

    raises  ConsoleError
    """
    has_address = False
    for address in filter(None, (part.strip() for part in servers.split(","))):
        host, colon, port = address.rpartition("://")[2].rpartition(":")
        if not colon or not port.isdecimal() or not host:
            reason = f"Invalid url in bootstrap.servers: {address}"
            raise _not_constructed(kind, reason)
        try:
            socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        except (OSError, UnicodeError, OverflowError):
            log(
                "WARN",
                f"Couldn't resolve server {address} from bootstrap.servers as DNS resolution "
                f"failed for {host}",
                "org.apache.kafka.clients.ClientUtils",
            )
        else:
            has_address = True
    if not has_address:
        raise _not_constructed(kind, "No resolvable bootstrap urls given in bootstrap.servers")


def _not_constructed(kind: str, reason: str) -> ConsoleError:
    return ConsoleError(
        KAFKA_EXCEPTION,
        f"Failed to construct kafka {kind.lower()}\nCaused by: {CONFIG_EXCEPTION}: {reason}",
    )


TOPIC_RETRY_S: Final = 0.1
"""Interval between two requests for the metadata of a missing topic."""
_ERRORS: Final = "org.apache.kafka.common.errors"


def missing_topic_reason(producer: Any, topic: str, max_block_ms: int) -> str | None:
    """Wait until the topic exists; returns None, or the reason why it does not.

    producer  a confluent_kafka.Producer
    """
    from confluent_kafka import KafkaError, KafkaException

    deadline = time.monotonic() + max_block_ms / 1000
    while True:
        remaining_s = max(deadline - time.monotonic(), 0.0)
        try:
            metadata = producer.list_topics(topic, timeout=min(remaining_s, 1.0))
            error = metadata.topics[topic].error
        except KafkaException as exception:
            error = exception.args[0]
        if error is None:
            return None
        if error.code() == KafkaError.TOPIC_EXCEPTION:
            return f"{_ERRORS}.InvalidTopicException: Invalid topics: [{topic}]"
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return (
                f"{_ERRORS}.TopicAuthorizationException: Not authorized to access topics: [{topic}]"
            )
        if time.monotonic() >= deadline:
            return (
                f"{TIMEOUT_EXCEPTION}: Topic {topic} not present in metadata after "
                f"{max_block_ms} ms."
            )
        producer.poll(min(TOPIC_RETRY_S, remaining_s))
