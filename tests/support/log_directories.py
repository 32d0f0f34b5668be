"""A broker's logs without a broker: opens directories, appends, runs disk jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from uuid import UUID

from odradek.protocol.errors import BrokerError
from odradek.protocol.records.batch import RecordBatch
from odradek.runtime.files import FileSystem
from odradek.storage.directories.deletion import LogDeletion
from odradek.storage.directories.directory_loading import LoadedDirectory
from odradek.storage.directories.disk_jobs import DiskJob
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.directories.upkeep import Upkeep
from odradek.storage.events import StorageEvent
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.log.log import Log
from odradek.storage.log_config import LogConfig
from tests.support.stored_batches import data_bytes

DATE = "Tue Jul 01 12:00:00 UTC 2025"
CLUSTER_ID = "kVSgfurUQFGGpHMTBqBPiw"
TOPIC_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")
UNIQUE = "0123456789abcdef0123456789abcdef"


def retain(upkeep: Upkeep, *, now_ms: int) -> list[str]:
    """A whole round of retention; the logs that are damaged."""
    damaged: list[str] = []
    for _ in upkeep.retention_steps(damaged, now_ms=now_ms):
        pass
    return damaged


class Broker:
    """The parts of a broker that look after its logs."""

    def __init__(self, files: FileSystem, paths: Sequence[str], *, now_ms: int = 0) -> None:
        """Starts: the directories are open and all logs loaded."""
        self.files = files
        self.now_ms = now_ms
        self.events: list[StorageEvent] = []
        self.manager = LogManager(
            files, paths, Descriptors(files, report=self.events.append), file_delete_delay_ms=60_000
        )
        self.upkeep = Upkeep(self.manager)
        self.report: list[LoadedDirectory] = []

    def start(self, config_of: Callable[[str], LogConfig] = lambda _: LogConfig()) -> Broker:
        """Open, claim and load."""
        self.manager.open_directories()
        self.manager.claim(broker_id=1, cluster_id=CLUSTER_ID, date=DATE)
        self.report = self.manager.load(config_of, now_ms=self.now_ms)
        return self

    def create(
        self,
        topic: str,
        partition: int = 0,
        *,
        config: LogConfig | None = None,
        topic_id: UUID | None = TOPIC_ID,
        is_new: bool = True,
        is_synced: bool = True,
    ) -> Log:
        """A log, made when it is not there.

        is_synced  its folder is durable then, as it soon is in a broker
        """
        log = self.manager.create(
            topic,
            partition,
            config or LogConfig(),
            topic_id=topic_id,
            is_new=is_new,
            now_ms=self.now_ms,
        )
        if is_synced:
            self.perform(self.manager.sync_new_folders())
        return log

    def perform(self, jobs: Iterable[DiskJob]) -> None:
        """Run jobs one after the other, and what follows from them."""
        for job in jobs:
            try:
                job.run(self.files)
            except OSError as error:
                self.upkeep.on_failed(job, error)
            else:
                self.perform(self.upkeep.on_finished(job))

    def delete(
        self, *keys: tuple[str, int], unique: str = UNIQUE, now_ms: int = 0
    ) -> list[tuple[str, int]]:
        """Delete logs with all that follows but the removal; those that failed."""
        deletion = LogDeletion(self.manager, unique=unique, now_ms=now_ms)
        for key in keys:
            deletion.remove(key)
        self.perform(deletion.sync(lambda: None))
        return list(deletion.failed)

    def flush(self, *logs: Log) -> None:
        """Make logs durable, due or not."""
        for log in logs:
            job = self.upkeep.flush_log(log, now_ms=self.now_ms)
            if job is not None:
                self.perform([job])

    def truncate(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Truncate logs with all that follows; unknown ones are skipped."""
        for key, offset in offsets.items():
            log = self.manager.get(*key)
            while log is not None and not log.is_offline:
                job = self.upkeep.truncations.truncate_to(log, offset, now_ms=self.now_ms)
                if job is None:
                    break
                self.perform([job])

    def truncate_fully(self, topic: str, partition: int, offset: int) -> None:
        """Remove all batches of a log with all that follows."""
        log = self.manager.get(topic, partition)
        assert log is not None, topic
        job = self.upkeep.truncations.truncate_fully(log, offset, now_ms=self.now_ms)
        self.perform([job] if job is not None else [])

    def stop(self, high_watermarks: dict[tuple[str, int], int] | None = None) -> None:
        """A clean shutdown, after what is given was replicated."""
        for key, offset in (high_watermarks or {}).items():
            log = self.manager.get(*key)
            assert log is not None, key
            log.advance_high_watermark(offset)
        self.manager.shutdown(now_ms=self.now_ms)


def append(log: Log, count: int = 1, *, leader_epoch: int = 0, now_ms: int = 0) -> None:
    """Append `count` batches of one record each."""
    for _ in range(count):
        view = memoryview(bytearray(data_bytes(timestamp_ms=now_ms)))
        (result,) = log.append([RecordBatch(view)], leader_epoch=leader_epoch, now_ms=now_ms)
        if isinstance(result, BrokerError):
            raise result
