"""Names topics on the target, and selects the topics and groups that are mirrored.

The selection is one regular expression for whole names, which Java and Python read the same way:
Spark subscribes with it, and this process creates topics with it.
Source: MirrorMaker 2's DefaultReplicationPolicy (`ALIAS.topic`), IdentityReplicationPolicy (the
same name), and MirrorSourceConnector's check for cycles.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

HEARTBEATS: Final = "heartbeats"
TOPICS_EXCLUDED: Final = (r".*[\-.]internal", r".*\.replica", "__.*")
GROUPS_EXCLUDED: Final = ("console-consumer-.*", "connect-.*", "__.*")
CONFIGS_EXCLUDED: Final = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.difference.max.ms",
        "message.timestamp.type",
        "unclean.leader.election.enable",
        "min.insync.replicas",
    }
)
"""Topic configs that are not mirrored.  Source: DefaultConfigPropertyFilter."""

_INTERNAL: Final = r"__.*|\..*|.*[\-.]internal"
_ORIGIN: Final = r"(?:[^.]+\.)*"


@dataclass(frozen=True, slots=True)
class Policy:
    """The names of topics on the target.

    source, target  aliases
    """

    source: str
    target: str
    kind: Literal["default", "identity"]

    def target_topic(self, topic: str) -> str:
        """The name of a source topic on the target; both policies rename heartbeats."""
        if self.kind == "identity" and not topic.endswith(HEARTBEATS):
            return topic
        return f"{self.source}.{topic}"

    @property
    def syncs_topic(self) -> str:
        """The topic of offset pairs, on the target (offset-syncs.topic.location=target)."""
        return f"mm2-offset-syncs.{self.source}.internal"

    @property
    def checkpoints_topic(self) -> str:
        """The topic of checkpoints, on the target."""
        return f"{self.source}.checkpoints.internal"

    def topic_pattern(
        self,
        *,
        names: Sequence[str] | None,
        pattern: str | None,
        exclude: Sequence[str],
        heartbeats: bool,
    ) -> str:
        """The regular expression for whole names of the mirrored topics of the source.

        It never matches internal topics, nor topics that were mirrored from the target (a prefix
        of their name is its alias).  With the identity policy names have no alias, so there the
        second rule covers heartbeats only.
        """
        topics = pattern if names is None else "|".join(re.escape(name) for name in names)
        assert topics is not None, "one of the two is given"
        included = f"(?!(?:{'|'.join(exclude)})$)(?:{topics})" if exclude else f"(?:{topics})"
        returned = rf"(?:.*\.)?{re.escape(self.target)}\..*[^.].*"
        loops = returned if self.kind == "default" else f"(?=.*{HEARTBEATS}$){returned}"
        if heartbeats:
            included = f"(?:{included}|{_ORIGIN}{HEARTBEATS})"
        # Spark searches names for the expression, hence the anchors.
        return f"^(?!(?:{_INTERNAL})$)(?!(?:{loops})$){included}$"


def group_pattern(pattern: str, exclude: Sequence[str]) -> str:
    """The regular expression for whole names of the mirrored groups."""
    return f"(?!(?:{'|'.join(exclude)})$)(?:{pattern})" if exclude else pattern
