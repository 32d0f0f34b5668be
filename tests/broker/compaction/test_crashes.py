"""Compaction and what goes wrong: kills of broker and worker, a full disk, a stop in the midst."""

from __future__ import annotations

import os
import random
import resource
import signal
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ResourceType

from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.compacted import (
    BROKER,
    COMPACT,
    WAIT_S,
    Keyed,
    alter,
    check_log,
    cleaned_up_to,
    create_topic,
    files_of,
    has_ended,
    wait_for_cleaning,
    wait_until,
    worker_of,
)
from tests.support.processes import pause_process

TOPIC = "keyed"
SLOW = {**BROKER, "log.cleaner.io.max.bytes.per.second": "2000000"}
"""So that a kill finds a cleaning under way."""
CRAWLING = {**BROKER, "log.cleaner.io.max.bytes.per.second": "100000"}
"""So that no cleaning of a whole segment ends between two looks."""
WRITES_S = 0.2
"""From one write to the next while a cleaning is awaited."""
STOP_S = 29.0
"""Below what a broker waits at most for its worker, which cleans for minutes or hangs."""


def leftovers(broker: BrokerProcess) -> list[Path]:
    """Files of a cleaning that did not come to its end."""
    return [*files_of(broker, TOPIC, ".cleaned"), *files_of(broker, TOPIC, ".swap")]


def write_until_cleaning(broker: BrokerProcess, written: Keyed, *, keys: int) -> None:
    """Write on until a cleaning is seen: one may have come and gone between two looks.

    Slowly, because a worker on a busy machine comes late.
    """
    next_s = 0.0

    def is_cleaning() -> bool:
        nonlocal next_s
        if time.monotonic() >= next_s:
            next_s = time.monotonic() + WRITES_S
            written.write_some(100, keys=keys)
        return bool(leftovers(broker))

    wait_until("a cleaning", is_cleaning)


@pytest.mark.parametrize("victim", ["broker", "worker"])
def test_killed_worker_or_broker_loses_no_record(tmp_path: Path, victim: str) -> None:
    chance = random.Random(victim)
    pause = threading.Event()
    with odradek_broker(tmp_path, overrides=SLOW) as broker:
        create_topic(broker, TOPIC, COMPACT)
        written = Keyed(TOPIC).connect(broker)
        for _ in range(2):
            written.write_some(2_000, keys=400)
            write_until_cleaning(broker, written, keys=400)
            pause.wait(chance.uniform(0, 0.3))
            if victim == "broker":
                worker = worker_of(broker)
                broker.kill()
                wait_until("the end of the worker", partial(has_ended, worker))
                broker.start()
            else:
                os.kill(wait_until("a worker", lambda: worker_of(broker)), signal.SIGKILL)
        written.flush()
        wait_for_cleaning(broker, TOPIC)
        records = check_log(broker, written)
        assert len(records) < written.sent
        assert leftovers(broker) == []
        assert broker.stop() == 0


def test_stop_in_the_midst_of_a_cleaning_is_quick_and_clean(tmp_path: Path) -> None:
    with odradek_broker(tmp_path, overrides=CRAWLING) as broker:
        # The first cleaning is of everything: none ends while records are being written.
        create_topic(broker, TOPIC, {**COMPACT, "cleanup.policy": "delete"})
        written = Keyed(TOPIC).connect(broker)
        written.write_some(4_000, keys=4_000)
        written.flush()
        alter(broker, ResourceType.TOPIC, TOPIC, {"cleanup.policy": "compact"})
        wait_until("a cleaning", lambda: leftovers(broker))
        worker = worker_of(broker)
        assert worker is not None
        assert os.sched_getscheduler(worker) == os.SCHED_IDLE, "it gives way to the broker"
        started_s = time.monotonic()
        assert broker.stop() == 0
        assert time.monotonic() - started_s < STOP_S
        wait_until("the end of the worker", lambda: has_ended(worker))
        assert (broker.data / ".kafka_cleanshutdown").exists()
        broker.start()
        assert cleaned_up_to(broker, TOPIC) == 0
        alter(broker, ResourceType.BROKER, "0", {"log.cleaner.io.max.bytes.per.second": "1e9"})
        wait_for_cleaning(broker, TOPIC)
        check_log(broker, written)
        assert leftovers(broker) == []


def test_full_disk_postpones_a_cleaning_and_the_log_is_served(tmp_path: Path) -> None:
    # Cleaned segments may become larger than those that they are made of, and the disk is full
    # (RLIMIT_FSIZE) for these alone.
    limit_bytes = 150_000
    limits = {resource.RLIMIT_FSIZE: limit_bytes}
    with odradek_broker(tmp_path, overrides=BROKER, limits=limits) as broker:
        create_topic(broker, TOPIC, {**COMPACT, "cleanup.policy": "delete"})
        written = Keyed(TOPIC).connect(broker)
        written.write_some(3_000, keys=3_000)
        written.flush()
        changes = {"segment.bytes": "1000000", "cleanup.policy": "compact"}
        alter(broker, ResourceType.TOPIC, TOPIC, changes)
        line = broker.process.wait_for_line("was not cleaned, the next attempt", timeout_s=WAIT_S)
        assert "File too large" in line
        wait_until("an end of its files", lambda: not leftovers(broker))
        assert len(check_log(broker, written)) == 3_000
        written.write_some(100, keys=100)
        written.flush()
        assert cleaned_up_to(broker, TOPIC) == 0

        worker = worker_of(broker)
        assert worker is not None
        for pid in (worker, broker.process.pid):
            hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
        wait_until("a cleaning", lambda: cleaned_up_to(broker, TOPIC) > 0)
        assert len(check_log(broker, written)) == 3_000 + 100
        assert len(files_of(broker, TOPIC, ".log")) == 2, "one cleaned segment and the one in use"


def test_worker_that_hangs_does_not_keep_the_broker_from_serving(tmp_path: Path) -> None:
    with odradek_broker(tmp_path, overrides=CRAWLING) as broker:
        create_topic(broker, TOPIC, COMPACT)
        written = Keyed(TOPIC).connect(broker)
        written.write_some(2_500, keys=2_000)
        write_until_cleaning(broker, written, keys=2_000)
        worker = worker_of(broker)
        assert worker is not None
        pause_process(worker)
        written.write_some(500, keys=2_000)
        written.flush()
        assert len(check_log(broker, written)) == written.sent
        started_s = time.monotonic()
        assert broker.stop() == 0
        assert time.monotonic() - started_s < STOP_S
        wait_until("the end of the worker", lambda: has_ended(worker))


def set_rate(broker: BrokerProcess, settings: Mapping[str, str]) -> None:
    """Give the running broker the worker's rate of other settings."""
    name = "log.cleaner.io.max.bytes.per.second"
    alter(broker, ResourceType.BROKER, "0", {name: settings[name]})


def is_created(broker: BrokerProcess, topic: str) -> bool:
    """Create a topic; False while the deletion of one with that name goes on."""
    try:
        create_topic(broker, topic, COMPACT)
    except KafkaException as refused:
        if refused.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        return False
    return True


def test_cleaning_ends_when_its_topic_is_deleted(tmp_path: Path) -> None:
    with odradek_broker(tmp_path, overrides=SLOW) as broker:
        create_topic(broker, TOPIC, COMPACT)
        written = Keyed(TOPIC).connect(broker)
        written.write_some(3_000, keys=20)
        written.flush()
        wait_for_cleaning(broker, TOPIC)
        set_rate(broker, CRAWLING)
        written.write_some(8_000, keys=8_000)
        write_until_cleaning(broker, written, keys=8_000)
        # The topic would be created again by what comes later.
        written.flush()
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.delete_topics([TOPIC])[TOPIC].result(WAIT_S)
        wait_until("a checkpoint without it", lambda: cleaned_up_to(broker, TOPIC) == 0)
        wait_until("the end of its folder", lambda: not (broker.data / f"{TOPIC}-0").exists())
        wait_until("a new topic of the name", lambda: is_created(broker, TOPIC))
        set_rate(broker, SLOW)
        again = Keyed(TOPIC).connect(broker)
        again.write_some(3_000)
        again.flush()
        wait_for_cleaning(broker, TOPIC)
        assert len(check_log(broker, again)) < 1_500
