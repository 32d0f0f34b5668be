"""fsync errors of one log directory: the broker gives it up at the first one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event
from time import monotonic

from odradek.protocol.errors import ErrorCode
from tests.chaos.failing_syncs import FailingSyncs
from tests.scripts.chapters.batches import batch, produce_request
from tests.scripts.talk import Talk
from tests.support.broker_process import BrokerProcess
from tests.support.machines import HERE, Machine

TOPIC = "flushed"
PARTITIONS = 4
WAIT_S = 60.0
STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)


def produce(talk: Talk, partition: int) -> tuple[int, int]:
    """The error, and the offset."""
    request = produce_request(TOPIC, batch(), partition=partition, acks=-1)
    (result,) = talk.quiet(request, 9).responses[0].partition_responses
    return int(result.error_code), int(result.base_offset)


def wait_for(state: Callable[[], bool]) -> None:
    deadline = monotonic() + WAIT_S
    while not state():
        assert monotonic() < deadline
        Event().wait(0.05)


def test_directory_whose_fsync_fails_goes_offline_and_no_file_is_synced_again(
    tmp_path: Path,
) -> None:
    syncs = FailingSyncs(tmp_path)
    first, second = tmp_path / "data", tmp_path / "data-2"
    overrides = {
        "log.dirs": f"{first},{second}",
        "log.flush.interval.messages": "1",
        "replica.high.watermark.checkpoint.interval.ms": "200",
    }
    machine = Machine(HERE.host, syncs.prefix)
    broker = BrokerProcess(tmp_path, overrides=overrides, machine=machine).start()
    try:
        talk = Talk(broker.address)
        talk.make_topic(TOPIC, PARTITIONS)
        assert [produce(talk, partition) for partition in range(PARTITIONS)] == [
            (0, 0)
        ] * PARTITIONS
        lost = {int(folder.name.rpartition("-")[2]) for folder in second.glob(f"{TOPIC}-*")}
        assert 0 < len(lost) < PARTITIONS
        syncs.begin(second)
        assert {produce(talk, partition)[0] for partition in lost} == {STORAGE_ERROR}
        wait_for(lambda: f"directory {second} is offline" in "".join(broker.process.lines()))
        syncs.end()
        # A disk that is good again is not used before a restart.
        assert {produce(talk, partition)[0] for partition in lost} == {STORAGE_ERROR}
        kept = set(range(PARTITIONS)) - lost
        later = [produce(talk, partition) for partition in kept]
        assert {error for error, _ in later} == {0}
        (size,) = {offset for _, offset in later}
        talk.close()
        assert syncs.failed() > 0
        assert syncs.repeated() == []
        broker.kill()
        broker.start()
        talk = Talk(broker.address)
        results = {partition: produce(talk, partition) for partition in range(PARTITIONS)}
        talk.close()
    finally:
        broker.close()
    assert {error for error, _ in results.values()} == {0}
    # What was refused may have been stored.
    assert all(results[partition][1] >= size for partition in lost)
    assert all(results[partition][1] == 2 * size for partition in kept)
