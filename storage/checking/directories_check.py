"""Checks directories of log.dirs, and says what a start would do about what is found.

    1  each directory: identity, checkpoints, folders        (here)
    2  each log: batches, indexes, epochs, producers         (log_check)
    3  a start on an overlay                                 (trial_start)
    4  logs with findings are checked again on the overlay: what is found again, a start leaves

Nothing is written.  A log without findings is read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from odradek.runtime.files import File, FileLock, FileSystem
from odradek.runtime.overlay_files import WRITTEN, OverlayFileSystem
from odradek.storage.checking.findings import (
    BATCH,
    CHECKPOINT,
    IDENTITY,
    LEADER_EPOCH,
    LEFTOVER,
    OFFSETS,
    START,
    TOPIC_ID,
    Amount,
    Finding,
    ReportFinding,
    Severity,
    Verdict,
)
from odradek.storage.checking.log_check import CheckpointedLog, LogCheck
from odradek.storage.checking.trial_start import OPEN_MAX, TrialStart
from odradek.storage.checkpoints.checkpoint_file import (
    CLEANER_OFFSET_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    CorruptCheckpoint,
    PartitionName,
    read_offsets,
)
from odradek.storage.checkpoints.clean_shutdown import CLEAN_SHUTDOWN_FILE
from odradek.storage.checkpoints.meta_properties import (
    META_PROPERTIES_FILE,
    MetaPropertiesError,
    read_meta_properties,
)
from odradek.storage.checkpoints.partition_metadata import CorruptPartitionMetadata, read_topic_id
from odradek.storage.directories.directory_loading import PASSED_OVER
from odradek.storage.directories.log_directory import LOCK_FILE, WITHOUT, DirectoryInUse
from odradek.storage.files import names
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.log_config import LogConfig

_WRITTEN_BY_STOP = (RECOVERY_POINT_FILE, LOG_START_OFFSET_FILE, HIGH_WATERMARK_FILE)
_OF_FOLDERS = {
    names.DELETE_FOLDER: ("a deleted partition", "removes it"),
    names.FUTURE_FOLDER: ("a copy on its way from another directory", "goes on with it"),
    names.STRAY_FOLDER: (
        "a replica that is not served here, or of an unknown topic",
        "does not touch it",
    ),
}
_LOST = (BATCH, OFFSETS, LEADER_EPOCH)
"""A start that takes such a finding away takes records away."""


def lock_directories(files: FileSystem, paths: Sequence[str]) -> list[FileLock]:
    """Take the locks that exist, so that no broker starts meanwhile.

    raises  DirectoryInUse: a broker runs on one of them; OSError
    """
    locks: list[FileLock] = []
    for path in paths:
        lock_path = f"{path}/{LOCK_FILE}"
        try:
            if files.exists(lock_path):
                locks.append(files.lock(lock_path))
        except BaseException as error:
            for lock in locks:
                lock.release()
            if isinstance(error, BlockingIOError):
                raise DirectoryInUse(f"{path} is in use by a broker process") from None
            raise
    return locks


def check_directories(
    files: FileSystem, paths: Sequence[str], spill: File, *, now_ms: int
) -> Verdict:
    """Check the directories of one broker.

    paths   absolute, without a slash at the end
    spill   an empty file, which gets what a start would write
    raises  OSError: a directory cannot be listed
    """
    verdict = Verdict()
    directories = [_DirectoryCheck(files, path, verdict) for path in paths]
    for directory in directories:
        directory.run()
    keys = dict.fromkeys(key for directory in directories for _, key in directory.logs)
    for directory in directories:
        directory.check_lines(keys)
    _compare_topic_ids(directories, verdict)
    overlay = OverlayFileSystem(files, spill)
    trial = TrialStart(overlay)
    compacted = {
        key[0] for directory in directories for key in directory.offsets[CLEANER_OFFSET_FILE]
    }
    try:
        trial.run(
            list(paths), lambda topic: LogConfig(cleanup_compact=topic in compacted), now_ms=now_ms
        )
        _settle(verdict, directories, trial)
    finally:
        overlay.close()
    return verdict


def _compare_topic_ids(directories: list[_DirectoryCheck], verdict: Verdict) -> None:
    topic_ids: dict[str, tuple[UUID, str]] = {}
    for directory in directories:
        for facts, key in directory.logs:
            try:
                topic_id = read_topic_id(directory.files, facts.folder)
            except CorruptPartitionMetadata:
                continue
            if topic_id is None:
                continue
            first, folder = topic_ids.setdefault(key[0], (topic_id, facts.folder))
            if first != topic_id:
                verdict.findings.append(
                    Finding(
                        kind=TOPIC_ID,
                        path=facts.folder,
                        partition=facts.partition,
                        text=f"belongs to another topic id than {folder}",
                        severity=Severity.DAMAGE,
                        start="refuses the replica whose id the controller does not name",
                        is_final=True,
                    )
                )


@dataclass(slots=True)
class _DirectoryCheck:
    """One directory."""

    files: FileSystem
    path: str
    verdict: Verdict
    is_clean: bool = False
    offsets: dict[str, dict[PartitionName, int]] = field(default_factory=dict)
    """Per checkpoint."""
    logs: list[tuple[CheckpointedLog, PartitionName]] = field(default_factory=list)

    def run(self) -> None:
        """Check the directory and its logs."""
        self.verdict.amount.directories += 1
        self.is_clean = self.files.exists(f"{self.path}/{CLEAN_SHUTDOWN_FILE}")
        folders = self._list()
        self._check_identity(has_logs=bool(folders))
        for name in WITHOUT:
            self.offsets[name] = self._read(name, has_logs=bool(folders))
        if folders and not self.is_clean:
            self._report(
                START,
                self.path,
                "there was no clean stop",
                Severity.REPAIR,
                f"checks {len(folders)} logs from their recovery points on, and rebuilds the "
                "indexes and snapshots there",
            )
        for folder, key in folders:
            self._check_log(folder, key)

    def _report(
        self, kind: str, path: str, text: str, severity: Severity, start: str, **more: object
    ) -> None:
        offset, partition = more.get("offset"), more.get("partition", "")
        assert offset is None or isinstance(offset, int), "an offset is a number"
        self.verdict.findings.append(
            Finding(
                kind=kind,
                path=path,
                text=text,
                severity=severity,
                start=start,
                offset=offset,
                partition=str(partition),
                is_final=True,
            )
        )

    def _list(self) -> list[tuple[str, PartitionName]]:
        """Folders of logs and of copies of logs."""
        logs: list[tuple[str, PartitionName]] = []
        for name in self.files.list(self.path):
            path = f"{self.path}/{name}"
            if name in PASSED_OVER or not self.files.is_directory(path):
                continue
            folder = names.parse_folder_name(name)
            if folder is None or (
                not folder.suffix and names.folder_name(folder.topic, folder.partition) != name
            ):
                text, start = "contains no log", "reports it, and does not touch it"
                self._report(LEFTOVER, path, text, Severity.NOTE, start)
                continue
            if folder.suffix:
                text, start = _OF_FOLDERS[folder.suffix]
                self._report(LEFTOVER, path, text, Severity.NOTE, start)
            if folder.suffix in ("", names.FUTURE_FOLDER):
                logs.append((path, (folder.topic, folder.partition)))
        return logs

    def _check_identity(self, *, has_logs: bool) -> None:
        path = f"{self.path}/{META_PROPERTIES_FILE}"
        try:
            properties = read_meta_properties(self.files, self.path)
        except MetaPropertiesError as error:
            self._report(IDENTITY, path, str(error), Severity.DAMAGE, "refuses the directory")
            return
        if has_logs and (
            properties is None or properties.broker_id is None or properties.cluster_id is None
        ):
            text = "is missing" if properties is None else "does not name broker and cluster"
            start = "writes it again, for the broker that starts"
            self._report(IDENTITY, path, text, Severity.REPAIR, start)

    def _read(self, name: str, *, has_logs: bool) -> dict[PartitionName, int]:
        path = f"{self.path}/{name}"
        try:
            offsets = read_offsets(self.files, path)
        except CorruptCheckpoint as error:
            self._report(CHECKPOINT, path, str(error), Severity.REPAIR, WITHOUT[name])
            return {}
        if has_logs and self.is_clean and name in _WRITTEN_BY_STOP:
            # A stop writes the number of lines at least.
            flaw = "is missing" if not self.files.exists(path) else "is empty"
            if flaw == "is missing" or not self.files.size(path):
                self._report(CHECKPOINT, path, flaw, Severity.REPAIR, WITHOUT[name])
        return offsets

    def facts_of(self, folder: str, key: PartitionName) -> CheckpointedLog:
        """What the checkpoints say of a log."""
        return CheckpointedLog(
            folder,
            names.folder_name(*key),
            self.is_clean,
            self.offsets[RECOVERY_POINT_FILE].get(key, 0),
            self.offsets[LOG_START_OFFSET_FILE].get(key, 0),
            self.offsets[CLEANER_OFFSET_FILE].get(key),
        )

    def _check_log(self, folder: str, key: PartitionName) -> None:
        facts = self.facts_of(folder, key)
        self.logs.append((facts, key))
        log = check_log(self.files, facts, self.verdict.amount, self.verdict.findings.append)
        if log is None:
            return
        end_offset = log.end_offset
        for name, text, severity, start in (
            (
                RECOVERY_POINT_FILE,
                f"says that everything below offset {{}} is on disk, the log ends at {end_offset}",
                Severity.DAMAGE,
                "goes on at the end of the log",
            ),
            (
                HIGH_WATERMARK_FILE,
                f"says that everything below offset {{}} is replicated, the log ends at "
                f"{end_offset}",
                Severity.DAMAGE,
                "goes on with the end of the log as the high watermark",
            ),
            (
                LOG_START_OFFSET_FILE,
                f"says that the log starts at offset {{}}, its batches end at {end_offset}",
                Severity.DAMAGE,
                "keeps the batches; the next record gets the offset of the checkpoint",
            ),
            (
                CLEANER_OFFSET_FILE,
                f"says that the log is clean up to offset {{}}, it ends at {end_offset}",
                Severity.REPAIR,
                "leaves it; the next cleaning begins at the start of the log",
            ),
        ):
            offset = self.offsets[name].get(key)
            path = f"{self.path}/{name}"
            if offset is not None and offset > end_offset:
                self._report(
                    *(CHECKPOINT, path, text.format(offset), severity, start),
                    offset=offset,
                    partition=facts.partition,
                )

    def check_lines(self, keys: dict[PartitionName, None]) -> None:
        """Compare the lines of the checkpoints with the folders.

        keys  partitions of all directories
        """
        here = dict.fromkeys(key for _, key in self.logs)
        for name, offsets in self.offsets.items():
            for key, offset in offsets.items():
                if key in here:
                    continue
                text, severity = "has a line of a partition that has no folder", Severity.REPAIR
                start = "leaves the line out"
                # A stop writes lines of what it has closed; before it a deletion may be newer.
                is_closed = self.is_clean and name == RECOVERY_POINT_FILE
                if is_closed and offset and key not in keys:
                    text = f"says that there are records below offset {offset}, and has no folder"
                    severity, start = Severity.DAMAGE, f"{start}; the replica begins empty"
                self._report(
                    CHECKPOINT,
                    f"{self.path}/{name}",
                    text,
                    severity,
                    start,
                    partition=names.folder_name(*key),
                )


def check_log(
    files: FileSystem, facts: CheckpointedLog, amount: Amount, report: ReportFinding
) -> LogCheck | None:
    """Check one log; None when its files cannot be read, which is reported."""
    log = LogCheck(Descriptors(files, open_max=OPEN_MAX), facts, amount, report)
    try:
        log.run()
    except OSError as error:
        report(
            Finding(
                kind=BATCH,
                path=error.filename or facts.folder,
                partition=facts.partition,
                text=f"cannot be read: {error}",
                severity=Severity.DAMAGE,
                start="fails there, and takes the directory offline",
            )
        )
        return None
    return log


def _settle(verdict: Verdict, directories: list[_DirectoryCheck], trial: TrialStart) -> None:
    """Compare with what the trial start has left, and replace the findings."""
    left: dict[tuple[str, str, int | None], None] = {}
    given = list(verdict.findings)
    added: list[Finding] = []
    has_more = dict.fromkeys(finding.partition for finding in given if not finding.is_final)
    has_torn = dict.fromkeys(finding.partition for finding in given if finding.kind == BATCH)
    if trial.refusal is None:
        keys = {finding.key for finding in given}
        for directory in directories:
            if directory.path in trial.failures:
                continue
            for facts, _ in directory.logs:
                if facts.partition not in has_more or not trial.files.exists(facts.folder):
                    continue
                again: list[Finding] = []
                after = check_log(trial.files, facts, Amount(), again.append)
                left |= dict.fromkeys(finding.key for finding in again)
                added += [
                    replace(finding, text=f"after a start: {finding.text}")
                    for finding in again
                    if finding.key not in keys and finding.severity == Severity.DAMAGE
                ]
                if after is not None and facts.partition in has_torn:
                    before = sum(
                        directory.files.size(f"{facts.folder}/{name}")
                        for name in directory.files.list_files(facts.folder).files
                        if name.endswith(names.LOG)
                    )
                    verdict.lost_bytes += max(0, before - after.log_bytes)
    refusals = {path: f"takes the directory offline: {why}" for path, why in trial.failures.items()}
    verdict.findings = [
        finding
        if finding.is_final or trial.refusal is not None
        else _settled(finding, left, trial, refusals)
        for finding in given
    ] + added
    if trial.refusal is not None:
        _note_refusal(verdict, directories[0].path, trial.refusal)
    for path, reason in trial.failures.items():
        _note_refusal(verdict, path, reason)
    verdict.rewritten_files = len(
        {
            change.path
            for change in trial.files.changes
            if change.kind == WRITTEN and not change.path.endswith(names.LOG)
        }
    )


def _note_refusal(verdict: Verdict, path: str, reason: str) -> None:
    verdict.findings.append(
        Finding(
            kind=START,
            path=path,
            text=reason,
            severity=Severity.DAMAGE,
            start="refuses it",
            is_final=True,
        )
    )


def _settled(
    finding: Finding,
    left: dict[tuple[str, str, int | None], None],
    trial: TrialStart,
    refusals: dict[str, str],
) -> Finding:
    """The finding with what a start does about it."""
    for path, refusal in refusals.items():
        if finding.path.startswith(f"{path}/"):
            return replace(finding, start=refusal, is_final=True)
    if finding.key in left:
        return replace(finding, is_final=True)
    actions = trial.actions_on(finding.path)
    if finding.kind == BATCH:
        actions += trial.reports_on(finding.path.rpartition("/")[0])
    is_loss = finding.severity == Severity.DAMAGE and finding.kind in _LOST
    return replace(
        finding,
        severity=Severity.DAMAGE if is_loss else min(finding.severity, Severity.REPAIR),
        start="; ".join(actions) or "repairs it",
        is_final=True,
    )
