"""What must hold after any start that follows a cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import RecordBatch, iterate_batches
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record, decode_records
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.storage.checking.directories_check import check_directories
from odradek.storage.checking.findings import EPOCH_FILE, OFFSETS, SNAPSHOT, TOPIC_ID, Severity
from odradek.storage.files.names import SNAPSHOT as SNAPSHOT_SUFFIX
from odradek.storage.files.names import folder_name
from odradek.storage.log.head import Appended
from odradek.storage.log.log import Log
from odradek.storage.log.reading import aborted_transactions
from odradek.storage.log_config import LogConfig
from odradek.storage.producers.producer_snapshot import encode_snapshot
from tests.cuts.promises import Content, Derived, LogPromise, Sent, derive, parse
from tests.storage.compaction.cleaning import committed_records, final_state
from tests.support.log_directories import Broker
from tests.support.logs import NOW_MS, read_all

Key = tuple[str, int]
View = tuple[object, ...]
_PRODUCERS_TRIED: Final = 3
_EMPTY_SNAPSHOT: Final = encode_snapshot([])
_GAP_KINDS: Final = (OFFSETS, SNAPSHOT)


@dataclass(frozen=True)
class Stored:
    """A disk, and how a broker starts on it."""

    files: MemoryFileSystem
    folders: tuple[str, ...]
    config: LogConfig

    def start(self) -> Broker:
        """A start; no directory may fail."""
        broker = Broker(self.files, self.folders, now_ms=NOW_MS).start(lambda _: self.config)
        failures = broker.manager.take_failures()
        assert not failures, failures
        return broker


def check_start(stored: Stored, promises: Mapping[Key, LogPromise], *, is_thorough: bool) -> None:
    """Start, check every promise, start again, go on, stop, start.

    is_thorough  with `check-log-dirs` after the first start, and after the stop
    """
    broker = stored.start()
    check_logs(broker, promises)
    # Where the end is lost, records before the start by the checkpoint are there, until the
    # next start removes them.
    settled = [key for key, log in logs_of(broker).items() if begins_above_its_end(log)]
    first = {key: view(log) for key, log in logs_of(broker).items() if key not in settled}
    gaps = {
        folder_name(log.topic, log.partition)
        for log in broker.manager.all()
        if log.segment_gap is not None or log.config.cleanup_compact or begins_above_its_end(log)
    }
    was_clean = any(directory.was_clean_shutdown for directory in broker.report)
    stored.files.kill()
    disk = contents(stored.files, stored.folders)
    if is_thorough:
        check_findings(stored, gaps, is_clean=False)
    broker = stored.start()
    again = {key: view(log) for key, log in logs_of(broker).items() if key not in settled}
    assert again == first, [
        (key, before, other)
        for key in first
        for before, other in zip(first[key], again[key], strict=True)
        if before != other
    ]
    if not was_clean and not settled:
        # After the mark of a clean stop nothing was checked yet.
        now = contents(stored.files, stored.folders)
        assert now == disk, changed(disk, now)
    ends = {key: go_on(broker, log, promises[key]) for key, log in logs_of(broker).items()}
    # Only of a copy on its way: a gap in a log that goes on is explained.
    is_clean = all(log.segment_gap is None for log in broker.manager.all())
    broker.stop()
    stored.files.kill()
    if is_thorough:
        check_findings(stored, gaps, is_clean=is_clean)
    broker = stored.start()
    assert is_clean == all(directory.was_clean_shutdown for directory in broker.report)
    assert {key: log.end_offset for key, log in logs_of(broker).items()} == ends


def batches_of(log: Log) -> list[bytes]:
    """From its start to its end."""
    return [bytes(batch.view) for batch in iterate_batches(memoryview(read_all(log)))]


def begins_above_its_end(log: Log) -> bool:
    """Whether its end was lost, and it goes on at its start by the checkpoint, in a new segment."""
    *former, active = log.segments
    with_batches = [content for content in former if content.size]
    if active.size or not with_batches:
        return False
    last = with_batches[-1].last_batch()
    return last is not None and last.last_offset + 1 < active.base_offset


def logs_of(broker: Broker) -> dict[Key, Log]:
    """Copies on their way left out."""
    manager = broker.manager
    logs = {(log.topic, log.partition): log for log in manager.all()}
    return {key: log for key in logs if (log := manager.get(*key)) is not None}


def check_logs(broker: Broker, promises: Mapping[Key, LogPromise]) -> None:
    """Every log that must be there is, with what it must contain."""
    logs = logs_of(broker)
    for key, promise in promises.items():
        log = logs.get(key)
        assert log is not None or not promise.must_exist, f"{key} is gone"
        assert log is None or not promise.is_deleted, f"{key} is back"
        if log is not None:
            check_log(log, promise)
    assert logs.keys() <= promises.keys()


def check_log(log: Log, promise: LogPromise) -> None:
    """The promises of one log."""
    log.check()
    data = batches_of(log)
    start, end = log.log_start_offset, log.end_offset
    # A log whose unsynced end went below its start keeps its records (`log_loader.settle_start`);
    # the start may be on disk although no promise was made of it.
    is_void = promise.durable_end < max(promise.durable_start, promise.log_start)
    assert promise.durable_start <= start or is_void, (
        f"starts at {start}, not {promise.durable_start}"
    )
    latest_start = max(
        promise.log_start, *(0, *(content.durable_end for content in promise.former))
    )
    assert start <= latest_start, f"starts at {start}, not {promise.log_start}"
    if promise.is_compacted:
        check_compacted(log, promise, data)
    else:
        problems = [content_problem(log, content, data) for content in promise.contents()]
        assert None in problems, problems
    assert start <= log.high_watermark <= end
    assert log.high_watermark <= max(promise.high_watermark, start)
    assert log.high_watermark >= min(promise.durable_high_watermark, end, promise.durable_end)
    assert log.flush_state.recovery_point <= end
    check_epochs(log, promise, data)
    check_producers(log, promise, data)


def content_problem(log: Log, content: Content, data: Sequence[bytes]) -> str | None:
    """Why a log does not contain this; None when it does."""
    start, end = log.log_start_offset, log.end_offset
    if end < content.durable_end:
        return f"ends at {end}, was durable to {content.durable_end}"
    allowed = [batch for batch in content.batches if parse(batch).last_offset >= start]
    missing = 0
    for batch in data:
        while allowed and allowed[0] != batch:
            lost = parse(allowed.pop(0))
            if lost.base_offset < content.durable_end:
                return f"lost the batch at {lost.base_offset}"
            missing += 1
        if not allowed:
            return f"has another batch at {parse(batch).base_offset}"
        del allowed[0]
    if allowed and parse(allowed[0]).base_offset < content.durable_end:
        return f"lost the end from {parse(allowed[0]).base_offset} on"
    if missing and log.segment_gap is None:
        return "has a gap and does not know it"
    return None


def check_compacted(log: Log, promise: LogPromise, data: Sequence[bytes]) -> None:
    """The table is what it was, and no record is back that a finished cleaning has removed."""
    assert log.end_offset >= promise.durable_end
    batches = {batch for content in promise.contents() for batch in content.batches}
    batches |= set(promise.cleaned or ())
    assert not [batch for batch in data if batch not in batches], "a batch that was never written"
    offsets = [parse(batch).base_offset for batch in data]
    assert offsets == sorted(set(offsets))
    before = [*promise.batches, *promise.in_flight]
    there = [batch for batch in before if parse(batch).last_offset < log.end_offset]
    state = final_state(committed_records(log))
    # A segment in between that was never synced may be gone.
    synced = [
        batch for batch in there if batch in data or parse(batch).last_offset < promise.durable_end
    ]
    assert state in [final_state(committed_of(part)) for part in (there, synced)], state
    if promise.cleaned is not None:
        end = max((parse(batch).last_offset for batch in promise.cleaned), default=-1)
        # A later cleaning, which has not ended yet, may have written other batches.
        written = {*promise.cleaned, *(batch for each in promise.former for batch in each.batches)}
        stale = [
            batch for batch in data if batch not in written and parse(batch).last_offset <= end
        ]
        assert not stale, "what a finished cleaning has removed is back"


def committed_of(batches: Sequence[bytes]) -> list[Record]:
    """What a read_committed consumer gets of these batches."""
    aborted = derive(batches).aborted
    records: list[Record] = []
    for number, data in enumerate(batches):
        batch = parse(data)
        if batch.is_control:
            continue
        if batch.is_transactional:
            producer = derive(batches[: number + 1]).producers[batch.producer_id]
            if (batch.producer_id, producer.transaction_start) in aborted:
                continue
        records += decode_records(batch)
    return records


def check_epochs(log: Log, promise: LogPromise, data: Sequence[bytes]) -> None:
    """Leader epochs: those of the batches, at starts that leaders have noted."""
    entries = log.leader_epochs.entries
    firsts: dict[int, int] = {}
    for data_of_batch in data:
        batch = parse(data_of_batch)
        firsts.setdefault(batch.leader_epoch, batch.base_offset)
        at = max(batch.base_offset, log.log_start_offset)
        assert log.leader_epochs.epoch_of(at) == batch.leader_epoch, (entries, batch)
    noted = {(epoch, start) for epoch, start in promise.epochs}
    for content in promise.former:
        for data_of_batch in content.batches:
            noted.add((parse(data_of_batch).leader_epoch, parse(data_of_batch).base_offset))
    for epoch, start in entries:
        is_first = firsts.get(epoch) == start or start <= promise.log_start
        assert is_first or (epoch, start) in noted, (entries, promise.epochs)
        assert start <= log.end_offset


def check_producers(log: Log, promise: LogPromise, data: Sequence[bytes]) -> None:
    """Producers, open and aborted transactions: what follows from the batches."""
    whole = derive(data)
    entries = log.producer_states.entries
    for producer_id, producer in whole.producers.items():
        entry = entries.get(producer_id)
        assert entry is not None, f"producer {producer_id} is forgotten"
        assert entry.producer_epoch == producer.epoch
        if producer.last is not None and parse(producer.last.data).producer_epoch == producer.epoch:
            assert entry.last_sequence == producer.last.last_sequence, producer_id
        if not promise.is_compacted:
            assert entry.current_txn_first_offset == producer.transaction_start or is_before(
                log, entry.current_txn_first_offset
            ), producer_id
    if promise.is_compacted:
        return
    ever = derived_of_all(promise)
    for producer_id, entry in entries.items():
        if producer_id not in whole.producers:
            former = [producer.producers.get(producer_id) for producer in ever]
            assert any(
                producer is not None and producer.epoch >= entry.producer_epoch
                for producer in former
            )
    aborted = set(aborted_transactions(log.segments, log.log_start_offset, log.end_offset))
    missing = whole.aborted - aborted
    for producer_id, first in aborted:
        if is_before(log, first):
            # Of this transaction the log has the rest, if it has more than the marker.
            rest = [transaction for transaction in whole.aborted if transaction[0] == producer_id]
            missing.difference_update(sorted(rest)[:1])
    assert not missing, f"aborted transactions are read: {missing}"


def is_before(log: Log, offset: int) -> bool:
    """Whether an open transaction began in what retention has removed."""
    return 0 <= offset < log.log_start_offset


def derived_of_all(promise: LogPromise) -> list[Derived]:
    """Of everything that the log may ever have contained."""
    return [derive(content.batches) for content in promise.contents()]


def view(log: Log) -> View:
    """What a log is to its users."""
    return (
        log.log_start_offset,
        log.end_offset,
        log.high_watermark,
        tuple(log.segments.base_offsets),
        log.leader_epochs.entries,
        tuple(sorted(log.producer_states.entries.items())),
        read_all(log),
    )


def contents(files: MemoryFileSystem, folders: Sequence[str]) -> dict[str, bytes]:
    """All files below, by path."""
    files_by_path: dict[str, bytes] = {}
    for folder in folders:
        for name in files.list(folder):
            path = f"{folder}/{name}"
            if files.is_directory(path):
                files_by_path |= contents(files, [path])
            else:
                files_by_path[path] = files.read(path)
            # Of a log without a producer; only a start that checks a segment writes it.
            if files_by_path.get(path) == _EMPTY_SNAPSHOT and name.endswith(SNAPSHOT_SUFFIX):
                del files_by_path[path]
    return files_by_path


def changed(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str:
    """Which files are not the same."""
    paths = sorted({*before, *after})
    return "a second start changes " + ", ".join(
        f"{path} ({len(before.get(path, b''))} to {len(after.get(path, b''))} bytes)"
        for path in paths
        if before.get(path) != after.get(path)
    )


def check_findings(stored: Stored, gaps: set[str], *, is_clean: bool) -> None:
    """`odradek check-log-dirs` finds no damage, and after a clean stop nothing to repair.

    gaps  logs that may have lost a segment that was never synced, or that were cleaned when no
          checkpoint said so: there offsets may be missing
    """
    files = stored.files.copied()
    spill = MemoryFileSystem().open("/spill", create=True)
    findings = check_directories(files, list(stored.folders), spill, now_ms=NOW_MS).findings
    worst = Severity.NOTE if is_clean else Severity.REPAIR
    bad = [
        f"{finding.path}: {finding.text}"
        for finding in findings
        if finding.severity > worst
        # Of a folder that was never synced: the controller names the topic id, the first batch has
        # its epoch written.
        and not (finding.kind in (TOPIC_ID, EPOCH_FILE) and finding.severity == Severity.REPAIR)
        and not (finding.partition in gaps and finding.kind in _GAP_KINDS)
    ]
    assert not bad, bad


def go_on(broker: Broker, log: Log, promise: LogPromise) -> int:
    """What was sent last is recognised when it is sent again, and what comes next is accepted.

    returns  the end of the log, all of which is durable
    """
    # An empty log knows none; a controller gives no lower one than before.
    epoch = max(0, log.leader_epochs.latest_epoch, *(number for number, _ in promise.epochs))
    log.head.epochs.assign(epoch, log.end_offset)
    # As the leader of a partition without other replicas.
    log.gaps.explain_all()
    data = batches_of(log)
    producers = list(derive(data).producers.items())[:_PRODUCERS_TRIED]
    for producer_id, producer in producers:
        if producer.last is None or parse(producer.last.data).producer_epoch < producer.epoch:
            continue
        last: Sent = producer.last
        is_transactional = parse(last.data).is_transactional
        if not is_transactional:
            resent = one_append(log, bytearray(last.data), epoch)
            assert isinstance(resent, Appended), resent
            assert resent.is_duplicate
            assert resent.base_offset == last.base_offset
        for sequence, is_taken in ((last.last_sequence + 5, False), (last.last_sequence + 1, True)):
            following = build_batch(
                [Record(b"k", b"v", timestamp_ms=NOW_MS)],
                producer_id=producer_id,
                producer_epoch=producer.epoch,
                base_sequence=sequence,
                is_transactional=is_transactional,
            )
            result = one_append(log, following, epoch)
            if is_taken:
                assert isinstance(result, Appended), result
                assert not result.is_duplicate
            else:
                assert isinstance(result, BrokerError)
                assert result.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    if not producers:
        plain = build_batch([Record(b"k", b"v", timestamp_ms=NOW_MS)])
        assert isinstance(one_append(log, plain, epoch), Appended)
    broker.flush(log)
    log.check()
    return log.end_offset


def one_append(log: Log, data: bytearray, leader_epoch: int) -> Appended | BrokerError:
    """The result of one batch."""
    batch = RecordBatch(memoryview(data))
    (result,) = log.append([batch], leader_epoch=leader_epoch, now_ms=NOW_MS)
    return result
