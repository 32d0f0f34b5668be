"""Settings: settings that exist only as dynamic ones.

Rows: name, type, default, rule, importance, when it may change, meaning.
Source: Kafka 3.9, DynamicConfig.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.settings.rules import at_least
from odradek.broker.settings.types import LONG, LONG_MAX, MEDIUM, READ_ONLY, Definition

# fmt: off
# A row per setting is read as a table; a line per field is not.
TABLE: Final = (
    Definition("leader.replication.throttled.rate", LONG, LONG_MAX, at_least(0), MEDIUM, READ_ONLY,
        "The maximum number of bytes per second that this broker sends to throttled followers."),
    Definition("follower.replication.throttled.rate", LONG, LONG_MAX, at_least(0), MEDIUM,
        READ_ONLY,
        "The maximum number of bytes per second that this broker fetches for throttled "
        "replicas."),
    Definition("replica.alter.log.dirs.io.max.bytes.per.second", LONG, LONG_MAX, at_least(0),
        MEDIUM, READ_ONLY,
        "The maximum number of bytes per second for moving replicas between log directories."),
)
# fmt: on
