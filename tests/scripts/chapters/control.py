"""What brokers say to each other: AlterPartition, AllocateProducerIds, and the requests of a
controller of a later epoch than the real one, in every version."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from odradek.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from odradek.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from odradek.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from odradek.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from odradek.protocol.schema import ZERO_UUID
from tests.scripts.talk import Talk, metadata_of, versions_of

BROKER: Final = 0
"""The broker that is asked."""
LATER_EPOCH: Final = 100
STALE_BROKER_EPOCH: Final = 77
BROKER_EPOCHS: Final = range(5_000)
UNKNOWN_EPOCH: Final = -1
FUTURE_EPOCH: Final = 1 << 60
RECOVERING: Final = 1


def play(talk: Talk) -> None:
    """First to the controller that the broker is, then as another controller, then the end."""
    epoch = broker_epoch(talk)
    alter_partition(talk, epoch)
    allocate_producer_ids(talk, epoch)
    leader_and_isr(talk)
    update_metadata(talk)
    stop_replica(talk)
    controlled_shutdown(talk, epoch)


def topic_id(name: str, version: int) -> UUID:
    """An id that is the same in each run."""
    return UUID(bytes=f"{name:.<14}{version:02}".encode()[:16])


def broker_epoch(talk: Talk) -> int:
    """The broker epoch of the broker, found out by asking with each of the first ones."""
    for epoch in BROKER_EPOCHS:
        request = AlterPartitionRequest(broker_id=BROKER, broker_epoch=epoch, topics=[])
        if talk.quiet(request, 3).error_code != STALE_BROKER_EPOCH:
            return epoch
    raise AssertionError("the broker epoch is larger than that of a fresh broker")


def alter_partition(talk: Talk, epoch: int) -> None:
    """Every refusal, and a state that is there already."""
    id_of_altered = talk.make_topic("altered", 1)
    unknown = topic_id("never", 0)
    for version in versions_of(AlterPartitionRequest):

        def ask(
            name: str,
            *,
            isr: tuple[int, ...] = (BROKER,),
            topic: str = "altered",
            of: UUID = id_of_altered,
            index: int = 0,
            leader_epoch: int = 0,
            partition_epoch: int = 0,
            recovery: int = 0,
            sender: tuple[int, int] = (BROKER, epoch),
            version: int = version,
        ) -> None:
            data = AlterPartitionRequestPartitionData(
                partition_index=index,
                leader_epoch=leader_epoch,
                new_isr=list(isr) if version < 3 else [],
                new_isr_with_epochs=[
                    BrokerState(broker_id=broker_id) for broker_id in isr if version >= 3
                ],
                leader_recovery_state=recovery,
                partition_epoch=partition_epoch,
            )
            topics = [
                AlterPartitionRequestTopicData(topic_name=topic, topic_id=of, partitions=[data])
            ]
            request = AlterPartitionRequest(
                broker_id=sender[0], broker_epoch=sender[1], topics=topics
            )
            talk.ask(name, request, version)

        ask("an unknown broker", sender=(99, epoch))
        ask("an unknown broker epoch", sender=(BROKER, UNKNOWN_EPOCH))
        ask("an earlier broker epoch", sender=(BROKER, epoch - 1))
        ask("an unknown topic", topic="never", of=unknown)
        ask("an unknown partition", index=7)
        ask("a later leader epoch", leader_epoch=1)
        ask("a later partition epoch", partition_epoch=1)
        ask("an earlier leader epoch", leader_epoch=-1)
        ask("the state as it is")
        ask("the state as it is, of an earlier partition epoch", partition_epoch=-1)
        ask("an earlier partition epoch", isr=(BROKER, 5), partition_epoch=-1)
        ask("a replica that is not there", isr=(BROKER, 5))
        if version >= 1:
            ask("recovering again", recovery=RECOVERING)
            ask("recovering with two", recovery=RECOVERING, isr=(BROKER, 5))


def allocate_producer_ids(talk: Talk, epoch: int) -> None:
    """Blocks follow each other."""
    for name, broker, its_epoch in (
        ("an unknown broker", 99, epoch),
        ("an unknown broker epoch", BROKER, UNKNOWN_EPOCH),
        ("an earlier broker epoch", BROKER, epoch - 1),
        ("a first block", BROKER, epoch),
        ("a second block", BROKER, epoch),
    ):
        request = AllocateProducerIdsRequest(broker_id=broker, broker_epoch=its_epoch)
        talk.ask(f"producer ids: {name}", request, 0)


class Lead:
    """Asks with LeaderAndIsr of one version."""

    def __init__(self, talk: Talk, version: int) -> None:
        self.talk = talk
        self.version = version

    def __call__(
        self,
        name: str,
        topic: str,
        *,
        indexes: tuple[int, ...] = (0,),
        leader: int = BROKER,
        leader_epoch: int = 0,
        replicas: tuple[int, ...] = (BROKER,),
        of: UUID | None = None,
        controller_epoch: int = LATER_EPOCH,
        broker_epoch: int = UNKNOWN_EPOCH,
    ) -> None:
        version = self.version
        topic = f"{topic}-{version}"
        identity = topic_id(topic, version) if of is None else of
        states = [
            LeaderAndIsrPartitionState(
                topic_name=topic,
                partition_index=index,
                controller_epoch=controller_epoch,
                leader=leader,
                leader_epoch=leader_epoch,
                isr=[leader],
                partition_epoch=leader_epoch,
                replicas=list(replicas),
                is_new=leader_epoch == 0,
            )
            for index in indexes
        ]
        grouped = LeaderAndIsrTopicState(
            topic_name=topic, topic_id=identity, partition_states=states
        )
        request = LeaderAndIsrRequest(
            controller_id=BROKER,
            controller_epoch=controller_epoch,
            broker_epoch=broker_epoch,
            ungrouped_partition_states=states if version < 2 else [],
            topic_states=[grouped] if version >= 2 else [],
            live_leaders=[LeaderAndIsrLiveLeader(broker_id=leader, host_name="h", port=9)],
        )
        response = self.talk.quiet(request, version)
        response.partition_errors.sort(key=lambda error: error.partition_index)
        for topic_errors in response.topics:
            topic_errors.partition_errors.sort(key=lambda error: error.partition_index)
        label = f"lead: {name}, {ApiKey.LEADER_AND_ISR.name} v{version}"
        self.talk.write_response(label, response, version)


def leader_and_isr(talk: Talk) -> None:
    """A partition that is led, led again, followed, not here; epochs of all kinds."""
    for version in versions_of(LeaderAndIsrRequest):
        ask = Lead(talk, version)
        if version >= 2:
            ask("an earlier broker epoch", "stale", indexes=(0, 1), broker_epoch=0)
        ask("a new partition", "led")
        ask("an earlier controller epoch", "stale", indexes=(0, 1), controller_epoch=0)
        ask("the same leader epoch", "led")
        ask("a later leader epoch", "led", leader_epoch=3)
        ask("an earlier leader epoch", "led", leader_epoch=2)
        ask("one known, two new", "led", leader_epoch=3, indexes=(0, 1, 2))
        ask("not a replica", "elsewhere", leader=1, replicas=(1, 2))
        ask("a follower of an unknown broker", "followed", leader=1, replicas=(1, BROKER))
        ask("a leader that was a follower", "followed", leader_epoch=1, replicas=(1, BROKER))
        ask("a follower that was a leader", "led", leader=1, leader_epoch=4, replicas=(BROKER, 1))
        ask("no partition", "none", indexes=())
        if version >= 5:
            other = topic_id("other", version)
            ask("another topic id", "led", leader_epoch=9, of=other)
            ask("no topic id", "led", leader_epoch=9, of=ZERO_UUID)


def update_metadata(talk: Talk) -> None:
    """Brokers, partitions, a deletion, and what Metadata shows then."""
    for version in versions_of(UpdateMetadataRequest):
        name = f"shown-{version}"

        def ask(
            step: str,
            leader: int,
            *,
            version: int = version,
            name: str = name,
            indexes: tuple[int, ...] = (0, 1),
            controller_epoch: int = LATER_EPOCH,
            broker_epoch: int = UNKNOWN_EPOCH,
        ) -> None:
            request = metadata_request(
                talk, version, name, leader, indexes, controller_epoch, broker_epoch
            )
            talk.ask(f"metadata: {step}", request, version)

        if version >= 5:
            ask("an earlier broker epoch", BROKER, broker_epoch=0)
        ask("an earlier controller epoch", BROKER, controller_epoch=0)
        ask("a new topic", BROKER)
        shown(talk, f"a topic of v{version}", name)
        ask("a leader that is not there", 9)
        shown(talk, f"a topic of v{version} led by none", name)
        ask("only brokers", BROKER, indexes=())
        ask("the end of the topic", -2)
        shown(talk, f"a topic of v{version} after its end", name)
    without_listener(talk)


def without_listener(talk: Talk) -> None:
    """A leader that has no endpoint of the client's listener."""
    request = metadata_request(talk, 8, "hidden", 7, (0,), LATER_EPOCH, UNKNOWN_EPOCH)
    request.live_brokers[1].endpoints[0].listener = "OTHER"
    talk.ask("metadata: a leader of another listener", request, 8)
    for version in versions_of(MetadataRequest):
        topic = MetadataRequestTopic(name="hidden")
        shown_topic = MetadataRequest(topics=[topic], allow_auto_topic_creation=version < 4)
        talk.ask("a leader of another listener as clients see it", shown_topic, version)


def metadata_request(
    talk: Talk,
    version: int,
    name: str,
    leader: int,
    indexes: tuple[int, ...],
    controller_epoch: int,
    broker_epoch: int,
) -> UpdateMetadataRequest:
    """Two brokers, this one and one without a process, and partitions of one topic."""
    states = [
        UpdateMetadataPartitionState(
            topic_name=name,
            partition_index=index,
            controller_epoch=controller_epoch,
            leader=leader,
            leader_epoch=5,
            isr=[BROKER],
            zk_version=6,
            replicas=[BROKER, 7],
            offline_replicas=[7] if version >= 4 else [],
        )
        for index in indexes
    ]
    grouped = UpdateMetadataTopicState(
        topic_name=name, topic_id=topic_id(name, version), partition_states=states
    )
    host, port = talk.address.rsplit(":", 1)
    return UpdateMetadataRequest(
        controller_id=BROKER,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        ungrouped_partition_states=states if version < 5 else [],
        topic_states=[grouped] if version >= 5 and indexes else [],
        live_brokers=[
            UpdateMetadataBroker(
                id=number,
                v0_host=host,
                v0_port=int(port),
                endpoints=[
                    UpdateMetadataEndpoint(
                        port=int(port), host=host, listener="PLAINTEXT", security_protocol=0
                    )
                ],
                rack="r" if version >= 2 else None,
            )
            for number in (BROKER, 7)
        ],
    )


def shown(talk: Talk, step: str, name: str) -> None:
    """What clients see."""
    response = talk.quiet(metadata_of([name]), 12)
    response.brokers.sort(key=lambda broker: broker.node_id)
    for topic in response.topics:
        topic.partitions.sort(key=lambda partition: partition.partition_index)
    talk.write_response(f"metadata: {step} as clients see it", response, 12)


def stop_replica(talk: Talk) -> None:
    """Replicas of the partitions that LeaderAndIsr made."""
    for version in versions_of(StopReplicaRequest):

        def ask(
            step: str,
            topic: str,
            *,
            version: int = version,
            is_deleted: bool = True,
            leader_epoch: int = UNKNOWN_EPOCH,
            controller_epoch: int = LATER_EPOCH,
            broker_epoch: int = UNKNOWN_EPOCH,
        ) -> None:
            request = StopReplicaRequest(
                controller_id=BROKER,
                controller_epoch=controller_epoch,
                broker_epoch=broker_epoch,
                delete_partitions=is_deleted if version < 3 else False,
                ungrouped_partitions=[
                    StopReplicaPartitionV0(topic_name=topic, partition_index=0)
                    for _ in range(version == 0)
                ],
                topics=[
                    StopReplicaTopicV1(name=topic, partition_indexes=[0])
                    for _ in range(version in (1, 2))
                ],
                topic_states=[
                    StopReplicaTopicState(
                        topic_name=topic,
                        partition_states=[
                            StopReplicaPartitionState(
                                partition_index=0,
                                leader_epoch=leader_epoch,
                                delete_partition=is_deleted,
                            )
                        ],
                    )
                    for _ in range(version >= 3)
                ],
            )
            talk.ask(f"stop: {step}", request, version)

        led = f"led-{version}"
        if version >= 1:
            ask("an earlier broker epoch", led, broker_epoch=0)
        ask("an earlier controller epoch", led, controller_epoch=0)
        ask("an unknown partition", "never")
        ask("an unknown partition that stays", "never", is_deleted=False)
        if version >= 3:
            ask("an earlier leader epoch", led, leader_epoch=2)
            ask("the leader epoch of a deletion", f"followed-{version}", leader_epoch=-2)
        ask("a replica that stays", led, is_deleted=False, leader_epoch=9)
        ask("a replica", led, leader_epoch=9)
        ask("a replica that was stopped", led, leader_epoch=9)


def controlled_shutdown(talk: Talk, epoch: int) -> None:
    """Of brokers that are not there, and of the broker itself, which goes on."""
    for version in versions_of(ControlledShutdownRequest):

        def ask(step: str, broker: int, its_epoch: int, version: int = version) -> Any:
            request = ControlledShutdownRequest(broker_id=broker, broker_epoch=its_epoch)
            response = talk.quiet(request, version)
            response.remaining_partitions.sort(
                key=lambda error: (error.topic_name, error.partition_index)
            )
            label = f"shutdown: {step}, {ApiKey.CONTROLLED_SHUTDOWN.name} v{version}"
            talk.write_response(label, response, version)

        ask("an unknown broker", 99, UNKNOWN_EPOCH)
        if version >= 2:
            ask("an unknown broker with an epoch", 99, epoch)
            ask("an earlier broker epoch", BROKER, epoch - 1)
            ask("a later broker epoch", BROKER, FUTURE_EPOCH)
        ask("the broker", BROKER, epoch if version >= 2 else UNKNOWN_EPOCH)
