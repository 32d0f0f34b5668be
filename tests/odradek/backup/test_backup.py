"""`odradek backup` of a broker of ours, restored into another one."""

from __future__ import annotations

import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.odradek.backup import scene
from tests.odradek.console_tools import our_command, our_tool
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.compacted import wait_until
from tests.support.moto_server import s3_server

pytestmark = pytest.mark.client


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with the topics of the scene; tests do not change those."""
    with odradek_broker(tmp_path_factory.mktemp("source"), overrides=scene.SETTINGS) as broker:
        scene.fill(broker.address)
        yield broker


@pytest.fixture(scope="module")
def backup(source: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of the scene; tests copy it before they change it."""
    place = tmp_path_factory.mktemp("backup") / "all"
    words = ["--all", "--to", str(place), "--bootstrap-server", source.address]
    assert "4 topics, 7 partitions, 1 groups" in scene.successful("backup", *words)
    return place


def restart(broker: BrokerProcess) -> Callable[[Callable[[], None]], None]:
    def around(act: Callable[[], None]) -> None:
        assert broker.stop() == 0
        act()
        broker.start()

    return around


def produced_offset(address: str, topic: str) -> int | None:
    """The offset that the next record gets, of an idempotent producer."""
    offsets: list[int | None] = []
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    producer.produce(
        topic,
        b"new",
        b"key",
        partition=0,
        callback=lambda error, message: offsets.append(-1 if error else message.offset()),
    )
    assert producer.flush(scene.WAIT_S) == 0
    return offsets[0]


def test_restored_broker_has_the_records_offsets_groups_and_configs(
    source: BrokerProcess, backup: Path, tmp_path: Path
) -> None:
    rows = scene.manifest(backup)["topics"]
    log = rows[scene.KEYED]["partitions"][0]
    first = log["files"][0]
    assert log["end_offset"] == 1_000 > first["size_bytes"] / 100, "compaction has left gaps"
    assert rows[scene.PLAIN]["partitions"][1]["start_offset"] == 33
    with odradek_broker(tmp_path / "target", overrides=scene.SETTINGS) as target:
        words = ["--from", str(backup), "--bootstrap-server", target.address]
        scene.restore(str(backup), target.address, [target.log_directories], restart(target))
        assert "same records at the same offsets" in scene.successful("backup", "verify", *words)
        assert scene.read_all(target.address) == scene.read_all(source.address)
        assert scene.committed(target.address) == scene.COMMITTED
        for topic in scene.PARTITIONS:
            assert scene.configs(target.address, topic) == scene.configs(source.address, topic)
            assert scene.CONFIGS[topic].items() <= scene.configs(target.address, topic).items()
        # After a kill, too: what was restored is on the disk, and checked by the start.
        target.kill()
        target.start()
        assert scene.read_all(target.address) == scene.read_all(source.address)
        for topic, partitions in rows.items():
            end_offset = partitions["partitions"][0]["end_offset"]
            assert produced_offset(target.address, topic) == end_offset
        target.stop()
        result = our_tool("check-log-dirs", list(map(str, target.log_directories)))
        assert result.exit_code == 0, result.output


def test_restore_goes_on_where_it_was_interrupted_and_refuses_other_records(
    backup: Path, tmp_path: Path
) -> None:
    with odradek_broker(tmp_path / "target", overrides=scene.SETTINGS) as target:
        online = ["--from", str(backup), "--bootstrap-server", target.address]
        on_disk = ["--from", str(backup), "--to-log-dirs", str(target.data)]
        result = scene.tool("restore", *on_disk)
        assert "is in use: stop the broker" in result.errors
        scene.successful("restore", *online)
        result = scene.tool("restore", *online)
        assert (result.exit_code, result.output) == (1, "")
        assert "the logs of 3 topics" in result.errors
        target.stop()
        only = ["--topic", scene.PLAIN]
        assert "3 logs restored, 0 were there" in scene.successful("restore", *on_disk, *only)
        assert "2 logs restored, 5 were there" in scene.successful("restore", *on_disk)
        target.start()
        scene.successful("restore", *online)
        produced_offset(target.address, scene.PLAIN)
        result = scene.tool("restore", *online)
        assert "a backup is restored into new topics" in result.errors
        target.stop()


@pytest.mark.parametrize("damage", ["flip", "cut", "lose", "manifest"])
def test_damaged_backup_is_found_before_anything_is_written(
    backup: Path, tmp_path: Path, damage: str
) -> None:
    place = tmp_path / "copy"
    shutil.copytree(backup, place)
    files = sorted((place / "segments").rglob("*.log"))
    victim = place / "manifest.json" if damage == "manifest" else files[-1]
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    if damage == "lose":
        victim.unlink()
    else:
        victim.write_bytes(data[:-1] if damage == "cut" else data)
    logs = tmp_path / "logs"
    for topic, count in scene.PARTITIONS.items():
        for partition in range(count):
            (logs / f"{topic}-{partition}").mkdir(parents=True)
    before = sorted(logs.rglob("*"))
    for words in (["backup", "verify"], ["restore", "--to-log-dirs", str(logs)]):
        result = scene.tool(*words, "--from", str(place))
        assert result.exit_code == 1
        assert "damaged" in result.errors or "missing" in result.errors
        assert result.errors.count("\n") == 1
    assert [path for path in sorted(logs.rglob("*")) if path.name != ".lock"] == before


def created(admin: AdminClient, name: str) -> bool:
    """Create a topic, unless its deletion is under way."""
    try:
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(scene.WAIT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        return False
    return True


def test_incremental_backup_reads_what_is_new_and_notices_other_logs(tmp_path: Path) -> None:
    place = tmp_path / "backup"
    with odradek_broker(tmp_path / "broker") as broker:
        address = broker.address
        admin = AdminClient({"bootstrap.servers": address})
        names = ["grows", "again"]
        for future in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
            future.result(scene.WAIT_S)
        words = ["--all", "--to", str(place), "--bootstrap-server", address]
        for name in names:
            for _ in range(3):
                produced_offset(address, name)
        scene.successful("backup", *words)
        (first,) = scene.manifest(place)["topics"]["grows"]["partitions"][0]["files"]
        result = scene.tool("backup", *words)
        assert "has a backup already" in result.errors
        produced_offset(address, "grows")
        admin.delete_topics(["again"])["again"].result(scene.WAIT_S)
        result = scene.tool("backup", *words, "--incremental")
        assert result.exit_code == 1
        assert "topic again does not exist any more: its backup stays" in result.errors
        (kept, new) = scene.manifest(place)["topics"]["grows"]["partitions"][0]["files"]
        assert (kept, new["base_offset"], new["end_offset"]) == (first, 3, 4)
        wait_until("the topic is deleted", lambda: created(admin, "again"))
        produced_offset(address, "again")
        result = scene.tool("backup", *words, "--incremental")
        assert "was deleted and created again: its backup stays" in result.errors
        assert scene.manifest(place)["topics"]["again"]["partitions"][0]["end_offset"] == 3
        scene.successful("backup", *words, "--incremental", "--replace")
        assert scene.manifest(place)["topics"]["again"]["partitions"][0]["end_offset"] == 1
        scene.successful(
            "backup", "verify", "--from", str(place), "--bootstrap-server", broker.address
        )
        names_of_files = {str(path.relative_to(place)) for path in place.rglob("*.log")}
        topics = scene.manifest(place)["topics"].values()
        assert names_of_files == {
            file["name"] for topic in topics for row in topic["partitions"] for file in row["files"]
        }
        broker.stop()
        shutil.rmtree(broker.data / "grows-0")
        broker.start()
        result = scene.tool("backup", *words, "--incremental")
        assert result.exit_code == 1
        assert "grows-0: it ends at offset 0, the backup at 4: it was truncated" in result.errors
        assert scene.manifest(place)["topics"]["grows"]["partitions"][0]["end_offset"] == 4


def test_killed_backup_leaves_the_last_one_as_it_was(
    source: BrokerProcess, backup: Path, tmp_path: Path
) -> None:
    place = tmp_path / "copy"
    shutil.copytree(backup, place)
    before = (place / "manifest.json").read_bytes()
    # Everything is read again: the topics of the copy have other ids than those of the broker.
    with odradek_broker(tmp_path / "broker") as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic(scene.PLAIN, 3, 1)])[scene.PLAIN].result(scene.WAIT_S)
        for number in range(3):
            scene.write_plain(broker.address, "none", 300, first=number * 300)
        words = ["--all", "--to", str(place), "--bootstrap-server", broker.address]
        command = our_command("backup", [*words, "--incremental", "--replace"])
        process = subprocess.Popen(command)
        wait_until(
            "a new file", lambda: list((place / "segments").glob("000002-*/*/*/*")), timeout_s=60
        )
        process.send_signal(signal.SIGKILL)
        process.wait(scene.WAIT_S)
        if (place / "manifest.json").read_bytes() == before:
            scene.successful("backup", "verify", "--from", str(place))
        # The second run removes what the killed one has left.
        for _ in range(2):
            scene.tool("backup", *words, "--incremental", "--replace")
        scene.successful("backup", "verify", "--from", str(place))
        assert not list(place.rglob("*.tmp"))


def test_killed_restore_is_repeated(source: BrokerProcess, backup: Path, tmp_path: Path) -> None:
    with odradek_broker(tmp_path / "target", overrides=scene.SETTINGS) as target:
        online = ["--from", str(backup), "--bootstrap-server", target.address]
        scene.successful("restore", *online)
        target.stop()
        on_disk = ["--from", str(backup), "--to-log-dirs", str(target.data)]
        process = subprocess.Popen(our_command("restore", on_disk))
        wait_until("a new log", lambda: list(target.data.glob("*-delete")), timeout_s=60)
        process.send_signal(signal.SIGKILL)
        process.wait(scene.WAIT_S)
        # The broker removes what was not finished.
        target.start()
        target.stop()
        scene.successful("restore", *on_disk)
        target.start()
        scene.successful("restore", *online)
        assert scene.read_all(target.address) == scene.read_all(source.address)


def test_backup_in_a_bucket_is_restored(
    source: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3_server(tmp_path, "backups") as server:
        for name, value in (
            ("AWS_ENDPOINT_URL", server),
            ("AWS_ACCESS_KEY_ID", "any"),
            ("AWS_SECRET_ACCESS_KEY", "any"),
            ("AWS_DEFAULT_REGION", "us-east-1"),
        ):
            monkeypatch.setenv(name, value)
        place = "s3://backups/of/today"
        words = ["--to", place, "--bootstrap-server", source.address]
        scene.successful("backup", scene.ATOMIC, *words)
        scene.successful("backup", "--all", "--incremental", *words)
        assert "whole" in scene.successful("backup", "verify", "--from", place)
        with odradek_broker(tmp_path / "target", overrides=scene.SETTINGS) as target:
            scene.restore(place, target.address, [target.log_directories], restart(target))
            assert scene.read_all(target.address) == scene.read_all(source.address)
        result = scene.tool("backup", "verify", "--from", "s3://absent/backup")
        assert result.exit_code == 1
        assert "NoSuchBucket" in result.errors


def test_place_that_is_full_is_named(source: BrokerProcess, tmp_path: Path) -> None:
    place = tmp_path / "full"
    words = ["--all", "--to", str(place), "--bootstrap-server", source.address]
    python, *rest = our_command("backup", words)
    done = subprocess.run(
        [python, "-B", *rest],  # The limit would cut files of bytecode.
        capture_output=True,
        text=True,
        timeout=scene.WAIT_S,
        check=False,
        # It stands for a full disk: the kernel refuses the write with EFBIG instead of ENOSPC.
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000)),
    )
    assert (done.returncode, done.stdout) == (1, "")
    line = done.stderr.splitlines()[-1]
    assert line.startswith(f"odradek: {place}/segments/")
    assert line.endswith(".log cannot be written: File too large")
    assert not list(place.rglob("*.tmp"))
    assert not (place / "manifest.json").exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["absent"], "topic absent does not exist"),
        (["__consumer_offsets"], "is internal"),
        (["--all", "--group", "absent"], "group absent does not exist"),
    ],
)
def test_backup_of_what_does_not_exist_is_refused(
    source: BrokerProcess, tmp_path: Path, words: list[str], reason: str
) -> None:
    place = tmp_path / "backup"
    result = scene.tool("backup", *words, "--to", str(place), "--bootstrap-server", source.address)
    assert (result.exit_code, result.output) == (1, "")
    assert reason in result.errors
    assert not place.exists()


def test_place_without_a_name_is_not_the_working_directory(
    source: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    server = ["--bootstrap-server", source.address]
    for words in (["backup", "--all", "--to", "", *server], ["restore", "--from", "", *server]):
        result = scene.tool(*words)
        assert (result.exit_code, result.output) == (1, "")
        assert result.errors == "odradek: the place of the backup has no name\n"
    assert list(tmp_path.iterdir()) == []
