"""A broker that is stopped beyond the sessions of a group's members."""

from __future__ import annotations

from typing import Final

SHORT_SESSIONS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1",
    "offsets.topic.num.partitions": "1",
}
"""Settings of a broker whose members may have sessions as short as they like."""
