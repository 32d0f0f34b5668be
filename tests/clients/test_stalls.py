"""A member of a library that we did not write, and a broker that did not run for a while."""

from __future__ import annotations

import os
import signal
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.clients.confluent_client import Confluent
from tests.support.broker_process import odradek_broker
from tests.support.processes import pause_process
from tests.support.stalled_broker import SHORT_SESSIONS

with warnings.catch_warnings():
    # Its import calls a function that Python 3.11 deprecates and 3.13 does not.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import ConsumerRebalanceListener, KafkaConsumer

pytestmark = pytest.mark.client

SESSION_MS = 6_000
HEARTBEAT_MS = 300
STALL_S = 7.0
WAIT_S = 60.0


class Assignments(ConsumerRebalanceListener):  # type: ignore[misc]
    """Counts them."""

    def __init__(self) -> None:
        self.count = 0

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Not counted: the next assignment is."""

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.count += 1


def test_member_keeps_its_partitions_when_the_broker_stood_still_beyond_the_session(
    tmp_path: Path,
) -> None:
    with odradek_broker(tmp_path, overrides=SHORT_SESSIONS) as broker:
        Confluent(broker.address).create_topic("t", 2)
        consumer: Any = KafkaConsumer(
            bootstrap_servers=broker.address,
            group_id="g",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
        )
        assignments = Assignments()
        consumer.subscribe(["t"], listener=assignments)

        def poll_until(is_over: Any) -> None:
            end_s = time.monotonic() + WAIT_S
            while not is_over():
                assert time.monotonic() < end_s
                consumer.poll(timeout_ms=50)

        def poll_for(seconds: float) -> None:
            over_s = time.monotonic() + seconds
            poll_until(lambda: time.monotonic() > over_s)

        # The first assignment is empty when the client does not know the topic yet.
        poll_until(lambda: len(consumer.assignment()) == 2)
        before = assignments.count
        poll_for(3 * HEARTBEAT_MS / 1000)
        pause_process(broker.process.pid)
        poll_for(STALL_S)
        os.kill(broker.process.pid, signal.SIGCONT)
        poll_for(STALL_S)
        assert assignments.count == before
        assert len(consumer.assignment()) == 2
        consumer.close()
