"""Many connections, members and frames."""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
import threading
import time

from odradek.broker.node.monitoring import METRICS_LISTENER
from odradek.broker.server.socket_server import IDLE_LEAST_MS
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.sync_group import SyncGroupRequest
from tests.attack.attacks_requests import encoded
from tests.attack.churn import COORDINATOR_LOADS, join_request
from tests.attack.fuzz import fuzz
from tests.attack.scene import MEBIBYTE, Scene, attack
from tests.support.wire import Closed, Wire, frame

IDLE_CONNECTIONS = 1_058
FIRST_CONNECTIONS = 600
"""Fewer than there are descriptors for; some of the further ones take the place of those that are
idle, and some are refused."""
QUEUED_CONNECTIONS_MAX = 40
"""The queue of a listener takes 50; a connection more is tried again a second later."""
JOINS = 280
FUZZED_FRAMES = 400_000
BAD_FRAMES = 8_000
LOG_LINES_MAX = 40
UNREAD_CONNECTIONS = 300
BROKER_RESOURCE = 4
HOUR_MS = 3_600_000
SCRAPERS = 40
"""The listener of metrics serves 32 at once."""
SCRAPE = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
OFTEN = {
    "log.flush.offset.checkpoint.interval.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "500",
}


@attack(5, is_quick=True, overrides=OFTEN, limits={resource.RLIMIT_NOFILE: (1_024, 1_024)})
def idle_connections(scene: Scene) -> None:
    """More of them than the process has descriptors."""
    pause = threading.Event()
    with scene.watched():
        address = ("127.0.0.1", scene.broker.port)
        for number in range(IDLE_CONNECTIONS):
            if number == FIRST_CONNECTIONS:
                pause.wait(IDLE_LEAST_MS / 1_000)
            if number % QUEUED_CONNECTIONS_MAX == 0:
                with contextlib.suppress(Closed), Wire(scene.broker.address) as wire:
                    wire.call(ApiVersionsRequest(), 0)
            scene.resources.enter_context(socket.create_connection(address, timeout=30))
        pause.wait(3 * scene.scale)
        scene.require(scene.broker.process.running(), "the broker has ended")


@attack(7, is_quick=True)
def members_that_never_sync(scene: Scene) -> None:
    """A megabyte each and sessions of half an hour, on connections that are closed at once."""
    scene.coordinator()
    with scene.watched():
        for number in range(JOINS):
            wire = scene.wire()
            request = join_request(
                f"flood-{number}",
                instance_id=f"static-{number}",
                metadata=bytes(MEBIBYTE),
                session_ms=1_800_000,
            )
            wire.send(request, 5)
            wire.close()
        enter_and_sync(scene)


def enter_and_sync(scene: Scene) -> None:
    """A new group takes a member in."""
    with Wire(scene.broker.address, timeout_s=60.0) as wire:
        member_id = ""
        deadline = time.monotonic() + 60.0
        while True:
            joined = wire.call(join_request("honest", member_id), 5)
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                member_id = joined.member_id
            elif joined.error_code == ErrorCode.NONE:
                break
            else:
                is_temporary = joined.error_code in COORDINATOR_LOADS
                scene.require(
                    is_temporary and time.monotonic() < deadline,
                    f"a join is answered {ErrorCode(joined.error_code).name}",
                )
        synced = wire.call(
            SyncGroupRequest(
                group_id="honest",
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                assignments=[],
            ),
            3,
        )
        scene.require(synced.error_code == 0, f"a sync is answered {synced.error_code}")


@attack(12, is_quick=True)
def lines_in_the_log(scene: Scene) -> None:
    """A malformed frame on each of many connections."""
    with scene.watched():
        before = len(scene.broker.process.lines())
        for _ in range(scene.count(BAD_FRAMES)):
            with Wire(scene.broker.address) as wire:
                wire.send_bytes(frame(struct.pack(">hhih", 3, 1, 1, 30_000)))
                scene.require(wire.has_ended(), "a malformed frame is answered")
    lines = len(scene.broker.process.lines()) - before
    scene.figures["lines"] = lines
    scene.require(lines <= LOG_LINES_MAX, f"{lines} lines are logged")


@attack(0, is_quick=True)
def malformed_frames(scene: Scene) -> None:
    """Every API in every version, damaged."""
    scene.coordinator()
    with scene.watched():
        result = fuzz(
            scene.broker.address,
            frames=scene.count(FUZZED_FRAMES),
            seed=scene.random.getrandbits(32),
        )
    scene.figures["frames"] = result.frames
    scene.figures["hangs"] = result.hangs
    scene.require(not result.hangs, f"{result.hangs} connections hang")


@attack(0)
def slow_senders(scene: Scene) -> None:
    """2,000 connections that send a byte now and then of a frame that never ends."""
    pause = threading.Event()
    start = struct.pack(">i", MEBIBYTE)
    with scene.watched():
        wires = [scene.wire() for _ in range(scene.count(2_000))]
        for wire in wires:
            wire.send_bytes(start)
        for _ in range(5):
            for wire in wires:
                try:
                    wire.send_bytes(b"x")
                except Closed:
                    scene.figures["closed"] = scene.figures.get("closed", 0) + 1
            pause.wait(0.5)


@attack(3, is_quick=True)
def descriptions_that_are_not_read(scene: Scene) -> None:
    """Of all settings: 2,000 requests on each of 300 connections at once."""
    resource = DescribeConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name="0", configuration_keys=None
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=True
    )
    from_all(scene, encoded(request, 4) * 2_000)


@attack(3, is_quick=True)
def fetches_that_wait(scene: Scene) -> None:
    """100 on each of 300 connections, for records that never come."""
    scene.topic("empty")
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=MEBIBYTE)
    topic = FetchTopic(topic="empty", partitions=[partition])
    request = FetchRequest(max_wait_ms=HOUR_MS, min_bytes=MEBIBYTE, topics=[topic])
    from_all(scene, encoded(request, 11) * 100)


@attack(0, is_quick=True, ports=[METRICS_LISTENER])
def scrapes_that_are_not_read(scene: Scene) -> None:
    """Of 2,000 partitions: more connections than are served, and one that asks again and again."""
    scene.topic("wide", scene.count(2_000))
    address = ("127.0.0.1", int(scene.broker.overrides[METRICS_LISTENER]))
    ends_s = time.monotonic() + max(2.0, 15 * scene.scale)
    bodies = 0
    with scene.watched():
        for _ in range(SCRAPERS):
            hung = socket.create_connection(address, timeout=30)
            scene.resources.enter_context(hung)
            hung.sendall(SCRAPE)
        while time.monotonic() < ends_s:
            with (
                contextlib.suppress(ConnectionResetError),
                socket.create_connection(address, timeout=30) as scraper,
            ):
                scraper.sendall(SCRAPE)
                while scraper.recv(1 << 16):
                    bodies += 1
    scene.figures["received"] = bodies


def from_all(scene: Scene, content: bytes) -> None:
    """What each of many connections sends, and takes no response to."""
    pause = threading.Event()
    with scene.watched():
        wires = [scene.wire(timeout_s=5.0) for _ in range(scene.count(UNREAD_CONNECTIONS))]
        for wire in wires:
            wire.send_bytes(content)
        pause.wait(5 * scene.scale)
