"""`odradek.audit.log=PATH`: a file with the lines of `odradek.audit`, each with its time.

Requests of administrators (`broker/server/audit.py`) and denials of the authorizer, one JSON object
a line.  The file is as private as log directories; at FILE_BYTES_MAX it is renamed to `PATH.1`, and
FILES_MAX old ones are kept.  One that something else has renamed or removed, as logrotate does, is
made again.  Lines that cannot be written are lost, and the log of the broker says so: requests and
the stop do not wait for a full disk.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Final

from odradek.broker.node.start_error import StartError
from odradek.runtime.logging import timestamp
from odradek.runtime.repeated_lines import RepeatedLines

AUDIT_LOG: Final = "odradek.audit.log"
LOGGERS: Final = ("odradek.audit", "odradek.audit.requests")
FILE_BYTES_MAX: Final = 64 << 20
FILES_MAX: Final = 9

logger = logging.getLogger("odradek.audit_log")
logger.addFilter(RepeatedLines())


class AuditFile(logging.Handler):
    """A file that each line is appended to by one write."""

    def __init__(self, path: str, *, bytes_max: int = FILE_BYTES_MAX) -> None:
        """raises  OSError"""
        super().__init__()
        self._path = os.path.abspath(path)
        self._bytes_max = bytes_max
        self._is_torn = False
        """Whether the file ends with a part of a line."""
        self._descriptor = self._opened()
        self.setFormatter(_AuditFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._write(f"{self.format(record)}\n".encode(errors="backslashreplace"))
        except OSError as error:
            reason = error.strerror or error
            logger.error("a line of %s cannot be written: %s", self._path, reason)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with suppress(OSError):
                os.close(descriptor)
        super().close()

    def _opened(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        return os.open(self._path, flags, 0o600)

    def _write(self, line: bytes) -> None:
        self._follow_path()
        state = os.fstat(self._descriptor)
        if stat.S_ISREG(state.st_mode) and 0 < state.st_size > self._bytes_max - len(line):
            self._roll()
        if self._is_torn:
            line = b"\n" + line
        written = os.write(self._descriptor, line)
        self._is_torn = written < len(line)
        if self._is_torn:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _follow_path(self) -> None:
        """Open the file again where the path is no longer that of the open one."""
        try:
            if os.path.samestat(os.stat(self._path), os.fstat(self._descriptor)):
                return
        except OSError:
            pass
        self._reopen()

    def _reopen(self) -> None:
        """Take the file of the path; the open one stays where that cannot be opened."""
        try:
            descriptor = self._opened()
        except OSError as error:
            reason = error.strerror or error
            logger.error("%s cannot be opened again, the old file is used: %s", self._path, reason)
            return
        os.close(self._descriptor)
        self._descriptor, self._is_torn = descriptor, False

    def _roll(self) -> None:
        """Begin a new file; without the right to rename, the old one grows."""
        names = [self._path, *(f"{self._path}.{number}" for number in range(1, FILES_MAX + 1))]
        try:
            for newer, older in reversed([*pairwise(names)]):
                with suppress(FileNotFoundError):
                    os.rename(newer, older)
        except OSError as error:
            logger.error("%s cannot be renamed: %s", self._path, error.strerror or error)
        self._follow_path()


class AuditLog:
    """An open file that the lines go to, and not to the log of the broker."""

    def __init__(self, handler: AuditFile) -> None:
        self._handler = handler
        self._levels = {name: logging.getLogger(name).level for name in LOGGERS}
        for name in LOGGERS:
            logging.getLogger(name).addFilter(self._divert)
            logging.getLogger(name).setLevel(logging.INFO)

    def _divert(self, record: logging.LogRecord) -> bool:
        self._handler.handle(record)
        return False

    def close(self) -> None:
        """Close the file; lines go where they went before."""
        for name, level in self._levels.items():
            logging.getLogger(name).removeFilter(self._divert)
            logging.getLogger(name).setLevel(level)
        self._handler.close()


def open_audit_log(written: Mapping[str, str]) -> AuditLog | None:
    """Open the file that the settings name; None without one.

    raises  StartError
    """
    path = written.get(AUDIT_LOG, "").strip()
    if not path:
        return None
    try:
        return AuditLog(AuditFile(path))
    except OSError as error:
        raise StartError(
            f"{AUDIT_LOG}: {path} cannot be written: {error.strerror or error}"
        ) from error


class _AuditFormatter(logging.Formatter):
    """The JSON object of a line, with its time before the other fields."""

    def format(self, record: logging.LogRecord) -> str:
        return f'{{"time": "{timestamp(record.created)}", {record.getMessage()[1:]}'
