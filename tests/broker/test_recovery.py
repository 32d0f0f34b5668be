"""kill -9 where the log looks unusual: compacted once, or moved here from another cluster."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest
from confluent_kafka.admin import ResourceType

from odradek.protocol.records.batch import iterate_batches
from odradek.storage.checkpoints.partition_metadata import encode_partition_metadata
from tests.scripts.chapters.batches import batch, produce_request
from tests.scripts.talk import Talk
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.compacted import (
    BROKER,
    COMPACT,
    Keyed,
    alter,
    create_topic,
    read_log,
    wait_for_cleaning,
)
from tests.support.log_directories import CLUSTER_ID, TOPIC_ID
from tests.support.logs import batch as stored_batch
from tests.support.moved_directory import seed_embedded, znodes
from tests.support.processes import ProcessFailed

TOPIC = "moved"


def test_topic_that_was_compacted_once_keeps_its_records_after_a_kill(tmp_path: Path) -> None:
    # The recovery point must not be saved between, or nothing would be checked.
    settings = {**BROKER, "log.flush.offset.checkpoint.interval.ms": "3600000"}
    with odradek_broker(tmp_path, overrides=settings) as broker:
        create_topic(broker, TOPIC, {**COMPACT, "segment.bytes": "20000"})
        written = Keyed(TOPIC).connect(broker)
        written.write_some(2_000, keys=50)
        written.flush()
        wait_for_cleaning(broker, TOPIC)
        alter(broker, ResourceType.TOPIC, TOPIC, {"cleanup.policy": "delete"})
        written.write_some(500, keys=500)
        written.flush()
        before = [
            (record.offset(), record.key(), record.value()) for record in read_log(broker, TOPIC)
        ]
        assert len(before) < 2_500
        assert [offset for offset, _, _ in before] != list(range(len(before)))
        for _ in range(2):
            broker.kill()
            broker.start()
            after = [
                (record.offset(), record.key(), record.value())
                for record in read_log(broker, TOPIC)
            ]
            assert after == before
        lines = broker.process.lines()
        assert [line for line in lines if "no clean stop: " in line]
        assert [line for line in lines if "offsets are missing in" in line and TOPIC in line]


RECOVERED = re.compile(
    r" INFO .*recovery checked (\d+) logs, (\d+) segments with (\d+) bytes, and truncated (\d+) "
    r"bytes, in \d+ ms"
)


@pytest.mark.parametrize(("torn_bytes", "later_bytes"), [(0, 0), (100, 0), (77, 5_000)])
def test_line_after_a_kill_says_what_was_checked_and_truncated(
    tmp_path: Path, torn_bytes: int, later_bytes: int
) -> None:
    with odradek_broker(tmp_path) as broker:
        talk = Talk(broker.address)
        for partitions, topic in enumerate(("one", "two", "three"), start=1):
            talk.make_topic(topic, partitions, {})
            for partition in range(partitions):
                response = talk.quiet(produce_request(topic, batch(3), partition=partition), 9)
                assert response.responses[0].partition_responses[0].error_code == 0
        talk.close()
        broker.kill()
        folder = broker.data / "three-1"
        (log,) = folder.glob("*.log")
        log.write_bytes(log.read_bytes() + b"#" * torn_bytes)
        if later_bytes:
            # Is removed with its index, unchecked.
            (folder / f"{50:020d}.log").write_bytes(b"#" * later_bytes)
            (folder / f"{50:020d}.index").touch()
        sizes = [path.stat().st_size for path in broker.data.glob("*-*/*.log")]
        broker.start()
        (line,) = filter(
            None, map(RECOVERED.search, (tmp_path / "broker.log").read_text().splitlines())
        )
        assert [int(group) for group in line.groups()] == [
            len(sizes) - bool(later_bytes),
            len(sizes) - bool(later_bytes),
            sum(sizes) - later_bytes,
            torn_bytes + later_bytes,
        ]
        assert broker.stop() == 0
        broker.start()
        assert (
            len(
                [
                    *filter(
                        None,
                        map(RECOVERED.search, (tmp_path / "broker.log").read_text().splitlines()),
                    )
                ]
            )
            == 1
        )


def lay_down_moved_directory(data: Path) -> None:
    """Twenty records of leader epochs 0 and 7, as a cluster of long ago left them."""
    folder = data / f"{TOPIC}-0"
    folder.mkdir(parents=True)
    (folder / "00000000000000000000.log").write_bytes(
        b"".join(
            bytes(stored_batch(base_offset=offset, leader_epoch=7 * (offset >= 10)).view)
            for offset in range(20)
        )
    )
    (folder / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n7 10\n")
    (folder / "partition.metadata").write_bytes(encode_partition_metadata(TOPIC_ID))
    (data / "meta.properties").write_text(f"broker.id=0\nversion=0\ncluster.id={CLUSTER_ID}\n")


def end_of(talk: Talk) -> int:
    talk.wait_for_topic(TOPIC, 1)
    response = talk.quiet(produce_request(TOPIC, batch(1)), 9)
    stored = response.responses[0].partition_responses[0]
    assert stored.error_code == 0
    return int(stored.base_offset)


@pytest.mark.parametrize("has_state", [False, True])
def test_directory_of_another_cluster_is_led_above_its_epochs(
    tmp_path: Path, has_state: bool
) -> None:
    broker = BrokerProcess(tmp_path)
    lay_down_moved_directory(broker.data)
    nodes = znodes(broker.data, 0)
    if has_state:
        state = {"controller_epoch": 1, "leader": 0, "version": 1, "leader_epoch": 3, "isr": [0]}
        nodes[f"/brokers/topics/{TOPIC}/partitions/0/state"] = json.dumps(state).encode()
    seed_embedded(broker.data, nodes)
    try:
        broker.start()
        line = broker.process.wait_for_line(f"{TOPIC}-0 has a log of leader epoch 7", timeout_s=30)
        assert "it is led in epoch 8" in line
        talk = Talk(broker.address)
        ends = [end_of(talk) for _ in range(50)]
        assert ends == list(range(20, 70))
        talk.close()
        broker.kill()
        broker.start()
        talk = Talk(broker.address)
        assert end_of(talk) == 70
        talk.close()
        assert broker.stop() == 0
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(("127.0.0.1", broker.port))
            taken.listen()
            with pytest.raises(ProcessFailed, match="cannot listen on"):
                broker.start()
        broker.start()
        talk = Talk(broker.address)
        assert end_of(talk) == 71
        talk.close()
        assert broker.stop() == 0
        content = (broker.data / f"{TOPIC}-0" / "00000000000000000000.log").read_bytes()
        epochs = [batch.leader_epoch for batch in iterate_batches(memoryview(content))]
        assert epochs == [0] * 10 + [7] * 10 + [8] * 52
    finally:
        broker.close()
