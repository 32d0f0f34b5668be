"""Values of the controller survive their way through the messages of every version."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.interbroker.wire.alter_partition import (
    alter_partition_message,
    alter_partition_proposals,
)
from odradek.broker.interbroker.wire.control_messages import (
    leader_and_isr_message,
    leader_and_isr_value,
    stop_replica_message,
    stop_replica_value,
    update_metadata_message,
    update_metadata_value,
)
from odradek.controller.decide.isr import AlterIsr
from odradek.controller.image.control_requests import (
    LeaderAndIsr,
    LeaderAndIsrPartition,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
    UpdateMetadataPartition,
)
from odradek.controller.image.image import BrokerImage, Endpoint, PartitionState
from odradek.protocol.compiler import decoder, encoder
from tests.support.handlers import outcome_of

LISTENER = "INTERNAL"
NUMBERS = st.integers(-2, 2**31 - 1)
BROKER_IDS = st.integers(0, 2**31 - 1)
SETS = st.lists(BROKER_IDS, max_size=4, unique=True).map(tuple)
KEYS = st.lists(
    st.tuples(st.sampled_from(("a", "b", "c")), st.integers(0, 200)), max_size=150, unique=True
).map(sorted)
"""By topic: a message has them in this order."""
STATES = st.builds(PartitionState, NUMBERS, NUMBERS, SETS, NUMBERS, NUMBERS, st.integers(0, 1))
PLAIN_STATES = STATES.map(lambda state: state._replace(leader_recovery_state=0))
ENDPOINTS = st.builds(
    Endpoint,
    st.sampled_from((LISTENER, "CLIENTS")),
    st.text(max_size=9),
    st.integers(0, 65_535),
    st.sampled_from(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
)
BROKERS = st.lists(
    st.builds(
        BrokerImage,
        BROKER_IDS,
        st.just(-1),
        st.lists(ENDPOINTS, max_size=2).map(tuple),
        st.none() | st.text(max_size=5),
        st.just(()),  # the wire carries no features
    ),
    max_size=3,
).map(tuple)


def topic_id(topic: str) -> UUID:
    return UUID(int=ord(topic))


def carried(message: Any, version: int) -> Any:
    """The message after it was encoded and decoded."""
    cls = type(message)
    content = encoder(cls, version)(message)
    value, end = decoder(cls, version)(memoryview(content), 0)
    assert end == len(content)
    return value


@given(data=st.data(), keys=KEYS, head=st.tuples(BROKER_IDS, BROKER_IDS, NUMBERS))
def test_leader_and_isr_of_the_newest_version_is_the_same_value(
    data: st.DataObject, keys: list[tuple[str, int]], head: tuple[int, int, int]
) -> None:
    value = LeaderAndIsr(
        *head,
        tuple(
            LeaderAndIsrPartition(
                topic,
                topic_id(topic),
                index,
                data.draw(STATES),
                *data.draw(st.tuples(SETS, SETS, SETS)),
                is_new=index % 2 == 0,
            )
            for topic, index in keys[:9]
        ),
        (BrokerImage(4, -1, (Endpoint(LISTENER, "h", 9, ""),)),),
    )
    message = carried(outcome_of(leader_and_isr_message(value, LISTENER)), 7)
    assert outcome_of(leader_and_isr_value(message, LISTENER)) == value


@given(data=st.data(), keys=KEYS, brokers=BROKERS, head=st.tuples(BROKER_IDS, BROKER_IDS, NUMBERS))
def test_update_metadata_of_the_newest_version_is_the_same_value(
    data: st.DataObject,
    keys: list[tuple[str, int]],
    brokers: tuple[BrokerImage, ...],
    head: tuple[int, int, int],
) -> None:
    state = data.draw(PLAIN_STATES)
    value = UpdateMetadata(
        *head,
        tuple(
            UpdateMetadataPartition(
                topic, topic_id(topic), index, state, *data.draw(st.tuples(SETS, SETS))
            )
            for topic, index in keys[:9]
        ),
        brokers,
    )
    message = carried(outcome_of(update_metadata_message(value)), 8)
    assert outcome_of(update_metadata_value(message, 8)) == value


@pytest.mark.parametrize("version", [3, 4])
@given(keys=KEYS, head=st.tuples(BROKER_IDS, BROKER_IDS, NUMBERS))
def test_stop_replica_is_the_same_value(
    version: int, keys: list[tuple[str, int]], head: tuple[int, int, int]
) -> None:
    value = StopReplica(
        *head,
        tuple(
            StopReplicaPartition(topic, index, index - 2, is_deleted=index % 2 == 0)
            for topic, index in keys
        ),
    )
    message = carried(outcome_of(stop_replica_message(value)), version)
    assert outcome_of(stop_replica_value(message)) == value


@pytest.mark.parametrize("version", range(4))
@given(
    keys=KEYS,
    isr=SETS,
    epochs=st.dictionaries(BROKER_IDS, st.integers(-1, 2**40), max_size=3),
    recovery=st.integers(0, 1),
)
def test_alter_partition_is_the_same_proposal(
    version: int,
    keys: list[tuple[str, int]],
    isr: tuple[int, ...],
    epochs: dict[int, int],
    recovery: int,
) -> None:
    proposals = [
        (topic, AlterIsr(index, index + 1, isr, index + 2, recovery, epochs))
        for topic, index in keys
    ]
    message = carried(alter_partition_message(1, 2, proposals, topic_id, version), version)
    names = {topic_id(topic): topic for topic, _ in keys}
    decoded = [
        proposal
        for data in message.topics
        for proposal in alter_partition_proposals(
            data.topic_name if version < 2 else names[data.topic_id], data, version
        )
    ]
    assert len(decoded) == len(proposals)
    for (topic, before), (name, after) in zip(proposals, decoded, strict=True):
        assert name == topic
        assert (after.partition, after.leader_epoch) == (before.partition, before.leader_epoch)
        assert (after.isr, after.partition_epoch) == (isr, before.partition_epoch)
        assert after.leader_recovery_state == (recovery if version >= 1 else 0)
        broker_epochs = {broker_id: epochs.get(broker_id, -1) for broker_id in isr}
        assert after.broker_epochs == (broker_epochs if version >= 3 else {})
