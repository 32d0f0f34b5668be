"""Markers and verifications of a coordinator on another broker, which is a real one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count

import pytest

from odradek.broker.topics import Topics
from odradek.broker.transaction.broker_clients import BrokerClients
from odradek.broker.transaction.marker_writer import BrokerMarkerWriter
from odradek.broker.transaction.markers import TxnMarker
from odradek.broker.transaction.verifier import CoordinatorVerifier
from odradek.broker.transaction_verifier import PartitionErrors, VerifiedTransaction
from odradek.controller.image.image import Image
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.testing.memory_files import MemoryFileSystem
from tests.broker.transaction.stored_broker import (
    FOLDER,
    HERE,
    LISTENER,
    STATE,
    T_0,
    T_1,
    StoredBroker,
    image_of,
)
from tests.scripts.chapters.batches import batch, produce_request
from tests.scripts.chapters.cluster import TRANSACTION, wait_for_coordinator
from tests.scripts.chapters.offsets import LATEST, where
from tests.scripts.chapters.transaction_coordinator import add_request, begin
from tests.scripts.talk import Talk
from tests.support.client_loop import ClientLoop, client_loop
from tests.support.node_thread import running_node
from tests.support.peer import Peer, scripted_peer

OTHER, UNREGISTERED = 2, 3
NONE = ErrorCode.NONE
NOWHERE = TopicPartition("nowhere", 0)
Producer = tuple[int, int]


class Scene:
    """A broker in memory, the clients that it has, and the address of the other broker."""

    def __init__(self, loop: ClientLoop, port: int) -> None:
        self.loop = loop
        self.broker = StoredBroker(MemoryFileSystem(folders=[FOLDER]), 1)
        self.image = {T_0: OTHER, T_1: HERE, STATE: OTHER}
        self.move(port)
        topics = Topics(self.broker.cache)
        self.verifier = CoordinatorVerifier(
            self.broker.coordinator,
            topics,
            loop.clients,
            self.broker.context,
            broker_id=HERE,
            listener_name=LISTENER,
        )
        broker = self.broker
        self.writer = BrokerMarkerWriter(
            broker.write_here,
            BrokerClients(loop.clients, topics, listener_name=LISTENER, client_id="1"),
            topics,
            broker.context,
            broker_id=HERE,
        )

    def move(self, port: int) -> None:
        """The other broker has another address."""
        self.broker.cache.image = image_of(self.image, {OTHER: ("127.0.0.1", port)})

    def verify(
        self, name: str, producer: Producer, *places: TopicPartition, adds: bool = False
    ) -> PartitionErrors:
        asked = VerifiedTransaction(name, *producer, places, adds_partitions=adds)
        errors: PartitionErrors = self.loop.result(self.verifier.verify(asked))
        return errors

    def write(
        self,
        producer: Producer,
        *places: TopicPartition,
        broker: int = OTHER,
        epoch: int = 0,
        version: int = 0,
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Commit markers; the errors."""
        marker = TxnMarker(*producer, epoch, is_commit=True, transaction_version=version)
        results = self.loop.result(self.writer.write(broker, [(marker, list(places))]))
        return {place: error for (_, place), error in results.items()}

    def close(self) -> None:
        self.verifier.close()
        self.writer.close()


@contextmanager
def scene_with(port: int) -> Iterator[Scene]:
    with client_loop() as loop:
        scene = Scene(loop, port)
        try:
            yield scene
        finally:
            scene.close()


def port_of(address: str) -> int:
    return int(address.rsplit(":", 1)[1])


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talk]:
    """A conversation with the other broker, which coordinates and has a topic."""
    with running_node(tmp_path_factory.mktemp("node")) as address:
        talk = Talk(address)
        talk.make_topic(T_0.topic, 2)
        wait_for_coordinator(talk, TRANSACTION)
        yield talk
        talk.close()


@pytest.fixture
def scene(talk: Talk) -> Iterator[Scene]:
    with scene_with(port_of(talk.address)) as connected:
        yield connected


NUMBERS = count()


def opened(talk: Talk, name: str | None = None) -> tuple[str, Producer]:
    """A transaction with a record in partition 0."""
    name = name or f"tx-{next(NUMBERS)}"
    producer = begin(talk, name)
    added = talk.quiet(add_request(name, producer, 0, topic=T_0.topic), 3)
    assert not any(
        partition.partition_error_code
        for topic in added.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    )
    content = batch(
        1,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=0,
        is_transactional=True,
    )
    request = produce_request(T_0.topic, content, transactional_id=name)
    response = talk.quiet(request, 9)
    assert response.responses[0].partition_responses[0].error_code == 0
    return name, producer


def is_stable(talk: Talk) -> bool:
    """Whether partition 0 of the other broker has no open transaction."""
    ends = [
        talk.quiet(where(LATEST, topic=T_0.topic, isolation=isolation), 6) for isolation in (0, 1)
    ]
    high, stable = (int(response.topics[0].partitions[0].offset) for response in ends)
    return high == stable


def test_coordinator_on_another_broker_verifies_what_was_added_and_nothing_else(
    talk: Talk, scene: Scene
) -> None:
    name, producer = opened(talk)
    producer_id, epoch = producer
    abortable = ErrorCode.TRANSACTION_ABORTABLE
    assert scene.verify(name, producer, T_0, T_1) == {T_0: NONE, T_1: abortable}
    assert scene.verify(name, (producer_id, epoch + 1), T_0) == {T_0: ErrorCode.PRODUCER_FENCED}
    unknown = {T_0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert scene.verify("unknown", producer, T_0) == unknown
    assert scene.verify(name, producer, T_1, adds=True) == {T_1: NONE}
    assert scene.verify(name, producer, T_0, T_1) == {T_0: NONE, T_1: NONE}
    assert scene.write(producer, T_0) == {T_0: NONE}


def test_marker_ends_the_transaction_at_the_leader_on_another_broker(
    talk: Talk, scene: Scene
) -> None:
    _, producer = opened(talk)
    assert not is_stable(talk)
    assert scene.write(producer, T_0, NOWHERE) == {
        T_0: NONE,
        NOWHERE: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert is_stable(talk)
    older = (producer[0], producer[1] - 1)
    assert scene.write(older, T_0) == {T_0: ErrorCode.INVALID_PRODUCER_EPOCH}
    assert scene.write(producer, T_0, epoch=2) == {T_0: NONE}
    assert scene.write(producer, T_0, epoch=1) == {T_0: ErrorCode.TRANSACTION_COORDINATOR_FENCED}


def test_late_marker_of_version_2_does_not_end_the_next_transaction(
    talk: Talk, scene: Scene
) -> None:
    name, _ = opened(talk)
    _, (producer_id, epoch) = opened(talk, name)
    of_the_last = producer_id, epoch
    assert scene.write(of_the_last, T_0, version=2) == {T_0: ErrorCode.INVALID_PRODUCER_EPOCH}
    assert not is_stable(talk)
    ended = producer_id, epoch + 1
    assert scene.write(ended, T_0, version=2) == {T_0: NONE}
    assert is_stable(talk)
    assert scene.write(ended, T_0, version=2) == {T_0: NONE}, "a marker may be repeated"
    assert scene.write(of_the_last, T_0, version=2) == {T_0: ErrorCode.INVALID_PRODUCER_EPOCH}


def test_broker_that_comes_back_at_another_address_is_reached_there(
    talk: Talk, scene: Scene
) -> None:
    name, producer = opened(talk)

    def ends(peer: Peer) -> None:
        peer.receive()

    with scripted_peer(ends, ends) as port:
        scene.move(port)
        assert scene.verify(name, producer, T_0) == {T_0: ErrorCode.NETWORK_EXCEPTION}
        with pytest.raises(BrokerError):
            scene.write(producer, T_0)
    scene.move(port_of(talk.address))
    assert scene.verify(name, producer, T_0) == {T_0: NONE}
    assert scene.write(producer, T_0) == {T_0: NONE}


def test_verification_without_a_reachable_coordinator_says_so() -> None:
    with scene_with(1) as scene:
        unavailable = {T_0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert scene.verify("tx", (1, 0), T_0) == {T_0: ErrorCode.NETWORK_EXCEPTION}
        scene.image[STATE] = UNREGISTERED
        scene.move(1)
        assert scene.verify("tx", (1, 0), T_0) == unavailable
        scene.image[STATE] = -1
        scene.move(1)
        assert scene.verify("tx", (1, 0), T_0) == unavailable
        scene.broker.cache.image = Image()
        assert scene.verify("tx", (1, 0), T_0) == unavailable


def test_coordinator_of_this_broker_is_asked_without_a_connection() -> None:
    with scene_with(1) as scene:
        scene.image[STATE] = HERE
        scene.move(1)
        producer = scene.broker.begin()
        places = {T_0: NONE, NOWHERE: ErrorCode.TRANSACTION_ABORTABLE}
        assert scene.verify("transfers", producer, *places) == places
        assert scene.verify("transfers", producer, NOWHERE, adds=True) == {NOWHERE: NONE}
        assert scene.verify("transfers", producer, NOWHERE) == {NOWHERE: NONE}
        scene.broker.coordinator.resign(STATE.partition)
        lost = {T_0: ErrorCode.NOT_COORDINATOR}
        assert scene.verify("transfers", producer, T_0) == lost


def test_verifications_share_a_request_while_another_one_is_in_flight() -> None:
    requests: list[list[str]] = []

    def serve(peer: Peer) -> None:
        for _ in range(3):
            header, request = peer.receive()
            requests.append([transaction.transactional_id for transaction in request.transactions])
            peer.respond(
                header,
                AddPartitionsToTxnResponse(
                    results_by_transaction=[
                        AddPartitionsToTxnResult(
                            transactional_id=transaction.transactional_id,
                            topic_results=[
                                AddPartitionsToTxnTopicResult(
                                    name=topic.name,
                                    results_by_partition=[
                                        AddPartitionsToTxnPartitionResult(
                                            partition_index=index, partition_error_code=0
                                        )
                                        for index in topic.partitions
                                    ],
                                )
                                for topic in transaction.topics
                            ],
                        )
                        for transaction in request.transactions
                    ]
                ),
            )

    with scripted_peer(serve) as port, scene_with(port) as scene:
        verified = [
            scene.verifier.verify(VerifiedTransaction(name, 1, 0, (T_0,)))
            for name in ("a", "b", "c", "b")
        ]
        assert [scene.loop.result(verification) for verification in verified] == [{T_0: NONE}] * 4
    assert requests == [["a"], ["b", "c"], ["b"]]


def test_error_of_a_whole_response_is_that_of_each_partition() -> None:
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    def serve(peer: Peer) -> None:
        header, _ = peer.receive()
        peer.respond(header, AddPartitionsToTxnResponse(error_code=refused))

    with scripted_peer(serve) as port, scene_with(port) as scene:
        assert scene.verify("tx", (1, 0), T_0, T_1) == {T_0: refused, T_1: refused}


def test_markers_of_this_broker_are_appended_without_a_connection() -> None:
    with scene_with(1) as scene:
        broker = scene.broker
        producer = broker.begin()
        broker.write(producer, 1)
        assert not broker.is_stable()
        errors = scene.write(producer, T_0, T_1, NOWHERE, broker=HERE, epoch=1)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert errors == {T_0: NONE, T_1: NONE, NOWHERE: unknown}
        assert broker.outcomes(T_0, producer) == broker.outcomes(T_1, producer) == [True]


def test_leader_of_a_partition_is_that_of_the_image() -> None:
    with scene_with(1) as scene:
        leader_of = scene.writer.leader_of
        assert leader_of(T_0) == OTHER
        assert leader_of(NOWHERE) is None
        scene.image[T_0] = -1
        scene.move(1)
        assert leader_of(T_0) == -1
        # Before there is an image nothing is known to be deleted.
        scene.broker.cache.image = Image()
        assert leader_of(T_0) == -1


def test_write_to_a_broker_that_is_not_registered_fails() -> None:
    with scene_with(1) as scene, pytest.raises(BrokerError):
        scene.write((1, 0), T_0, broker=UNREGISTERED)
