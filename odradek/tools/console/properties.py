"""Converts Kafka's client properties to those of librdkafka: names, units and defaults.

An unknown name has no effect and is logged once.
Source: Kafka 3.9's ProducerConfig, ConsumerConfig; librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from odradek.bounded_files import read_rows
from odradek.tools.client_config import (
    PLAINTEXT,
    SECURITY_PROTOCOL,
    InvalidPropertiesError,
    read_properties,
)
from odradek.tools.console.errors import CONFIG_EXCEPTION, ConsoleError
from odradek.tools.options import INT32_MAX, INT64_MAX, java_integer
from odradek.tools.security.errors import SecurityError
from odradek.tools.text_arguments import NotTextError, check_property

PRODUCER: Final = "Producer"
CONSUMER: Final = "Consumer"
MESSAGES_QUEUED_MAX: Final = 10_000_000
"""The largest value of librdkafka: as in Kafka's producer, bytes are the bound."""
FRAME_BYTES: Final = 512
"""Space that librdkafka requires in a response besides the records."""


class Number(NamedTuple):
    """An integer property."""

    largest: int = INT32_MAX
    lowest: int = 0


def _rule(text: str) -> Number | tuple[str, ...] | None:
    kind, _, lowest = text.partition(" ")
    if kind in _LARGEST:
        return Number(_LARGEST[kind], int(lowest or 0))
    return tuple(text.split("|")) if text else None


BOOLEAN: Final = ("true", "false")
_LARGEST: Final = {"int": INT32_MAX, "long": INT64_MAX}
_ROWS: Final = read_rows(__file__, "properties.tsv")
"""Client, value and name of each property.

A value: `int` or `long` with the lowest one, 0 unless it is said; words; or empty, for any text.
"""
SECURITY_PROPERTIES: Final = tuple(name for client, _, name in _ROWS if client == "security")
"""Read by `ClientSecurity`."""
KNOWN: Final[Mapping[str, Mapping[str, Number | tuple[str, ...] | None]]] = {
    kind: {
        name: _rule(value) for client, value, name in _ROWS if client in ("both", "security", kind)
    }
    for kind in (PRODUCER, CONSUMER)
}
"""Rule of each property's value: an integer, one of these words, or (None) any text."""
TOOL_PROPERTIES: Final = (
    "max.block.ms",
    "max.request.size",
    "exclude.internal.topics",
    "key.serializer",
    "value.serializer",
    "key.deserializer",
    "value.deserializer",
)
"""Properties that the tools implement themselves, or override as Kafka's tools do."""

DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    PRODUCER: {
        "partitioner": "murmur2_random",
        "message.timeout.ms": 120_000,
        "queue.buffering.max.messages": MESSAGES_QUEUED_MAX,
        "delivery.report.only.error": True,
    },
    CONSUMER: {
        "allow.auto.create.topics": True,
        "check.crcs": True,
        "auto.commit.interval.ms": 5000,
    },
}
"""Kafka's defaults where those of librdkafka differ."""

_ASSIGNORS: Final = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


def parse_pairs(texts: Iterable[str]) -> dict[str, str]:
    """Parse `name=value` texts; the value is optional, and of two with one name the last counts.

    source  Kafka's CommandLineUtils.parseKeyValueArgs
    """
    pairs = (text.partition("=") for text in texts)
    return {name: value for name, _, value in pairs}


def load_properties(path: str) -> dict[str, str]:
    """Read a properties file.

    raises  ConsoleError with the Java exception for a file that cannot be read

    Differs from Kafka: a lone surrogate is refused.  Java sends a question mark.
    """
    try:
        properties = read_properties(path)
        for name, value in properties.items():
            check_property(name, value)
    except NotTextError as error:
        raise ConsoleError("java.lang.IllegalArgumentException", f"{path}: {error}") from error
    except FileNotFoundError as error:
        raise ConsoleError("java.nio.file.NoSuchFileException", path) from error
    except PermissionError as error:
        raise ConsoleError("java.nio.file.AccessDeniedException", path) from error
    except OSError as error:
        raise ConsoleError("java.io.IOException", str(error.strerror)) from error
    except InvalidPropertiesError as error:
        raise ConsoleError("java.lang.IllegalArgumentException", str(error)) from error
    return properties


def check_properties(kind: str, properties: Mapping[str, str]) -> None:
    """Check values as Kafka's client does when it is created.

    raises  ConsoleError
    """
    for name, rule in KNOWN[kind].items():
        value = properties.get(name)
        if value is None or rule is None:
            continue
        if isinstance(rule, Number):
            _check_number(name, value.strip(), rule)
        else:
            _check_word(name, value.strip(), rule)


def _check_word(name: str, value: str, rule: tuple[str, ...]) -> None:
    words = ", ".join(rule)
    if name == SECURITY_PROTOCOL:  # the only value that is case-insensitive
        if value.upper() not in rule:
            raise _invalid(name, value, f"String must be one of (case insensitive): {words}")
    elif rule == BOOLEAN:
        if value.lower() not in rule:
            raise _invalid(name, value, "Expected value to be either true or false")
    elif value not in rule:
        raise _invalid(name, value, f"String must be one of: {words}")


def _check_number(name: str, value: str, rule: Number) -> None:
    number = java_integer(value, rule.largest)
    if number is None:
        kind = "INT" if rule.largest == INT32_MAX else "LONG"
        raise _invalid(name, value, f"Not a number of type {kind}")
    if number < rule.lowest:
        raise _invalid(name, value, f"Value must be at least {rule.lowest}")


def _invalid(name: str, value: str, reason: str) -> ConsoleError:
    return ConsoleError(
        CONFIG_EXCEPTION, f"Invalid value {value} for configuration {name}: {reason}"
    )


def unknown_properties(kind: str, properties: Mapping[str, str]) -> list[str]:
    """The names that have no effect, in the order of `properties`."""
    return [name for name in properties if name not in KNOWN[kind] and name not in TOOL_PROPERTIES]


def for_library(kind: str, properties: Mapping[str, str]) -> dict[str, Any]:
    """The configs of librdkafka for Kafka's properties.

    properties  checked by `check_properties`
    raises      ConsoleError for properties of TLS and SASL that are wrong
    """
    configs = {**DEFAULTS[kind], **_security(properties)}
    apart = (*TOOL_PROPERTIES, *SECURITY_PROPERTIES, SECURITY_PROTOCOL)
    for name, value in properties.items():
        if name not in KNOWN[kind] or name in apart:
            continue
        convert = _CONVERSIONS.get(name)
        configs.update({name: value.strip()} if convert is None else convert(kind, value.strip()))
    if kind == PRODUCER:
        configs.setdefault("enable.idempotence", _is_idempotent(properties))
    return configs


def _security(properties: Mapping[str, str]) -> dict[str, Any]:
    if properties.get(SECURITY_PROTOCOL, PLAINTEXT).strip().upper() == PLAINTEXT:
        return {}
    from odradek.tools.security.client_security import ClientSecurity, library_configs

    try:
        return library_configs(ClientSecurity(properties))
    except SecurityError as error:
        raise ConsoleError(CONFIG_EXCEPTION, str(error)) from None


def _is_idempotent(properties: Mapping[str, str]) -> bool:
    """Whether Kafka's producer would be idempotent by default: no property conflicts with it."""
    return (
        properties.get("acks", "all").strip() in ("all", "-1")
        and properties.get("retries", "1").strip() != "0"
        and int(properties.get("max.in.flight.requests.per.connection", "5")) <= 5
    )


def _request_timeout(kind: str, value: str) -> dict[str, Any]:
    timeout_ms = max(int(value), 10)
    configs: dict[str, Any] = {"socket.timeout.ms": min(timeout_ms, 300_000)}
    if kind == PRODUCER:
        configs["request.timeout.ms"] = min(timeout_ms, 900_000)
    return configs


def _metadata_age(_: str, value: str) -> dict[str, Any]:
    age_ms = min(max(int(value), 10), 3_600_000)
    # Metadata must not expire between two refreshes.
    return {"topic.metadata.refresh.interval.ms": age_ms, "metadata.max.age.ms": 3 * age_ms}


def _backoff_ms(value: str) -> int:
    return min(max(int(value), 1), 300_000)


def _assignors(_: str, value: str) -> dict[str, Any]:
    names = [name.strip().rpartition(".")[2] for name in value.split(",")]
    strategies = [_ASSIGNORS[name] for name in names if name in _ASSIGNORS]
    return {"partition.assignment.strategy": ",".join(strategies)} if strategies else {}


def _fetch_max(_: str, value: str) -> dict[str, Any]:
    size_bytes = min(max(int(value), 1000), INT32_MAX - FRAME_BYTES)
    return {
        "fetch.max.bytes": size_bytes,
        "message.max.bytes": min(size_bytes, 1_000_000),
        "receive.message.max.bytes": max(size_bytes + FRAME_BYTES, 100_000_000),
    }


_Conversion = Callable[[str, str], dict[str, Any]]
_CONVERSIONS: Final[Mapping[str, _Conversion]] = {
    "request.timeout.ms": _request_timeout,
    "metadata.max.age.ms": _metadata_age,
    "partition.assignment.strategy": _assignors,
    "fetch.max.bytes": _fetch_max,
    "fetch.max.wait.ms": lambda _, value: {"fetch.wait.max.ms": value},
    "send.buffer.bytes": lambda _, value: {"socket.send.buffer.bytes": max(int(value), 0)},
    "receive.buffer.bytes": lambda _, value: {"socket.receive.buffer.bytes": max(int(value), 0)},
    "delivery.timeout.ms": lambda _, value: {"message.timeout.ms": value},
    "buffer.memory": lambda _, value: {
        "queue.buffering.max.kbytes": min(max(int(value) // 1024, 1), INT32_MAX)
    },
    "batch.size": lambda _, value: {"batch.size": max(int(value), 1)},
    "retry.backoff.ms": lambda _, value: {"retry.backoff.ms": _backoff_ms(value)},
    "retry.backoff.max.ms": lambda _, value: {"retry.backoff.max.ms": _backoff_ms(value)},
    "connections.max.idle.ms": lambda _, value: {
        "connections.max.idle.ms": min(max(int(value), 0), INT32_MAX)
    },
    "linger.ms": lambda _, value: {"linger.ms": min(int(value), 900_000)},
}
