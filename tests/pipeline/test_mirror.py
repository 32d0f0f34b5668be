"""A mirror between two of our brokers, run in this process."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from pyspark.sql import SparkSession

from odradek.pipeline.cli import FAILED, main
from odradek.pipeline.jobs.lifecycle import locked
from odradek.pipeline.jobs.mirror import MirrorJob
from odradek.pipeline.jobs.run import WrongCheckpoint
from odradek.pipeline.mirror import clusters
from odradek.pipeline.mirror.flow import TopicRecreatedError
from tests.pipeline.mirroring import (
    START_MS,
    TIMEOUT_S,
    Sent,
    commit,
    committed,
    content,
    create,
    file,
    grow,
    mirror_of,
    partitions_of,
    run,
    send,
    until,
)
from tests.support import maven
from tests.support.apache import JUDGE_VERSION
from tests.support.broker_process import BrokerProcess
from tests.support.class_archives import SMALL

TRANSLATE_OFFSETS = Path(__file__).parent / "java" / "TranslateOffsets.java"
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


@pytest.fixture(scope="module")
def east(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """The source."""
    process = BrokerProcess(tmp_path_factory.mktemp("east"), overrides=SETTINGS).start()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def west(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """The target."""
    process = BrokerProcess(tmp_path_factory.mktemp("west"), overrides=SETTINGS).start()
    yield process
    process.stop()


def retention_of(address: str, topic: str) -> str | None:
    """The value of `retention.ms` of a topic."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": address})
    configs = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    value: str | None = configs["retention.ms"].value
    return value


def test_records_are_mirrored_unchanged_with_new_partitions_and_topics(
    spark: SparkSession, east: BrokerProcess, west: BrokerProcess, tmp_path: Path
) -> None:
    create(east.address, "as-is", 2, {"retention.ms": "-1"})
    create(east.address, "west.as-is", 1)
    send(east.address, "west.as-is", [Sent(0, b"came from the west")])
    records = [Sent(n % 2, b"v%d" % n, b"k%d" % n, START_MS + 1000 * (n % 7)) for n in range(500)]
    records += [
        Sent(0, None, b"deleted"),
        Sent(0, b"", b""),
        Sent(1, b"no key", None),
        Sent(1, b"x" * 300_000, b"large"),
        Sent(0, b"h", b"k", 1, [("a", b"1"), ("b", None), ("a", b""), ("é", b"\xff\x00")]),
    ]
    send(east.address, "as-is", records)
    text = file(east.address, west.address, name="as-is", pattern="(west[.])?as-is.*", batch=300)
    run(spark, text, tmp_path)
    assert content(west.address, "east.as-is") == content(east.address, "as-is")
    assert retention_of(west.address, "east.as-is") == "-1"

    grow(east.address, "as-is", 3)
    create(east.address, "as-is-too", 1)
    send(east.address, "as-is", [Sent(n % 3, b"later %d" % n) for n in range(30)])
    send(east.address, "as-is-too", [Sent(0, b"new")])
    run(spark, text, tmp_path)
    at_west = partitions_of(west.address)
    assert at_west["east.as-is"] == 3
    assert content(west.address, "east.as-is") == content(east.address, "as-is")
    assert [record.value for record in content(west.address, "east.as-is-too")[0]] == [b"new"]
    assert "east.west.as-is" not in at_west


def consume(address: str, group: str, topic: str, count: int) -> list[bytes]:
    """Join a group, read `count` records and commit them."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
    consumer.subscribe([topic])
    values: list[bytes] = []
    deadline_s = monotonic() + TIMEOUT_S
    while len(values) < count and monotonic() < deadline_s:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            values.append(message.value() or b"")
    assert len(values) == count, f"{len(values)} of {count} records of {topic} came for {group}"
    consumer.commit(asynchronous=False)
    consumer.close()
    return values


def mirrormaker_says(folder: Path, address: str, group: str) -> list[str]:
    """The offsets that MirrorMaker's RemoteClusterUtils reads."""
    libraries = maven.mirror_client_libraries(JUDGE_VERSION)
    done = subprocess.run(
        [
            *("java", "-Xmx128m", *SMALL, "-cp", f"{libraries}/*"),
            *(str(TRANSLATE_OFFSETS), address, "east", group),
        ],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=folder,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def add_topic_and_partition(east: BrokerProcess, west: BrokerProcess, job: MirrorJob) -> None:
    """Create a topic and a partition on the source, and wait until the mirror has both."""
    create(east.address, "orders-new", 1)
    send(east.address, "orders-new", [Sent(0, b"appeared")])
    grow(east.address, "orders", 3)
    send(east.address, "orders", [Sent(2, b"grown")])
    until(
        lambda: (
            job.turn()
            and partitions_of(west.address).get("east.orders") == 3
            and "east.orders-new" in partitions_of(west.address)
            and bool(content(west.address, "east.orders-new")[0])
            and bool(content(west.address, "east.orders")[2])
        ),
        "a new topic and a new partition are mirrored",
    )


def test_group_fails_over_while_the_mirror_runs(
    spark: SparkSession, east: BrokerProcess, west: BrokerProcess, tmp_path: Path
) -> None:
    create(east.address, "orders", 2)
    sent = [b"%d" % n for n in range(2000)]
    send(east.address, "orders", [Sent(n % 2, value) for n, value in enumerate(sent)])
    commit(east.address, "fail-billing", "orders", {0: 0, 1: 0})
    job = MirrorJob(
        mirror_of(file(east.address, west.address, name="fail", pattern="orders.*", mode="stream")),
        tmp_path,
    )
    job.open()
    job.start(spark)
    done = consume(east.address, "fail-billing", "orders", 700)
    at_east = committed(east.address, "fail-billing", "orders")
    assert sum(at_east.values()) >= 700

    until(
        lambda: job.turn() and committed(west.address, "fail-billing", "east.orders") == at_east,
        "the offsets of the group are at the target",
    )
    assert mirrormaker_says(tmp_path, west.address, "fail-billing") == [
        f"offset east.orders {partition} {at_east[partition]} " for partition in (0, 1)
    ] + ["upstream [east]", "hops 1", "checkpoints [east.checkpoints.internal]"]

    add_topic_and_partition(east, west, job)

    # The target offsets are unchanged when the group is reset on the source, or has members here.
    commit(east.address, "fail-billing", "orders", {0: 0, 1: 0})
    job.turn()
    job.turn()
    assert committed(west.address, "fail-billing", "east.orders") == at_east
    job.stop()

    commit(west.address, "fail-billing", "east.orders", {**at_east, 2: 0})
    left = len(sent) + 1 - sum(at_east.values())
    resumed = consume(west.address, "fail-billing", "east.orders", left)
    assert sorted(done[: sum(at_east.values())] + resumed) == sorted([*sent, b"grown"])
    run(spark, file(east.address, west.address, name="fail", pattern="orders.*"), tmp_path)
    assert content(west.address, "east.orders") == content(east.address, "orders")
    ends = {
        partition: len(records)
        for partition, records in content(west.address, "east.orders").items()
    }
    assert committed(west.address, "fail-billing", "east.orders") == ends


def test_recreated_source_topic_ends_the_mirror(
    spark: SparkSession, east: BrokerProcess, west: BrokerProcess, tmp_path: Path
) -> None:
    create(east.address, "again", 1)
    create(east.address, "again-not", 1)
    for topic in ("again", "again-not"):
        send(east.address, topic, [Sent(0, b"old %d" % n) for n in range(10)])
    text = file(east.address, west.address, name="again", pattern="again.*")
    run(spark, text, tmp_path)
    admin = AdminClient({"bootstrap.servers": east.address})
    admin.delete_topics(["again"])["again"].result(TIMEOUT_S)
    until(lambda: "again" not in partitions_of(east.address), "the topic is deleted")
    create(east.address, "again", 1)
    new = [Sent(0, b"new %d" % n) for n in range(20)]
    send(east.address, "again", new)
    with pytest.raises(
        TopicRecreatedError, match="topic again of east was deleted and created again"
    ):
        run(spark, text, tmp_path)
    shutil.rmtree(tmp_path / "again-state")
    run(spark, text, tmp_path)
    send(east.address, "again", [Sent(0, b"last")])
    new.append(Sent(0, b"last"))
    run(spark, text, tmp_path)
    values = [record.value for record in content(west.address, "east.again")[0]]
    assert values == [b"old %d" % n for n in range(10)] + [record.value for record in new]
    assert content(west.address, "east.again-not") == content(east.address, "again-not")


def test_records_with_timestamps_that_spark_cannot_read_are_mirrored_unchanged(
    spark: SparkSession, east: BrokerProcess, west: BrokerProcess, tmp_path: Path
) -> None:
    create(east.address, "nanoseconds", 3)
    create(east.address, "nanoseconds-not", 1)
    times_ms = [START_MS, START_MS * 1_000_000, START_MS, START_MS * 1_000_000]
    records = [
        Sent(number % 2, b"v%d" % number, b"k", time_ms, [("a", b"1"), ("b", None)])
        for number, time_ms in enumerate(times_ms * 20)
    ]
    send(east.address, "nanoseconds", [*records, Sent(0, None, b"k"), Sent(2, b"x" * 300_000)])
    send(east.address, "nanoseconds-not", [Sent(0, b"%d" % number) for number in range(30)])
    text = file(east.address, west.address, name="nanoseconds", pattern="nanoseconds.*", batch=25)
    run(spark, text, tmp_path)
    for topic in ("nanoseconds", "nanoseconds-not"):
        assert content(west.address, f"east.{topic}") == content(east.address, topic)

    # A batch that is repeated is compared with what is on the target.
    last = max(int(path.name) for path in tmp_path.glob("*/mirror/commits/[0-9]*"))
    for path in (tmp_path / "nanoseconds-state" / "mirror" / "commits").glob(f"*{last}*"):
        path.unlink()
    send(east.address, "nanoseconds", [Sent(1, b"later", None, START_MS * 1_000_000)])
    run(spark, text, tmp_path)
    for topic in ("nanoseconds", "nanoseconds-not"):
        assert content(west.address, f"east.{topic}") == content(east.address, topic)


def test_source_and_target_in_one_cluster_are_rejected(
    east: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "my.toml"
    path.write_text(file(east.address, f"localhost:{east.port}", name="loop", pattern=".*"))
    assert main(["mirror", str(path)]) == FAILED
    assert "east and west are one cluster" in capsys.readouterr().err


def test_record_rejected_by_the_target_ends_the_mirror(
    spark: SparkSession, east: BrokerProcess, west: BrokerProcess, tmp_path: Path
) -> None:
    create(east.address, "wide", 1)
    create(west.address, "east.wide", 1, {"max.message.bytes": "1000"})
    send(east.address, "wide", [Sent(0, b"x" * 5000)])
    text = file(east.address, west.address, name="wide", pattern='wide"\nsync_configs = false #')
    with pytest.raises(clusters.ClusterFailed, match=r"did not take a record: .*too large"):
        run(spark, text, tmp_path)


def test_second_mirror_on_a_checkpoint_is_rejected(
    east: BrokerProcess, west: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "my.toml"
    path.write_text(file(east.address, west.address, name="twice", pattern="nothing"))
    with locked(tmp_path / "twice-state"):
        assert main(["mirror", str(path)]) == FAILED
    assert "another process uses the checkpoint" in capsys.readouterr().err


def test_checkpoint_of_another_mirror_is_rejected(
    east: BrokerProcess, west: BrokerProcess, tmp_path: Path
) -> None:
    mirror = mirror_of(file(east.address, west.address, name="mine", pattern="nothing"))
    MirrorJob(mirror, tmp_path).open()
    theirs = mirror.model_copy(
        update={"source": mirror.source.model_copy(update={"alias": "north"})}
    )
    with pytest.raises(WrongCheckpoint, match="mine-state is the checkpoint of pipeline 'mine'"):
        MirrorJob(theirs, tmp_path).open()
