"""Requests to the active controller: found, lost, replaced, or this broker itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, cast
from uuid import UUID

import pytest

from odradek.broker.interbroker.controller_channel import ControllerChannel
from odradek.broker.interbroker.network_client import Disconnected
from odradek.controller.controller import Controller
from odradek.controller.decide.isr import AlterIsr
from odradek.controller.image.image import BrokerImage, Endpoint, Image, PartitionState
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from odradek.protocol.messages.alter_partition import (
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from odradek.protocol.messages.controlled_shutdown import (
    ControlledShutdownResponse,
    RemainingPartition,
)
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.pending import Pending
from tests.support.client_loop import ClientLoop
from tests.support.peer import Peer, scripted_peer

ME = 2
EPOCH = 77
IDS = {"a": UUID(int=1), "b": UUID(int=2)}
LISTENER = "INTERNAL"
PROPOSALS = [
    ("a", AlterIsr(0, 3, (2, 1), 5, broker_epochs={1: 40})),
    ("b", AlterIsr(4, 1, (2,), 9)),
    ("a", AlterIsr(1, 3, (2,), 6)),
]


class OwnController:
    """What a broker knows of the controller, and the calls to its own one."""

    def __init__(self) -> None:
        self.requests = self
        self.broker_id = ME
        self.broker_epoch = EPOCH
        self.controller_id = -1
        self.image = Image()
        self.calls: list[Any] = []
        self.responses: list[Pending[Any]] = []

    def elect(self, broker_id: int, port: int) -> None:
        endpoint = Endpoint(LISTENER, "127.0.0.1", port, "PLAINTEXT")
        self.controller_id = broker_id
        self.image = self.image.with_brokers([BrokerImage(broker_id, 1, (endpoint,))])

    def alter_isr(
        self, broker_id: int, broker_epoch: int, proposals: Sequence[Any]
    ) -> Pending[Any]:
        self.calls.append((broker_id, broker_epoch, proposals))
        return self.responses.pop(0)


class Scene:
    def __init__(self, *, timeout_ms: int = 60_000) -> None:
        self.loop = ClientLoop()
        self.controller = OwnController()
        self.channel = ControllerChannel(
            cast(Controller, self.controller),
            self.loop.clients,
            self.loop.wheel,
            self.loop.clock,
            topic_id=lambda topic, index: IDS[topic],
            listener_name=LISTENER,
            timeout_ms=timeout_ms,
        )

    def close(self) -> None:
        self.channel.close()
        self.loop.close()


@pytest.fixture
def scene() -> Iterator[Scene]:
    with closing(Scene()) as made:
        yield made


def altered(index: int, error: int = 0, epoch: int = 0) -> AlterPartitionResponsePartitionData:
    return AlterPartitionResponsePartitionData(
        partition_index=index,
        error_code=error,
        leader_id=2,
        leader_epoch=3,
        isr=[2],
        partition_epoch=epoch,
    )


def accepted() -> AlterPartitionResponse:
    """In another order than that of the request; partition 1 of topic a is left out."""
    return AlterPartitionResponse(
        error_code=0,
        topics=[
            AlterPartitionResponseTopicData(topic_id=IDS["b"], partitions=[altered(4, 95)]),
            AlterPartitionResponseTopicData(topic_id=IDS["a"], partitions=[altered(0, epoch=6)]),
        ],
    )


def refusing(error: ErrorCode) -> Callable[[Peer], None]:
    def script(peer: Peer) -> None:
        header, _ = peer.receive()
        peer.respond(header, AlterPartitionResponse(error_code=error, topics=[]))
        assert peer.has_ended()

    return script


def accept(peer: Peer) -> None:
    header, _ = peer.receive()
    peer.respond(header, accepted())


EXPECTED = [
    PartitionState(2, 3, (2,), 6, -1),
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.UNKNOWN_SERVER_ERROR,
]


def test_alter_partition_names_topics_by_id_and_gives_broker_epochs(scene: Scene) -> None:
    received: list[Any] = []

    def script(peer: Peer) -> None:
        header, request = peer.receive()
        received.append((header.version, header.client_id, request))
        peer.respond(header, accepted())

    with scripted_peer(script) as port:
        scene.controller.elect(1, port)
        assert scene.loop.result(scene.channel.alter(PROPOSALS)) == EXPECTED
    ((version, client_id, request),) = received
    assert (version, client_id) == (3, "2")
    assert (request.broker_id, request.broker_epoch) == (ME, EPOCH)
    first, second = request.topics
    assert (first.topic_id, second.topic_id) == (IDS["a"], IDS["b"])
    isr = first.partitions[0].new_isr_with_epochs
    assert [(replica.broker_id, replica.broker_epoch) for replica in isr] == [(2, -1), (1, 40)]
    assert [partition.partition_index for partition in first.partitions] == [0, 1]
    partition = first.partitions[0]
    assert (partition.leader_epoch, partition.partition_epoch, partition.leader_recovery_state) == (
        3,
        5,
        0,
    )


def test_request_waits_for_a_controller_and_for_its_endpoint(scene: Scene) -> None:
    pending = scene.channel.alter(PROPOSALS)
    scene.loop.turn()
    scene.controller.controller_id = 1
    scene.loop.turn()
    assert not pending.is_done
    with scripted_peer(accept) as port:
        scene.controller.elect(1, port)
        assert scene.loop.result(pending) == EXPECTED


def test_request_fails_when_there_is_no_controller_in_time() -> None:
    with (
        closing(Scene(timeout_ms=120)) as scene,
        pytest.raises(Disconnected, match="no controller"),
    ):
        scene.loop.result(scene.channel.alter(PROPOSALS))


def test_request_is_sent_again_after_its_connection_ended(scene: Scene) -> None:
    def hang_up(peer: Peer) -> None:
        peer.receive()

    with scripted_peer(hang_up, accept) as port:
        scene.controller.elect(1, port)
        assert scene.loop.result(scene.channel.alter(PROPOSALS)) == EXPECTED


def test_request_goes_to_the_new_controller_after_not_controller(scene: Scene) -> None:
    with (
        scripted_peer(refusing(ErrorCode.NOT_CONTROLLER)) as before,
        scripted_peer(accept) as after,
    ):
        scene.controller.elect(1, before)
        pending = scene.channel.alter(PROPOSALS)
        scene.loop.until(lambda: scene.channel._client is not None, "a connection")
        scene.loop.turn()
        scene.controller.elect(3, after)
        assert scene.loop.result(pending) == EXPECTED
        scene.loop.turn()


def test_request_leaves_a_silent_broker_that_is_no_longer_the_controller(scene: Scene) -> None:
    received: list[Any] = []

    def hold(peer: Peer) -> None:
        received.append(peer.receive())
        assert peer.has_ended()

    with scripted_peer(hold) as silent, scripted_peer(accept) as after:
        scene.controller.elect(1, silent)
        pending = scene.channel.alter(PROPOSALS)
        scene.loop.until(lambda: received, "the request")
        scene.controller.elect(3, after)
        assert scene.loop.result(pending) == EXPECTED


def test_refusal_of_the_whole_request_fails_it(scene: Scene) -> None:
    with scripted_peer(refusing(ErrorCode.STALE_BROKER_EPOCH)) as port:
        scene.controller.elect(1, port)
        with pytest.raises(BrokerError) as raised:
            scene.loop.result(scene.channel.alter(PROPOSALS))
        scene.channel.close()
        for _ in range(3):
            scene.loop.turn()
    assert raised.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_request_has_the_broker_epoch_of_its_attempt(scene: Scene) -> None:
    epochs: list[int] = []

    def register_again(peer: Peer) -> None:
        epochs.append(peer.receive()[1].broker_epoch)
        scene.controller.broker_epoch = 99

    def script(peer: Peer) -> None:
        header, request = peer.receive()
        epochs.append(request.broker_epoch)
        peer.respond(header, accepted())

    with scripted_peer(register_again, script) as port:
        scene.controller.elect(1, port)
        scene.loop.result(scene.channel.alter(PROPOSALS))
    assert epochs == [EPOCH, 99]


def test_request_to_this_broker_is_a_call_which_is_repeated_elsewhere(scene: Scene) -> None:
    own = scene.controller
    own.controller_id = ME
    own.responses = [Pending.failed(BrokerError(ErrorCode.NOT_CONTROLLER)), Pending.of([5])]
    assert scene.loop.result(scene.channel.alter(PROPOSALS)) == [5]
    assert own.calls == [(ME, EPOCH, PROPOSALS)] * 2
    own.responses = [Pending.failed(BrokerError(ErrorCode.NOT_CONTROLLER))]
    pending = scene.channel.alter(PROPOSALS)
    with scripted_peer(accept) as port:
        own.elect(1, port)
        assert scene.loop.result(pending) == EXPECTED


def test_block_of_producer_ids_and_remaining_partitions_are_returned(scene: Scene) -> None:
    received: list[Any] = []

    def script(peer: Peer) -> None:
        header, request = peer.receive()
        received.append(request)
        peer.respond(
            header,
            AllocateProducerIdsResponse(
                error_code=0, producer_id_start=4_000, producer_id_len=1_000
            ),
        )
        header, request = peer.receive()
        received.append(request)
        left = RemainingPartition(topic_name="a", partition_index=3)
        peer.respond(header, ControlledShutdownResponse(error_code=0, remaining_partitions=[left]))

    with scripted_peer(script) as port:
        scene.controller.elect(1, port)
        ids, left = scene.channel.allocate_producer_ids(), scene.channel.shut_down()
        assert scene.loop.result(ids) == (4_000, 1_000)
        assert scene.loop.result(left) == [TopicPartition("a", 3)]
    assert [(request.broker_id, request.broker_epoch) for request in received] == [(ME, EPOCH)] * 2


def test_close_fails_requests_that_wait(scene: Scene) -> None:
    pending = scene.channel.alter(PROPOSALS)
    scene.channel.close()
    with pytest.raises(Disconnected):
        scene.loop.result(pending)
    with pytest.raises(Disconnected):
        scene.channel.shut_down().result()
