"""The request log: what `kafka.request.logger` writes of each request, as JSON with Kafka's fields.

At DEBUG each request is logged, at INFO those whose local time is longer than `SLOW_MS`; Kafka has
nothing at INFO.  Bytes are given as their size: they may hold passwords, tokens and records.  The
lists of a message are cut after `ELEMENTS_MAX` elements.
Source: Kafka's RequestConvertToJson, RequestChannel.
"""

from __future__ import annotations

import json
import logging
from time import monotonic_ns
from typing import Final
from uuid import UUID

from odradek.broker.server.call import Call
from odradek.broker.server.timed_call import Timed, TimedCall, TimedMeteredCall
from odradek.broker.server.transmit import Parts
from odradek.broker.settings.dynamic import is_hidden
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.compiler import decoder
from odradek.protocol.schema import schema_of

SLOW_MS: Final = 100
ELEMENTS_MAX: Final = 1_000
HIDDEN: Final = "(hidden)"
UNKNOWN: Final = "unknown"

logger = logging.getLogger("odradek.requests")


class Logged(Timed):
    """What logs a request, whether or not it is metered."""

    __slots__ = ()

    def on_response(self, response: object) -> None:
        """The response is about to be encoded."""
        super().on_response(response)
        log_request(self, response)

    def respond_encoded(self, body: bytes) -> None:
        """Send an encoded body."""
        super().respond_encoded(body)
        log_request(self, _decoded(self, body))

    def on_no_response(self) -> None:
        """A Produce with acks=0 has ended."""
        super().on_no_response()
        log_request(self, None)


class LoggedCall(Logged, TimedCall):
    """A request that is timed and logged."""

    __slots__ = ()

    def encoded(self, response: object) -> Parts:
        """The parts of the response's frame."""
        parts = super().encoded(response)
        log_request(self, response)
        return parts


class LoggedMeteredCall(Logged, TimedMeteredCall):
    """A request that is counted for quotas, timed and logged."""

    __slots__ = ()


def _decoded(call: Call, body: bytes) -> object:
    return decoder(call.loaded.response, call.header.version)(memoryview(body), 0)[0]


def log_request(call: Timed, response: object | None) -> None:
    """Log a request that has ended, if the level asks for it."""
    now_ns = monotonic_ns()
    parked_ns = call.parked_ns or now_ns
    local_ms = (parked_ns - call.began_ns) / 1e6
    if not logger.isEnabledFor(logging.DEBUG) and local_ms <= SLOW_MS:
        return
    level = logging.INFO if local_ms > SLOW_MS else logging.DEBUG
    logger.log(level, "Completed request:%s", json.dumps(_fields(call, response, now_ns)))


def _fields(call: Timed, response: object | None, now_ns: int) -> dict[str, object]:
    header, connection = call.header, call.connection
    parked_ns = call.parked_ns or now_ns
    return {
        "isForwarded": False,
        "requestHeader": {
            "requestApiKey": header.api_key,
            "requestApiVersion": header.version,
            "correlationId": header.correlation_id,
            "clientId": header.client_id,
            "requestApiKeyName": ApiKey(header.api_key).name,
        },
        "request": MessageText(header.version).of(call.request),
        "response": MessageText(header.version).of(response),
        "connection": f"{connection.listener_name}-{connection.client_host}-{connection.number}",
        "totalTimeMs": _rounded_ms(now_ns - call.began_ns),
        "localTimeMs": _rounded_ms(parked_ns - call.began_ns),
        "remoteTimeMs": _rounded_ms(now_ns - parked_ns),
        "throttleTimeMs": getattr(response, "throttle_time_ms", 0),
        "principal": str(connection.principal),
        "listener": connection.listener_name,
        "clientInformation": {"softwareName": UNKNOWN, "softwareVersion": UNKNOWN},
    }


def _rounded_ms(duration_ns: int) -> float:
    return round(duration_ns / 1e6, 3)


class MessageText:
    """Makes JSON of one message in one version."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._left = ELEMENTS_MAX

    def of(self, message: object | None) -> dict[str, object] | None:
        """The fields of a message or structure; None without one."""
        if message is None:
            return None
        shown: dict[str, object] = {}
        for field in schema_of(type(message)).fields:
            if self._version not in field.versions:
                continue
            value = getattr(message, field.name)
            words = field.name.split("_")
            name = words[0] + "".join(map(str.capitalize, words[1:]))
            if isinstance(value, bytes | bytearray | memoryview) or hasattr(value, "fileno"):
                shown[f"{name}SizeInBytes"] = len(value)
            elif name == "value" and is_hidden(getattr(message, "name", "")):
                shown[name] = HIDDEN
            else:
                shown[name] = self._value(value)
        return shown

    def _value(self, value: object) -> object:
        if isinstance(value, list | tuple):
            first = value[: max(0, self._left)]
            self._left -= len(first)
            texts = [self._value(element) for element in first]
            left_out = len(value) - len(first)
            return [*texts, f"and {left_out} more"] if left_out else texts
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if hasattr(value, "__schema__"):
            return self.of(value)
        if isinstance(value, bytes | memoryview):
            return f"{len(value)} bytes"
        assert isinstance(value, UUID), f"{type(value)} has a text of its own"
        return str(value)
