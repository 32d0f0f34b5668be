"""A pipeline of batches that is split by a change of the leader keeps its order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.records.batch import NO_PRODUCER_ID
from tests.cluster.reassigning import move
from tests.scripts.chapters.batches import batch, produce_to
from tests.support.broker_cluster import BrokerCluster, broker_cluster
from tests.support.wire import Wire

PRODUCE_VERSION = 9
INIT_VERSION = 4
OLD_LEADER, NEW_LEADER = 1, 2


@pytest.fixture(scope="module")
def cluster(ensemble: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """Three brokers for all tests, each of which has a topic of its own."""
    folder = tmp_path_factory.mktemp("cluster")
    with broker_cluster(folder, zookeeper_connect=f"{ensemble}/{folder.name}") as cluster:
        yield cluster


def request(topic: str, producer_id: int, sequence: int) -> ProduceRequest:
    """A batch of one record; without a producer it has no sequence."""
    is_idempotent = producer_id != NO_PRODUCER_ID
    content = batch(
        1,
        producer_id=producer_id,
        producer_epoch=0 if is_idempotent else -1,
        base_sequence=sequence,
    )
    return produce_to([(topic, 0, content)])


def produce(wire: Wire, topic: str, producer_id: int, sequence: int = -1) -> ErrorCode:
    (response,) = wire.call(request(topic, producer_id, sequence), PRODUCE_VERSION).responses
    return ErrorCode(response.partition_responses[0].error_code)


@pytest.mark.parametrize("refusing", [OLD_LEADER, NEW_LEADER])
@pytest.mark.parametrize("replicas", [[1, 2], [1]], ids=["follower", "no replica"])
@pytest.mark.parametrize("stored", [0, 1], ids=["first batch", "later batch"])
def test_batch_after_one_that_was_refused_while_the_leader_changed_waits_for_it(
    cluster: BrokerCluster, replicas: list[int], refusing: int, stored: int
) -> None:
    """Of two batches in flight the first is refused, by the new leader before it leads or by the
    old one after it did, and the second comes to the new leader."""
    topic = f"records-{len(replicas)}-{refusing}-{stored}"
    cluster.create_topic(topic, assignment={0: replicas}, configs={"min.insync.replicas": "1"})
    with (
        Wire(cluster.brokers[OLD_LEADER].address) as old,
        Wire(cluster.brokers[NEW_LEADER].address) as new,
    ):
        init = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        producer_id = old.call(init, INIT_VERSION).producer_id
        for sequence in range(stored):
            assert produce(old, topic, producer_id, sequence) is ErrorCode.NONE
        if refusing == NEW_LEADER:
            assert produce(new, topic, producer_id, stored) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        move(cluster, topic, {0: [NEW_LEADER]})
        cluster.wait(
            lambda: produce(new, topic, NO_PRODUCER_ID) is ErrorCode.NONE,
            f"broker {NEW_LEADER} leading",
        )
        if refusing == OLD_LEADER:
            assert produce(old, topic, producer_id, stored) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert produce(new, topic, producer_id, stored + 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        repeated = [produce(new, topic, producer_id, stored + number) for number in range(3)]
        assert repeated == [ErrorCode.NONE] * 3
