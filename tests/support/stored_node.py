"""The parts of a node that write to disk, coordination and logs, on a `MemoryFileSystem`.

The parts are the broker's own, put together as `broker/node/parts.py` does it; there are no
sockets, and threads work when the test says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from odradek.broker.auto_topic_creation import AutoTopicCreation
from odradek.broker.node.orphaned_logs import OrphanedLogs
from odradek.broker.producer_ids import ProducerIds
from odradek.broker.purgatory import Purgatory
from odradek.broker.replication.full_directories import FullDirectories
from odradek.broker.replication.leader import InSyncRules
from odradek.broker.replication.leadership import Leadership
from odradek.broker.replication.partitions import Partitions
from odradek.broker.replication.resting_replicas import RestingReplicas
from odradek.broker.settings.broker_settings import CurrentSettings
from odradek.broker.settings.load import make_settings
from odradek.broker.settings.topic_config import topic_log_config
from odradek.broker.topics import Topics
from odradek.controller.active.partition_states import ControllerSettings
from odradek.controller.controller import Controller, Identity
from odradek.controller.coordination.embedded import EmbeddedTree
from odradek.controller.image.control_requests import ControlRequest, ControlResponse
from odradek.controller.image.image import BrokerImage, Endpoint
from odradek.controller.image.metadata_cache import MetadataCache
from odradek.protocol.errors import BrokerError
from odradek.protocol.records.batch import RecordBatch
from odradek.runtime.files import FileSystem
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.pending import Pending
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.runtime.testing.virtual_clock import VirtualClock
from odradek.runtime.timers import TimingWheel
from odradek.storage.checkpoints.meta_properties import stored_cluster_id
from odradek.storage.directories.disk_jobs import DiskJob
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.directories.upkeep import Upkeep
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.log_config import LogConfig
from tests.support.threads import HeldThreads

FOLDER = "/data"
BROKER_ID = 0
DATE = "Tue Jul 01 12:00:00 UTC 2025"


class NoOtherBrokers:
    """Carries control requests in a cluster of one broker."""

    def set_brokers(self, brokers: Mapping[int, BrokerImage]) -> None:
        """Nothing."""

    def send(
        self, broker_id: int, request: ControlRequest, respond: Callable[[ControlResponse], None]
    ) -> None:
        """Never called."""
        raise AssertionError(f"there is no broker {broker_id}")


class StoredNode:
    """A started node; dropping it is a kill."""

    def __init__(self, files: FileSystem, *, seed: int, entries_max: int) -> None:
        """seed  of the topic ids; a different one for each start"""
        self.files = files
        self.threads = HeldThreads()
        self.warnings: list[str] = []
        self.clock = VirtualClock()
        rng = SeededRandomness(seed)
        self.settings = make_settings({"broker.id": "0", "offsets.topic.num.partitions": "2"})
        self.logs = LogManager(files, [FOLDER], Descriptors(files), file_delete_delay_ms=1)
        identities = self.logs.open_directories()
        tree = EmbeddedTree(files, FOLDER, self.clock, journal_entries_max=entries_max)
        self.partitions = Partitions()
        self.purgatory = Purgatory(TimingWheel(0), BrokerMetrics(), Purgatory.run_notified)
        self.metadata = MetadataCache()
        leadership = Leadership(
            broker_id=BROKER_ID,
            logs=self.logs,
            partitions=self.partitions,
            purgatory=self.purgatory,
            config_of=self._config_of,
            run_jobs=self._perform,
            on_flush_awaited=lambda log: None,
            in_sync_rules=InSyncRules(30_000, lambda _: True, self.clock.monotonic_ms),
            resting=RestingReplicas(
                BROKER_ID, FullDirectories(), self.logs, lambda: self.metadata.image
            ),
            clock=self.clock,
            rng=rng,
            on_fatal=self.on_warning,
        )
        orphaned = OrphanedLogs()
        self.controller = Controller(
            tree.connect,
            ControllerSettings(),
            handler=leadership,
            sender=NoOtherBrokers(),
            listener=self,
            clock=self.clock,
            randomness=rng,
            metadata=self.metadata,
            check_new_topic=orphaned.check_new_topic,
        )
        self.producer_ids = ProducerIds(self.allocate_producer_ids)
        self.topics = Topics(self.metadata)
        self.topic_creation = AutoTopicCreation(self.controller, CurrentSettings(self.settings))
        cluster_id = self.controller.prepare(stored_cluster_id(identities)).result()
        self.logs.claim(broker_id=BROKER_ID, cluster_id=cluster_id, date=DATE)
        self.logs.load(self._config_of, now_ms=self.clock.now_ms())
        self.upkeep = Upkeep(self.logs)
        endpoint = Endpoint("PLAINTEXT", "localhost", 9092, "PLAINTEXT")
        self.controller.start(Identity(BROKER_ID, (endpoint,))).result()
        orphaned.find(self.controller.image, self.logs)
        self.orphans = orphaned.warning()
        tree.serve(self.threads, on_failure=self.on_warning, on_warning=self.on_warning)

    def allocate_producer_ids(self) -> Pending[tuple[int, int]]:
        """A block of producer ids for this node."""
        return self.controller.admin.allocate_producer_ids(BROKER_ID, self.controller.broker_epoch)

    def _config_of(self, topic: str) -> LogConfig:
        return topic_log_config(self.settings, None, self.controller.image.topic_config(topic))

    def _perform(self, jobs: list[DiskJob]) -> None:
        for job in jobs:
            job.run(self.files)
            self._perform(list(self.upkeep.on_finished(job)))

    def on_config_changed(self, entity_type: str, entity: str, config: Mapping[str, str]) -> None:
        """Nothing to do: logs read their config from the image."""

    def on_warning(self, text: str) -> None:
        """Record it."""
        self.warnings.append(text)

    def append(
        self, topic: str, index: int, batch: bytearray, on_durable: Callable[[], None]
    ) -> bool:
        """Append and flush a batch; False when the partition is not led here, or its producer is
        refused."""
        partition = self.partitions.get(topic, index)
        if partition is None or partition.leader is None:
            return False
        log = partition.log
        (result,) = log.append(
            [RecordBatch(memoryview(batch))],
            leader_epoch=partition.leader_epoch,
            now_ms=self.clock.now_ms(),
        )
        if isinstance(result, BrokerError):
            return False
        job = self.upkeep.flush_log(log, now_ms=self.clock.now_ms())

        def done(error: OSError | None) -> None:
            assert job is not None, "there was something to flush"
            if error is None:
                self._perform(list(self.upkeep.on_finished(job)))
                on_durable()

        # None while a flush is under way, which began before this append.
        if job is not None:
            self.threads(lambda: job.run(self.files), done)
        return True

    def records_of(self, topic: str, index: int) -> bytes:
        """The content of a partition's segments, one after the other."""
        partition = self.partitions.get(topic, index)
        if partition is None:
            return b""
        folder = partition.log.directory
        names = [name for name in self.files.list(folder) if name.endswith(".log")]
        return b"".join(self.files.read(f"{folder}/{name}") for name in names)
