"""`odradek.audit.log=PATH`: a file with the lines of `odradek.audit`, each with its time.

Requests of administrators (`broker/server/audit.py`) and denials of the authorizer, one JSON object
a line.  The file is as private as log directories; at FILE_BYTES_MAX it is renamed to `PATH.1`, and
FILES_MAX old ones are kept.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from odradek.broker.node.start_error import StartError
from odradek.runtime.logging import timestamp

if TYPE_CHECKING:
    from logging.handlers import RotatingFileHandler

AUDIT_LOG: Final = "odradek.audit.log"
LOGGERS: Final = ("odradek.audit", "odradek.audit.requests")
FILE_BYTES_MAX: Final = 64 << 20
FILES_MAX: Final = 9

logger = logging.getLogger("odradek")


class AuditLog:
    """An open file that the lines go to, and not to the log of the broker."""

    def __init__(self, handler: RotatingFileHandler) -> None:
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
    # Imported where a broker has the log.
    from logging.handlers import RotatingFileHandler

    class Handler(RotatingFileHandler):
        def handleError(self, record: logging.LogRecord) -> None:
            logger.error("a line of %s cannot be written: %s", path, sys.exc_info()[1])

    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        handler = Handler(path, maxBytes=FILE_BYTES_MAX, backupCount=FILES_MAX, encoding="utf-8")
    except OSError as error:
        raise StartError(
            f"{AUDIT_LOG}: {path} cannot be written: {error.strerror or error}"
        ) from error
    handler.setFormatter(_AuditFormatter())
    return AuditLog(handler)


class _AuditFormatter(logging.Formatter):
    """The JSON object of a line, with its time before the other fields."""

    def format(self, record: logging.LogRecord) -> str:
        return f'{{"time": "{timestamp(record.created)}", {record.getMessage()[1:]}'
