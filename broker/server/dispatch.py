"""From a frame to a handler and from its outcome to the connection's answer.

Checks, in this order: a header that can be read, an API that is served, a version that is served.
An unknown API key closes the connection.  An unserved version is answered with UNSUPPORTED_VERSION
where the version's layout is known, otherwise the connection is closed (Kafka: RequestContext);
ApiVersions of any version is answered (KIP-511).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from struct import Struct
from typing import Any, Final

from broker.handlers.handler import (
    Close,
    Context,
    Delayed,
    Encoded,
    Handler,
    NoReply,
    Outcome,
    Reply,
    Staged,
)
from broker.handlers.table import HANDLERS, Api
from broker.server.session import Session
from broker.services import Services
from protocol.api_keys import ApiKey, messages_of
from protocol.compiler import decoder, parts_encoder
from protocol.connection import Slot
from protocol.decode_error import DecodeError
from protocol.errors import BrokerError, ErrorCode
from protocol.headers import RequestHeader, decode_request_header, response_header_version

HEADS: Final = (Struct(">ii"), Struct(">iix"))
"""An int32 size and response header 0 or 1 without tags."""

logger = logging.getLogger("odradek.server")


class LoadedApi:
    """An API after its first request: handler module and codecs by version."""

    __slots__ = (
        "answered",
        "api",
        "decoders",
        "encoders",
        "handler",
        "heads",
        "name",
        "request",
        "response",
    )

    def __init__(self, api: Api) -> None:
        self.api = api
        self.name = ApiKey(api.key).name
        self.answered = 0
        self.request, self.response = messages_of(api.key)
        self.handler: Handler = import_module(f"broker.handlers.{api.module}")
        self.decoders: dict[int, Callable[[memoryview, int], tuple[Any, int]]] = {}
        self.encoders: dict[int, Callable[[Any], list[Any]]] = {}
        self.heads: dict[int, Struct] = {}
        """Size of the frame and response header, by version."""

    def prepare(self, version: int) -> None:
        """Generate the codecs of one version."""
        self.decoders[version] = decoder(self.request, version)
        self.encoders[version] = parts_encoder(self.response, version)
        self.heads[version] = HEADS[response_header_version(self.api.key, version)]


class Dispatcher:
    """Runs handlers for the sessions of one node."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._apis = {api.key: api for api in HANDLERS}
        self._loaded: dict[int, LoadedApi] = {}
        self._now_ms = 0
        """Wall time of this turn; 0 until somebody asks."""
        self._staged: list[tuple[Session, RequestHeader, LoadedApi, Any, Staged]] = []

    def _read_clock(self) -> int:
        """Wall time, read once a turn."""
        self._now_ms = self._services.clock.now_ms()
        return self._now_ms

    def answered(self) -> dict[str, int]:
        """Requests answered so far, by API."""
        return {loaded.name: loaded.answered for loaded in self._loaded.values()}

    def dispatch(self, session: Session, frame: memoryview) -> None:
        """Handle one request; the answer reaches the session now, at the end of the turn, or when
        what it waits for has come."""
        try:
            header, position = decode_request_header(frame, 0)
        except DecodeError as error:
            self._malformed(session, f"a request header that can't be read: {error}")
            return
        loaded = self._loaded.get(header.api_key) or self._load(header.api_key)
        if loaded is None:
            self._malformed(session, f"an unknown API key, {header.api_key}")
            return
        version = header.version
        api = loaded.api
        if not api.min_version <= version <= api.max_version:
            self._unserved(session, header, loaded, frame, position)
            return
        if version not in loaded.decoders:
            loaded.prepare(version)
        try:
            request, _ = loaded.decoders[version](frame, position)
        except DecodeError as error:
            self._malformed(session, f"a {loaded.name} v{version} that can't be read: {error}")
            return
        if self._staged and not api.is_staged:
            self.end_of_turn()
        self._run(session, header, loaded, request)

    def _load(self, api_key: int) -> LoadedApi | None:
        api = self._apis.get(api_key)
        if api is None:
            return None
        loaded = self._loaded[api_key] = LoadedApi(api)
        return loaded

    def _malformed(self, session: Session, what: str) -> None:
        self._services.metrics.malformed_frames += 1
        logger.warning("closing the connection of %s: %s", session.client_host, what)
        session.close()

    def _unserved(
        self,
        session: Session,
        header: RequestHeader,
        loaded: LoadedApi,
        frame: memoryview,
        position: int,
    ) -> None:
        if header.api_key == ApiKey.API_VERSIONS:
            if 0 not in loaded.encoders:
                loaded.prepare(0)
            response = loaded.handler.failed(None, ErrorCode.UNSUPPORTED_VERSION, None)
            first = RequestHeader(
                api_key=header.api_key,
                version=0,
                correlation_id=header.correlation_id,
                client_id=header.client_id,
            )
            self._answer(session, first, loaded, response)
            return
        try:
            if header.version not in loaded.decoders:
                loaded.prepare(header.version)
            request, _ = loaded.decoders[header.version](frame, position)
        except (DecodeError, ValueError) as error:
            self._malformed(session, f"{loaded.name} in unserved version {header.version}: {error}")
            return
        if self._staged:
            self.end_of_turn()
        message = f"{loaded.name} is not served in version {header.version}"
        response = loaded.handler.failed(request, ErrorCode.UNSUPPORTED_VERSION, message)
        self._answer(session, header, loaded, response)

    def _run(
        self, session: Session, header: RequestHeader, loaded: LoadedApi, request: Any
    ) -> None:
        services = self._services
        context = Context(
            services,
            header.version,
            header.correlation_id,
            header.client_id,
            self._now_ms or self._read_clock(),
            session.listener_name,
            session.client_host,
        )
        try:
            outcome: Outcome = loaded.handler.run(context, request)
        except BrokerError as error:
            outcome = Reply(loaded.handler.failed(request, error.code, error.message))
        except Exception:  # noqa: BLE001 - the error wall: one request must not take the node down
            self._broken(session, header, loaded, request)
            return
        if isinstance(outcome, Staged):
            self._staged.append((session, header, loaded, request, outcome))
        else:
            self._settle(session, header, loaded, request, outcome)

    def _broken(
        self, session: Session, header: RequestHeader, loaded: LoadedApi, request: Any
    ) -> None:
        self._services.metrics.request_errors += 1
        logger.exception(
            "%s v%d, correlation id %d, from %s failed",
            loaded.name,
            header.version,
            header.correlation_id,
            session.client_host,
        )
        response = loaded.handler.failed(request, ErrorCode.UNKNOWN_SERVER_ERROR, None)
        self._answer(session, header, loaded, response)
        session.flush()
        session.close()

    def end_of_turn(self) -> None:
        """Write the staged appends, one call per partition, and settle their requests."""
        staged = self._staged
        if not staged:
            self._now_ms = 0
            return
        self._staged = []
        services = self._services
        services.appends.write(self._now_ms or self._read_clock())
        self._now_ms = 0
        for session, header, loaded, request, outcome in staged:
            if not session.is_closed:
                self._settle(session, header, loaded, request, outcome.finish())

    def _settle(
        self,
        session: Session,
        header: RequestHeader,
        loaded: LoadedApi,
        request: Any,
        outcome: Outcome,
    ) -> None:
        if isinstance(outcome, Encoded):
            head = loaded.heads[header.version]
            body = outcome.body
            loaded.answered += 1
            session.answer([head.pack(head.size - 4 + len(body), header.correlation_id) + body])
        elif isinstance(outcome, Reply):
            self._answer(session, header, loaded, outcome.response)
        elif isinstance(outcome, Delayed):
            self._park(session, header, loaded, request, outcome)
        elif isinstance(outcome, Close):
            logger.info("closing the connection of %s: %s", session.client_host, outcome.reason)
            session.close()
        else:
            assert isinstance(outcome, NoReply), "a staged outcome is settled at the turn's end"

    def _answer(
        self, session: Session, header: RequestHeader, loaded: LoadedApi, response: Any
    ) -> None:
        loaded.answered += 1
        session.answer(encode_answer(header, loaded, response))

    def _park(
        self,
        session: Session,
        header: RequestHeader,
        loaded: LoadedApi,
        request: Any,
        delayed: Delayed,
    ) -> None:
        slot: Slot | None = None
        operations = session.operations
        if operations is None:
            operations = session.operations = {}

        def answer(response: Any) -> None:
            if slot is None:
                self._answer(session, header, loaded, response)
                return
            if operation is not None:
                operations.pop(operation, None)
            if not session.is_closed:
                session.fill(slot, encode_answer(header, loaded, response))

        operation = None
        services = self._services
        guarded = Delayed(
            delayed.watch,
            delayed.timeout_ms,
            lambda: self._guarded(loaded, request, delayed.attempt),
            lambda: self._guarded(loaded, request, delayed.expire),
        )
        operation = services.purgatory.park(guarded, services.clock.monotonic_ms(), answer)
        if operation is not None:
            slot = session.reserve()
            operations[operation] = None

    def _guarded(
        self, loaded: LoadedApi, request: Any, ask: Callable[[], Any | None]
    ) -> Any | None:
        """The error wall of waiting requests: what fails is answered, its neighbours wait on."""
        try:
            return ask()
        except BrokerError as error:
            return loaded.handler.failed(request, error.code, error.message)
        except Exception:
            self._services.metrics.request_errors += 1
            logger.exception("a waiting %s failed", loaded.name)
            return loaded.handler.failed(request, ErrorCode.UNKNOWN_SERVER_ERROR, None)


def encode_answer(header: RequestHeader, loaded: LoadedApi, response: Any) -> list[Any]:
    """The frame of a response: its parts, the first starting with size and response header."""
    version = header.version
    parts = loaded.encoders[version](response)
    head = loaded.heads[version]
    size = head.size - 4 + (len(parts[0]) if len(parts) == 1 else sum(map(len, parts)))
    parts[0] = head.pack(size, header.correlation_id) + parts[0]
    return parts
