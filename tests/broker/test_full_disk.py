"""A disk that is full: a storage error for the client, nothing lost that was answered, then on.

RLIMIT_FSIZE stands for the full disk: a write beyond it fails in the middle of a batch with EFBIG,
as one on a full device fails with ENOSPC.
"""

from __future__ import annotations

import resource
from pathlib import Path
from uuid import UUID

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.scripts.chapters.batches import big_batch, produce_request
from tests.scripts.chapters.fetch import fetch_request
from tests.scripts.talk import Talk
from tests.support.broker_process import BrokerProcess, odradek_broker

TOPIC = "disk"
VALUE_BYTES = 10_000
LOG = f"{TOPIC}-0/00000000000000000000.log"


def produce(talk: Talk) -> tuple[int, int]:
    """Error code and offset of one batch of one record."""
    response = talk.quiet(produce_request(TOPIC, big_batch(VALUE_BYTES)), 9)
    stored = response.responses[0].partition_responses[0]
    return stored.error_code, stored.base_offset


def served_offsets(talk: Talk, topic_id: UUID) -> list[int]:
    """The offsets of all records that a consumer gets."""
    offsets: list[int] = []
    while True:
        request = fetch_request(TOPIC, topic_id, len(offsets), limit=1 << 20)
        steps = len(talk.steps)
        talk.ask(f"read {steps}", request, 12)
        partition = talk.steps[f"read {steps}, FETCH v12"]["responses"][0]["partitions"][0]
        assert partition["error_code"] == 0, partition
        batches = partition["records"]["batches"]
        if not batches:
            return offsets
        assert all(batch["has_valid_crc"] for batch in batches)
        offsets += [record[0] for batch in batches for record in batch["records"]]


def fill(broker: BrokerProcess, talk: Talk) -> list[int]:
    """Produce until the disk refuses; the offsets that were answered."""
    answered: list[int] = []
    for _ in range(50):
        code, offset = produce(talk)
        if code:
            assert code == ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode(code)
            return answered
        answered.append(offset)
    raise AssertionError("the limit was never reached")


@pytest.mark.parametrize("state", ["stopped", "killed"])
def test_full_disk_loses_no_acknowledged_record_and_is_used_again(
    tmp_path: Path, state: str
) -> None:
    with odradek_broker(tmp_path) as broker:
        talk = Talk(broker.address)
        topic_id = talk.make_topic(TOPIC)
        answered = [produce(talk)[1] for _ in range(5)]
        used_bytes = (broker.data / LOG).stat().st_size
        broker.process.set_limit(resource.RLIMIT_FSIZE, used_bytes + 25_000)
        answered += fill(broker, talk)
        assert len(answered) == 7, "two more batches fit into 25,000 bytes"
        assert served_offsets(talk, topic_id) == answered

        broker.process.set_limit(resource.RLIMIT_FSIZE, resource.RLIM_INFINITY)
        talk.until("writing again", lambda: produce_into(talk, answered), lambda code: code == 0)
        assert served_offsets(talk, topic_id) == answered
        talk.close()

        if state == "stopped":
            assert broker.stop() == 0
        else:
            broker.kill()
        broker.start()
        talk = Talk(broker.address)
        talk.wait_for_topic(TOPIC, 1)
        assert served_offsets(talk, topic_id) == answered
        code, offset = produce(talk)
        assert (code, offset) == (0, len(answered))
        talk.close()


def produce_into(talk: Talk, answered: list[int]) -> int:
    """One more batch; its offset is kept when it was answered."""
    code, offset = produce(talk)
    if code == 0:
        answered.append(offset)
    return code


@pytest.mark.parametrize("stored", [0, 2])
def test_batches_after_one_that_a_full_disk_refused_wait_for_it(
    tmp_path: Path, stored: int
) -> None:
    """Of a producer that the log knows, and of another one."""

    def send(sequence: int) -> int:
        content = big_batch(VALUE_BYTES, producer_id=7, producer_epoch=0, base_sequence=sequence)
        response = talk.quiet(produce_request(TOPIC, content), 9)
        code: int = response.responses[0].partition_responses[0].error_code
        return code

    with odradek_broker(tmp_path) as broker:
        talk = Talk(broker.address)
        talk.make_topic(TOPIC)
        answered = [produce(talk)[1]]
        assert [send(sequence) for sequence in range(stored)] == [0] * stored
        used_bytes = (broker.data / LOG).stat().st_size
        broker.process.set_limit(resource.RLIMIT_FSIZE, used_bytes + 5_000)
        assert send(stored) == ErrorCode.KAFKA_STORAGE_ERROR
        broker.process.set_limit(resource.RLIMIT_FSIZE, resource.RLIM_INFINITY)
        talk.until("writing again", lambda: produce_into(talk, answered), lambda code: code == 0)
        assert send(stored + 1) == ErrorCode.KAFKA_STORAGE_ERROR
        assert send(stored + 2) == ErrorCode.KAFKA_STORAGE_ERROR
        assert [send(stored + number) for number in range(3)] == [0, 0, 0]
        talk.close()


def test_topic_creation_on_a_full_disk_is_refused_and_the_broker_continues(tmp_path: Path) -> None:
    with odradek_broker(tmp_path) as broker:
        talk = Talk(broker.address)
        talk.make_topic(TOPIC)
        # The handler's modules are imported now: Python would leave cut .pyc files below the limit.
        unknown = DeleteTopicsRequest(topic_names=["unknown"], timeout_ms=5_000)
        assert talk.quiet(unknown, 4).responses[0].error_code != ErrorCode.NONE
        setting = AlterableConfig(name="retention.ms", config_operation=0, value="5000")
        change = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(resource_type=2, resource_name=TOPIC, configs=[setting])
            ],
            validate_only=False,
        )
        assert talk.quiet(change, 1).responses[0].error_code == ErrorCode.NONE
        broker.process.set_limit(resource.RLIMIT_FSIZE, 20)
        topic = CreatableTopic(
            name="late", num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        request = CreateTopicsRequest(topics=[topic])
        assert talk.quiet(request, 7).topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        deletion = DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=5_000)
        assert talk.quiet(deletion, 4).responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert talk.quiet(change, 1).responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert produce(talk)[0] == ErrorCode.KAFKA_STORAGE_ERROR
        broker.process.set_limit(resource.RLIMIT_FSIZE, resource.RLIM_INFINITY)
        talk.until(
            "space again",
            lambda: talk.quiet(request, 7).topics[0].error_code,
            lambda code: code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS),
        )
        talk.wait_for_topic("late", 1)
        assert produce(talk)[0] == ErrorCode.NONE
        talk.close()
    log = (tmp_path / "broker.log").read_text()
    assert "DELETE_TOPICS is refused: " in log
    assert f"{TOPIC}-0: no batch was appended: " in log
    assert "ERROR" not in log
