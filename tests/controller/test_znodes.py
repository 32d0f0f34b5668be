"""Znodes have the bytes that Apache Kafka 3.9 writes, and those of older versions are read."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.controller.image.image import BrokerImage, Endpoint
from odradek.controller.znodes import config_znodes, zk_data
from odradek.controller.znodes.broker_znode import decode_broker, encode_broker
from odradek.controller.znodes.zk_data import (
    BadZnode,
    ControllerZnode,
    PartitionStateZnode,
    ProducerIdBlockZnode,
    TopicAssignmentZnode,
)

TOPIC_ID = zk_data.decode_topic_id("yenGFmEuRpamzswbeOUQYQ")


def test_controller_znode_is_encoded_and_decoded_as_by_kafka() -> None:
    data = b'{"version":2,"brokerid":7,"timestamp":"1700000000000","kraftControllerEpoch":-1}'
    node = ControllerZnode(7, 1_700_000_000_000)
    assert node.encode() == data
    assert ControllerZnode.decode(data) == node
    old = b'{"version":1,"brokerid":7,"timestamp":"1700000000000","other":[]}'
    assert ControllerZnode.decode(old) == node


def test_controller_epoch_is_decimal_text() -> None:
    assert zk_data.encode_number(12) == b"12"
    assert zk_data.decode_number(b"12") == 12


def test_topic_znode_is_encoded_and_decoded_as_by_kafka() -> None:
    data = (
        b'{"partitions":{"0":[1,2],"1":[2,1]},"topic_id":"yenGFmEuRpamzswbeOUQYQ",'
        b'"adding_replicas":{},"removing_replicas":{},"version":3}'
    )
    node = TopicAssignmentZnode(TOPIC_ID, {1: (2, 1), 0: (1, 2)}, {}, {})
    assert node.encode() == data
    assert TopicAssignmentZnode.decode(data) == node


def test_topic_znode_under_reassignment_is_encoded_and_decoded_as_by_kafka() -> None:
    data = (
        b'{"partitions":{"0":[3,1]},"topic_id":"yenGFmEuRpamzswbeOUQYQ",'
        b'"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]},"version":3}'
    )
    node = TopicAssignmentZnode(TOPIC_ID, {0: (3, 1)}, {0: (3,)}, {0: (1,)})
    assert node.encode() == data
    assert TopicAssignmentZnode.decode(data) == node


@pytest.mark.parametrize(
    "data",
    [
        b'{"version":1,"partitions":{"0":[1,2]}}',
        b'{"version":2,"partitions":{"0":[1,2]},"adding_replicas":{},"removing_replicas":{}}',
    ],
)
def test_topic_znode_of_an_old_version_has_no_id(data: bytes) -> None:
    node = TopicAssignmentZnode.decode(data)
    assert node == TopicAssignmentZnode(None, {0: (1, 2)}, {}, {})
    assert b'"version":2' in node.encode()


def test_state_znode_is_encoded_and_decoded_as_by_kafka() -> None:
    data = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}'
    node = PartitionStateZnode(1, 1, 0, (1, 2))
    assert node.encode() == data
    assert PartitionStateZnode.decode(data) == node


def test_state_znode_in_recovery_is_encoded_and_decoded_as_by_kafka() -> None:
    data = (
        b'{"controller_epoch":3,"leader":2,"version":1,"leader_recovery_state":1,'
        b'"leader_epoch":5,"isr":[2]}'
    )
    node = PartitionStateZnode(3, 2, 5, (2,), 1)
    assert node.encode() == data
    assert PartitionStateZnode.decode(data) == node


def test_cluster_id_has_a_version_that_is_text() -> None:
    data = b'{"version":"1","id":"zWE-MNjxSt-Rt1hKImWx9Q"}'
    assert zk_data.encode_cluster_id("zWE-MNjxSt-Rt1hKImWx9Q") == data
    assert zk_data.decode_cluster_id(data) == "zWE-MNjxSt-Rt1hKImWx9Q"


def test_producer_id_block_has_ends_that_are_text() -> None:
    data = b'{"version":1,"broker":3,"block_start":"1000","block_end":"1999"}'
    node = ProducerIdBlockZnode(3, 1000, 1999)
    assert node.encode() == data
    assert ProducerIdBlockZnode.decode(data) == node


def test_feature_znode_is_encoded_and_decoded_as_by_kafka() -> None:
    assert zk_data.encode_feature({}, 1) == b'{"features":{},"version":2,"status":1}'
    data = b'{"features":{"name":{"max_version_level":1}},"version":2,"status":1}'
    assert zk_data.encode_feature({"name": 1}, 1) == data
    assert zk_data.decode_feature(data) == ({"name": 1}, 1)
    old = b'{"features":{"n":{"min_version_level":1,"max_version_level":2}},"version":1,"status":0}'
    assert zk_data.decode_feature(old) == ({"n": 2}, 0)


def test_config_znode_is_encoded_and_decoded_as_by_kafka() -> None:
    assert config_znodes.encode_config({}) == b'{"version":1,"config":{}}'
    data = b'{"version":1,"config":{"retention.ms":"5"}}'
    assert config_znodes.encode_config({"retention.ms": "5"}) == data
    assert config_znodes.decode_config(data) == {"retention.ms": "5"}
    assert config_znodes.decode_config(None) == {}


def test_config_change_znode_is_encoded_and_decoded_as_by_kafka() -> None:
    data = b'{"version":2,"entity_path":"topics/T"}'
    assert config_znodes.encode_config_change("topics/T") == data
    assert config_znodes.decode_config_change(data) == ("topics", "T")
    old = b'{"version":1,"entity_type":"topics","entity_name":"T"}'
    assert config_znodes.decode_config_change(old) == ("topics", "T")
    nested = b'{"version":2,"entity_path":"users/u/clients/c"}'
    assert config_znodes.decode_config_change(nested) == ("users", "u/clients/c")


def test_log_directory_event_znode_is_encoded_and_decoded_as_by_kafka() -> None:
    event = b'{"version":1,"broker":2,"event":1}'
    assert config_znodes.encode_log_directory_event(2) == event
    assert config_znodes.decode_log_directory_event(event) == 2


def test_broker_znode_of_version_5_is_encoded_and_decoded_as_by_kafka() -> None:
    data = (
        b'{"features":{"f":{"min_version":1,"max_version":3}},'
        b'"listener_security_protocol_map":{"IN":"SASL_SSL","OUT":"PLAINTEXT"},'
        b'"endpoints":["IN://[::1]:9092","OUT://host.example:9093"],"rack":"r1","jmx_port":-1,'
        b'"port":9093,"host":"host.example","version":5,"timestamp":"1700000000000"}'
    )
    broker = BrokerImage(
        1,
        44,
        (
            Endpoint("IN", "::1", 9092, "SASL_SSL"),
            Endpoint("OUT", "host.example", 9093, "PLAINTEXT"),
        ),
        "r1",
        (("f", 1, 3),),
    )
    assert encode_broker(broker, 1_700_000_000_000) == data
    assert decode_broker(1, 44, data) == broker


def test_broker_without_rack_and_plaintext_listener_is_encoded() -> None:
    data = (
        b'{"features":{},"listener_security_protocol_map":{"SSL":"SSL"},'
        b'"endpoints":["SSL://h:1"],"jmx_port":-1,"port":-1,"host":null,"version":5,'
        b'"timestamp":"5"}'
    )
    broker = BrokerImage(1, 4, (Endpoint("SSL", "h", 1, "SSL"),))
    assert encode_broker(broker, 5) == data
    assert decode_broker(1, 4, data) == broker


@pytest.mark.parametrize(
    "data",
    [
        b'{"version":1,"host":"h","port":9092,"jmx_port":9999,"timestamp":"2233345666"}',
        b'{"version":2,"host":"h","port":9092,"jmx_port":9999,"timestamp":"2233345666",'
        b'"endpoints":["PLAINTEXT://h:9092"]}',
        b'{"version":4,"host":"h","port":9092,"jmx_port":9999,"timestamp":"1",'
        b'"endpoints":["PLAINTEXT://h:9092"],'
        b'"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"later":1}',
    ],
)
def test_broker_znodes_of_old_versions_are_decoded(data: bytes) -> None:
    broker = BrokerImage(3, 9, (Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT"),))
    assert decode_broker(3, 9, data) == broker


DECODERS: list[Callable[[bytes | None], object]] = [
    ControllerZnode.decode,
    TopicAssignmentZnode.decode,
    PartitionStateZnode.decode,
    ProducerIdBlockZnode.decode,
    zk_data.decode_cluster_id,
    zk_data.decode_feature,
    zk_data.decode_number,
    config_znodes.decode_config_change,
    config_znodes.decode_log_directory_event,
    lambda data: decode_broker(1, 1, data),
]


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"x",
        b"[]",
        b"{}",
        b"\xff",
        b'{"version":9}',
        b'{"version":2,"partitions":[1],"endpoints":[1]}',
        b'{"version":1,"partitions":{"a":[1]},"brokerid":"1","id":4,"features":1}',
        b'{"version":1,"partitions":{"0":["1"]},"features":{"a":1},"status":1}',
    ],
)
def test_decoding_garbage_raises_bad_znode(
    decode: Callable[[bytes | None], object], data: bytes | None
) -> None:
    with pytest.raises(BadZnode):
        decode(data)


@given(st.uuids())
def test_topic_id_survives_encoding_and_decoding(topic_id: UUID) -> None:
    text = zk_data.encode_topic_id(topic_id)
    assert len(text) == 22
    assert zk_data.decode_topic_id(text) == topic_id


def test_sequence_number_is_the_last_ten_digits_of_the_name() -> None:
    assert zk_data.sequence_number("config_change_0000000012") == 12
    with pytest.raises(BadZnode):
        zk_data.sequence_number("config_change_12")
