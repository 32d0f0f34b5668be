"""Requests to other brokers, captured from their connections and decoded by Apache's classes."""

from __future__ import annotations

import json
import struct
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from odradek.broker.interbroker.control_channels import ControlChannels
from odradek.broker.interbroker.wire.alter_partition import alter_partition_message
from odradek.controller.decide.isr import AlterIsr
from odradek.controller.image.control_requests import (
    ControlRequest,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
    UpdateMetadataPartition,
)
from odradek.controller.image.image import (
    LEADER_DURING_DELETE,
    RECOVERING,
    BrokerImage,
    Endpoint,
    PartitionState,
)
from odradek.protocol.compiler import encoder
from odradek.protocol.headers import encode_request_header
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from odradek.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from odradek.protocol.schema import schema_of
from odradek.storage.checkpoints.partition_metadata import encode_topic_id
from tests.support.apache import program_command
from tests.support.client_loop import ClientLoop
from tests.support.peer import Peer, scripted_peer

pytestmark = pytest.mark.judge

PROGRAM = Path(__file__).parent / "java" / "DecodeRequests.java"
JAVA_TIMEOUT_S = 120
IDS = {"t": UUID(int=0x1234 << 96 | 7), "other": UUID(int=5)}
BROKERS = (
    BrokerImage(
        2,
        70,
        (
            Endpoint("INTERNAL", "h2", 1_002, "PLAINTEXT"),
            Endpoint("CLIENTS", "public", 9_002, "SASL_SSL"),
        ),
        "r1",
    ),
    BrokerImage(3, 71, (Endpoint("INTERNAL", "h3", 1_003, "PLAINTEXT"),)),
)
STATE = PartitionState(2, 6, (2, 3), 11, 4)
RECOVERING_STATE = PartitionState(-1, 7, (3,), 12, 3, RECOVERING)
REQUESTS: list[ControlRequest] = [
    LeaderAndIsr(
        1,
        5,
        70,
        (
            LeaderAndIsrPartition("t", IDS["t"], 0, STATE, (2, 3, 4), (4,), (3,), is_new=True),
            LeaderAndIsrPartition("other", IDS["other"], 8, STATE, (2,), (), (), is_new=False),
            LeaderAndIsrPartition("t", IDS["t"], 1, RECOVERING_STATE, (3, 2), (), (), is_new=False),
        ),
        BROKERS,
    ),
    UpdateMetadata(
        1,
        5,
        70,
        (
            UpdateMetadataPartition("t", IDS["t"], 0, STATE, (2, 3, 4), (4,)),
            UpdateMetadataPartition(
                "other",
                IDS["other"],
                8,
                PartitionState(LEADER_DURING_DELETE, 0, (2,), 0, 4),
                (2,),
                (),
            ),
        ),
        BROKERS,
    ),
    StopReplica(
        1,
        5,
        70,
        (
            StopReplicaPartition("t", 0, 6, is_deleted=False),
            StopReplicaPartition("other", 8, -2, is_deleted=True),
            StopReplicaPartition("t", 1, -1, is_deleted=True),
        ),
    ),
]


def partition_of_leader_and_isr(index: int, state: PartitionState, **others: Any) -> dict[str, Any]:
    return {
        "partitionIndex": index,
        "controllerEpoch": state.controller_epoch,
        "leader": state.leader,
        "leaderEpoch": state.leader_epoch,
        "isr": list(state.isr),
        "partitionEpoch": state.partition_epoch,
        "leaderRecoveryState": state.leader_recovery_state,
        "addingReplicas": [],
        "removingReplicas": [],
        "isNew": False,
        **others,
    }


HEAD = {"controllerId": 1, "isKRaftController": False, "controllerEpoch": 5, "brokerEpoch": 70}
EXPECTED = [
    {
        "api": "LEADER_AND_ISR",
        "version": 7,
        "client": "1",
        "body": {
            **HEAD,
            "type": 0,
            "topicStates": [
                {
                    "topicName": "t",
                    "topicId": encode_topic_id(IDS["t"]),
                    "partitionStates": [
                        partition_of_leader_and_isr(
                            0,
                            STATE,
                            replicas=[2, 3, 4],
                            addingReplicas=[4],
                            removingReplicas=[3],
                            isNew=True,
                        ),
                        partition_of_leader_and_isr(1, RECOVERING_STATE, replicas=[3, 2]),
                    ],
                },
                {
                    "topicName": "other",
                    "topicId": encode_topic_id(IDS["other"]),
                    "partitionStates": [partition_of_leader_and_isr(8, STATE, replicas=[2])],
                },
            ],
            "liveLeaders": [
                {"brokerId": 2, "hostName": "h2", "port": 1_002},
                {"brokerId": 3, "hostName": "h3", "port": 1_003},
            ],
        },
    },
    {
        "api": "UPDATE_METADATA",
        "version": 8,
        "client": "1",
        "body": {
            **HEAD,
            "topicStates": [
                {
                    "topicName": "t",
                    "topicId": encode_topic_id(IDS["t"]),
                    "partitionStates": [
                        {
                            "partitionIndex": 0,
                            "controllerEpoch": 4,
                            "leader": 2,
                            "leaderEpoch": 6,
                            "isr": [2, 3],
                            "zkVersion": 11,
                            "replicas": [2, 3, 4],
                            "offlineReplicas": [4],
                        }
                    ],
                },
                {
                    "topicName": "other",
                    "topicId": encode_topic_id(IDS["other"]),
                    "partitionStates": [
                        {
                            "partitionIndex": 8,
                            "controllerEpoch": 4,
                            "leader": -2,
                            "leaderEpoch": 0,
                            "isr": [2],
                            "zkVersion": 0,
                            "replicas": [2],
                            "offlineReplicas": [],
                        }
                    ],
                },
            ],
            "liveBrokers": [
                {
                    "id": 2,
                    "endpoints": [
                        {
                            "port": 1_002,
                            "host": "h2",
                            "listener": "INTERNAL",
                            "securityProtocol": 0,
                        },
                        {
                            "port": 9_002,
                            "host": "public",
                            "listener": "CLIENTS",
                            "securityProtocol": 3,
                        },
                    ],
                    "rack": "r1",
                },
                {
                    "id": 3,
                    "endpoints": [
                        {"port": 1_003, "host": "h3", "listener": "INTERNAL", "securityProtocol": 0}
                    ],
                    "rack": None,
                },
            ],
        },
    },
    {
        "api": "STOP_REPLICA",
        "version": 4,
        "client": "1",
        "body": {
            **HEAD,
            "topicStates": [
                {
                    "topicName": "t",
                    "partitionStates": [
                        {"partitionIndex": 0, "leaderEpoch": 6, "deletePartition": False},
                        {"partitionIndex": 1, "leaderEpoch": -1, "deletePartition": True},
                    ],
                },
                {
                    "topicName": "other",
                    "partitionStates": [
                        {"partitionIndex": 8, "leaderEpoch": -2, "deletePartition": True}
                    ],
                },
            ],
        },
    },
]


def decode(frames: list[bytes], folder: Path) -> list[Any]:
    """What Apache's classes read in the frames."""
    command = program_command(PROGRAM, heap="128m")
    done = subprocess.run(
        command,
        input="".join(f"{frame.hex()}\n" for frame in frames),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=JAVA_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def captured(request: ControlRequest) -> bytes:
    """The frame that a broker gets."""
    frames: list[bytes] = []

    def script(peer: Peer) -> None:
        (size,) = struct.unpack(">i", peer.receive_bytes(4))
        frames.append(peer.receive_bytes(size))

    with closing(ClientLoop()) as loop, scripted_peer(script) as port:
        channels = ControlChannels(
            loop.clients,
            loop.wheel,
            loop.clock,
            broker_id=1,
            listener_name="CONTROL",
            inter_broker_listener_name="INTERNAL",
        )
        endpoint = Endpoint("CONTROL", "127.0.0.1", port, "PLAINTEXT")
        channels.set_brokers({2: BrokerImage(2, 70, (endpoint,))})
        channels.send(2, request, lambda response: None)
        loop.until(lambda: frames, "the frame")
        channels.set_brokers({})
    return frames[0]


def frame_of(message: Any, version: int) -> bytes:
    api_key = schema_of(type(message)).api_key
    assert api_key is not None
    return encode_request_header(api_key, version, 1, "2") + encoder(type(message), version)(
        message
    )


def test_control_requests_are_read_by_apache_field_by_field(tmp_path: Path) -> None:
    assert decode([captured(request) for request in REQUESTS], tmp_path) == EXPECTED


def test_requests_to_the_controller_are_read_by_apache_field_by_field(tmp_path: Path) -> None:
    proposal = AlterIsr(3, 6, (2, 3), 11, RECOVERING, {3: 71})
    messages = [
        (alter_partition_message(2, 70, [("t", proposal)], IDS.__getitem__, version), version)
        for version in range(4)
    ]
    decoded = decode(
        [
            *(frame_of(*message) for message in messages),
            frame_of(ControlledShutdownRequest(broker_id=2, broker_epoch=70), 3),
            frame_of(AllocateProducerIdsRequest(broker_id=2, broker_epoch=70), 0),
        ],
        tmp_path,
    )
    for version, request in enumerate(decoded[:4]):
        topic = {"topicName": "t"} if version < 2 else {"topicId": encode_topic_id(IDS["t"])}
        isr = [{"brokerId": 2, "brokerEpoch": -1}, {"brokerId": 3, "brokerEpoch": 71}]
        partition = {
            "partitionIndex": 3,
            "leaderEpoch": 6,
            "partitionEpoch": 11,
            **({"newIsr": [2, 3]} if version < 3 else {"newIsrWithEpochs": isr}),
            **({"leaderRecoveryState": RECOVERING} if version >= 1 else {}),
        }
        assert request == {
            "api": "ALTER_PARTITION",
            "version": version,
            "client": "2",
            "body": {
                "brokerId": 2,
                "brokerEpoch": 70,
                "topics": [{**topic, "partitions": [partition]}],
            },
        }
    sender = {"brokerId": 2, "brokerEpoch": 70}
    assert [(request["api"], request["version"], request["body"]) for request in decoded[4:]] == [
        ("CONTROLLED_SHUTDOWN", 3, sender),
        ("ALLOCATE_PRODUCER_IDS", 0, sender),
    ]
