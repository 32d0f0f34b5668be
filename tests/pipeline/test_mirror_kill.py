"""The mirror and its source are killed: no record is lost, and few are written twice."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.pipeline.conftest import SMALL
from tests.pipeline.mirroring import (
    START_MS,
    Sent,
    content,
    create,
    file,
    mirror_process,
    send,
    until,
)
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.processes import LoggedProcess

BATCH = 150
RECORDS = 1500
START_TIMEOUT_S = 300.0
END_TIMEOUT_S = 600.0


def end_of(address: str, topic: str) -> int:
    """The sum of the end offsets of a topic with two partitions; 0 while it does not exist."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "none"})
    try:
        return sum(
            consumer.get_watermark_offsets(TopicPartition(topic, partition), 10)[1]
            for partition in (0, 1)
        )
    except KafkaException:
        return 0
    finally:
        consumer.close()


def await_records(west: BrokerProcess, process: LoggedProcess, count: int) -> None:
    """Wait until the target has `count` records."""

    def are_there() -> bool:
        assert process.running(), process.tail()
        return end_of(west.address, "east.killed") >= count

    until(are_there, f"{count} records are mirrored", timeout_s=START_TIMEOUT_S)


def surplus(source: list[Sent], target: list[Sent]) -> int:
    """The number of repeated records on the target.

    Every record of the source must be on the target, in order.
    """
    place = 0
    for record in target:
        if place < len(source) and record == source[place]:
            place += 1
    assert place == len(source), f"record {place} of {len(source)} is lost or out of order"
    return len(target) - len(source)


def numbered(begin: int, end: int) -> list[Sent]:
    """Records for two partitions."""
    return [Sent(n % 2, b"v%d" % n, b"k", START_MS + n) for n in range(begin, end)]


def killed_and_finished(
    folder: Path, east: BrokerProcess, west: BrokerProcess, *, kills: int, seed: int
) -> int:
    """Kill the mirror at random points, and the source once; returns the repeated records."""
    chance = random.Random(seed)
    create(east.address, "killed", 2)
    send(east.address, "killed", numbered(0, RECORDS))
    path = folder / "my.toml"
    settings = {key: value for key, value in SMALL.items() if key.startswith("spark.driver")}
    more = "spark = {" + ", ".join(f'"{key}" = "{value}"' for key, value in settings.items()) + "}"
    path.write_text(
        file(
            *(east.address, west.address),
            name="killed",
            pattern="killed",
            batch=BATCH,
            mode="stream",
            more=more,
        )
    )
    for number in range(kills):
        before = end_of(west.address, "east.killed")
        goal = before + chance.randrange(1, RECORDS // (kills + 1))
        with mirror_process(path) as process:
            await_records(west, process, goal)
            if number == 0:
                east.kill()
                east.start()
                await_records(west, process, goal + BATCH)
            process.kill()
    send(east.address, "killed", numbered(RECORDS, RECORDS + 100))
    done = folder / "progress.jsonl"
    arguments = ("--mode", "available_now", "--progress-file", str(done))
    with mirror_process(path, *arguments) as process:
        assert process.wait(timeout_s=END_TIMEOUT_S) == 0, process.tail()
        assert "Traceback" not in process.tail()
    states = [json.loads(line) for line in done.read_text().splitlines()]
    assert states[-1]["state"] == "ended", "the last batch is reported"
    assert states[-1]["rows_total"] >= 100
    source, target = content(east.address, "killed"), content(west.address, "east.killed")
    return sum(surplus(source[partition], target[partition]) for partition in source)


@pytest.mark.slow
def test_killed_mirror_and_killed_source_lose_no_record(tmp_path: Path) -> None:
    with odradek_broker(tmp_path / "east") as east, odradek_broker(tmp_path / "west") as west:
        repeated = killed_and_finished(tmp_path, east, west, kills=1, seed=7)
    assert repeated == 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_kills_at_random_points_lose_no_record(tmp_path: Path) -> None:
    kills = 4
    with odradek_broker(tmp_path / "east") as east, odradek_broker(tmp_path / "west") as west:
        repeated = killed_and_finished(
            tmp_path, east, west, kills=kills, seed=random.SystemRandom().randrange(2**32)
        )
    print(f"{repeated} records are repeated on the target after {kills} kills")
    assert repeated <= kills * BATCH
