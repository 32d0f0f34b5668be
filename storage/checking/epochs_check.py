"""Compares the leader epochs of the checkpoint with those of the batches."""

from __future__ import annotations

from odradek.protocol.records.batch import RecordBatch
from odradek.runtime.files import FileSystem
from odradek.storage.checking.findings import (
    EPOCH_FILE,
    LEADER_EPOCH,
    Finding,
    ReportFinding,
    Severity,
)
from odradek.storage.checkpoints.checkpoint_file import CorruptCheckpoint
from odradek.storage.checkpoints.leader_epochs import UNDEFINED_EPOCH, LeaderEpochs, epoch_path


class EpochsCheck:
    """The leader epochs of one log."""

    def __init__(self, files: FileSystem, folder: str, report: ReportFinding) -> None:
        self._report = report
        self._path = epoch_path(folder)
        self._newest_epoch = UNDEFINED_EPOCH
        self._falling = 0
        self._has_flaw = False
        self._has_replaced_lines = False
        self._epochs = LeaderEpochs()
        self._is_missing = not files.exists(self._path)
        if self._is_missing:
            return
        data = files.read(self._path)
        try:
            self._epochs = LeaderEpochs.decode(data)
        except CorruptCheckpoint as error:
            self._flaw(None, f"cannot be read: {error}", Severity.REPAIR)
            return
        self._has_replaced_lines = bool(data) and self._epochs.encode() != data

    def note(self, path: str, batch: RecordBatch, log_start_offset: int) -> None:
        """The next batch, of the segment at `path`."""
        epoch = batch.leader_epoch
        if epoch < self._newest_epoch or epoch < UNDEFINED_EPOCH:
            if not self._falling:
                self._report(
                    Finding(
                        kind=LEADER_EPOCH,
                        path=path,
                        offset=batch.base_offset,
                        text=f"leader epoch {epoch} after {self._newest_epoch}"
                        if self._newest_epoch > UNDEFINED_EPOCH
                        else f"leader epoch {epoch}, which no leader has",
                        severity=Severity.DAMAGE,
                        start="leaves it, and reports it if it checks the segment",
                    )
                )
            self._falling += 1
            return
        if epoch == UNDEFINED_EPOCH:
            return
        self._newest_epoch = epoch
        if self._has_flaw or batch.last_offset < log_start_offset:
            return
        offset = max(batch.base_offset, log_start_offset)
        stored = self._epochs.epoch_of(offset)
        if stored != epoch:
            if self._is_missing:
                self._flaw(None, "is missing", Severity.REPAIR)
            else:
                self._flaw(offset, f"says epoch {stored}, the batch {epoch}", Severity.DAMAGE)

    def finish(self, end_offset: int) -> None:
        """All batches were noted."""
        for entry in self._epochs.entries:
            if entry.start_offset > end_offset:
                self._flaw(
                    entry.start_offset,
                    f"epoch {entry.epoch} begins above the end of the log, offset {end_offset}",
                    Severity.REPAIR,
                    "leaves it out, and writes it with the next epoch",
                )
                break
        if self._has_replaced_lines and not self._has_flaw:
            self._flaw(
                None,
                "has lines that contradict earlier ones",
                Severity.REPAIR,
                "goes by the later lines, with which the batches agree",
            )

    def _flaw(
        self,
        offset: int | None,
        text: str,
        severity: Severity,
        start: str = "leaves it: followers of another epoch may be sent to a wrong offset",
    ) -> None:
        self._has_flaw = True
        self._report(
            Finding(
                kind=EPOCH_FILE,
                path=self._path,
                offset=offset,
                text=text,
                severity=severity,
                start=start,
            )
        )
