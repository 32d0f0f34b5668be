"""A broker with damaged coordination files: its error, and the recovery of all records."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.odradek.console_tools import our_tool_here
from tests.support.broker_process import BrokerProcess
from tests.support.processes import ProcessFailed

WAIT_S = 120.0
RECORDS = 240
COMMITTED = 30
TOPIC = "plain"
GROUP = "readers"

Damage = Callable[[Sequence[Path], random.Random], None]


def coordination_files(data: Path) -> list[Path]:
    """Snapshots and journals, oldest first, without renamed ones."""
    files = [*data.glob("coordination.snapshot.*"), *data.glob("coordination.journal.*")]
    return sorted(
        (file for file in files if file.suffix[1:].isdecimal()), key=lambda file: file.suffix
    )


def journals(files: Sequence[Path]) -> list[Path]:
    return [file for file in files if "journal" in file.name]


def flip_bits(files: Sequence[Path], rng: random.Random) -> None:
    for path in files:
        content = bytearray(path.read_bytes())
        for _ in range(3):
            # Not at the end of a journal, where it would look like the effect of a crash.
            content[rng.randrange(len(content) // 2)] ^= 1 << rng.randrange(8)
        path.write_bytes(content)


def cut(files: Sequence[Path], rng: random.Random) -> None:
    for path in files:
        content = path.read_bytes()
        path.write_bytes(content[: rng.randrange(1, len(content) // 2)])


def empty(files: Sequence[Path], rng: random.Random) -> None:
    for path in files:
        path.write_bytes(b"")


def fill_with_garbage(files: Sequence[Path], rng: random.Random) -> None:
    for path in files:
        path.write_bytes(rng.randbytes(path.stat().st_size))


def remove_snapshots_and_first_journal(files: Sequence[Path], rng: random.Random) -> None:
    for path in files:
        if path != journals(files)[-1]:
            path.unlink()


def remove_newest_journal(files: Sequence[Path], rng: random.Random) -> None:
    journals(files)[-1].unlink()


def damage_newest_journal(files: Sequence[Path], rng: random.Random) -> None:
    flip_bits(journals(files)[-1:], rng)


def key_of(message: Message) -> str:
    assert message.error() is None
    key = message.key()
    assert key is not None
    return key.decode() if isinstance(key, bytes) else key


def send(address: str, first: int, count: int) -> None:
    lost: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for number in range(first, first + count):
        producer.produce(
            TOPIC,
            key=str(number),
            value=b"v",
            partition=number % 3,
            on_delivery=lambda error, _: lost.append(error) if error else None,
        )
    assert producer.flush(WAIT_S) == 0
    assert not lost


def read(address: str, count: int) -> set[str]:
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "again", "enable.auto.commit": False}
    )
    try:
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(3)])
        keys: set[str] = set()
        while len(keys) < count:
            messages = consumer.consume(count, WAIT_S)
            assert messages, f"{len(keys)} of {count} records came"
            keys |= {key_of(message) for message in messages}
        return keys
    finally:
        consumer.close()


def committed(address: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": GROUP})
    try:
        asked = [TopicPartition(TOPIC, partition) for partition in range(3)]
        return [partition.offset for partition in consumer.committed(asked, WAIT_S)]
    finally:
        consumer.close()


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a broker that was stopped, started again and killed."""
    folder = tmp_path_factory.mktemp("original")
    broker = BrokerProcess(folder, overrides={"offsets.topic.num.partitions": "4"}).start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.address})
        made = admin.create_topics([NewTopic(TOPIC, 3, 1, config={"segment.bytes": "4000"})])
        made[TOPIC].result(WAIT_S)
        send(broker.address, 0, RECORDS // 2)
        consumer = Consumer({"bootstrap.servers": broker.address, "group.id": GROUP})
        consumer.commit(
            offsets=[TopicPartition(TOPIC, partition, COMMITTED) for partition in range(3)],
            asynchronous=False,
        )
        consumer.close()
        assert broker.stop() == 0
        broker.start()
        change = ConfigEntry("segment.bytes", "5000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[change])
        admin.incremental_alter_configs([resource])[resource].result(WAIT_S)
        send(broker.address, RECORDS // 2, RECORDS // 2)
        broker.kill()
    finally:
        broker.close()
    return folder


@pytest.fixture
def broker(original: Path, tmp_path: Path) -> BrokerProcess:
    """A broker on a copy of that folder, not started."""
    return copied(original, tmp_path)


def copied(original: Path, folder: Path) -> BrokerProcess:
    shutil.copytree(original / "data", folder / "data")
    return BrokerProcess(folder, overrides={"offsets.topic.num.partitions": "4"})


def recover(broker: BrokerProcess, *words: str, code: int = 0) -> str:
    at = ["--override", "broker.id=0", "--override", f"log.dirs={broker.data}"]
    done = our_tool_here("recover-metadata", [*at, *words])
    assert done.exit_code == code, done.output + done.errors
    return done.output + done.errors


def recover_and_check(broker: BrokerProcess) -> str:
    before = {path: path.read_bytes() for path in coordination_files(broker.data)}
    assert "Nothing was written" in recover(broker)
    assert {path: path.read_bytes() for path in coordination_files(broker.data)} == before
    output = recover(broker, "--execute")
    assert "The metadata are written" in output
    broker.start()
    try:
        assert read(broker.address, RECORDS) == {str(number) for number in range(RECORDS)}
        assert committed(broker.address) == [COMMITTED] * 3
        send(broker.address, RECORDS, 30)
        assert len(read(broker.address, RECORDS + 30)) == RECORDS + 30
        assert "in use by another" in recover(broker, code=1)
        assert broker.stop() == 0
    finally:
        broker.close()
    assert "There is nothing to do" in recover(broker)
    return output


LIKE = {
    cut: flip_bits,
    fill_with_garbage: empty,
    remove_snapshots_and_first_journal: empty,
    remove_newest_journal: damage_newest_journal,
}
"""Damages after which the same is left."""


@pytest.mark.parametrize("damage", [*LIKE, *dict.fromkeys(LIKE.values())])
def test_start_on_damaged_metadata_names_the_file_and_the_command(
    broker: BrokerProcess, damage: Damage
) -> None:
    damage(coordination_files(broker.data), random.Random(5))
    before = {path: path.read_bytes() for path in coordination_files(broker.data)}
    with pytest.raises(ProcessFailed):
        broker.start()
    assert {path: path.read_bytes() for path in coordination_files(broker.data)} == before
    log = (broker.folder / "broker.log").read_text()
    (line,) = [line for line in log.splitlines() if line.startswith("odradek: ")]
    assert f"{broker.data}/coordination." in line
    assert "odradek recover-metadata" in line
    assert "Traceback" not in log


@pytest.mark.parametrize("damage", [*dict.fromkeys(LIKE.values())])
def test_damaged_metadata_are_rebuilt_without_losing_records(
    broker: BrokerProcess, damage: Damage
) -> None:
    damage(coordination_files(broker.data), random.Random(5))
    recover_and_check(broker)


@pytest.mark.parametrize(("damage", "like"), LIKE.items())
def test_metadata_of_which_the_same_is_left_are_rebuilt_alike(
    original: Path, tmp_path: Path, damage: Damage, like: Damage
) -> None:
    changes = []
    for name in (damage, like):
        broker = copied(original, tmp_path / name.__name__)
        name(coordination_files(broker.data), random.Random(5))
        lines = recover(broker, "--execute").splitlines()
        assert lines[-1].startswith("The metadata are written")
        changes.append([line for line in lines if line.startswith(("restored: ", "lost: "))])
    assert changes[0] == changes[1]
    assert len(changes[0]) > 1


def test_damaged_snapshot_is_replaced_by_its_predecessor_without_loss(
    broker: BrokerProcess,
) -> None:
    snapshot = coordination_files(broker.data)[-2]
    assert "snapshot" in snapshot.name
    snapshot.write_bytes(b"")
    broker.start()
    try:
        log = (broker.folder / "broker.log").read_text()
        assert f"{snapshot} (0 bytes) is damaged" in log
        assert "nothing is lost" in log
        assert read(broker.address, RECORDS) == {str(number) for number in range(RECORDS)}
        assert committed(broker.address) == [COMMITTED] * 3
    finally:
        broker.close()


def test_start_without_coordination_files_reports_folders_and_keeps_them(
    broker: BrokerProcess,
) -> None:
    for path in coordination_files(broker.data):
        path.unlink()
    broker.start()
    try:
        log = (broker.folder / "broker.log").read_text()
        assert "7 folders in log.dirs belong to no topic" in log
        assert "odradek recover-metadata" in log
        admin = AdminClient({"bootstrap.servers": broker.address})
        with pytest.raises(KafkaException, match="recover-metadata") as refusal:
            admin.create_topics([NewTopic(TOPIC, 3, 1)])[TOPIC].result(WAIT_S)
        assert refusal.value.args[0].code() == KafkaError.TOPIC_EXCEPTION
        errors: list[KafkaError | None] = []
        producer = Producer({"bootstrap.servers": broker.address})
        producer.produce(TOPIC, b"v", on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(WAIT_S) == 0
        assert errors[0] is not None
        assert errors[0].code() == KafkaError.TOPIC_EXCEPTION
        assert broker.stop() == 0
    finally:
        broker.close()
    output = recover_and_check(broker)
    assert f"topic {TOPIC}: its settings" in output


def test_topic_whose_folders_have_lost_its_id_is_recovered(broker: BrokerProcess) -> None:
    for path in coordination_files(broker.data):
        path.unlink()
    for folder in broker.data.glob(f"{TOPIC}-*"):
        (folder / "partition.metadata").write_bytes(b"")
    (broker.data / "backup-20261125").mkdir()
    output = recover(broker, "--execute")
    assert f"topic {TOPIC}: a new id, 3 partitions" in output
    assert "backup-20261125 is left out" in output
    broker.start()
    try:
        assert read(broker.address, RECORDS) == {str(number) for number in range(RECORDS)}
        send(broker.address, RECORDS, 30)
        assert broker.stop() == 0
    finally:
        broker.close()


def test_metadata_in_zookeeper_are_not_recovered_from_folders(broker: BrokerProcess) -> None:
    output = recover(broker, "--override", "zookeeper.connect=127.0.0.1:2181", "--execute", code=1)
    assert output.startswith("odradek: the metadata of this broker are in ZooKeeper")
    assert "Traceback" not in output
