"""One connection of ZooKeeper's protocol: frames in, frames out; without sockets.

The first frame begins or resumes a session.  A request is performed when its frame is complete and
its response is sent when everything that it shows is durable, in the order of the requests; events
come before the responses of later reads.  A ping is answered at once, whatever the disk does.

Bounds: a frame of 4 MiB (1 KiB before there is a session), `OUTSTANDING_MAX` requests whose
responses wait for the disk, `RESPONSE_BYTES_MAX` bytes of responses that wait for the disk or that
the client does not take; beyond these the connection is not read.  The last of these responses may
exceed it, and `ResponseMemory` bounds those of all connections.  A frame that cannot be decoded
closes the connection, not the session.
Source: ZooKeeper's NIOServerCnxn, ZooKeeperServer.processConnectRequest, FinalRequestProcessor.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from odradek.controller.coordination.embedded import EmbeddedTree
from odradek.controller.coordination.errors import CoordinationError, Unimplemented
from odradek.controller.coordination.server.client_sessions import ClientSession, ClientSessions
from odradek.controller.coordination.server.four_letter_words import (
    WORDS,
    ServerStatistics,
    respond,
)
from odradek.controller.coordination.server.jute import (
    INT,
    JuteReader,
    MalformedFrame,
    encode_buffer,
    encode_text,
)
from odradek.controller.coordination.server.passwords import NO_PASSWORD
from odradek.controller.coordination.server.requests import (
    AUTH,
    CLOSE_SESSION,
    PING,
    SET_WATCHES,
    SET_WATCHES_2,
    Act,
    decode,
)
from odradek.controller.coordination.server.response_memory import ResponseMemory
from odradek.controller.coordination.session import SessionEvent, WatchEvent
from odradek.runtime.pending import Pending

FRAME_BYTES_MAX: Final = 4 * 1024 * 1024
"""jute.maxbuffer, as Kafka sets it."""
CONNECT_FRAME_BYTES_MAX: Final = 1024
PATHS_OF_A_STEP: Final = 512
"""Paths of a SetWatches that are read, or watched, before the loop may serve others: 1 ms."""
OUTSTANDING_MAX: Final = 1_000
"""ZooKeeper: zookeeper.globalOutstandingLimit."""
RESPONSE_BYTES_MAX: Final = 4 * 1024 * 1024

_ENDED: Final = object()
_AUTH_FAILED: Final = -115
_SCHEMES: Final = ("digest", "world")
_NOTIFICATION: Final = -1
_CONNECTED: Final = 3
"""Watcher.Event.KeeperState.SyncConnected."""
_REPLY: Final = struct.Struct(">iiqi")
_REPLY_BYTES: Final = 16
_EVENT: Final = struct.Struct(">ii")
_OPENED: Final = struct.Struct(">iiq")


class ClientTransport(Protocol):
    """The transport that a connection sends through."""

    def send(self, content: bytes) -> None:
        """Send, in the order of the calls."""

    def unsent_bytes(self) -> int:
        """How many bytes the client has not taken yet."""

    def close(self) -> None:
        """Close at once; may be called again."""

    def close_when_sent(self) -> None:
        """Close after everything is sent that waits; nothing more is read."""

    def read_again(self) -> None:
        """The connection may take more requests."""


class ClientService:
    """The service that the connections of one tree share."""

    def __init__(
        self, embedded: EmbeddedTree, sessions: ClientSessions, limits: dict[str, int]
    ) -> None:
        """limits  shown by the command `conf`"""
        self.embedded = embedded
        self.sessions = sessions
        self.limits = limits
        self.memory = ResponseMemory()
        self.statistics = ServerStatistics()


class HeldResponse:
    """The body of a response that waits for the disk, and the last transaction that it shows."""

    __slots__ = ("body", "zxid")

    def __init__(self) -> None:
        self.body = b""
        self.zxid = 0


class ClientConnection:
    """A connection, from its first byte to its end."""

    def __init__(self, service: ClientService, transport: ClientTransport) -> None:
        self._service = service
        self._embedded = service.embedded
        self._sessions = service.sessions
        self._transport = transport
        self._received = bytearray()
        self._outstanding = 0
        self._held: dict[HeldResponse, None] = {}
        self._held_bytes = 0
        self._session: ClientSession | None = None
        self._steps: Iterator[None] | None = None
        """The rest of a request that is handled in several steps; the next ones wait."""
        self._is_connecting = False
        self._is_ending = False
        self._is_closed = False

    @property
    def has_session(self) -> bool:
        """Whether the client has begun or resumed a session."""
        return self._session is not None

    def is_blocked(self) -> bool:
        """Whether nothing more is to be read for now."""
        return (
            self._outstanding >= OUTSTANDING_MAX
            or self._is_connecting
            or self._is_ending
            or self._held_bytes + self._transport.unsent_bytes() > RESPONSE_BYTES_MAX
        )

    def receive(self, content: bytes) -> None:
        """Take bytes; `step` handles them."""
        self._received += content

    def step(self, now_ms: int) -> bool:
        """Handle one frame, or a part of one.

        returns  False when a complete frame has not arrived, or the connection is blocked

        now_ms  monotonic time
        raises  MalformedFrame, after which the caller closes the connection
        """
        received = self._received
        if self.is_blocked() or self._is_closed:
            return False
        if self._steps is not None:
            self._advance(self._steps)
            return True
        if len(received) < 4:
            return False
        (length,) = INT.unpack_from(received)
        session = self._session
        limit = CONNECT_FRAME_BYTES_MAX if session is None else FRAME_BYTES_MAX
        if not 0 <= length <= limit:
            if session is None and bytes(received[:4]) in WORDS:
                self._respond_to_word(bytes(received[:4]))
                return False
            raise MalformedFrame(f"a frame of {length} bytes")
        if len(received) < 4 + length:
            return False
        reader = JuteReader(bytes(received[4 : 4 + length]))
        del received[: 4 + length]
        self._service.statistics.received += 1
        if session is None:
            self._connect(reader)
        else:
            session.heard(now_ms)
            self._request(session, reader)
        return True

    def on_event(self, event: SessionEvent) -> None:
        """Send the event of a watch."""
        if isinstance(event, WatchEvent) and not self._is_closed:
            self._send_event(event)

    def close(self) -> None:
        """Close at once; the session waits for another connection."""
        if not self._is_closed:
            self._is_closed = True
            for response in self._held:
                # The tree keeps it until the disk responds.
                response.body = b""
            self._held.clear()
            self._steps = None
            self._service.memory.forget(self)
            if self._session is not None:
                self._sessions.detach(self._session, self)
            self._transport.close()

    # Sessions.

    def _connect(self, reader: JuteReader) -> None:
        reader.int32()
        last_zxid, timeout_ms, session_id = reader.int64(), reader.int32(), reader.int64()
        password = reader.buffer()
        has_read_only = not reader.is_at_end()
        if has_read_only:
            reader.boolean()
        reader.end()
        if last_zxid > self._embedded.tree.zxid:
            raise MalformedFrame(f"the client has seen transaction {last_zxid:#x} of another tree")

        def act() -> ClientSession | None:
            if session_id == 0:
                return self._sessions.begin(timeout_ms, self)
            return self._sessions.resume(session_id, password, self)

        self._is_connecting = True
        opened: Pending[ClientSession | None] = self._embedded.call(act)
        opened.on_done(lambda done: self._connected(done, has_read_only=has_read_only))

    def _connected(self, done: Pending[ClientSession | None], *, has_read_only: bool) -> None:
        try:
            session = done.result()
        except CoordinationError:
            self.close()
            return
        if self._is_closed:
            if session is not None:
                self._sessions.detach(session, self)
            return
        self._is_connecting = False
        if session is None:
            opened = _OPENED.pack(0, 0, 0) + encode_buffer(NO_PASSWORD)
        else:
            self._session = session
            opened = _OPENED.pack(0, session.timeout_ms, session.session_id)
            opened += encode_buffer(self._sessions.password(session))
        if has_read_only:
            opened += b"\x00"
        self._transport.send(INT.pack(len(opened)) + opened)
        if session is None:
            self._is_ending = True
            self._transport.close_when_sent()
        else:
            self._transport.read_again()

    # Requests.

    def _request(self, session: ClientSession, reader: JuteReader) -> None:
        xid, kind = reader.int32(), reader.int32()
        if kind == PING:
            reader.end()
            self._send_reply(xid, 0, 0, b"")
        elif kind == AUTH:
            self._authenticate(xid, reader)
        elif kind == CLOSE_SESSION:
            reader.end()
            self._is_ending = True
            self._call(xid, lambda: self._end(session), self._transport.close_when_sent)
        elif kind in (SET_WATCHES, SET_WATCHES_2):
            self._steps = self._set_watches(session, xid, kind, reader)
            self._advance(self._steps)
        else:
            self._call(xid, decode(self._embedded, session.session_id, kind, reader))

    def _authenticate(self, xid: int, reader: JuteReader) -> None:
        reader.int32()
        scheme = reader.text()
        reader.buffer()
        reader.end()
        if scheme in _SCHEMES:
            self._send_reply(xid, 0, 0, b"")
        else:
            self._send_reply(xid, 0, _AUTH_FAILED, b"")
            self._is_ending = True
            self._transport.close_when_sent()

    def _end(self, session: ClientSession) -> bytes:
        self._sessions.end(session)
        return b""

    def _advance(self, steps: Iterator[None]) -> None:
        if next(steps, _ENDED) is _ENDED:
            self._steps = None

    def _set_watches(
        self, session: ClientSession, xid: int, kind: int, reader: JuteReader
    ) -> Iterator[None]:
        """Set up to some hundred thousand watches; what changes in between, `since_zxid` tells."""
        since_zxid = reader.int64()
        vectors: list[list[str]] = []
        for _ in range(5 if kind == SET_WATCHES_2 else 3):
            paths: list[str] = []
            for _ in range(reader.count()):
                paths.append(reader.text())
                if len(paths) % PATHS_OF_A_STEP == 0:
                    yield
            vectors.append(paths)
        reader.end()
        data, absent, children, *persistent = vectors
        refusal: CoordinationError | None = None
        if any(persistent):
            refusal = Unimplemented("persistent watches")
        tree = self._embedded.tree
        for place, paths in enumerate((data, absent, children)):
            for start in range(0, len(paths), PATHS_OF_A_STEP):
                if start:
                    yield
                share: list[Sequence[str]] = [(), (), ()]
                share[place] = paths[start : start + PATHS_OF_A_STEP]
                try:
                    if refusal is None:
                        events = tree.set_watches(session.session_id, since_zxid, *share)
                        self._embedded.hold_events([(self.on_event, event) for event in events])
                except CoordinationError as error:
                    refusal = error

        def respond() -> bytes:
            if refusal is not None:
                raise refusal
            return b""

        self._call(xid, respond)

    def _call(self, xid: int, act: Act, then: Callable[[], None] | None = None) -> None:
        self._outstanding += 1
        self._service.statistics.outstanding += 1
        response = HeldResponse()

        def perform() -> HeldResponse:
            try:
                response.body = act()
            finally:
                response.zxid = self._embedded.tree.zxid
            return response

        def respond_when_durable(done: Pending[HeldResponse]) -> None:
            was_blocked = self.is_blocked()
            self._outstanding -= 1
            self._service.statistics.outstanding -= 1
            self._release(response)
            if self._is_closed:
                return
            try:
                self._send_reply(xid, response.zxid, 0, done.result().body)
            except CoordinationError as error:
                self._send_reply(xid, response.zxid, error.code, b"")
            if then is not None:
                then()
            elif was_blocked and not self.is_blocked():
                self._transport.read_again()

        result: Pending[HeldResponse] = self._embedded.call(perform)
        if not result.is_done:
            self._hold(response)
        result.on_done(respond_when_durable)

    def _hold(self, response: HeldResponse) -> None:
        self._held[response] = None
        self._held_bytes += len(response.body)
        self._service.memory.add(self, len(response.body))

    def _release(self, response: HeldResponse) -> None:
        if response in self._held:
            del self._held[response]
            self._held_bytes -= len(response.body)
            self._service.memory.remove(self, len(response.body))

    # Output.

    def _send_reply(self, xid: int, zxid: int, code: int, body: bytes) -> None:
        self._service.statistics.sent += 1
        self._transport.send(_REPLY.pack(_REPLY_BYTES + len(body), xid, zxid, code) + body)

    def _send_event(self, event: WatchEvent) -> None:
        body = _EVENT.pack(event.kind.value, _CONNECTED) + encode_text(event.path)
        self._send_reply(_NOTIFICATION, -1, 0, body)

    def _respond_to_word(self, word: bytes) -> None:
        tree = self._embedded.tree
        text = respond(
            word,
            self._service.statistics,
            zxid=tree.zxid,
            node_count=len(tree.nodes),
            limits=self._service.limits,
        )
        self._is_ending = True
        self._transport.send(text)
        self._transport.close_when_sent()
