"""ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments, of a single broker.

One partition a request: Apache Kafka returns several in the order of a hash map.
"""

from __future__ import annotations

from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.scripts.talk import Talk, versions_of

PREFERRED, UNCLEAN = range(2)
ABSENT = 9
"""The id of a broker that does not exist."""


def play(talk: Talk) -> None:
    """One topic with its replica here, one with a replica on a broker that does not exist."""
    talk.make_topic("here")
    half = CreatableReplicaAssignment(partition_index=0, broker_ids=[ABSENT, 0])
    topic = CreatableTopic(
        name="half", num_partitions=-1, replication_factor=-1, assignments=[half], configs=[]
    )
    made = talk.quiet(CreateTopicsRequest(topics=[topic]), 7)
    assert made.topics[0].error_code == 0, made
    talk.wait_for_topic("half", 1)
    elections(talk)
    refused_moves(talk)
    moves(talk)


def elections(talk: Talk) -> None:
    """That are not needed, not possible, not of this world."""
    for version in versions_of(ElectLeadersRequest):
        for kind in (PREFERRED, UNCLEAN) if version else (PREFERRED,):
            for name, index in (("here", 0), ("here", 7), ("half", 0), ("nowhere", 0)):
                request = ElectLeadersRequest(
                    election_type=kind,
                    topic_partitions=[TopicPartitions(topic=name, partitions=[index])],
                )
                talk.ask(f"election {kind} of {name}-{index}", request, version)
            request = ElectLeadersRequest(election_type=kind, topic_partitions=None)
            talk.ask(f"election {kind} of all", request, version)
            request = ElectLeadersRequest(election_type=kind, topic_partitions=[])
            talk.ask(f"election {kind} of none", request, version)
    named = [TopicPartitions(topic="here", partitions=[0])]
    for name, partitions in (("one", named), ("all", None)):
        request = ElectLeadersRequest(election_type=5, topic_partitions=partitions)
        talk.ask(f"election of an unknown type, {name}", request, 2)


def refused_moves(talk: Talk) -> None:
    """Targets that cannot be."""
    for name, index, target in (
        ("here", 0, []),
        ("here", 0, [0, 0]),
        ("here", 0, [0, -1]),
        ("here", 0, [ABSENT]),
        ("here", 0, [8, 0, ABSENT]),
        ("here", 0, None),
        ("here", 7, [0]),
        ("here", 7, [ABSENT]),
        ("here", 7, None),
        ("nowhere", 0, [0]),
        ("nowhere", 0, []),
        ("nowhere", 0, None),
        ("", 0, [0]),
    ):
        talk.ask(f"{name!r}-{index} to {target}", move(name, index, target), 0)
    talk.ask("no moves", AlterPartitionReassignmentsRequest(topics=[]), 0)
    talk.ask("all moves", ListPartitionReassignmentsRequest(topics=None), 0)
    for name, index in (("here", 0), ("here", 7), ("nowhere", 0)):
        topic = ListPartitionReassignmentsTopics(name=name, partition_indexes=[index])
        request = ListPartitionReassignmentsRequest(topics=[topic])
        talk.ask(f"the move of {name}-{index}", request, 0)
    talk.ask("the moves of none", ListPartitionReassignmentsRequest(topics=[]), 0)


def moves(talk: Talk) -> None:
    """To where it is, in another order, and away from the absent broker."""
    for name, index, target in (
        ("here", 0, [0]),
        ("half", 0, [0, ABSENT]),
        ("half", 0, [0]),
        ("half", 0, None),
    ):
        talk.ask(f"then {name}-{index} to {target}", move(name, index, target), 0)
        talk.ask(f"moves after {name} to {target}", ListPartitionReassignmentsRequest(), 0)


def move(name: str, index: int, target: list[int] | None) -> AlterPartitionReassignmentsRequest:
    """One partition."""
    partition = ReassignablePartition(partition_index=index, replicas=target)
    topic = ReassignableTopic(name=name, partitions=[partition])
    return AlterPartitionReassignmentsRequest(topics=[topic])
