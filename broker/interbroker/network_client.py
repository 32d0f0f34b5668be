"""One connection to another broker.

Requests are sent in order and at once, as many as the caller sends, and their responses come in the
same order.  Nothing is retried: a caller that needs the response sends again after
`Disconnected`.
Source: Kafka's NetworkClient, without its choice of nodes and versions: the versions that brokers
use between them are fixed by the release.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from functools import cache, partial
from struct import Struct
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from odradek.bounded_files import system_error_text
from odradek.broker.interbroker.receive_buffer import ReceiveBuffer
from odradek.protocol.api_keys import messages_of
from odradek.protocol.compiler import decoder, encoder
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.headers import ResponseHeader, encode_request_header, response_header_version
from odradek.protocol.schema import schema_of
from odradek.runtime.lent_memory import POISON
from odradek.runtime.loop_watch import LoopWatch
from odradek.runtime.pending import Pending
from odradek.runtime.timers import Timer
from odradek.runtime.wheel_driver import WheelDriver

if TYPE_CHECKING:
    from odradek.broker.security.sasl.sasl_client import BrokerLogin

RESPONSE_BYTES_MAX: Final = 128 << 20
IN_FLIGHT_MAX: Final = 128
"""A caller that sends more without a response has lost count."""
CORRELATION_ID_MAX: Final = 0x7FFFFFFF
SASL_VERSION: Final = 1
"""Version of SaslHandshake and SaslAuthenticate: every broker since 2.2 serves it."""
SESSION_SHARE: Final = 0.85
"""The share of a session after which the connection authenticates again (KIP-368)."""
REFUSED_PAUSE_MS: Final = 1_000
"""How long the requests of a connection that was refused wait for their error."""

_SIZE: Final = Struct(">i")

logger = logging.getLogger("odradek.interbroker")

Decode = Callable[[memoryview, int], tuple[Any, int]]
OpenConnection = Callable[
    [Callable[[], asyncio.BufferedProtocol], str, int], Coroutine[Any, Any, Any]
]
"""Opens a connection to a host and port for a protocol, as a loop's `create_connection`."""


class Disconnected(BrokerError):
    """There is no connection, or it ended before the response came.

    The broker may have carried out the request, or may do so later.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, reason)

    def __str__(self) -> str:
        return str(self.message)


class _Call:
    """A request without a response yet."""

    __slots__ = ("correlation_id", "decode", "decode_header", "response", "timer")

    def __init__(self, correlation_id: int, decode_header: Decode, decode: Decode) -> None:
        self.correlation_id = correlation_id
        self.decode_header = decode_header
        self.decode = decode
        self.response: Pending[Any] = Pending()
        self.timer: Timer | None = None


class NetworkClients(NamedTuple):
    """Makes the clients of one node: what they share.

    connect_timeout_ms  how long a connection may take to be made
    request_timeout_ms  how long each response may take once its request is written
    after               called after the callbacks of each read, and of each end of a connection
    loop_watch          measures these callbacks
    open_connection     None: that of the loop
    login               with which each connection authenticates before its first request, and again
                        before its session ends; None: it does not
    """

    loop: asyncio.AbstractEventLoop
    wheel: WheelDriver
    connect_timeout_ms: int
    request_timeout_ms: int
    after: Callable[[], None] = lambda: None
    loop_watch: LoopWatch | None = None
    open_connection: OpenConnection | None = None
    login: BrokerLogin | None = None

    def defer(self, work: Callable[[], None]) -> None:
        """Call `work` once, after the loop has served its clients."""

        def run() -> None:
            began_ns = monotonic_ns()
            work()
            if self.loop_watch is not None:
                self.loop_watch.ran(began_ns, work)

        self.loop.call_soon(run)

    def client(
        self,
        host: str,
        port: int,
        client_id: str,
        on_closed: Callable[[Disconnected], None] = lambda reason: None,
    ) -> NetworkClient:
        """A client that connects at its first request."""
        return NetworkClient(self, host, port, client_id, on_closed)


class NetworkClient:
    """Requests to one broker, over one connection at a time.

    client_id  in the header of each request
    on_closed  called with the reason after a connection that was made, or not made, has ended and
               its requests have failed; not called for `close`
    """

    def __init__(
        self,
        shared: NetworkClients,
        host: str,
        port: int,
        client_id: str,
        on_closed: Callable[[Disconnected], None],
    ) -> None:
        self._shared = shared
        self._host = host
        self._port = port
        self._client_id = client_id
        self._on_closed = on_closed
        self._connection: _Connection | None = None
        self._correlation_id = 0
        self._is_closed = False

    @property
    def address(self) -> str:
        """Address of the other broker, for logs."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._port}"

    def send(self, message: Any, version: int) -> Pending[Any]:
        """Send a request; connects first when there is no connection.

        The pending is completed within the callback that has received the response: its RECORDS
        fields are views of the receive buffer, valid only until the callbacks of the pending have
        returned; all other fields may be kept.

        fails   Disconnected
        raises  ValueError for a version that is not declared
        """
        cls: Any = type(message)
        return self.send_encoded(cls, version, encoder(cls, version)(message))

    def send_encoded(self, cls: Any, version: int, body: bytes) -> Pending[Any]:
        """`send` for a request of the class `cls` that is encoded already, without its header."""
        if self._is_closed:
            return Pending.failed(Disconnected(f"{self.address}: the connection is closed"))
        call, frame = self._call(cls, version, body)
        connection = self._connection
        if connection is None:
            connection = self._connection = _Connection(self._shared, self._on_end, self._sasl_call)
            connection.connect(self._host, self._port)
        connection.send(call, frame)
        return call.response

    def _call(self, cls: Any, version: int, body: bytes) -> tuple[_Call, bytes]:
        """A request, and its frame."""
        api_key, decode_header, decode = _codecs(cls, version)
        self._correlation_id = (self._correlation_id + 1) & CORRELATION_ID_MAX
        call = _Call(self._correlation_id, decode_header, decode)
        head = encode_request_header(api_key, version, self._correlation_id, self._client_id)
        return call, b"".join((_SIZE.pack(len(head) + len(body)), head, body))

    def _sasl_call(self, message: Any) -> tuple[_Call, bytes]:
        cls: Any = type(message)
        return self._call(cls, SASL_VERSION, encoder(cls, SASL_VERSION)(message))

    def close(self) -> None:
        """End the connection; requests without a response fail, and so do later ones."""
        self._is_closed = True
        connection = self._connection
        if connection is not None:
            connection.end("the connection was closed by this broker")

    def _on_end(self, calls: list[_Call], reason: str) -> None:
        self._connection = None
        error = Disconnected(f"{self.address}: {reason}")
        for call in calls:
            _complete(call, lambda call: call.response.fail(error))
        if not self._is_closed:
            self._on_closed(error)
        self._shared.after()


@cache
def _codecs(cls: Any, version: int) -> tuple[int, Decode, Decode]:
    """(API key, decoders of the response's header and of the response) of a request."""
    api_key = schema_of(cls).api_key
    assert api_key is not None, f"{cls.__name__} is not a request"
    return (
        api_key,
        decoder(ResponseHeader, response_header_version(api_key, version)),
        decoder(messages_of(api_key)[1], version),
    )


def _complete(call: _Call, complete: Callable[[_Call], None]) -> None:
    """Complete a call; what its callbacks raise costs neither the connection nor other calls."""
    if call.timer is not None:
        call.timer.cancel()
    try:
        complete(call)
    except Exception:
        logger.exception("the callback of a response failed")


class _Connection(asyncio.BufferedProtocol):
    """One TCP connection, from the attempt to connect until its end, which comes once.

    make_call  makes a request of SASL of a message, and its frame
    """

    def __init__(
        self,
        shared: NetworkClients,
        on_end: Callable[[list[_Call], str], None],
        make_call: Callable[[Any], tuple[_Call, bytes]],
    ) -> None:
        self._shared = shared
        self._wheel = shared.wheel
        self._on_end = on_end
        self._make_call = make_call
        self._buffer = ReceiveBuffer(RESPONSE_BYTES_MAX, poison=POISON)
        self._calls: deque[_Call] = deque()
        """In the order of their requests."""
        self._unsent: list[tuple[_Call, bytes]] = []
        """Requests that wait for the connection, or until it has authenticated."""
        self._is_ready = False
        self._authenticating: asyncio.Task[None] | None = None
        self._session_timer: Timer | None = None
        self._refusal: str | None = None
        """Why the broker does not let this one in."""
        self._lost: str | None = None
        """Why there is no connection any more."""
        self._transport: asyncio.Transport | None = None
        self._attempt: asyncio.Task[Any] | None = None
        self._connect_timer: Timer | None = None
        self._has_ended = False

    def connect(self, host: str, port: int) -> None:
        """Begin to connect."""
        loop, timeout_ms = self._shared.loop, self._shared.connect_timeout_ms
        self._connect_timer = self._wheel.after(
            timeout_ms, lambda: self.end(f"no connection within {timeout_ms} ms")
        )
        open_connection = self._shared.open_connection or loop.create_connection
        attempt = loop.create_task(
            open_connection(lambda: self, host, port), name=f"connect to {host}:{port}"
        )
        self._attempt = attempt
        attempt.add_done_callback(self._on_attempt_done)

    def _on_attempt_done(self, attempt: asyncio.Task[Any]) -> None:
        self._attempt = None
        if attempt.cancelled():
            return
        error = attempt.exception()
        if error is not None:
            # Another broker may register a host that no resolver can be asked for.
            if not isinstance(error, OSError | UnicodeError):
                logger.error("the attempt to connect died", exc_info=error)
            self.end(system_error_text(error))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not instances of it.
        transport = cast(asyncio.Transport, transport)
        if self._has_ended:
            transport.abort()
            return
        self._transport = transport
        self._stop_connect_timer()
        if self._shared.login is None:
            self._on_ready()
        else:
            self._authenticate(self._shared.login)

    def _on_ready(self) -> None:
        """Write what has waited."""
        assert self._transport is not None, "it is connected"
        self._is_ready = True
        unsent, self._unsent = self._unsent, []
        for call, _ in unsent:
            self._calls.append(call)
            self._start_timer(call)
        self._transport.writelines([frame for _, frame in unsent])

    def send(self, call: _Call, frame: bytes) -> None:
        """Write a request, now or when the connection is ready."""
        is_bounded = len(self._calls) + len(self._unsent) < IN_FLIGHT_MAX
        assert is_bounded, "requests are sent that nothing waits for"
        if self._is_ready:
            self._write(call, frame)
        else:
            self._unsent.append((call, frame))

    def _write(self, call: _Call, frame: bytes) -> None:
        assert self._transport is not None, "it is connected"
        self._calls.append(call)
        self._start_timer(call)
        self._transport.write(frame)

    def _authenticate(self, login: BrokerLogin) -> None:
        """Begin to authenticate; other requests wait until that has ended."""
        self._is_ready = False
        self._authenticating = self._shared.loop.create_task(
            self._log_in(login), name="authenticate to a broker"
        )
        self._authenticating.add_done_callback(self._on_authenticated)

    async def _log_in(self, login: BrokerLogin) -> None:
        # Imported only where brokers authenticate.
        from odradek.broker.security.sasl.sasl_server import SaslError
        from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
        from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest

        lifetime_ms = 0

        async def ask(token: bytes) -> bytes:
            nonlocal lifetime_ms
            response = await self._ask(SaslAuthenticateRequest(auth_bytes=token))
            if response.error_code != ErrorCode.NONE:
                raise SaslError(f"{response.error_message} (error {response.error_code})")
            lifetime_ms = response.session_lifetime_ms
            return bytes(response.auth_bytes)

        response = await self._ask(SaslHandshakeRequest(mechanism=login.mechanism))
        if response.error_code != ErrorCode.NONE:
            served = ", ".join(response.mechanisms)
            raise SaslError(f"it does not serve {login.mechanism}, only {served}")
        await login.log_in(ask, asyncio.to_thread)
        if lifetime_ms > 0 and not self._has_ended:
            self._session_timer = self._wheel.after(
                int(lifetime_ms * SESSION_SHARE), lambda: self._authenticate(login)
            )

    async def _ask(self, message: Any) -> Any:
        call, frame = self._make_call(message)
        if self._lost is not None:
            raise Disconnected(self._lost)
        responded: asyncio.Future[Any] = self._shared.loop.create_future()
        call.response.on_done(lambda done: None if responded.done() else responded.set_result(done))
        self._write(call, frame)
        return (await responded).result()

    def _on_authenticated(self, attempt: asyncio.Task[None]) -> None:
        self._authenticating = None
        if attempt.cancelled():
            return
        error = attempt.exception()
        if self._has_ended:
            return
        if error is None and self._lost is None:
            self._on_ready()
            return
        if error is None:
            self.end(str(self._lost))
            return
        from odradek.broker.security.sasl.sasl_server import SaslError

        if not isinstance(error, SaslError | Disconnected):
            logger.error("authentication to a broker died", exc_info=error)
        self._refusal = f"authentication has failed: {system_error_text(error)}"
        # Callers connect again soon after the end.
        self._wheel.after(REFUSED_PAUSE_MS, partial(self.end, self._refusal))

    def _start_timer(self, call: _Call) -> None:
        timeout_ms = self._shared.request_timeout_ms
        call.timer = self._wheel.after(
            timeout_ms, lambda: self.end(f"no response within {timeout_ms} ms")
        )

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer.target()

    def buffer_updated(self, nbytes: int) -> None:
        began_ns = monotonic_ns()
        try:
            for frame in self._buffer.received(nbytes):
                if self._has_ended:
                    break
                self._on_frame(frame)
        except DecodeError as error:
            self.end(f"an unreadable response: {error}")
        self._buffer.settle()
        self._shared.after()
        if self._shared.loop_watch is not None:
            self._shared.loop_watch.ran(began_ns, "a response of another broker")

    def _on_frame(self, frame: memoryview) -> None:
        """Complete the oldest call.

        raises  DecodeError
        """
        if not self._calls:
            raise DecodeError("it belongs to no request")
        call = self._calls[0]
        header, position = call.decode_header(frame, 0)
        if header.correlation_id != call.correlation_id:
            raise DecodeError(
                f"its correlation id is {header.correlation_id}, not {call.correlation_id}"
            )
        value, _ = call.decode(frame, position)
        self._calls.popleft()
        _complete(call, lambda call: call.response.resolve(value))

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = "the broker closed the connection" if exc is None else str(exc)
        # A broker closes after it has refused: the response may not be looked at yet.
        if self._refusal is None and (self._authenticating is None or self._calls):
            self.end(self._lost)

    def end(self, reason: str) -> None:
        """End the connection or the attempt, and fail all calls; later calls change nothing."""
        if self._has_ended:
            return
        self._has_ended = True
        self._stop_connect_timer()
        if self._attempt is not None:
            self._attempt.cancel()
        if self._session_timer is not None:
            self._session_timer.cancel()
        if self._authenticating is not None:
            self._authenticating.cancel()
        if self._transport is not None:
            self._transport.abort()
        calls = [*self._calls, *(call for call, _ in self._unsent)]
        self._calls.clear()
        self._unsent.clear()
        self._on_end(calls, reason)

    def _stop_connect_timer(self) -> None:
        if self._connect_timer is not None:
            self._connect_timer.cancel()
            self._connect_timer = None
