"""A broker with a log of 1,000 full segments and 60 partitions with large indexes serves clients.

Every callback of its event loop is measured, in CPU time of the loop's thread: the load of the
machine does not count.  What a CPU clock does not see, a sync or the removal of a large file, must
not happen on the loop at all.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import get_ident
from typing import Any, TypeVar

import pytest
from confluent_kafka import Consumer, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic

from odradek.broker.node.node import Node
from odradek.broker.settings.load import make_settings
from odradek.storage.files import names
from odradek.storage.log.log import Log
from tests.support.large_logs import LargeLog
from tests.support.machine_speed import slowness

CALLBACK_MS = 50
WAIT_S = 120
PARTITIONS = 60
PLACE = 54_321
"""An offset in the middle of a segment."""
Result = TypeVar("Result")


class Measured:
    """What the callbacks of a loop have cost."""

    def __init__(self) -> None:
        self.longest_ms = 0.0
        self.longest_name = ""
        self.slow_calls: list[str] = []
        self.thread = get_ident()
        self.is_at_work = False

    def note(self, took_ms: float, handle: Any) -> None:
        if took_ms > self.longest_ms:
            self.longest_ms, self.longest_name = took_ms, repr(handle)

    def check(self, what: str) -> None:
        print(f"{self.longest_ms:8.3f} ms  {what}: {self.longest_name}")
        is_short = self.longest_ms < CALLBACK_MS or self.longest_ms < CALLBACK_MS * slowness()
        assert is_short, (what, self.longest_ms, self.longest_name)
        assert not self.slow_calls, what
        self.longest_ms = 0.0


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    measurement = Measured()
    run = asyncio.Handle._run

    def measuring(self: asyncio.Handle) -> None:
        began_ns = time.thread_time_ns()
        run(self)
        measurement.note((time.thread_time_ns() - began_ns) / 1e6, self)

    monkeypatch.setattr(asyncio.Handle, "_run", measuring)
    for name in ("fsync", "fdatasync"):
        synced = getattr(os, name)

        def sync(descriptor: int, real: Callable[[int], None] = synced) -> None:
            path = os.readlink(f"/proc/self/fd/{descriptor}")
            # Coordination is one small file of its own.
            if (
                measurement.is_at_work
                and get_ident() == measurement.thread
                and "coordination" not in path
            ):
                measurement.slow_calls.append(f"a sync of {path}")
            real(descriptor)

        monkeypatch.setattr(os, name, sync)
    unlink = os.unlink

    def removing(path: Any, **rest: Any) -> None:
        if measurement.is_at_work and get_ident() == measurement.thread and ".log" in str(path):
            measurement.slow_calls.append(f"the removal of {path}")
        unlink(path, **rest)

    monkeypatch.setattr(os, "unlink", removing)
    return measurement


class Running:
    """A node on a loop of this thread; clients run in another one."""

    def __init__(self, folder: Path) -> None:
        self.loop = asyncio.new_event_loop()
        self.node = Node(
            self.loop,
            make_settings(
                {
                    "listeners": "PLAINTEXT://127.0.0.1:0",
                    "advertised.listeners": "PLAINTEXT://127.0.0.1:0",
                    "log.dirs": f"{folder}/a,{folder}/b",
                    "broker.id": "1",
                }
            ),
        )
        self.node.start()
        self.bootstrap = f"127.0.0.1:{self.node.listeners[0].port}"

    def client(self, work: Callable[[], Result]) -> Result:
        return self.loop.run_until_complete(asyncio.to_thread(work))

    def on_loop(self, work: Callable[[], object]) -> None:
        """As one callback, and the loop runs until its disk jobs are done."""

        async def wait() -> None:
            self.loop.call_soon(work)
            await asyncio.to_thread(lambda: None)
            await self.node.parts.jobs.finish()

        self.loop.run_until_complete(wait())

    def stop(self) -> None:
        self.loop.run_until_complete(self.node.stop())
        self.loop.close()


@contextmanager
def running(folder: Path) -> Iterator[Running]:
    made = Running(folder)
    yield made
    made.stop()


def folder_of(folder: Path, name: str) -> Path:
    return next(path for path in folder.glob(f"*/{name}"))


def create(bootstrap: str, partitions: dict[str, int]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(name, count, 1) for name, count in partitions.items()]
    for done in admin.create_topics(topics).values():
        done.result(WAIT_S)


def make_logs(folder: Path) -> tuple[LargeLog, list[LargeLog]]:
    with running(folder) as first:
        first.client(lambda: create(first.bootstrap, {"one": 1, "many": PARTITIONS, "warm": 1}))
    single = LargeLog(folder_of(folder, "one-0"), 1_000)
    single.make([PLACE])
    many = []
    for number in range(PARTITIONS):
        # Batches of 16 KiB and, with indexes of 262,144 entries, of 4 KiB.
        log = LargeLog(folder_of(folder, f"many-{number}"), 2, (16 << 10, 4 << 10)[number % 2])
        log.make(range(PLACE - 1, PLACE + 64))
        many.append(log)
    return single, many


def times(bootstrap: str, partitions: list[TopicPartition]) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    offsets = consumer.offsets_for_times(partitions, timeout=WAIT_S)
    consumer.close()
    return [each.offset for each in offsets]


def special(bootstrap: str, spec: OffsetSpec, partitions: list[TopicPartition]) -> list[int]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = admin.list_offsets(
        dict.fromkeys(partitions, spec), isolation_level=IsolationLevel.READ_UNCOMMITTED
    )
    return [done.result(WAIT_S).offset for done in asked.values()]


def read_one_of_each(bootstrap: str, topic: str, places: dict[int, int]) -> dict[int, int]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "auto.offset.reset": "error",
            "max.partition.fetch.bytes": 1_000,
            "queued.min.messages": 1,
            "fetch.queue.backoff.ms": 10,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(topic, index, place) for index, place in places.items()])
    offsets: dict[int, int] = {}
    deadline_s = time.monotonic() + WAIT_S
    while len(offsets) < len(places) and time.monotonic() < deadline_s:
        message = consumer.poll(1.0)
        if message is not None:
            assert message.error() is None, message.error()
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            offsets.setdefault(partition, offset)
            consumer.pause([TopicPartition(topic, partition)])
    consumer.close()
    return offsets


def produce(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for _ in range(50):
        producer.produce(topic, b"value", partition=0)
    assert producer.flush(WAIT_S) == 0


def delete(bootstrap: str, below: list[TopicPartition]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.delete_records(below).values():
        done.result(WAIT_S)


def warm_up(broker: Running) -> None:
    """Handlers are imported and codecs made at their first request."""
    at, alone = broker.bootstrap, [TopicPartition("warm", 0, 1)]
    broker.client(lambda: produce(at, "warm"))
    broker.client(lambda: read_one_of_each(at, "warm", {0: 0}))
    broker.client(lambda: times(at, alone))
    broker.client(lambda: special(at, OffsetSpec.max_timestamp(), alone))
    broker.client(lambda: delete(at, alone))
    gc.collect()
    gc.freeze()


def test_no_callback_of_the_loop_grows_with_the_logs(tmp_path: Path, measured: Measured) -> None:
    single, many = make_logs(tmp_path)
    everything = [TopicPartition("many", index) for index in range(PARTITIONS)]
    with running(tmp_path) as broker:
        warm_up(broker)
        measured.longest_ms, measured.is_at_work = 0.0, True
        at = broker.bootstrap

        places = dict.fromkeys(range(PARTITIONS), PLACE)
        assert broker.client(lambda: read_one_of_each(at, "many", places)) == places
        measured.check("a fetch of old offsets of 60 partitions")

        asked = [
            TopicPartition("many", index, log.timestamp_ms(PLACE)) for index, log in enumerate(many)
        ]
        assert broker.client(lambda: times(at, asked)) == [PLACE] * PARTITIONS
        last_ms = single.timestamp_ms(single.end_offset - 1)
        last = TopicPartition("one", 0, last_ms)
        first_of_last = single.end_offset - single.batches * 99 - 1
        single.put(first_of_last - 1)
        single.put(first_of_last)
        assert broker.client(lambda: times(at, [last])) == [first_of_last]
        measured.check("searches by time")

        for spec, expected in (
            (OffsetSpec.earliest(), 0),
            (OffsetSpec.latest(), single.end_offset),
            (OffsetSpec.max_timestamp(), first_of_last),
        ):
            offsets = broker.client(partial(special, at, spec, [TopicPartition("one", 0)]))
            assert offsets == [expected]
            offsets = broker.client(partial(special, at, spec, everything))
            assert len(offsets) == PARTITIONS
        measured.check("earliest, latest and greatest timestamps")

        below = [TopicPartition("one", 0, 500 * single.batches + 7)]
        below += [TopicPartition("many", index, 10) for index in range(PARTITIONS)]
        broker.client(lambda: delete(at, below))
        measured.check("DeleteRecords")

        log = apply_retention(broker, single)
        measured.check("retention")

        broker.client(lambda: produce(at, "one"))
        log.roll(now_ms=broker.node.services.clock.now_ms())
        broker.client(lambda: produce(at, "one"))
        broker.on_loop(broker.node.parts.background._tick)
        measured.check("appends, a roll and a flush")

        manager = broker.node.services.logs
        gone = manager.get("many", 1)
        assert gone is not None
        directory = manager.directory_of(gone)
        broker.on_loop(lambda: manager.take_offline(directory, OSError("the disk has failed")))
        broker.on_loop(broker.node.parts.background._tick)
        measured.check("a directory that goes offline")
        measured.is_at_work = False
    measured.check("the stop")


def apply_retention(broker: Running, large_log: LargeLog) -> Log:
    """Retention of the log `one`, which keeps its active segment only; returns the log."""
    node = broker.node
    log = broker.node.services.logs.get("one", 0)
    assert log is not None
    broker.on_loop(node.parts.retention.run)
    broker.loop.run_until_complete(until(lambda: not node.parts.retention.is_running))
    # The half that DeleteRecords has left is too old for retention.ms as well.
    assert len(log.segments) == 1
    broker.on_loop(lambda: node.parts.jobs.run(list(node.parts.upkeep.remove(now_ms=1 << 62))))
    assert len(list(large_log.folder.glob("*.deleted"))) == 0
    return log


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.to_thread(lambda: None)


def test_clients_are_served_while_indexes_are_rebuilt(
    tmp_path: Path, measured: Measured, caplog: pytest.LogCaptureFixture
) -> None:
    logs = make_damaged_logs(tmp_path)
    with running(tmp_path) as broker:
        warm_up(broker)
        measured.longest_ms, measured.is_at_work = 0.0, True
        at, place = broker.bootstrap, logs[0].batches // 2
        places = dict.fromkeys(range(len(logs)), place)
        assert broker.client(lambda: read_one_of_each(at, "many", places)) == places
        asked = [
            TopicPartition("many", index, log.timestamp_ms(place)) for index, log in enumerate(logs)
        ]
        assert broker.client(lambda: times(at, asked)) == [place] * len(logs)
        measured.check("reads while indexes are rebuilt")
        assert broker.node.services.metrics.request_errors == 0
        rebuilt = [line for line in caplog.messages if "its indexes are rebuilt" in line]
        assert len(rebuilt) == len(logs), "each once, with a line that says why"
        measured.is_at_work = False
    for log in logs:
        assert log.path(0, names.OFFSET_INDEX).stat().st_size > 8 * 1_000


def make_damaged_logs(folder: Path) -> list[LargeLog]:
    with running(folder) as first:
        first.client(lambda: create(first.bootstrap, {"many": 4, "warm": 1}))
    logs = []
    for number in range(4):
        log = LargeLog(folder_of(folder, f"many-{number}"), 1, 4 << 10, 16 << 20)
        log.make(range(log.batches))
        log.own(0)
        index = log.path(0, (names.OFFSET_INDEX, names.TIME_INDEX)[number % 2])
        if number < 2:
            index.unlink()
        else:
            # The last entry is sound, those before lead nowhere.
            content = index.read_bytes()
            index.write_bytes(b"\x01" * (len(content) - 12) + content[-12:])
        logs.append(log)
    return logs
