"""The server's end of TLS over real sockets: every size, pieces of one byte, both ends."""

from __future__ import annotations

import contextlib
import ctypes
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.broker.security.tls.contexts import read_stores, server_context
from odradek.broker.security.tls.tls_config import listener_tls
from odradek.broker.security.tls.tls_transport import COSTLY_AT_ONCE, FED_AT_ONCE, TlsTransport
from odradek.broker.settings.load import make_settings
from tests.support.certificates import Authority

RECORD = 16 << 10


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """(server's, client's)."""
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(authority.server().pem)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(authority.trusted)
    return server, client


class Client:
    """The other end: Python's ssl on memory, so that each byte is in the hands of the test."""

    def __init__(self, connected: socket.socket, context: ssl.SSLContext) -> None:
        self.socket = connected
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def receive(self) -> None:
        """Feed what has arrived."""
        try:
            self.incoming.write(self.socket.recv(1 << 20))
        except BlockingIOError:
            return

    def handshake(self) -> bool:
        self.receive()
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def read_all(self) -> bytes:
        self.receive()
        content = b""
        while True:
            try:
                piece = self.tls.read(1 << 20)
            except ssl.SSLWantReadError:
                return content
            if not piece:
                return content
            content += piece


Pair = tuple[TlsTransport, Client]


@pytest.fixture
def pair(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    yield TlsTransport(ours, contexts[0]), Client(theirs, contexts[1])
    ours.close()
    theirs.close()


def shake_hands(transport: TlsTransport, client: Client, piece_bytes: int = 1 << 20) -> None:
    for _ in range(4):
        is_over = client.handshake()
        flight = client.outgoing.read()
        for position in range(0, len(flight), piece_bytes):
            client.socket.send(flight[position : position + piece_bytes])
            if transport.is_established:
                continue
            try:
                transport.handshake()
            except BlockingIOError:
                continue
        if is_over and transport.is_established:
            return
    pytest.fail("the handshake does not end")


@pytest.mark.parametrize("piece_bytes", [1, 2, 5, 100, 1 << 20])
def test_handshake_in_pieces_is_completed(pair: Pair, piece_bytes: int) -> None:
    transport, client = pair
    shake_hands(transport, client, piece_bytes)
    assert client.tls.version() == "TLSv1.3"
    assert client.tls.compression() is None


SIZES = [
    1,
    RECORD - 1,
    RECORD,
    RECORD + 1,
    (32 << 10) - 1,
    (32 << 10) + 1,
    (64 << 10) + 4,
    (128 << 10) - 1,
    (128 << 10) + 1,
    1 << 20,
]


@pytest.mark.parametrize("target_bytes", [1_000, RECORD, 64 << 10, 1 << 20])
def test_content_of_every_size_arrives_whatever_the_target(pair: Pair, target_bytes: int) -> None:
    transport, client = pair
    shake_hands(transport, client)
    for size in SIZES:
        sent = bytes(index % 251 for index in range(size))
        client.tls.write(sent)
        unsent = memoryview(client.outgoing.read())
        received = bytearray()
        target = memoryview(bytearray(target_bytes))
        while len(received) < size:
            with contextlib.suppress(BlockingIOError):
                unsent = unsent[client.socket.send(unsent) :] if unsent else unsent
            try:
                count = transport.recv_into(target)
            except BlockingIOError:
                # Nothing may be left that no event would report.
                assert not transport.may_have_more
                continue
            assert count
            received += target[:count]
        assert received == sent


def test_what_the_socket_does_not_take_is_sent_later(pair: Pair) -> None:
    transport, client = pair
    shake_hands(transport, client)
    received = b""
    sent = b""
    blocked = 0
    while len(sent) < 4 << 20:
        try:
            transport.flush()
            piece = bytes([len(sent) >> 16 & 0xFF]) * (64 << 10)
            sent += piece
            transport.send(piece)
        except BlockingIOError:
            blocked += 1
            assert transport.unsent_bytes > 0
            received += client.read_all()
    while len(received) < len(sent):
        with contextlib.suppress(BlockingIOError):
            transport.flush()
        received += client.read_all()
    assert received == sent
    assert blocked
    assert transport.unsent_bytes == 0


def test_close_notify_ends_what_the_other_side_reads(pair: Pair) -> None:
    transport, client = pair
    shake_hands(transport, client)
    client.tls.write(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.unwrap()
    client.socket.send(client.outgoing.read())
    target = memoryview(bytearray(100))
    assert transport.recv_into(target) == 4
    assert transport.may_have_more
    assert transport.recv_into(target) == 0
    # The other direction is still open.
    transport.send(b"after all")
    transport.close()
    assert client.read_all() == b"after all"


def test_our_end_is_announced(pair: Pair) -> None:
    transport, client = pair
    shake_hands(transport, client)
    transport.close()
    client.receive()
    assert client.tls.read(100) == b""


@pytest.mark.parametrize(
    ("head", "protocol"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
        (b"\0\0\0\x10\0\x12\0\0\0\0\0\0\0\0", "a request of Kafka's protocol without TLS"),
        (b"SSH-2.0-x\r\n", "bytes that are not TLS"),
    ],
)
def test_plaintext_is_named(pair: Pair, head: bytes, protocol: str) -> None:
    transport, client = pair
    client.socket.send(head)
    with pytest.raises(OSError, match="SSL"):
        transport.handshake()
    assert transport.plaintext == protocol
    # The alert of Apache Kafka's broker: unexpected_message.
    assert client.socket.recv(100) == b"\x15\x03\x03\0\2\2\x0a"


def test_changed_bytes_end_the_connection(pair: Pair) -> None:
    transport, client = pair
    shake_hands(transport, client)
    client.tls.write(b"content")
    record = bytearray(client.outgoing.read())
    record[-1] ^= 1
    client.socket.send(record)
    with pytest.raises(ssl.SSLError):
        transport.recv_into(memoryview(bytearray(100)))


def test_renegotiation_and_compression_are_off(tmp_path: Path) -> None:
    """Only TLS 1.2 has it."""
    server = Authority(tmp_path).server()
    settings = make_settings(
        {
            "listeners": "PLAINTEXT://127.0.0.1:9092,SSL://127.0.0.1:9093",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(server.pem),
        }
    )
    config = listener_tls(settings, "SSL")
    context = server_context(config, read_stores(config))
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert context.options & ssl.OP_NO_COMPRESSION


class KeyChanger:
    """A client that changes its keys and has the server change its own (TLS 1.3), which Python's
    ssl cannot: OpenSSL itself."""

    def __init__(self, connected: socket.socket) -> None:
        self._library = library = ctypes.CDLL("libssl.so.3")
        for name in ("TLS_client_method", "SSL_CTX_new", "SSL_new"):
            getattr(library, name).restype = ctypes.c_void_p
        method = ctypes.c_void_p(library.TLS_client_method())
        self._tls = ctypes.c_void_p(library.SSL_new(ctypes.c_void_p(library.SSL_CTX_new(method))))
        library.SSL_set_fd(self._tls, connected.fileno())
        library.SSL_set_connect_state(self._tls)

    def handshake(self) -> bool:
        """Go on; whether it is over, or a change of keys is sent."""
        return bool(self._library.SSL_do_handshake(self._tls) == 1)

    def change_keys(self) -> bool:
        """False when the socket takes no more."""
        return self._library.SSL_key_update(self._tls, 1) == 1 and self.handshake()

    def write(self, content: bytes) -> bool:
        return bool(self._library.SSL_write(self._tls, content, len(content)) == len(content))


@pytest.fixture
def changer(pair: Pair) -> KeyChanger:
    return key_changer(*pair)


def key_changer(transport: TlsTransport, client: Client) -> KeyChanger:
    """Takes the place of the client."""
    changer = KeyChanger(client.socket)
    for _ in range(100):
        is_over = changer.handshake()
        with contextlib.suppress(BlockingIOError):
            transport.handshake()
        if is_over and transport.is_established:
            return changer
    pytest.fail("the handshake does not end")


def test_changes_of_keys_without_end_are_refused(pair: Pair, changer: KeyChanger) -> None:
    transport, target = pair[0], memoryview(bytearray(64 << 10))
    for _ in range(15):
        assert all(changer.change_keys() for _ in range(50))
        with pytest.raises(BlockingIOError):
            transport.recv_into(target)
    assert all(changer.change_keys() for _ in range(200))
    with pytest.raises(ConnectionAbortedError, match="changes of its keys"):
        transport.recv_into(target)


def test_keys_may_change_among_content(pair: Pair, changer: KeyChanger) -> None:
    transport, target = pair[0], memoryview(bytearray(64 << 10))
    for _ in range(3_000):
        assert changer.write(b"abc")
        assert changer.change_keys()
        assert transport.recv_into(target) == 3
        pair[1].socket.recv(64 << 10)


@pytest.fixture
def tcp_pair(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> Iterator[Pair]:
    """Over TCP, which takes many small records."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        theirs = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        yield TlsTransport(ours, contexts[0]), Client(theirs, contexts[1])


def test_turn_of_a_client_that_mixes_changes_of_keys_with_content_is_small(tcp_pair: Pair) -> None:
    transport, client = tcp_pair
    changer = key_changer(transport, client)
    target = memoryview(bytearray(128 << 10))

    def turns(content_bytes: int) -> list[int]:
        sizes: list[int] = []
        while sum(sizes) < content_bytes:
            with contextlib.suppress(BlockingIOError):
                sizes.append(transport.recv_into(target))
        return sizes

    for _ in range(2_500):
        assert changer.write(b"abc")
        assert changer.change_keys()
    client.socket.setblocking(True)
    first, *later = turns(7_500)
    # A record of three bytes and a change of keys take 52 bytes.
    assert first <= 3 * FED_AT_ONCE / 52 + 3
    assert max(later) <= 3 * COSTLY_AT_ONCE / 52 + 3
    assert client.socket.recv(1 << 20)
    # Content makes up for it, and is received at once again.
    for size in (10_000, 100, 10_000, 100, 10_000, 100, 10_000, 100, 10_000, 10_000, 10_000):
        assert changer.write(bytes(size))
    assert max(turns(70_400)) > 2 * COSTLY_AT_ONCE
