"""Lines that programs wait for that start a Kafka broker, printed on stdout once it serves clients.

Source: the log lines of Kafka's KafkaServer, KafkaRaftServer and BrokerServer.
"""

from __future__ import annotations

import logging
import os
from typing import Final

from odradek.bounded_files import read_file, system_error_text
from odradek.runtime.java_properties import PropertiesError, parse_properties
from odradek.runtime.logging import format_line
from odradek.storage.checkpoints.meta_properties import BYTES_MAX, META_PROPERTIES_FILE
from odradek.tools.run import flush_or_discard

STARTED: Final = (
    "[KafkaServer id={broker_id}] started (kafka.server.KafkaServer)",
    "[KafkaRaftServer nodeId={broker_id}] Kafka Server started (kafka.server.KafkaRaftServer)",
    "[BrokerServer id={broker_id}] Transitioning from RECOVERY to RUNNING",
)
"""What programs wait for in ZooKeeper mode, in KRaft mode, and Testcontainers."""


logger = logging.getLogger("odradek.start")


def print_started_lines(log_dir: str, log_format: str = "plain") -> None:
    """Print them for the node of a log directory, in the format of the log."""
    broker_id = _broker_id(log_dir)
    for line in STARTED:
        print_line(format_line(log_format, line.format(broker_id=broker_id), {}))


def print_line(text: str) -> None:
    """Print a line of a broker that serves; a full or closed stdout does not end it."""
    try:
        print(text, flush=True)
    except OSError as error:
        flush_or_discard()
        logger.warning("stdout takes no line: %s", system_error_text(error))


def _broker_id(log_dir: str) -> str:
    """The id that the broker has written, which may be a generated one."""
    try:
        written = parse_properties(
            read_file(os.path.join(log_dir, META_PROPERTIES_FILE), BYTES_MAX)
        )
    except (OSError, PropertiesError):
        written = {}
    return written.get("broker.id") or written.get("node.id") or "0"
