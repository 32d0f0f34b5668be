"""What a check of log directories finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final


class Severity(IntEnum):
    """How bad a finding is; the worst one is the exit code of the command.

    2 is that of a wrong command line and 3 of a check that was not possible, so neither is used.
    """

    NOTE = 0
    """Belongs to the life of a directory."""
    REPAIR = 1
    """A start, or the first use, repairs it, and no record is lost."""
    DAMAGE = 4
    """Records are lost or cannot be read, or a start refuses the directory."""


BATCH: Final = "batch"
OFFSETS: Final = "offsets"
LEADER_EPOCH: Final = "leader-epoch"
EPOCH_FILE: Final = "leader-epoch-checkpoint"
INDEX: Final = "index"
TIME_INDEX: Final = "timeindex"
TXN_INDEX: Final = "txnindex"
SNAPSHOT: Final = "snapshot"
LEFTOVER: Final = "leftover"
CHECKPOINT: Final = "checkpoint"
IDENTITY: Final = "meta.properties"
TOPIC_ID: Final = "partition.metadata"
START: Final = "start"
"""What concerns the whole directory."""

LEAVES: Final = "leaves it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding, and what it means if a start leaves it as it is."""

    kind: str
    path: str
    """Path of the file or folder."""
    text: str
    severity: Severity
    start: str = LEAVES
    """What a start does."""
    partition: str = ""
    """`<topic>-<partition>`."""
    offset: int | None = None
    is_final: bool = False
    """`severity` and `start` hold, whatever a trial start changes."""

    @property
    def key(self) -> tuple[str, str, int | None]:
        """Equal before and after a start that leaves it."""
        return self.kind, self.path, self.offset


ReportFinding = Callable[[Finding], None]


@dataclass(slots=True)
class Amount:
    """What was read."""

    directories: int = 0
    logs: int = 0
    segments: int = 0
    batches: int = 0
    size_bytes: int = 0
    """Bytes of `.log` files."""


@dataclass(slots=True)
class Verdict:
    """The result of a check."""

    findings: list[Finding] = field(default_factory=list)
    amount: Amount = field(default_factory=Amount)
    lost_bytes: int = 0
    """Bytes of `.log` files with findings that a start would take away."""
    rewritten_files: int = 0
    """Files beside `.log` files that a start would write."""

    @property
    def severity(self) -> Severity:
        """The worst one."""
        return max((finding.severity for finding in self.findings), default=Severity.NOTE)
