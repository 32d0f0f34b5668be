"""Whether a broker serves, and why it does not, in words.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from odradek.controller.image.image import Image

SHOWN_MAX: Final = 5
"""Partitions that a reason names."""


def readiness(
    *,
    is_registered: bool,
    is_session_suspended: bool,
    offline_directories: Sequence[str],
    is_stopping: bool,
) -> list[str]:
    """Why the broker does not take requests with all of its logs; empty when it does."""
    reasons = []
    if is_stopping:
        reasons.append("the broker is stopping")
    if not is_registered:
        reasons.append("the broker is not registered in the cluster")
    if is_session_suspended:
        reasons.append("there is no connection to the coordination service")
    reasons.extend(f"the log directory {folder} is offline" for folder in offline_directories)
    return reasons


class ClusterProblems(NamedTuple):
    """Partitions that lack something, as (topic, partition), each list in order."""

    without_leader: Sequence[tuple[str, int]]
    under_min_isr: Sequence[tuple[str, int]]
    not_preferred: int = 0
    """How many are led by another broker than the preferred one."""


def cluster_health(image: Image, problems: ClusterProblems) -> list[str]:
    """Why not every partition can be written and read, as far as this broker knows; empty when
    each can."""
    reasons = []
    if image.controller_id < 0:
        reasons.append("there is no controller")
    elif image.controller_id not in image.brokers:
        reasons.append(f"the controller, broker {image.controller_id}, is not registered")
    for text, partitions in (
        ("have no leader", problems.without_leader),
        ("have fewer in-sync replicas than min.insync.replicas", problems.under_min_isr),
    ):
        if partitions:
            reasons.append(f"{len(partitions)} partitions {text}: {shown(partitions)}")
    return reasons


def shown(partitions: Sequence[tuple[str, int]]) -> str:
    """The first few names."""
    names = ", ".join(f"{topic}-{index}" for topic, index in partitions[:SHOWN_MAX])
    return names if len(partitions) <= SHOWN_MAX else f"{names}, ..."
