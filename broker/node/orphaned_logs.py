"""Logs on disk that belong to no topic of the cluster.

They exist when the coordination files were lost or replaced.  They are neither served nor removed,
and no topic of the same name can be created: it would have another id, and the folders would be
refused for as long as they exist.
Differs from Kafka: a broker in ZooKeeper mode creates the topic, whose partitions then stay without
a leader (INCONSISTENT_TOPIC_ID).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from odradek.controller.image.image import Image
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.storage.directories.log_manager import LogManager

logger = logging.getLogger("odradek")

FOLDERS_SHOWN_MAX: Final = 10
REMEDY: Final = "stop the broker and take them up with `odradek recover-metadata`, or remove them"


class OrphanedLogs:
    """The folders that were found at the start, by topic; empty before `find`."""

    def __init__(self) -> None:
        self._folders: Mapping[str, Sequence[str]] = {}
        self._reported: dict[str, None] = {}

    def find(self, image: Image, logs: LogManager) -> None:
        """Compare the loaded logs with the topics of the cluster.

        cost  1 us a log
        """
        folders: dict[str, list[str]] = {}
        for log in logs.all():
            if logs.get(log.topic, log.partition) is not log:
                continue
            topic = image.topics.get(log.topic)
            topic_id = logs.topic_id(log.topic, log.partition)
            if (
                topic is None
                or log.partition not in topic.partitions
                or topic_id not in (None, topic.topic_id)
            ):
                folders.setdefault(log.topic, []).append(log.directory)
        self._folders = folders

    def warning(self) -> str | None:
        """A line for the operator; None when there are no such logs."""
        folders = [folder for topic in sorted(self._folders) for folder in self._folders[topic]]
        if not folders:
            return None
        more = len(folders) - FOLDERS_SHOWN_MAX
        shown = ", ".join(folders[:FOLDERS_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
        return (
            f"{len(folders)} folders in log.dirs belong to no topic that this broker knows, and "
            f"are not served: {shown}; {REMEDY}"
        )

    def check_new_topic(self, name: str) -> None:
        """Refuse to create a topic over orphaned logs.

        raises  BrokerError INVALID_TOPIC_EXCEPTION, after which clients do not retry
        """
        folders = self._folders.get(name)
        if not folders:
            return
        more = f" and {len(folders) - 1} more folders" if len(folders) > 1 else ""
        text = (
            f"Topic '{name}' cannot be created: {folders[0]}{more} hold records of an earlier "
            f"topic of this name; {REMEDY}"
        )
        if name not in self._reported:
            self._reported[name] = None
            logger.warning("%s", text)
        raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
