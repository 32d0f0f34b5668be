"""Damaged files: the damage is logged and costs as few records as possible."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from tests.attack.attacks_requests import alteration
from tests.attack.scene import Scene, attack
from tests.scripts.chapters.batches import batch, produce_request
from tests.scripts.talk import Talk
from tests.support.wire import Wire

RECORDS = 150
GROUPS = 20


def flip(path: Path, position: int) -> None:
    """Another byte there."""
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF
    path.write_bytes(content)


@attack(5, limits={resource.RLIMIT_NOFILE: (256, 256)})
def many_partitions(scene: Scene) -> None:
    """More partitions than descriptors, and another start."""
    topic = CreatableTopic(
        name="wide", num_partitions=600, replication_factor=1, assignments=[], configs=[]
    )
    with Wire(scene.broker.address) as wire:
        wire.call(CreateTopicsRequest(topics=[topic]), 7)
    for _ in range(2):
        scene.check_alive()
        scene.broker.kill()
        scene.broker.start()


@attack(6)
def damaged_segment(scene: Scene) -> None:
    """A flipped byte in the last segment after a kill: what is cut is in the log."""
    scene.topic("damaged")
    with Wire(scene.broker.address) as wire:
        for _ in range(RECORDS):
            wire.call(produce_request("damaged", batch(1)), 9)
    scene.broker.kill()
    path = scene.broker.data / "damaged-0" / "00000000000000000000.log"
    flip(path, path.stat().st_size * 3 // 4)
    scene.broker.start()
    logged = [line for line in scene.broker.process.lines() if "damaged-0" in line]
    scene.require(logged, "acknowledged records are cut without a line")


@attack(8)
def damaged_snapshot(scene: Scene) -> None:
    """A flipped byte in the coordination snapshot: it starts all the same, or names the file."""
    scene.topic("kept")
    scene.require(scene.broker.stop() == 0, "it does not stop")
    paths = sorted(scene.broker.data.rglob("coordination.snapshot.*"), reverse=True)
    scene.require(paths, "there is no snapshot")
    flip(paths[0], paths[0].stat().st_size // 2)
    command = [sys.executable, "-I", "-m", "odradek", "start"]
    settings = {"broker.id": "0", "log.dirs": str(scene.broker.data)}
    settings["listeners"] = f"PLAINTEXT://{scene.broker.address}"
    for key, value in settings.items():
        command += ["--override", f"{key}={value}"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        output, _ = child.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        child.terminate()
        output, _ = child.communicate()
        scene.require("ready" in output, f"it neither starts nor ends: {output}")
    else:
        scene.require(str(paths[0]) in output, f"the file is not named: {output}")
        flip(paths[0], paths[0].stat().st_size // 2)
    scene.broker.start()


@attack(9)
def config_alterations(scene: Scene) -> None:
    """The 2,000th costs what the first did."""
    scene.topic("altered")
    costs = []
    with Wire(scene.broker.address) as wire:
        for part in range(8):
            before = cpu_s(scene)
            for number in range(scene.count(250)):
                wire.call(alteration(part * 250 + number), 1)
            costs.append(round(cpu_s(scene) - before, 3))
    scene.figures["cpu_s"] = costs
    scene.require(costs[-1] <= 2 * costs[0] + 0.1, f"the cost grows: {costs}")


def cpu_s(scene: Scene) -> float:
    """Processor time of the broker so far."""
    fields = Path(f"/proc/{scene.broker.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@attack(11, overrides={"offsets.topic.num.partitions": "1"})
def damaged_group_record(scene: Scene) -> None:
    """A flipped byte in one record: other groups of the partition keep their offsets."""
    scene.topic("committed")
    scene.coordinator()
    with Wire(scene.broker.address) as wire:
        for number in range(GROUPS):
            place = OffsetCommitRequestPartition(
                partition_index=0, committed_offset=7, committed_metadata=""
            )
            topics = [OffsetCommitRequestTopic(name="committed", partitions=[place])]
            response = wire.call(
                OffsetCommitRequest(group_id=f"group-{number:02}", topics=topics), 7
            )
            scene.require(response.topics[0].partitions[0].error_code == 0, "no commit")
    scene.require(scene.broker.stop() == 0, "it does not stop")
    path = scene.broker.data / "__consumer_offsets-0" / "00000000000000000000.log"
    flip(path, path.read_bytes().index(b"group-10"))
    scene.broker.start()
    talk = Talk(scene.broker.address)
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id="group-03",
                topics=[OffsetFetchRequestTopic(name="committed", partition_indexes=[0])],
            )
        ]
    )
    try:
        talk.until(
            "another group's offset",
            lambda: talk.quiet(request, 8).groups[0],
            lambda group: (
                group.error_code == 0 and group.topics[0].partitions[0].committed_offset == 7
            ),
        )
    finally:
        talk.close()
