"""Produce requests of one turn, just after this broker has begun to lead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from odradek.controller.image.image import PartitionState
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.produce import ProduceRequest
from tests.scripts.chapters.batches import batch, produce_to
from tests.support.node_here import NodeHere, decoded, node_here

TOPIC = "t"
PRODUCE = 9
NONE, NOT_LEADER = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER


def sent(producer_id: int, sequence: int) -> ProduceRequest:
    content = batch(1, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    return produce_to([(TOPIC, 0, content)])


def new_leader(here: NodeHere) -> Any:
    """The partition, which another broker has led in between."""
    topic = CreatableTopic(
        name=TOPIC, num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    here.call(here.caller(), CreateTopicsRequest(topics=[topic]), 5)
    partitions = here.node.services.partitions

    def is_led() -> bool:
        partition = partitions.get(TOPIC, 0)
        return partition is not None and partition.leader is not None

    here.until(is_led, "the partition has no leader")
    partition = partitions.get(TOPIC, 0)
    assert partition is not None
    leader, epoch = partition.leader, partition.leader_epoch
    partition.apply_state(PartitionState(2, epoch + 1, (2,), 1, 1), None)
    partition.apply_state(PartitionState(0, epoch + 2, (0,), 2, 1), leader)
    return partition


def errors(here: NodeHere, *requests: ProduceRequest) -> list[ErrorCode]:
    """Of requests that arrive together, in their order."""
    caller = here.caller()
    for request in requests:
        caller.send(request, PRODUCE)
    frames: list[bytes] = []

    def have_come() -> bool:
        frames.extend(caller.frames())
        return len(frames) >= len(requests)

    here.until(have_come, "no response")
    responses = [
        decoded(frame, key, version)
        for frame, (_, key, version) in zip(frames, caller.asked, strict=True)
    ]
    return [
        ErrorCode(response.responses[0].partition_responses[0].error_code) for response in responses
    ]


def test_first_batches_of_a_producer_in_one_turn_are_in_order(tmp_path: Path) -> None:
    with node_here(tmp_path) as here:
        partition = new_leader(here)
        assert errors(here, *[sent(7, sequence) for sequence in range(5)]) == [NONE] * 5
        assert partition.log.end_offset == 5


def test_batches_in_one_turn_wait_for_the_one_that_the_former_leader_has_refused(
    tmp_path: Path,
) -> None:
    with node_here(tmp_path) as here:
        partition = new_leader(here)
        turn = [sent(7, 1), sent(8, 0), sent(7, 2), sent(9, 3), sent(8, 1)]
        expected = [NOT_LEADER, NONE, NOT_LEADER, NOT_LEADER, NONE]
        assert errors(here, *turn) == expected
        assert errors(here, *[sent(7, sequence) for sequence in range(4)]) == [NONE] * 4
        assert partition.log.end_offset == 6
