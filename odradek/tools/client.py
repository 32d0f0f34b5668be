"""A small blocking client for the command-line tools: one request at a time, newest common version.

It connects at the first request, to the first bootstrap address that accepts a connection.  As
Kafka's admin client does, it looks up the controller for requests that only the controller serves,
and the coordinators of groups.
"""

from __future__ import annotations

import math
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar

from odradek.bounded_files import system_error_text
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.compiler import decoder, encoder
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.headers import ResponseHeader, encode_request_header, response_header_version
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.protocol.schema import schema_of
from odradek.protocol.topic_partition import ZERO_UUID
from odradek.tools.errors import ToolError
from odradek.tools.security.errors import SecurityError
from odradek.tools.text_arguments import SHOWN_MAX, NotTextError, shown_text

if TYPE_CHECKING:
    from odradek.tools.security.client_security import ClientSecurity
    from odradek.tools.security.sasl_client import SaslLogin

Response = TypeVar("Response")

CLIENT_ID: Final = "odradek-tools"
TIMEOUT_MS: Final = 35_000
"""5 s more than the timeout that requests give to a broker."""
CONNECT_TIMEOUT_MS: Final = 10_000
"""Kafka: socket.connection.setup.timeout.ms."""
RETRY_PAUSE_MS: Final = 100
"""Kafka: retry.backoff.ms."""
GROUP: Final = 0
TRANSACTION: Final = 1
"""Types of keys for which there are coordinators."""
COORDINATORS_AT_ONCE: Final = 4
"""The first version of FindCoordinator that takes several keys."""
FRAME_BYTES_MAX: Final = 100 << 20
TLS_ALERT: Final = 0x1503
"""Type and major version with which a TLS server refuses bytes that are not TLS."""
RENEWAL_SHARE: Final = 0.85
"""The part of a session's life time after which a connection authenticates again (KIP-368)."""


class ClientError(ToolError):
    """The cluster cannot be reached, or its response cannot be read.  The message is one line."""


class BrokerUnreachable(ClientError):
    """The broker refuses connections, or has closed one before its response: it may be gone."""


class NotServedError(ClientError):
    """Broker and tool have no version of an API in common."""


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """Split `host:port,host:port` into pairs; an IPv6 address is in brackets.

    raises  ClientError that names the part that is not an address
    """
    addresses = []
    # Apache's tools pass over blanks, and commas without an address.
    for part in [part.strip() for part in text.split(",") if part.strip()] or [text.strip()]:
        host, _, port = part.rpartition(":")
        is_port = re.fullmatch("0*[0-9]{1,5}", port, re.ASCII) and 0 < int(port) < 65536
        if not host or not is_port:
            shown = part if len(part) <= SHOWN_MAX else f"{part[:SHOWN_MAX]}..."
            raise ClientError(f"'{shown}' is not an address of a broker (host:port)")
        addresses.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return addresses


class BrokerAddress(Protocol):
    """What responses say of a broker."""

    node_id: int
    host: str
    port: int


def key_of(request: type) -> ApiKey:
    """The API of a class of requests."""
    key = schema_of(request).api_key
    assert key is not None, f"{request.__name__} is a request"
    return ApiKey(key)


def error_codes(message: Any) -> Iterator[int]:
    """The error codes of a response and of the structures in it."""
    for declared in schema_of(type(message)).fields:
        value = getattr(message, declared.name)
        if declared.name == "error_code":
            yield value
        elif isinstance(value, list):
            for element in value:
                if hasattr(type(element), "__schema__"):
                    yield from error_codes(element)


class BrokerConnection:
    """A connection to one broker.  Each receive blocks for at most `timeout_ms`."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_ms: int,
        security: ClientSecurity | None = None,
    ) -> None:
        """security  None: neither encrypted nor authenticated"""
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._client_id = client_id
        self._correlation_id = 0
        self._login: SaslLogin | None = None
        self._authenticates_at_s = math.inf
        try:
            wait_ms = min(timeout_ms, CONNECT_TIMEOUT_MS)
            self._socket = socket.create_connection((host, port), wait_ms / 1000)
        except (OSError, UnicodeError) as error:
            raise BrokerUnreachable(
                f"{self.address} cannot be reached: {system_error_text(error)}"
            ) from error
        try:
            self._socket.settimeout(timeout_ms / 1000)
            if security is not None:
                self._encrypt(security, host)
            first = self._exchange(0, ApiVersionsRequest(), ApiVersionsResponse)
            self.api_versions = {
                row.api_key: (row.min_version, row.max_version) for row in first.api_keys
            }
            """API key -> lowest and highest version that the broker serves."""
            if security is not None and security.login is not None:
                self._authenticate(security.login)
        except BaseException:
            self._socket.close()
            raise

    def _encrypt(self, security: ClientSecurity, host: str) -> None:
        try:
            self._socket = security.wrap(self._socket, host)
        except SecurityError as error:
            raise ClientError(f"{self.address}: {error}") from error
        except OSError as error:
            raise BrokerUnreachable(
                f"{self.address}: the SSL handshake does not end: {system_error_text(error)}"
            ) from error

    def _authenticate(self, login: SaslLogin) -> None:
        self._login, self._authenticates_at_s = login, math.inf
        handshake = self.request(
            SaslHandshakeRequest(mechanism=login.mechanism), SaslHandshakeResponse
        )
        if handshake.error_code:
            offered = ", ".join(handshake.mechanisms) or "none"
            raise ClientError(
                f"{self.address} does not serve SASL mechanism {login.mechanism}; it offers "
                f"{offered}"
            )
        lifetime_ms = 0
        try:
            exchange = login.exchange()
            token = next(exchange)
            while True:
                response = self.request(
                    SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse
                )
                if response.error_code:
                    reason = response.error_message or "the broker gives no reason"
                    raise SecurityError(reason)
                lifetime_ms = response.session_lifetime_ms
                token = exchange.send(response.auth_bytes)
        except StopIteration:
            if lifetime_ms > 0:
                self._authenticates_at_s = time.monotonic() + RENEWAL_SHARE * lifetime_ms / 1000
        except SecurityError as error:
            raise ClientError(f"{self.address}: authentication failed: {error}") from error

    def version_of(self, request: type) -> int:
        """The newest version of an API that both sides support.

        raises  NotServedError when there is none
        """
        key, ours = key_of(request), schema_of(request).versions
        least, most = self.api_versions.get(key, (1, 0))
        version = min(most, ours.last)
        if version < max(least, ours.first):
            raise NotServedError(f"{self.address} does not serve {key.name.lower()}")
        return version

    def request(self, request: Any, response: type[Response], version_max: int = 2**15) -> Response:
        """Send a request and wait for its response.

        raises  ClientError, also when the broker supports no version <= `version_max`
        """
        version = min(self.version_of(type(request)), version_max)
        if self._login is not None and time.monotonic() >= self._authenticates_at_s:
            self._authenticate(self._login)
        return self._exchange(version, request, response)

    def _exchange(self, version: int, request: Any, response: type[Response]) -> Response:
        key = key_of(type(request))
        self._correlation_id += 1
        header = encode_request_header(key, version, self._correlation_id, self._client_id)
        try:
            frame = header + encoder(type(request), version)(request)
        except UnicodeEncodeError as error:
            # Of a command line with bytes that are not text.
            raise ClientError(str(NotTextError(shown_text(error.object)))) from error
        try:
            self._socket.sendall(len(frame).to_bytes(4, "big") + frame)
            size = int.from_bytes(self._read(4), "big")
            if size >> 16 == TLS_ALERT:
                raise ClientError(f"{self.address} speaks TLS; security.protocol has to say so")
            if size > FRAME_BYTES_MAX:
                raise ClientError(
                    f"{self.address} does not speak Kafka's protocol: a frame of {size} bytes"
                )
            body = memoryview(self._read(size))
        except OSError as error:
            raise BrokerUnreachable(
                f"{self.address} does not respond: {system_error_text(error)}"
            ) from error
        try:
            head, position = decoder(ResponseHeader, response_header_version(key, version))(body, 0)
            if head.correlation_id != self._correlation_id:
                raise DecodeError(f"its correlation id is {head.correlation_id}")
            return decoder(response, version)(body, position)[0]
        except DecodeError as error:
            # A cause is an error of Python, whose text says nothing to an operator.
            reason = error if error.__cause__ is None else "it ends too early, or is not a text"
            raise ClientError(f"{self.address} sends an unreadable response: {reason}") from error

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self._socket.recv(min(size - len(data), 1 << 20))
            if not piece:
                raise BrokerUnreachable(f"{self.address} closed the connection")
            data += piece
        return bytes(data)

    def close(self) -> None:
        self._socket.close()


class Client:
    """Requests to a cluster that is reached through its bootstrap addresses."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = CLIENT_ID,
        timeout_ms: int = TIMEOUT_MS,
        security: ClientSecurity | None = None,
    ) -> None:
        """
        security  of every connection; None: neither encrypted nor authenticated
        raises    ClientError for an invalid address; nothing is connected yet
        """
        self._addresses = parse_bootstrap(bootstrap)
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self.security = security
        self._known: list[tuple[str, int]] = []
        """The brokers of the last metadata, in case none of the addresses can be reached."""
        self._first: BrokerConnection | None = None
        self._brokers: dict[int, BrokerConnection] = {}

    def any_broker(
        self, request: Any, response: type[Response], version_max: int = 2**15
    ) -> Response:
        """Send a request to the broker that the bootstrap addresses led to."""
        return self.any().request(request, response, version_max)

    def any(self) -> BrokerConnection:
        """The connection to the broker that the bootstrap addresses led to."""
        if self._first is None:
            problems = []
            for host, port in dict.fromkeys([*self._addresses, *self._known]):
                try:
                    self._first = self._connect(host, port)
                    break
                except ClientError as error:
                    problems.append(str(error))
            else:
                raise BrokerUnreachable("; ".join(problems))
        return self._first

    def controller(self, request: Any, response: type[Response]) -> Response:
        """Send a request to the controller; wait for the next one for up to `timeout_ms`.

        It is sent again after NOT_CONTROLLER, and when the broker that metadata names is gone.  So
        what a controller did just before it died may be refused the second time, as with Kafka's
        admin client.
        """
        self.any()
        deadline = time.monotonic() + self._timeout_ms / 1000
        while True:
            is_late = time.monotonic() >= deadline
            try:
                connection = self._controller()
                if connection is not None:
                    result = connection.request(request, response)
                    if is_late or ErrorCode.NOT_CONTROLLER not in error_codes(result):
                        return result
                elif is_late:
                    raise ClientError("the cluster has no controller at the moment")
            except BrokerUnreachable:
                self.close()
                if is_late:
                    raise
            time.sleep(RETRY_PAUSE_MS / 1000)

    def broker(self, node_id: int) -> BrokerConnection:
        """The connection to one broker.

        raises  ClientError when the cluster does not have it
        """
        for broker in self.metadata([]).brokers:
            if broker.node_id == node_id:
                return self.connection(broker)
        raise ClientError(f"the cluster has no broker {node_id}")

    def coordinators(self, keys: Sequence[str], key_type: int = GROUP) -> list[Coordinator]:
        """The coordinator of each key, or an error code; one row per key.

        key_type  GROUP or TRANSACTION
        """
        version = self.any().version_of(FindCoordinatorRequest)
        if version >= COORDINATORS_AT_ONCE:
            together = FindCoordinatorRequest(coordinator_keys=list(keys), key_type=key_type)
            return self.any_broker(together, FindCoordinatorResponse).coordinators
        rows = []
        for key in keys:
            request = FindCoordinatorRequest(key=key, key_type=key_type)
            coordinator = self.any_broker(request, FindCoordinatorResponse)
            rows.append(
                Coordinator(
                    key=key,
                    node_id=coordinator.node_id,
                    host=coordinator.host,
                    port=coordinator.port,
                    error_code=coordinator.error_code,
                    error_message=coordinator.error_message,
                )
            )
        return rows

    def connection(self, broker: BrokerAddress) -> BrokerConnection:
        """The connection to a broker that a response has named; opened when there is none."""
        connection = self._brokers.get(broker.node_id)
        if connection is None:
            connection = self._connect(broker.host, broker.port)
            self._brokers[broker.node_id] = connection
        return connection

    def retry(self, attempt: Callable[[], Response | None]) -> Response | None:
        """Call `attempt` until it returns a value; None when it has not after `timeout_ms`."""
        deadline = time.monotonic() + self._timeout_ms / 1000
        while True:
            is_late = time.monotonic() >= deadline
            value = attempt()
            if value is not None or is_late:
                return value
            time.sleep(RETRY_PAUSE_MS / 1000)

    def metadata(self, names: list[str] | None = None) -> MetadataResponse:
        """Brokers, controller and topics (all when `names` is None); creates no topic."""
        topics = None
        if names is not None:
            topics = [MetadataRequestTopic(name=name, topic_id=ZERO_UUID) for name in names]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        response = self.any_broker(request, MetadataResponse)
        self._known = [(broker.host, broker.port) for broker in response.brokers]
        return response

    def set_timeout(self, timeout_ms: int) -> None:
        """Bound retries and new connections by `timeout_ms`; open connections keep theirs."""
        self._timeout_ms = timeout_ms

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; the next request opens those that it needs."""
        if self._first is not None:
            self._first.close()
        for connection in self._brokers.values():
            connection.close()
        self._first = None
        self._brokers = {}

    def _controller(self) -> BrokerConnection | None:
        metadata = self.metadata([])
        for broker in metadata.brokers:
            if broker.node_id == metadata.controller_id:
                return self.connection(broker)
        return None

    def _connect(self, host: str, port: int) -> BrokerConnection:
        return BrokerConnection(
            host,
            port,
            client_id=self._client_id,
            timeout_ms=self._timeout_ms,
            security=self.security,
        )
