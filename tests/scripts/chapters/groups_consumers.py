"""Members of groups of the new protocol (KIP-848), and what is asked of their group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from tests.scripts.talk import Talk

HEARTBEAT: Final = 1
DESCRIBE: Final = 1
PATIENT_MS: Final = 60_000
LEAVE: Final = -1
LEAVE_FOR_A_WHILE: Final = -2

Owned = dict[UUID, list[int]]


class Consumer:
    """One that chooses its own id: what the hashes of ids decide stays the same."""

    def __init__(
        self,
        talk: Talk,
        group: str,
        name: str,
        *,
        topics: Sequence[str] | None = None,
        regex: str | None = None,
        instance_id: str | None = None,
        assignor: str | None = None,
        rebalance_timeout_ms: int = PATIENT_MS,
        version: int = HEARTBEAT,
    ) -> None:
        self.talk = talk
        self.group = group
        self.name = name
        self.member_id = name
        self.topics = topics
        self.regex = regex
        self.instance_id = instance_id
        self.assignor = assignor
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.version = version
        self.epoch = 0
        self.owned: Owned = {}

    # Requests.

    def enter(self, **changes: Any) -> ConsumerGroupHeartbeatRequest:
        """The first heartbeat, with everything in it."""
        values: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.member_id,
            "member_epoch": 0,
            "instance_id": self.instance_id,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "subscribed_topic_names": None if self.topics is None else list(self.topics),
            "subscribed_topic_regex": self.regex,
            "server_assignor": self.assignor,
            "topic_partitions": [],
        }
        return ConsumerGroupHeartbeatRequest(**(values | changes))

    def heartbeat(self, **changes: Any) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat in which nothing is new."""
        values: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "instance_id": self.instance_id,
        }
        return ConsumerGroupHeartbeatRequest(**(values | changes))

    def report(self, owned: Owned | None = None, **changes: Any) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat that reports the partitions it owns; by default all that were assigned."""
        reported = self.owned if owned is None else owned
        partitions = [TopicPartitions(topic_id=key, partitions=reported[key]) for key in reported]
        return self.heartbeat(topic_partitions=partitions, **changes)

    def leave(self, epoch: int = LEAVE, **changes: Any) -> ConsumerGroupHeartbeatRequest:
        """The last heartbeat."""
        return self.heartbeat(member_epoch=epoch, **changes)

    # Responses.

    def ask(self, label: str, request: ConsumerGroupHeartbeatRequest) -> Any:
        """Send, write the response down, and keep its epoch and partitions."""
        response = self.talk.ask(f"{self.group}: {label}", request, self.version)
        self.take(response)
        return response

    def quiet(self, request: ConsumerGroupHeartbeatRequest) -> Any:
        """Send without writing down."""
        response = self.talk.quiet(request, self.version)
        self.take(response)
        return response

    def take(self, response: Any) -> None:
        """Keep epoch and partitions of a response."""
        if response.error_code:
            return
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.owned = {
                partition.topic_id: list(partition.partitions)
                for partition in response.assignment.topic_partitions
            }

    def until_assigned(self, label: str, count: int) -> None:
        """Send heartbeats until so many partitions are assigned; write down which.

        The responses are not written down: how many it takes is a matter of time.
        """
        self.talk.until(
            f"{label}: {count} partitions of {self.name}",
            lambda: self.quiet(self.heartbeat()),
            lambda _: sum(len(partitions) for partitions in self.owned.values()) == count,
        )
        self.quiet(self.report())
        names = {self.talk.masks.name("topic", key): self.owned[key] for key in self.owned}
        self.talk.write(f"{self.group}: {label}", dict(sorted(names.items())))


def describe(talk: Talk, label: str, *groups: str, version: int = DESCRIBE) -> None:
    """Write down how groups stand."""
    request = ConsumerGroupDescribeRequest(
        group_ids=list(groups), include_authorized_operations=False
    )
    talk.ask(label, request, version)


def wait_for_members(talk: Talk, group: str, count: int) -> None:
    """Until so many are left: some go when their time is up."""
    request = ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
    talk.until(
        f"{count} members of {group}",
        lambda: talk.quiet(request, DESCRIBE).groups[0],
        lambda described: len(described.members) == count,
    )
