"""Both consumer group tools with groups of the new protocol.

They are on our broker; `make test-recordings` has them on Apache Kafka 4.3.0 as well.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from odradek.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.odradek.comparison import comparable
from tests.odradek.console_tools import ApacheTools
from tests.odradek.consumer_groups_conversation import NO_DELAY, our_tool, play
from tests.odradek.consumer_groups_conversation_scene import scene
from tests.support.apache_kraft import apache_kraft_node
from tests.support.broker_process import odradek_broker
from tests.support.pauses import pause
from tests.support.wire import Wire

pytestmark = pytest.mark.judge

FIRST, SECOND = "11111111-2222-3333-4444-555555555555", "61111111-2222-3333-4444-555555555555"
DEADLINE_S = 120.0

LINES = """\
--list --type consumer
--list --type --state
--list --type classic --state stable
--describe --group modern
--describe --group modern --members
--describe --group modern --members --verbose
--describe --group modern --state
--describe --group changing --state
--describe --group changing --members --verbose
--describe --group missing
--describe --group modern --group live --group latter
--reset-offsets --group modern --to-latest --topic orders --dry-run
--reset-offsets --group missing --to-latest --topic orders --dry-run
--delete-offsets --group modern --topic orders:0
--delete-offsets --group missing --topic orders:0
--delete --group modern
--describe --group empty --state
--reset-offsets --group empty --to-earliest --all-topics --execute
--describe --group empty
--reset-offsets --group empty --from-file @/one.csv --execute --export
""".splitlines()


class Consumer:
    """A member of a group of the new protocol; its session is longer than the test."""

    def __init__(
        self, address: str, group: str, member_id: str, instance_id: str | None = None
    ) -> None:
        self._address = address
        self._group = group
        self._member_id = member_id
        self._instance_id = instance_id
        self._epoch = 0

    def heartbeat(self, owned: list[TopicPartitions] | None) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat."""
        is_first = self._epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._member_id,
            member_epoch=self._epoch,
            instance_id=self._instance_id,
            rebalance_timeout_ms=60_000 if is_first else -1,
            subscribed_topic_names=["orders"] if is_first else None,
            topic_partitions=[] if is_first else owned,
        )
        with Wire(self._address) as wire:
            response: ConsumerGroupHeartbeatResponse = wire.call(request, 1)
        assert response.error_code == 0, response
        self._epoch = response.member_epoch
        return response

    def settle(self) -> None:
        """Send heartbeats until the partitions are assigned and acknowledged."""
        owned: list[TopicPartitions] | None = None
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            response = self.heartbeat(owned)
            if response.assignment is not None and response.assignment.topic_partitions:
                owned = response.assignment.topic_partitions
                self.heartbeat(owned)
                return
            pause()
        raise AssertionError("no partitions are assigned")


@pytest.fixture(scope="module", params=["odradek", pytest.param("apache", marks=pytest.mark.slow)])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    """A broker, ours or Apache's, with the scene, a stable group, and a group that waits for its
    member."""
    folder = tmp_path_factory.mktemp(request.param)
    running = (
        odradek_broker(folder, overrides=NO_DELAY)
        if request.param == "odradek"
        else apache_kraft_node(folder)
    )
    with running as broker, scene(broker.address, folder):
        Consumer(broker.address, "modern", FIRST, "an-instance").settle()
        Consumer(broker.address, "changing", FIRST).settle()
        Consumer(broker.address, "changing", SECOND).heartbeat([])
        yield broker.address, folder


def test_both_tools_print_the_same_for_groups_of_the_new_protocol(
    served: tuple[str, Path], silent_apache_tools: ApacheTools
) -> None:
    address, folder = served
    ours = play(our_tool, address, LINES, folder)
    tool = partial(silent_apache_tools, "consumer-groups")
    assert comparable(ours) == comparable(play(tool, address, LINES, folder))
    assert re.search("modern +Consumer +Stable", ours)
    assert re.search("changing +Consumer +(Assigning|Reconciling)", ours)
    assert re.search("modern .* an-instance .*3 +\\(0,1,2\\)", ours)
    assert re.search("modern +.* uniform +Stable +1", ours)
