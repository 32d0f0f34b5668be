"""Names on both sides, and what is mirrored at all.

As MirrorMaker 2: DefaultReplicationPolicy (`ALIAS.topic`) or IdentityReplicationPolicy (the same
name), and MirrorSourceConnector's rule against loops.  What decides is one regular expression
for the whole name, in the common part of Java's and Python's language: Spark reads by it, this
process makes topics by it.
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
"""Of the source's topics, not taken over: DefaultConfigPropertyFilter."""

_INTERNAL: Final = r"__.*|\..*|.*[\-.]internal"
_ORIGIN: Final = r"(?:[^.]+\.)*"


@dataclass(frozen=True, slots=True)
class Policy:
    """How topics are called on the target.

    source, target  aliases
    """

    source: str
    target: str
    kind: Literal["default", "identity"]

    def target_topic(self, topic: str) -> str:
        """The name on the target; heartbeats are renamed by either policy."""
        if self.kind == "identity" and not topic.endswith(HEARTBEATS):
            return topic
        return f"{self.source}.{topic}"

    @property
    def syncs_topic(self) -> str:
        """On the target, as with MirrorMaker's offset-syncs.topic.location=target."""
        return f"mm2-offset-syncs.{self.source}.internal"

    @property
    def checkpoints_topic(self) -> str:
        """On the target."""
        return f"{self.source}.checkpoints.internal"

    def topic_pattern(
        self,
        *,
        names: Sequence[str] | None,
        pattern: str | None,
        exclude: Sequence[str],
        heartbeats: bool,
    ) -> str:
        """A regular expression for the whole name of a topic of the source.

        Never matched, whatever is asked for: internal topics, and topics that came from the
        target (an alias of their name is its).  The identity policy cannot see where a topic came
        from, so there the second rule covers heartbeats only.
        """
        wanted = pattern if names is None else "|".join(re.escape(name) for name in names)
        assert wanted is not None, "one of the two is given"
        included = f"(?!(?:{'|'.join(exclude)})$)(?:{wanted})" if exclude else f"(?:{wanted})"
        returned = rf"(?:.*\.)?{re.escape(self.target)}\..*[^.].*"
        loops = returned if self.kind == "default" else f"(?=.*{HEARTBEATS}$){returned}"
        if heartbeats:
            included = f"(?:{included}|{_ORIGIN}{HEARTBEATS})"
        # Spark looks for the expression anywhere in a name.
        return f"^(?!(?:{_INTERNAL})$)(?!(?:{loops})$){included}$"


def group_pattern(pattern: str, exclude: Sequence[str]) -> str:
    """A regular expression for the whole name of a group."""
    return f"(?!(?:{'|'.join(exclude)})$)(?:{pattern})" if exclude else pattern
