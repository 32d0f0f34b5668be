"""Requests to another broker: a real one, and scripted peers that misbehave."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
import uvloop

from odradek.broker.interbroker.network_client import Disconnected, NetworkClient, NetworkClients
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from odradek.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.runtime.clock import SystemClock
from odradek.runtime.pending import Pending, settled
from odradek.runtime.timers import TimingWheel
from odradek.runtime.wheel_driver import WheelDriver
from tests.support.node_thread import running_node
from tests.support.peer import Peer, response_frame, scripted_peer

WAIT_S: Final = 60.0
LONG_MS: Final = 60_000


class Scene:
    """A loop with a client; the loop runs only while the test waits."""

    def __init__(self) -> None:
        self.loop = uvloop.new_event_loop()
        clock = SystemClock()
        self.wheel = WheelDriver(self.loop, clock, TimingWheel(clock.monotonic_ms()))
        self.closed: list[str] = []
        """Reasons that `on_closed` was called with."""
        self._clients: list[NetworkClient] = []

    def client(
        self,
        port: int,
        *,
        host: str = "127.0.0.1",
        connect_timeout_ms: int = LONG_MS,
        request_timeout_ms: int = LONG_MS,
    ) -> NetworkClient:
        clients = NetworkClients(
            self.loop,
            self.wheel,
            connect_timeout_ms=connect_timeout_ms,
            request_timeout_ms=request_timeout_ms,
        )
        client = clients.client(
            host, port, "broker-1-to-0", on_closed=lambda reason: self.closed.append(str(reason))
        )
        self._clients.append(client)
        return client

    def result(self, pending: Pending[Any]) -> Any:
        """Run the loop until the pending is done."""
        done = self.loop.create_future()
        pending.on_done(done.set_result)
        self.loop.run_until_complete(asyncio.wait_for(done, WAIT_S))
        return pending.result()

    def error(self, pending: Pending[Any]) -> str:
        with pytest.raises(Disconnected) as raised:
            self.result(pending)
        return str(raised.value)

    def turn(self) -> None:
        """One iteration of the loop."""
        self.loop.call_later(0.001, self.loop.stop)
        self.loop.run_forever()

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self.wheel.close()
        for _ in range(10):
            # Attempts that were cancelled and transports that were aborted end in these turns.
            self.turn()
        self.loop.close()


@pytest.fixture
def scene() -> Iterator[Scene]:
    with closing(Scene()) as made:
        yield made


def controlled_shutdown(broker_id: int = 1) -> ControlledShutdownRequest:
    return ControlledShutdownRequest(broker_id=broker_id, broker_epoch=7)


def no_partitions(error: ErrorCode = ErrorCode.NONE) -> ControlledShutdownResponse:
    return ControlledShutdownResponse(error_code=error, remaining_partitions=[])


def test_broker_responds_to_pipelined_requests_in_order(scene: Scene, tmp_path: Path) -> None:
    with running_node(tmp_path) as address:
        client = scene.client(int(address.rpartition(":")[2]))
        pendings = [
            client.send(MetadataRequest(topics=[MetadataRequestTopic(name=f"t{number}")]), 9)
            for number in range(50)
        ]
        versions = client.send(ApiVersionsRequest(), 0)
        scene.result(settled(pendings))
        names = [pending.result().topics[0].name for pending in pendings]
        assert names == [f"t{number}" for number in range(50)]
        assert isinstance(scene.result(versions), ApiVersionsResponse)
        client.close()
    assert scene.closed == []


def test_request_has_client_id_and_header_of_its_version(scene: Scene) -> None:
    seen: list[tuple[int, str | None, Any]] = []

    def script(peer: Peer) -> None:
        for _ in range(4):
            header, request = peer.receive()
            seen.append((header.version, header.client_id, request))
            peer.respond(header, no_partitions())

    with scripted_peer(script) as port:
        client = scene.client(port)
        for version in range(4):
            assert scene.result(client.send(controlled_shutdown(), version)) == no_partitions()
    assert [version for version, _, _ in seen] == [0, 1, 2, 3]
    assert [client_id for _, client_id, _ in seen] == [None, *["broker-1-to-0"] * 3]
    assert [request.broker_id for _, _, request in seen] == [1] * 4
    assert [request.broker_epoch for _, _, request in seen] == [-1, -1, 7, 7]


def test_responses_in_pieces_are_put_together(scene: Scene) -> None:
    def script(peer: Peer) -> None:
        received = [peer.receive()[0] for _ in range(3)]
        content = b"".join(response_frame(header, no_partitions()) for header in received)
        peer.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in content:
            peer.socket.sendall(bytes([byte]))

    with scripted_peer(script) as port:
        client = scene.client(port)
        pendings = [client.send(controlled_shutdown(number), 3) for number in range(3)]
        for pending in pendings:
            assert scene.result(pending) == no_partitions()


def test_records_of_a_response_are_views_within_the_callback(scene: Scene) -> None:
    records = bytes(range(256)) * 8_192
    topic = FetchableTopicResponse(
        topic="t",
        partitions=[
            PartitionData(partition_index=0, error_code=0, high_watermark=9, records=records)
        ],
    )
    rounds = 3

    def script(peer: Peer) -> None:
        for _ in range(rounds):
            header, _ = peer.receive()
            peer.respond(header, FetchResponse(responses=[topic]))

    memories: list[Any] = []

    def look(done: Pending[Any]) -> None:
        received = done.result().responses[0].partitions[0].records
        assert isinstance(received, memoryview)
        assert received == records
        memories.append(received.obj)

    fetch = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])
    with scripted_peer(script) as port:
        client = scene.client(port)
        for _ in range(rounds):
            pending = client.send(fetch, 12)
            pending.on_done(look)
            scene.result(pending)
    assert len(memories) == rounds
    assert memories[1] is memories[2], "the buffer is used again"


def test_refused_connection_fails_the_requests(scene: Scene) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    client = scene.client(port)
    first, second = client.send(controlled_shutdown(), 3), client.send(controlled_shutdown(), 3)
    assert "refused" in scene.error(first)
    assert "refused" in scene.error(second)
    assert len(scene.closed) == 1
    assert scene.closed[0].startswith(f"127.0.0.1:{port}: ")


@pytest.mark.parametrize("host", ["a..b", "x" * 64, "\ud800"])
def test_host_that_no_resolver_takes_fails_the_requests_without_a_traceback(
    scene: Scene, host: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = scene.client(1, host=host)
    assert "not a name that DNS can have" in scene.error(client.send(controlled_shutdown(), 3))
    assert len(scene.closed) == 1
    assert not caplog.records


def test_connection_that_is_not_made_in_time_fails_the_requests(scene: Scene) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        port = listening.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for connection in waiting:
            # They fill the backlog, so that the kernel ignores further attempts.
            connection.setblocking(False)
            connection.connect_ex(("127.0.0.1", port))
        client = scene.client(port, connect_timeout_ms=200)
        assert "no connection within 200 ms" in scene.error(client.send(controlled_shutdown(), 3))
        for connection in waiting:
            connection.close()
    assert len(scene.closed) == 1


def test_peer_that_closes_fails_the_requests_and_the_next_one_connects_again(scene: Scene) -> None:
    def close_within_a_frame(peer: Peer) -> None:
        header, _ = peer.receive()
        peer.receive()
        peer.socket.sendall(response_frame(header, no_partitions())[:6])

    def respond(peer: Peer) -> None:
        header, _ = peer.receive()
        peer.respond(header, no_partitions())

    with scripted_peer(close_within_a_frame, respond) as port:
        client = scene.client(port)
        pendings = [client.send(controlled_shutdown(), 3) for _ in range(2)]
        for pending in pendings:
            assert "closed the connection" in scene.error(pending)
        assert len(scene.closed) == 1
        assert scene.result(client.send(controlled_shutdown(), 3)) == no_partitions()


def test_response_that_does_not_come_in_time_ends_the_connection(scene: Scene) -> None:
    def script(peer: Peer) -> None:
        header, _ = peer.receive()
        peer.respond(header, no_partitions())
        peer.receive()
        assert peer.has_ended()

    with scripted_peer(script) as port:
        client = scene.client(port, request_timeout_ms=3_000)
        assert scene.result(client.send(controlled_shutdown(), 3)) == no_partitions()
        assert "no response within 3000 ms" in scene.error(client.send(controlled_shutdown(), 3))
    assert len(scene.closed) == 1


def wrong_correlation_id(peer: Peer) -> None:
    header, _ = peer.receive()
    header.correlation_id += 1
    peer.respond(header, no_partitions())
    assert peer.has_ended()


def torn_body(peer: Peer) -> None:
    header, _ = peer.receive()
    whole = response_frame(header, no_partitions())[4:-2]
    peer.socket.sendall(struct.pack(">i", len(whole)) + whole)
    assert peer.has_ended()


def negative_size(peer: Peer) -> None:
    peer.receive()
    peer.socket.sendall(struct.pack(">i", -5))
    assert peer.has_ended()


@pytest.mark.parametrize("script", [wrong_correlation_id, torn_body, negative_size])
def test_unreadable_response_ends_the_connection(
    scene: Scene, script: Callable[[Peer], None]
) -> None:
    with scripted_peer(script) as port:
        pending = scene.client(port).send(controlled_shutdown(), 3)
        assert "an unreadable response" in scene.error(pending)
    assert len(scene.closed) == 1


def test_response_without_a_request_ends_the_connection(scene: Scene) -> None:
    def script(peer: Peer) -> None:
        header, _ = peer.receive()
        peer.socket.sendall(2 * response_frame(header, no_partitions()))
        assert peer.has_ended()

    with scripted_peer(script) as port:
        assert scene.result(scene.client(port).send(controlled_shutdown(), 3)) == no_partitions()
        while not scene.closed:
            scene.turn()
    assert "belongs to no request" in scene.closed[0]


def test_request_sent_in_a_callback_gets_its_response(scene: Scene) -> None:
    count = 20

    def script(peer: Peer) -> None:
        for _ in range(count):
            header, _ = peer.receive()
            peer.respond(header, no_partitions())

    with scripted_peer(script) as port:
        client = scene.client(port)
        last: Pending[Any] = Pending()
        left = count

        def send_next(done: Pending[Any]) -> None:
            nonlocal left
            left -= 1
            if left:
                client.send(controlled_shutdown(), 3).on_done(send_next)
            else:
                last.settle_as(done)

        client.send(controlled_shutdown(), 3).on_done(send_next)
        assert scene.result(last) == no_partitions()


def test_callback_that_raises_costs_no_other_response(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    def script(peer: Peer) -> None:
        received = [peer.receive()[0] for _ in range(2)]
        peer.socket.sendall(
            b"".join(response_frame(header, no_partitions()) for header in received)
        )

    def fail(done: Pending[Any]) -> None:
        raise RuntimeError("a fault of the test")

    with scripted_peer(script) as port:
        client = scene.client(port)
        client.send(controlled_shutdown(), 3).on_done(fail)
        assert scene.result(client.send(controlled_shutdown(), 3)) == no_partitions()
    assert "a fault of the test" in caplog.text


def test_close_fails_the_requests_and_later_ones(scene: Scene) -> None:
    def script(peer: Peer) -> None:
        peer.receive()
        scene.loop.call_soon_threadsafe(client.close)
        assert peer.has_ended()

    with scripted_peer(script) as port:
        client = scene.client(port)
        assert "closed by this broker" in scene.error(client.send(controlled_shutdown(), 3))
    assert "is closed" in scene.error(client.send(controlled_shutdown(), 3))
    assert scene.closed == []


def test_close_while_connecting_fails_the_requests(scene: Scene) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = scene.client(listening.getsockname()[1])
        pending = client.send(controlled_shutdown(), 3)
        client.close()
        assert "closed by this broker" in scene.error(pending)
    assert scene.closed == []
