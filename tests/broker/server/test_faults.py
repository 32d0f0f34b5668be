"""An exception at any point of a turn costs one connection, gives back what it held, and no more.

A profiler counts the calls that a turn makes in the code of the server, and raises at one of them:
at each of them in turn, whatever it is, an Exception, a MemoryError, a struct.error, a
RecursionError.
"""

from __future__ import annotations

import logging
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from tests.scripts.chapters.batches import batch, produce_request
from tests.support.node_here import Caller, NodeHere, framed, node_here

ROOT: Final = str(Path(__file__).resolve().parents[3])
PLACES: Final = ("broker/server/", "broker/handlers/", "broker/purgatory.py", "protocol/")
CODE: Final = (*(f"{ROOT}/{place}" for place in PLACES), "<encode>", "<decode>")
CALLED_BY_THE_LOOP: Final = {
    "_accept",
    "_on_readable",
    "_on_writable",
    "on_worked",
    "_run",
    "on_timeout",
}
"""Nothing of ours has begun when they are called."""
GIVES_BACK: Final = {
    "<genexpr>",
    "<lambda>",
    "_break",
    "_cancel_work",
    "_end_turn",
    "abandon",
    "_forgotten",
    "_lose",
    "_give_back",
    "_pause",
    "_return_memory",
    "give_back",
    "on_end",
    "poison",
    "_poison",
    "remove",
    "cancel",
    "clear",
    "close",
    "closed",
    "forget",
    "on_work_done",
    "release",
    "settle",
}
"""They are called to give back; what is not done there is done nowhere."""
WALLS: Final = {"try_complete"}
"""All that they do is to catch what others raise."""
SPARED: Final = CALLED_BY_THE_LOOP | GIVES_BACK | WALLS
FAULTS: Final = 200
"""Calls of a scene at which one is injected, if it makes so many."""
ERRORS: Final = (ValueError, MemoryError, struct.error, RecursionError)


class Fault:
    """Raises at the call with a certain number; counts them all."""

    def __init__(self, at: int, error: type[Exception]) -> None:
        self._at = at
        self._error = error
        self.count = 0
        self.place = ""

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if not code.co_filename.startswith(CODE) or code.co_name in SPARED:
            return
        self.count += 1
        if self.count == self._at:
            self.place = f"{code.co_filename}:{code.co_name}"
            raise self._error("injected")


@pytest.fixture
def here(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[NodeHere]:
    caplog.set_level(logging.CRITICAL)
    with node_here(tmp_path, num_partitions="1", log_cleaner_enable="false") as node:
        caller = node.caller()
        make_topic(node, caller, "plain", {})
        make_topic(node, caller, "compacted", {"cleanup.policy": "compact"})
        yield node


def make_topic(here: NodeHere, caller: Caller, name: str, configs: dict[str, str]) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=1,
        replication_factor=1,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    response = here.call(caller, CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7)
    assert response.topics[0].error_code == 0


def fetch(max_wait_ms: int) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1 << 30 if max_wait_ms else 1,
        topics=[FetchTopic(topic="plain", partitions=[partition])],
    )


def heavy_produce() -> ProduceRequest:
    records = [Record(b"key", b"value", timestamp_ms=1) for _ in range(1_000)]
    return produce_request("compacted", bytes(build_batch(records)))


def joining() -> JoinGroupRequest:
    """Above 64 KiB: a buffer of its own."""
    protocol = JoinGroupRequestProtocol(name="range", metadata=bytes(100_000))
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[protocol],
    )


def many_names(count: int) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=f"unknown-{number}") for number in range(count)]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


SCENES: Final[dict[str, list[tuple[Any, int]]]] = {
    "one produce": [(produce_request("plain", batch(1)), 9)],
    "a turn of many": [
        (produce_request("plain", batch(1)), 9),
        (produce_request("plain", batch(2)), 9),
        (MetadataRequest(topics=None), 9),
        (fetch(0), 11),
        (
            ListOffsetsRequest(
                replica_id=-1,
                topics=[
                    ListOffsetsTopic(
                        name="plain",
                        partitions=[ListOffsetsPartition(partition_index=0, timestamp_ms=-1)],
                    )
                ],
            ),
            6,
        ),
        (produce_request("plain", batch(1)), 9),
    ],
    "a fetch that waits": [(fetch(1), 11), (ApiVersionsRequest(), 0)],
    "a batch that is checked in a thread": [(heavy_produce(), 9), (ApiVersionsRequest(), 0)],
    "a large frame": [(joining(), 5), (ApiVersionsRequest(), 0)],
    "a request in slices": [(many_names(2_000), 9), (ApiVersionsRequest(), 0)],
}


def play(here: NodeHere, scene: list[tuple[Any, int]], fault: Fault | None) -> tuple[int, bool]:
    """How many responses came, and whether the connection was closed."""
    caller = here.caller()
    content = b"".join(
        framed(request, version, number) for number, (request, version) in enumerate(scene)
    )
    caller.send_bytes(content)
    frames: list[bytes] = []

    def is_over() -> bool:
        sys.setprofile(None)
        frames.extend(caller.frames())
        if fault is not None:
            sys.setprofile(fault)
        return len(frames) == len(scene) or caller.is_closed

    try:
        here.until(is_over, "neither responses nor an end")
    except AssertionError as error:
        raise AssertionError(f"{error} after {fault and fault.place}") from error
    finally:
        sys.setprofile(None)
    caller.close()
    return len(frames), caller.is_closed


def is_quiet(here: NodeHere) -> bool:
    """Whether nothing is left of an attacker; the neighbour and the maker of topics stay."""
    return len(here.server.connections) == 2 and not here.node.services.metrics.delayed_requests


@pytest.mark.parametrize("name", SCENES)
def test_fault_at_any_call_of_a_turn_costs_its_connection_at_most(
    here: NodeHere, name: str
) -> None:
    scene = SCENES[name]
    neighbour = here.caller()
    assert here.call(neighbour, ApiVersionsRequest(), 0).error_code == 0
    play(here, scene, None)
    counted = Fault(-1, ValueError)
    assert play(here, scene, counted)[0] == len(scene)
    step = max(1, counted.count // FAULTS)
    for at in range(1, counted.count + 1, step):
        fault = Fault(at, ERRORS[at % len(ERRORS)])
        play(here, scene, fault)
        here.until(lambda: is_quiet(here), f"something stays after {fault.place}")
        assert here.server.frame_memory.held_bytes == 0, fault.place
        assert here.server.scratch.taken_count == 0, fault.place
        assert here.server.budget.held_bytes == 0, fault.place
        assert here.failures == [], fault.place
        assert here.call(neighbour, ApiVersionsRequest(), 0).error_code == 0
    written = here.call(neighbour, produce_request("plain", batch(1)), 9)
    assert written.responses[0].partition_responses[0].error_code == 0
