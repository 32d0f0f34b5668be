"""Encodings worked out by hand from the rules of the protocol."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from odradek.protocol.compiler import decoder, encoder
from odradek.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from odradek.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
)
from odradek.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
    ReplicaState,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.stored.consumer_group import ConsumerGroupMemberMetadataValue
from odradek.protocol.stored.group_metadata import GroupMetadataKey
from odradek.protocol.stored.offset_commit import OffsetCommitKey, OffsetCommitValue
from odradek.protocol.stored.transaction_log import PartitionsSchema, TransactionLogValue

TOPIC_ID = UUID("01020304-0506-0708-090a-0b0c0d0e0f10")

KNOWN: list[tuple[Any, int, str]] = [
    (MetadataRequest(topics=[]), 0, "00000000"),
    (MetadataRequest(topics=None), 1, "ffffffff"),
    (MetadataRequest(topics=[MetadataRequestTopic(name="ab")]), 0, "00000001 0002 6162"),
    (
        MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=TOPIC_ID)]),
        12,
        "02 0102030405060708090a0b0c0d0e0f10 00 00 01 00 00",
    ),
    (
        ApiVersionsRequest(client_software_name="k", client_software_version="1.0"),
        3,
        "02 6b 04 312e30 00",
    ),
    (
        ApiVersionsResponse(
            error_code=0,
            api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)],
            finalized_features_epoch=5,
        ),
        3,
        "0000 02 0012 0000 0004 00 00000000 01 01 08 0000000000000005",
    ),
    (
        ProduceRequest(
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(
                    name="t",
                    partition_data=[PartitionProduceData(index=3, records=memoryview(b"abc"))],
                )
            ],
        ),
        9,
        "00 ffff 000003e8 02 02 74 02 00000003 04 616263 00 00 00",
    ),
    (
        FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            topics=[],
            replica_state=ReplicaState(replica_id=2, replica_epoch=7),
        ),
        15,
        "000001f4 00000001 7fffffff 00 00000000 ffffffff 01 01 01"
        "01 01 0d 00000002 0000000000000007 00",
    ),
    (
        FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic="t",
                    partitions=[
                        PartitionData(
                            partition_index=0,
                            error_code=6,
                            high_watermark=-1,
                            current_leader=LeaderIdAndEpoch(leader_id=1, leader_epoch=2),
                            records=b"",
                        )
                    ],
                )
            ]
        ),
        12,
        "00000000 0000 00000000 02 02 74 02 00000000 0006 ffffffffffffffff ffffffffffffffff"
        "ffffffffffffffff 00 ffffffff 01 01 01 09 00000001 00000002 00 00 00",
    ),
    (
        DescribeTopicPartitionsRequest(topics=[], cursor=Cursor(topic_name="t", partition_index=9)),
        0,
        "01 000007d0 01 02 74 00000009 00 00",
    ),
    (DescribeTopicPartitionsRequest(topics=[]), 0, "01 000007d0 ff 00"),
    (OffsetCommitKey(group="g", topic="t", partition=2), 1, "0001 67 0001 74 00000002"),
    (
        OffsetCommitValue(
            offset=5, leader_epoch=1, metadata="m", commit_timestamp_ms=9, expire_timestamp_ms=-1
        ),
        3,
        "0000000000000005 00000001 0001 6d 0000000000000009",
    ),
    (GroupMetadataKey(group="g"), 2, "0001 67"),
    (
        ConsumerGroupMemberMetadataValue(
            instance_id=None,
            rack_id=None,
            client_id="c",
            client_host="h",
            subscribed_topic_names=["t"],
            subscribed_topic_regex=None,
            server_assignor=None,
            classic_member_metadata=None,
        ),
        0,
        "00 00 02 63 02 68 02 02 74 00 ffffffff 00 01 00 01 00",
    ),
    (
        TransactionLogValue(
            producer_id=1,
            producer_epoch=2,
            transaction_timeout_ms=3,
            transaction_status=1,
            transaction_partitions=[PartitionsSchema(topic="t", partition_ids=[0, 1])],
            transaction_last_update_timestamp_ms=4,
            transaction_start_timestamp_ms=5,
        ),
        0,
        "0000000000000001 0002 00000003 01 00000001 0001 74 00000002 00000000 00000001"
        "0000000000000004 0000000000000005",
    ),
]


@pytest.mark.parametrize(("value", "version", "expected"), KNOWN)
def test_bytes_are_those_of_the_protocol(value: Any, version: int, expected: str) -> None:
    data = bytes.fromhex(expected)
    assert encoder(type(value), version)(value).hex() == data.hex()
    decoded, end = decoder(type(value), version)(memoryview(data), 0)
    assert end == len(data)
    assert encoder(type(value), version)(decoded) == data


def test_lengths_around_the_end_of_a_one_byte_varint() -> None:
    for length, prefix in [(126, "7f"), (127, "8001"), (128, "8101"), (16_383, "808001")]:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="x" * length)])
        data = encoder(MetadataRequest, 9)(request)
        assert data.startswith(bytes.fromhex(f"02 {prefix}") + b"x" * length)
        assert decoder(MetadataRequest, 9)(memoryview(data), 0) == (request, len(data))
