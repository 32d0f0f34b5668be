"""A small blocking client for the command-line tools: one request at a time, newest common version.

It connects when something is asked for, takes the first bootstrap address that answers, and finds
the controller for requests that only the controller serves, and the coordinators of groups, as
Kafka's admin client does.
Speaks PLAINTEXT only.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

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
from odradek.protocol.schema import schema_of

Response = TypeVar("Response")

CLIENT_ID: Final = "odradek-tools"
TIMEOUT_MS: Final = 35_000
"""5 s more than the tools let a broker take for what it does."""
CONNECT_TIMEOUT_MS: Final = 10_000
"""Kafka: socket.connection.setup.timeout.ms."""
RETRY_PAUSE_MS: Final = 100
"""Kafka: retry.backoff.ms."""
COORDINATORS_AT_ONCE: Final = 4
"""The version of FindCoordinator from which one request can ask for several."""
FRAME_BYTES_MAX: Final = 100 << 20
ZERO_ID: Final = UUID(int=0)


class ClientError(Exception):
    """The cluster cannot be reached, or does not speak as expected; one line for a person."""


class NotServedError(ClientError):
    """The broker has no version of an API that is spoken here."""


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """`host:port,host:port` as pairs; an IPv6 address stands in brackets.

    raises  ClientError naming the part that is not an address
    """
    addresses = []
    for part in text.split(","):
        host, _, port = part.strip().rpartition(":")
        is_port = port.isascii() and port.isdigit() and 0 < int(port) < 65536
        if not host or not is_port:
            raise ClientError(f"'{part.strip()}' is not an address of a broker (host:port)")
        addresses.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return addresses


class Connection:
    """One broker.  `request` blocks for at most `timeout_ms` between two pieces of an answer."""

    def __init__(self, host: str, port: int, *, client_id: str, timeout_ms: int) -> None:
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._client_id = client_id
        self._correlation_id = 0
        try:
            wait_ms = min(timeout_ms, CONNECT_TIMEOUT_MS)
            self._socket = socket.create_connection((host, port), wait_ms / 1000)
        except (OSError, UnicodeError) as error:
            raise ClientError(f"{self.address} cannot be reached: {_reason(error)}") from error
        try:
            self._socket.settimeout(timeout_ms / 1000)
            first = self._exchange(
                ApiKey.API_VERSIONS, 0, ApiVersionsRequest(), ApiVersionsResponse
            )
        except BaseException:
            self._socket.close()
            raise
        self._ranges = {row.api_key: (row.min_version, row.max_version) for row in first.api_keys}

    def version_of(self, key: ApiKey, request: type) -> int:
        """The newest version of an API that both sides have.

        raises  NotServedError when there is none
        """
        ours = schema_of(request).versions
        least, most = self._ranges.get(key, (1, 0))
        version = min(most, ours.last)
        if version < max(least, ours.first):
            raise NotServedError(f"{self.address} does not serve {key.name.lower()}")
        return version

    def request(
        self, key: ApiKey, request: Any, response: type[Response], version_max: int = 2**15
    ) -> Response:
        """Send and wait for the answer.

        raises  ClientError, also when the broker has no version up to `version_max`
        """
        version = min(self.version_of(key, type(request)), version_max)
        return self._exchange(key, version, request, response)

    def _exchange(
        self, key: ApiKey, version: int, request: Any, response: type[Response]
    ) -> Response:
        self._correlation_id += 1
        header = encode_request_header(key, version, self._correlation_id, self._client_id)
        frame = header + encoder(type(request), version)(request)
        try:
            self._socket.sendall(len(frame).to_bytes(4, "big") + frame)
            size = int.from_bytes(self._read(4), "big")
            if size > FRAME_BYTES_MAX:
                raise ClientError(
                    f"{self.address} does not speak Kafka's protocol: a frame of {size} bytes"
                )
            answer = memoryview(self._read(size))
        except OSError as error:
            raise ClientError(f"{self.address} does not answer: {_reason(error)}") from error
        try:
            head, position = decoder(ResponseHeader, response_header_version(key, version))(
                answer, 0
            )
            if head.correlation_id != self._correlation_id:
                raise DecodeError(f"it belongs to request {head.correlation_id}")
            return decoder(response, version)(answer, position)[0]
        except DecodeError as error:
            raise ClientError(f"{self.address} gives an unreadable answer: {error}") from error

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self._socket.recv(min(size - len(data), 1 << 20))
            if not piece:
                raise ClientError(f"{self.address} closed the connection")
            data += piece
        return bytes(data)

    def close(self) -> None:
        """End the connection."""
        self._socket.close()


def _reason(error: OSError | UnicodeError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


class Client:
    """A cluster, reached through its bootstrap addresses."""

    def __init__(
        self, bootstrap: str, *, client_id: str = CLIENT_ID, timeout_ms: int = TIMEOUT_MS
    ) -> None:
        """raises  ClientError for what is no address; nothing is connected to yet"""
        self._addresses = parse_bootstrap(bootstrap)
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._first: Connection | None = None
        self._brokers: dict[int, Connection] = {}

    def any(
        self, key: ApiKey, request: Any, response: type[Response], version_max: int = 2**15
    ) -> Response:
        """Ask the broker that was reached first."""
        return self._bootstrap().request(key, request, response, version_max)

    def controller(
        self,
        key: ApiKey,
        request: Any,
        response: type[Response],
        *,
        errors_of: Callable[[Response], Iterable[int]],
    ) -> Response:
        """Ask the controller, and for as long as `timeout_ms` the one that comes after it.

        errors_of  the error codes of an answer
        """
        deadline = time.monotonic() + self._timeout_ms / 1000
        while True:
            connection = self._controller()
            is_late = time.monotonic() >= deadline
            if connection is not None:
                answer = connection.request(key, request, response)
                if is_late or ErrorCode.NOT_CONTROLLER not in errors_of(answer):
                    return answer
            elif is_late:
                raise ClientError("the cluster has no controller at the moment")
            time.sleep(RETRY_PAUSE_MS / 1000)

    def broker(self, node_id: int) -> Connection:
        """The connection to one broker.

        raises  ClientError when the cluster does not have it
        """
        for broker in self.metadata([]).brokers:
            if broker.node_id == node_id:
                return self._broker(node_id, broker.host, broker.port)
        raise ClientError(f"the cluster has no broker {node_id}")

    def coordinators(self, groups: Sequence[str]) -> list[Coordinator]:
        """Where each group is looked after, or an error code for it; one row for each group."""
        version = self._bootstrap().version_of(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest)
        if version >= COORDINATORS_AT_ONCE:
            together = FindCoordinatorRequest(coordinator_keys=list(groups))
            return self.any(ApiKey.FIND_COORDINATOR, together, FindCoordinatorResponse).coordinators
        rows = []
        for group in groups:
            answer = self.any(
                ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(key=group), FindCoordinatorResponse
            )
            rows.append(
                Coordinator(
                    key=group,
                    node_id=answer.node_id,
                    host=answer.host,
                    port=answer.port,
                    error_code=answer.error_code,
                    error_message=answer.error_message,
                )
            )
        return rows

    def connection(self, node_id: int, host: str, port: int) -> Connection:
        """The connection to a broker that an answer has named."""
        return self._broker(node_id, host, port)

    def until(self, attempt: Callable[[], Response | None]) -> Response | None:
        """What `attempt` returns, which is tried again while it is None and `timeout_ms` last."""
        deadline = time.monotonic() + self._timeout_ms / 1000
        while True:
            is_late = time.monotonic() >= deadline
            answer = attempt()
            if answer is not None or is_late:
                return answer
            time.sleep(RETRY_PAUSE_MS / 1000)

    def metadata(self, names: list[str] | None = None) -> MetadataResponse:
        """Brokers, controller and topics (all, or the named ones); nothing is made by asking."""
        topics = None
        if names is not None:
            topics = [MetadataRequestTopic(name=name, topic_id=ZERO_ID) for name in names]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        return self.any(ApiKey.METADATA, request, MetadataResponse)

    def limit(self, timeout_ms: int) -> None:
        """How long answers and repeated attempts may take from now on; connections keep theirs."""
        self._timeout_ms = timeout_ms

    def close(self) -> None:
        """End every connection."""
        if self._first is not None:
            self._first.close()
        for connection in self._brokers.values():
            connection.close()

    def _bootstrap(self) -> Connection:
        if self._first is None:
            problems = []
            for host, port in self._addresses:
                try:
                    self._first = self._connect(host, port)
                    break
                except ClientError as error:
                    problems.append(str(error))
            else:
                raise ClientError("; ".join(problems))
        return self._first

    def _controller(self) -> Connection | None:
        metadata = self.metadata([])
        for broker in metadata.brokers:
            if broker.node_id == metadata.controller_id:
                return self._broker(broker.node_id, broker.host, broker.port)
        return None

    def _broker(self, node_id: int, host: str, port: int) -> Connection:
        connection = self._brokers.get(node_id)
        if connection is None:
            connection = self._brokers[node_id] = self._connect(host, port)
        return connection

    def _connect(self, host: str, port: int) -> Connection:
        return Connection(host, port, client_id=self._client_id, timeout_ms=self._timeout_ms)
