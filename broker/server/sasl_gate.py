"""What a connection of a SASL listener may send until it has authenticated.

The server's context of such a connection has the gate's `dispatch`.  An authenticated connection
has that of the others, unless its session ends: then the gate looks at each request.
A refused client gets its error, and is closed, after connection.failed.authentication.delay.ms;
nothing of its connection is read meanwhile.
Source: Kafka's SaslServerAuthenticator, KafkaChannel, SocketServer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from struct import Struct
from typing import Final

from odradek.broker.security.sasl.authenticator import (
    SaslListener,
    SaslServerAuthenticator,
    SaslState,
)
from odradek.broker.security.sasl.sasl_server import SaslAuthenticationError, SaslError, SaslStep
from odradek.broker.server.call import Call
from odradek.broker.server.connection import Connection, ServerContext
from odradek.broker.server.dispatch import Dispatcher
from odradek.broker.server.transmit import Parts
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.headers import RequestHeader, decode_request_header
from odradek.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.runtime.clock import Clock
from odradek.runtime.pending import Pending
from odradek.runtime.timers import Timer
from odradek.runtime.wheel_driver import WheelDriver
from odradek.runtime.work import CoroutineObject, Later

AUTHENTICATION_TIMEOUT_MS: Final = 30_000
"""How long a connection may take to authenticate.  Differs from Kafka, which waits as long as for
any idle connection: half a million of them cost a client nothing."""
DELAYED_MAX: Final = 1_000
"""Refused connections that may wait for their end; those beyond them are closed at once."""
SHOWN_MAX: Final = 100
"""Characters of a client's text in a log line."""

_SIZE: Final = Struct(">i")

logger = logging.getLogger("odradek.server")


class SaslGates:
    """The gates of one listener's connections."""

    def __init__(
        self,
        listener: SaslListener,
        dispatcher: Dispatcher,
        wheel: WheelDriver,
        clock: Clock,
        frame_bytes_max: Callable[[], int],
    ) -> None:
        """frame_bytes_max  of an authenticated connection"""
        self.listener = listener
        self.dispatcher = dispatcher
        self.wheel = wheel
        self.clock = clock
        self.frame_bytes_max = frame_bytes_max
        self._delayed_count = 0

    def context(self, server: ServerContext) -> ServerContext:
        """The context of a connection that is opened; `SaslGate.opened` comes next."""
        return SaslGate(self, server).context

    async def close_later(self, connection: Connection, response: Parts | None) -> None:
        """Respond and close after the delay."""
        delay_ms = self.listener.failure_delay_ms
        if delay_ms > 0 and self._delayed_count < DELAYED_MAX:
            self._delayed_count += 1
            passed: Pending[None] = Pending()
            timer = self.wheel.after(delay_ms, partial(passed.resolve, None))
            try:
                await passed
            finally:
                timer.cancel()
                self._delayed_count -= 1
        if response is not None:
            connection.respond(response)
            connection.flush()
        connection.close()


class SaslGate:
    """The gate of one connection."""

    def __init__(self, gates: SaslGates, server: ServerContext) -> None:
        """server  the context of connections that need no gate"""
        self._gates = gates
        self._server = server
        self._authenticator = SaslServerAuthenticator(gates.listener)
        self._deadline: Timer | None = None
        self.context = replace(
            server, dispatch=self._dispatch, on_opened=self._on_opened, on_closed=self._on_closed
        )

    def _on_opened(self, connection: Connection) -> None:
        def expire() -> None:
            logger.info(
                "closing %s: it has not authenticated within %d ms",
                connection.client_host,
                AUTHENTICATION_TIMEOUT_MS,
            )
            connection.close()

        self._deadline = self._gates.wheel.after(AUTHENTICATION_TIMEOUT_MS, expire)

    def _on_closed(self, connection: Connection) -> None:
        self._stop_deadline()
        self._server.on_closed(connection)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _dispatch(self, connection: Connection, frame: memoryview) -> None:
        authenticator, gates = self._authenticator, self._gates
        if authenticator.state is SaslState.COMPLETE:
            monotonic_ms = gates.clock.monotonic_ms()
            is_handshake = int.from_bytes(frame[:2], "big") == ApiKey.SASL_HANDSHAKE
            if not (is_handshake and authenticator.begin_again(monotonic_ms)):
                if authenticator.is_expired(monotonic_ms):
                    logger.info("closing %s: its session has expired", connection.client_host)
                    connection.close()
                else:
                    gates.dispatcher.dispatch(connection, frame)
                return
        if len(frame) > gates.listener.receive_bytes_max:
            self._refuse(connection, None, f"it sends a frame of {len(frame)} bytes")
        elif authenticator.takes_tokens:
            self._evaluate(connection, None, bytes(frame))
        else:
            self._on_request(connection, frame)

    def _on_request(self, connection: Connection, frame: memoryview) -> None:
        try:
            header, position = decode_request_header(frame, 0)
        except DecodeError as error:
            self._refuse(connection, None, f"a request header that can't be read: {error}")
            return
        state, key = self._authenticator.state, header.api_key
        if key == ApiKey.API_VERSIONS and state is not SaslState.AUTHENTICATE:
            self._on_versions(connection, header, frame)
        elif key == ApiKey.SASL_HANDSHAKE and state is not SaslState.AUTHENTICATE:
            call = self._gates.dispatcher.small_request(connection, header, frame, position)
            if call is not None:
                self._on_handshake(call)
        elif key == ApiKey.SASL_AUTHENTICATE and state is SaslState.AUTHENTICATE:
            call = self._gates.dispatcher.small_request(connection, header, frame, position)
            if call is not None:
                request = call.request
                assert isinstance(request, SaslAuthenticateRequest), "its key says so"
                self._evaluate(connection, call, bytes(request.auth_bytes))
        else:
            # Differs from Kafka, which decodes a request during the exchange to respond with
            # ILLEGAL_SASL_STATE: no other decoder is reached without authentication.
            self._refuse(connection, None, f"a request of API {key} where {state.value} may come")

    def _on_versions(
        self, connection: Connection, header: RequestHeader, frame: memoryview
    ) -> None:
        dispatcher = self._gates.dispatcher
        if dispatcher.is_served(header) and not self._authenticator.on_versions():
            logger.info("closing %s: it asks for ApiVersions again", connection.client_host)
            connection.close()
            return
        dispatcher.dispatch(connection, frame)

    def _on_handshake(self, call: Call) -> None:
        request = call.request
        assert isinstance(request, SaslHandshakeRequest), "its key says so"
        mechanisms = list(self._gates.listener.mechanisms)
        if self._authenticator.on_handshake(request.mechanism, call.header.version):
            call.respond(SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=mechanisms))
            return
        refusal = SaslHandshakeResponse(
            error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=mechanisms
        )
        shown = request.mechanism[:SHOWN_MAX]
        self._refuse(call.connection, call.encoded(refusal), f"no mechanism {shown!r} is served")

    def _evaluate(self, connection: Connection, call: Call | None, message: bytes) -> None:
        """Evaluate a message of the mechanism.

        call  its request; None: it is a frame by itself
        """
        if self._authenticator.refusal is not None:
            self._refuse(connection, None, self._authenticator.refusal)
            return
        try:
            step = self._authenticator.evaluate(message, self._gates.clock.now_ms())
            if isinstance(step, CoroutineObject):
                waiting = self._evaluated_later(connection, call, step)
                self._gates.dispatcher.begin(connection, waiting)
            else:
                self._go_on(connection, call, step)
        except (SaslAuthenticationError, SaslError) as error:
            self._refuse(connection, *self._refusal(call, error))

    async def _evaluated_later(
        self, connection: Connection, call: Call | None, evaluating: Later[SaslStep]
    ) -> None:
        try:
            self._go_on(connection, call, await evaluating)
            connection.flush()
        except (SaslAuthenticationError, SaslError) as error:
            response, reason = self._refusal(call, error)
            self._on_refused(connection, reason)
            await self._gates.close_later(connection, response)

    def _go_on(self, connection: Connection, call: Call | None, step: SaslStep) -> None:
        authenticator, clock = self._authenticator, self._gates.clock
        response = authenticator.on_step(step, clock.now_ms(), clock.monotonic_ms())
        if authenticator.state is SaslState.COMPLETE:
            self._stop_deadline()
            metrics = self._server.metrics.listener(connection.listener_name)
            if authenticator.is_reauthentication:
                metrics.successful_reauthentications += 1
            else:
                metrics.successful_authentications += 1
            connection.on_authenticated(
                authenticator.principal,
                self.context if authenticator.has_session else self._server,
                self._gates.frame_bytes_max(),
            )
        if call is None:
            connection.respond([_SIZE.pack(len(response.data)) + response.data])
        else:
            call.respond(
                SaslAuthenticateResponse(
                    error_code=ErrorCode.NONE,
                    error_message="",
                    auth_bytes=response.data,
                    session_lifetime_ms=response.session_lifetime_ms,
                )
            )

    def _refusal(
        self, call: Call | None, error: SaslAuthenticationError | SaslError
    ) -> tuple[Parts | None, str]:
        """The response, and the reason for the log."""
        text = self._authenticator.error_text(error)
        if call is None:
            return None, text
        response = SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=text, auth_bytes=b""
        )
        return call.encoded(response), text

    def _refuse(self, connection: Connection, response: Parts | None, reason: str) -> None:
        self._on_refused(connection, reason)
        closing = self._gates.close_later(connection, response)
        self._gates.dispatcher.begin(connection, closing)

    def _on_refused(self, connection: Connection, reason: str) -> None:
        metrics = self._server.metrics.listener(connection.listener_name)
        if self._authenticator.is_reauthentication:
            metrics.failed_reauthentications += 1
        else:
            metrics.failed_authentications += 1
        logger.info("Failed authentication with %s (%s)", connection.client_host, reason)
