"""Control requests to scripted brokers: order, repetition, merging, the end of a registration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from uuid import UUID

import pytest

from odradek.broker.interbroker.control_channels import ControlChannels, Respond
from odradek.controller.image.control_requests import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
    UpdateMetadataPartition,
)
from odradek.controller.image.image import (
    LEADER_DURING_DELETE,
    BrokerImage,
    Endpoint,
    PartitionState,
)
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from odradek.protocol.messages.stop_replica import StopReplicaResponse
from odradek.protocol.messages.update_metadata import UpdateMetadataResponse
from odradek.protocol.topic_partition import TopicPartition
from tests.support.client_loop import ClientLoop
from tests.support.peer import Peer, scripted_peer

TOPIC_ID = UUID(int=9)
PEER = 2


def state(epoch: int, leader: int = PEER) -> PartitionState:
    return PartitionState(leader, epoch, (PEER,), epoch, 1)


def lead(epoch: int, index: int = 0) -> LeaderAndIsr:
    partition = LeaderAndIsrPartition(
        "t", TOPIC_ID, index, state(epoch), (PEER,), (), (), is_new=False
    )
    return LeaderAndIsr(1, 1, 50, (partition,), ())


def update(epoch: int, index: int = 0, leader: int = PEER) -> UpdateMetadata:
    partition = UpdateMetadataPartition("t", TOPIC_ID, index, state(epoch, leader), (PEER,), ())
    return UpdateMetadata(1, 1, 50, (partition,), ())


def stop(index: int) -> StopReplica:
    return StopReplica(1, 1, 50, (StopReplicaPartition("t", index, 7, is_deleted=True),))


def peer_image(port: int, epoch: int = 50, listener: str = "INTERNAL") -> BrokerImage:
    return BrokerImage(PEER, epoch, (Endpoint(listener, "127.0.0.1", port, "PLAINTEXT"),))


class Scene:
    """Broker 1 is the controller."""

    def __init__(self) -> None:
        self.loop = ClientLoop()
        self.channels = ControlChannels(
            self.loop.clients,
            self.loop.wheel,
            self.loop.clock,
            broker_id=1,
            listener_name="INTERNAL",
            inter_broker_listener_name="INTERNAL",
        )
        self.responses: list[tuple[ControlRequest, ControlResponse]] = []

    def know(self, *brokers: BrokerImage) -> None:
        self.channels.set_brokers({broker.broker_id: broker for broker in brokers})

    def send(self, *requests: ControlRequest) -> None:
        for request in requests:
            self.channels.send(PEER, request, self._recorder(request))

    def _recorder(self, request: ControlRequest) -> Respond:
        return lambda response: self.responses.append((request, response))

    def until_responses(self, count: int) -> None:
        self.loop.until(lambda: len(self.responses) >= count, f"{count} responses")

    def close(self) -> None:
        self.channels.set_brokers({})
        self.loop.close()


@pytest.fixture
def scene() -> Iterator[Scene]:
    with closing(Scene()) as made:
        yield made


def respond(peer: Peer) -> Any:
    """Receive a request and respond without an error; the request."""
    header, request = peer.receive()
    match header.api_key:
        case ApiKey.LEADER_AND_ISR:
            response: Any = LeaderAndIsrResponse(error_code=0)
        case ApiKey.UPDATE_METADATA:
            response = UpdateMetadataResponse(error_code=0)
        case _:
            response = StopReplicaResponse(error_code=0, partition_errors=[])
    peer.respond(header, response)
    return request


def recorder(count: int, into: list[Any]) -> Callable[[Peer], None]:
    """A script that responds to so many requests, and keeps them."""

    def script(peer: Peer) -> None:
        into.extend(respond(peer) for _ in range(count))

    return script


def test_requests_arrive_in_order_one_at_a_time(scene: Scene) -> None:
    requests: list[ControlRequest] = [lead(1), update(1), stop(5), lead(2), stop(6), update(2)]
    received: list[Any] = []

    def script(peer: Peer) -> None:
        for _ in requests:
            header, _ = peer.receive()
            peer.socket.settimeout(0.02)
            with pytest.raises(TimeoutError):
                peer.receive_bytes(1)
            peer.socket.settimeout(60)
            received.append((header.api_key, header.version, header.client_id))
            if header.api_key == ApiKey.LEADER_AND_ISR:
                peer.respond(header, LeaderAndIsrResponse(error_code=0))
            elif header.api_key == ApiKey.UPDATE_METADATA:
                peer.respond(header, UpdateMetadataResponse(error_code=0))
            else:
                peer.respond(header, StopReplicaResponse(error_code=0, partition_errors=[]))

    with scripted_peer(script) as port:
        scene.know(peer_image(port))
        scene.send(*requests)
        scene.until_responses(len(requests))
    keys = {LeaderAndIsr: (4, 7), UpdateMetadata: (6, 8), StopReplica: (5, 4)}
    assert received == [(*keys[type(request)], "1") for request in requests]
    assert [request for request, _ in scene.responses] == requests


def test_request_is_sent_again_until_the_broker_responds(scene: Scene) -> None:
    received: list[Any] = []

    def close_after_request(peer: Peer) -> None:
        received.append(peer.receive()[1])

    with scripted_peer(close_after_request, close_after_request, recorder(2, received)) as port:
        scene.know(peer_image(port))
        scene.send(lead(1), stop(3))
        scene.until_responses(2)
    assert received[0] == received[1] == received[2]
    assert received[0].topic_states[0].partition_states[0].leader_epoch == 1
    assert received[3].topic_states[0].partition_states[0].partition_index == 3


def test_consecutive_update_metadata_requests_are_merged(scene: Scene) -> None:
    received: list[Any] = []
    with scripted_peer(recorder(3, received)) as port:
        scene.know(peer_image(port))
        # The first is under way at once; those that wait behind it become one.
        scene.send(lead(1), update(1), update(1, index=4), update(2), stop(3))
        scene.until_responses(5)
    merged = received[1].topic_states[0].partition_states
    assert [
        (partition_state.partition_index, partition_state.leader_epoch)
        for partition_state in merged
    ] == [(0, 2), (4, 1)]
    assert [request for request, _ in scene.responses][1:4] == [
        update(1),
        update(1, index=4),
        update(2),
    ]


@pytest.mark.parametrize(
    "between",
    [lead(9), stop(9), update(0, leader=LEADER_DURING_DELETE)],
    ids=["lead", "stop", "deletion"],
)
def test_update_metadata_is_not_merged_over_another_request(
    scene: Scene, between: ControlRequest
) -> None:
    received: list[Any] = []
    with scripted_peer(recorder(4, received)) as port:
        scene.know(peer_image(port))
        scene.send(lead(1), update(1), between, update(2))
        scene.until_responses(4)
    epochs = [
        request.topic_states[0].partition_states[0].leader_epoch
        for request in (received[1], received[3])
    ]
    assert epochs == [1, 2]


def test_requests_of_an_ended_registration_are_dropped(scene: Scene) -> None:
    received: list[Any] = []

    def hold(peer: Peer) -> None:
        received.append(peer.receive()[1])
        assert peer.has_ended()

    with scripted_peer(hold, recorder(1, received)) as port:
        scene.know(peer_image(port))
        scene.send(lead(1), stop(1))
        scene.loop.until(lambda: received, "the first request")
        scene.know(peer_image(port, epoch=60))
        scene.send(lead(7))
        scene.until_responses(1)
    assert scene.responses[0][0] == lead(7)
    epochs = [request.topic_states[0].partition_states[0].leader_epoch for request in received]
    assert epochs == [1, 7]


def test_broker_that_is_gone_ends_its_channel(scene: Scene) -> None:
    received: list[Any] = []

    def hold(peer: Peer) -> None:
        received.append(peer.receive()[1])
        assert peer.has_ended()

    with scripted_peer(hold) as port:
        scene.know(peer_image(port))
        scene.send(lead(1))
        scene.loop.until(lambda: received, "the first request")
        scene.know()
        for _ in range(3):
            scene.loop.turn()
    assert scene.responses == []


def test_broker_with_another_endpoint_gets_its_requests_there(scene: Scene) -> None:
    received: list[Any] = []

    def hold(peer: Peer) -> None:
        received.append(peer.receive()[1])
        assert peer.has_ended()

    with scripted_peer(hold) as before, scripted_peer(recorder(2, received)) as after:
        scene.know(peer_image(before))
        scene.send(lead(1), stop(2))
        scene.loop.until(lambda: received, "the first request")
        scene.know(peer_image(after))
        scene.until_responses(2)
    assert received[0] == received[1]


def test_broker_without_the_listener_gets_its_requests_once_it_has_it(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    received: list[Any] = []
    with scripted_peer(recorder(1, received)) as port:
        scene.know(peer_image(port, listener="EXTERNAL"))
        scene.send(lead(1))
        scene.loop.until(lambda: "no endpoint" in caplog.text, "a line in the log")
        scene.know(peer_image(port))
        scene.until_responses(1)
    assert len(received) == 1


def test_large_request_is_encoded_in_slices_and_arrives_whole(scene: Scene) -> None:
    partitions = tuple(update(3, index).partitions[0] for index in range(20_000))
    received: list[Any] = []
    with scripted_peer(recorder(2, received)) as port:
        scene.know(peer_image(port))
        scene.send(UpdateMetadata(1, 1, 50, partitions, ()), lead(4))
        assert scene.channels._channels[PEER]._is_waiting
        scene.until_responses(2)
    states = received[0].topic_states[0].partition_states
    assert [partition_state.partition_index for partition_state in states] == list(range(20_000))


def test_broker_that_moves_while_its_request_is_encoded_gets_it(scene: Scene) -> None:
    partitions = tuple(update(3, index).partitions[0] for index in range(20_000))
    received: list[Any] = []
    with scripted_peer() as before, scripted_peer(recorder(1, received)) as after:
        scene.know(peer_image(before))
        scene.send(UpdateMetadata(1, 1, 50, partitions, ()))
        scene.know(peer_image(after))
        scene.until_responses(1)
    assert len(received[0].topic_states[0].partition_states) == 20_000


def test_errors_of_a_response_reach_the_controller(scene: Scene) -> None:
    errors = LeaderAndIsrTopicError(
        topic_id=TOPIC_ID,
        partition_errors=[
            LeaderAndIsrPartitionError(partition_index=0, error_code=ErrorCode.KAFKA_STORAGE_ERROR),
            LeaderAndIsrPartitionError(partition_index=1, error_code=ErrorCode.FENCED_LEADER_EPOCH),
            LeaderAndIsrPartitionError(partition_index=2, error_code=ErrorCode.NONE),
            LeaderAndIsrPartitionError(partition_index=3, error_code=4_000),
        ],
    )

    def script(peer: Peer) -> None:
        header, _ = peer.receive()
        peer.respond(header, LeaderAndIsrResponse(error_code=0, topics=[errors]))
        header, _ = peer.receive()
        peer.respond(header, UpdateMetadataResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))

    first = lead(6)
    request = LeaderAndIsr(
        1, 1, 50, tuple(lead(6, index).partitions[0] for index in range(4)), first.leaders
    )
    with scripted_peer(script) as port:
        scene.know(peer_image(port))
        scene.send(request, update(1))
        scene.until_responses(2)
    led, updated = (response for _, response in scene.responses)
    assert led.error is ErrorCode.NONE
    assert led.partition_errors == {
        TopicPartition("t", 0): ErrorCode.KAFKA_STORAGE_ERROR,
        TopicPartition("t", 1): ErrorCode.FENCED_LEADER_EPOCH,
        TopicPartition("t", 3): ErrorCode.UNKNOWN_SERVER_ERROR,
    }
    assert led.log_epochs == {TopicPartition("t", 1): 12}
    assert updated.error is ErrorCode.STALE_BROKER_EPOCH
