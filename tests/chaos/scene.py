"""The cluster that a run breaks, with all that it stands on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Event
from time import monotonic
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tests.chaos.disks import Disk
from tests.chaos.failing_syncs import FailingSyncs
from tests.chaos.namespaces import Namespaces
from tests.support.broker_cluster import BrokerCluster
from tests.support.zookeeper import ZooKeeperServer

SESSION_S: Final = 6.0
BROKERS: Final = (1, 2, 3)
HOLD_MAX_S: Final = 1.25 * SESSION_S
ASK_S: Final = 1.0
DELETED_S: Final = 60.0
IS_OFFLINE: Final = re.compile(r"directory \S+ is offline")


class Toothless(AssertionError):
    """A fault did nothing."""


class Scene:
    """The cluster, its ensemble, the network between them, and the disks of the brokers.

    Faults run in several threads at once; each has a `Lane` of its own.
    """

    def __init__(
        self,
        folder: Path,
        cluster: BrokerCluster,
        servers: Sequence[ZooKeeperServer],
        network: Namespaces,
        disks: Mapping[int, Sequence[Disk]],
        syncs: Mapping[int, FailingSyncs],
        threads: ThreadPoolExecutor,
    ) -> None:
        """threads  end after all processes: a process ends with the thread that has started it"""
        self.folder = folder
        self.disks = disks
        self.syncs = syncs
        self.cluster = cluster
        self.servers = servers
        self.network = network
        self.threads = threads
        self.topic = ""
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

    def delete(self, topic: str) -> None:
        """Delete a topic; librdkafka learns from Metadata only that the controller has moved."""
        deadline_s = monotonic() + DELETED_S
        while True:
            try:
                self._admin.list_topics(timeout=DELETED_S)
                self._admin.delete_topics([topic])[topic].result(DELETED_S)
            except KafkaException as error:
                is_moving = error.args[0].code() == KafkaError.NOT_CONTROLLER
                if not is_moving or monotonic() > deadline_s:
                    raise
            else:
                return

    def leader(self, partition: int) -> int | None:
        """None when no broker says so in time, or there is none."""
        with suppress(KafkaException):
            topic = self._admin.list_topics(self.topic, timeout=ASK_S).topics[self.topic]
            state = topic.partitions.get(partition)
            return None if state is None or state.leader < 0 else int(state.leader)
        return None

    def controller(self) -> int | None:
        """None when no broker says so in time, or there is none."""
        with suppress(KafkaException):
            controller_id = self._admin.list_topics(self.topic, timeout=ASK_S).controller_id
            return int(controller_id) if controller_id in BROKERS else None
        return None

    def is_damaged(self, broker_id: int) -> bool:
        """Whether a broker has ended by itself, or has a log directory that is offline."""
        process = self.cluster.brokers[broker_id].process
        return not process.running() or any(map(IS_OFFLINE.search, process.lines()))

    def restart_damaged(self, broker_id: int) -> bool:
        """Restart a broker that is damaged, on disks that are good again; whether it was."""
        if not self.is_damaged(broker_id):
            return False
        self.cluster.kill(broker_id)
        self.cluster.start(broker_id)
        return True

    def is_whole(self) -> bool:
        """Whether no broker was damaged; those that were are restarted."""
        restarted = [broker_id for broker_id in BROKERS if self.restart_damaged(broker_id)]
        return not restarted


class Lane:
    """One thread of faults."""

    def __init__(self, scene: Scene, random: Random) -> None:
        self.scene = scene
        self.cluster = scene.cluster
        self.network = scene.network
        self.random = random

    def broker(self) -> int:
        """The leader of a partition, the controller, or any."""
        match self.random.randrange(3):
            case 0:
                broker_id = self.scene.leader(self.random.randrange(3))
            case 1:
                broker_id = self.scene.controller()
            case _:
                broker_id = None
        return broker_id or self.random.choice(BROKERS)

    def others(self, broker_id: int) -> list[int]:
        return [other for other in BROKERS if other != broker_id]

    def hold(self, least_s: float, most_s: float) -> None:
        """Let a fault last."""
        Event().wait(self.random.uniform(least_s, most_s))
