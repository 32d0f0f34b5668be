"""Members of classic groups on raw sockets: as fast as the broker lets them be.

Old, not flexible versions that every measured broker serves: FindCoordinator 0, JoinGroup 3 (whose
members need not come twice), SyncGroup 1, Heartbeat 1, OffsetCommit 2, OffsetFetch 2.
"""

from __future__ import annotations

import asyncio
import struct
import time
from dataclasses import dataclass

from bench.wire import Connection, Reader, WireError, string

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
JOIN_GROUP, HEARTBEAT, SYNC_GROUP = 11, 12, 14
NONE, LOADING, NOT_AVAILABLE, NOT_COORDINATOR, REBALANCING = 0, 14, 15, 16, 27
SESSION_MS = 60_000
HEARTBEAT_S = 0.1
RETRY_S = 0.005
SUBSCRIPTION = struct.pack(">hi", 0, 1) + string("bench") + struct.pack(">i", -1)


def data(content: bytes) -> bytes:
    """Bytes with their length in 32 bits."""
    return struct.pack(">i", len(content)) + content


def frame(api_key: int, version: int, body: bytes, correlation_id: int = 1) -> bytes:
    """A whole request."""
    head = struct.pack(">hhi", api_key, version, correlation_id) + string("bench")
    return struct.pack(">i", len(head) + len(body)) + head + body


def commit_body(group: str, topic: str, offsets: dict[int, int]) -> bytes:
    """OffsetCommit 2 of a client that is no member."""
    body = string(group) + struct.pack(">i", -1) + string("") + struct.pack(">q", -1)
    body += struct.pack(">i", 1) + string(topic) + struct.pack(">i", len(offsets))
    for partition, offset in offsets.items():
        body += struct.pack(">iq", partition, offset) + string("")
    return body


def check_commit(reader: Reader) -> int:
    """The greatest error of an OffsetCommit's response."""
    worst = NONE
    (topics,) = reader.take("i")
    for _ in range(topics):
        reader.string()
        (partitions,) = reader.take("i")
        for _ in range(partitions):
            _, error = reader.take("ih")
            worst = max(worst, error)
    return worst


def await_coordinator(connection: Connection, group: str, timeout_s: float) -> None:
    """Until the group has a coordinator that responds; makes the offsets topic when need be."""
    end_s = time.monotonic() + timeout_s
    while True:
        reader = connection.request(FIND_COORDINATOR, 0, string(group))
        (error,) = reader.take("h")
        if error == NONE and fetched(connection, group, "bench", 0)[0] == NONE:
            return
        if time.monotonic() > end_s:
            raise WireError(f"group {group} has no coordinator: code {error}")
        time.sleep(RETRY_S)


def fetched(connection: Connection, group: str, topic: str, partition: int) -> tuple[int, int]:
    """Error and committed offset, by OffsetFetch 2."""
    body = string(group) + struct.pack(">i", 1) + string(topic) + struct.pack(">ii", 1, partition)
    reader = connection.request(OFFSET_FETCH, 2, body)
    offset, partition_error = -1, NONE
    (topics,) = reader.take("i")
    for _ in range(topics):
        reader.string()
        (partitions,) = reader.take("i")
        for _ in range(partitions):
            _, offset = reader.take("iq")
            reader.string()
            (partition_error,) = reader.take("h")
    (error,) = reader.take("h")
    return error or partition_error, offset


@dataclass(slots=True)
class _Member:
    """One member and its connection."""

    group: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    member_id: str = ""
    generation: int = -1
    is_assigned: bool = False

    async def ask(self, api_key: int, version: int, body: bytes) -> Reader:
        self.writer.write(frame(api_key, version, body))
        (length,) = struct.unpack(">i", await self.reader.readexactly(4))
        response = Reader(await self.reader.readexactly(length))
        response.take("i")
        return response

    async def join(self) -> list[str]:
        """Enter a generation; the leader learns of all members."""
        body = string(self.group) + struct.pack(">ii", SESSION_MS, SESSION_MS)
        body += string(self.member_id) + string("consumer")
        body += struct.pack(">i", 1) + string("range") + data(SUBSCRIPTION)
        response = await self.ask(JOIN_GROUP, 3, body)
        _, error, generation = response.take("ihi")
        response.string()
        leader, member_id = response.string(), response.string() or ""
        if error:
            raise WireError(f"JoinGroup: code {error}")
        self.generation, self.member_id = generation, member_id
        (count,) = response.take("i")
        members = []
        for _ in range(count):
            members.append(response.string() or "")
            (length,) = response.take("i")
            response.position += length
        return members if leader == member_id else []

    async def sync(self, members: list[str]) -> int:
        """The assignment, or why there is none."""
        body = string(self.group) + struct.pack(">i", self.generation) + string(self.member_id)
        body += struct.pack(">i", len(members))
        for name in members:
            body += string(name) + data(b"\x00" * 40)
        response = await self.ask(SYNC_GROUP, 1, body)
        return response.take("ih")[1]

    async def heartbeat(self) -> int:
        """What the group is doing."""
        body = string(self.group) + struct.pack(">i", self.generation) + string(self.member_id)
        response = await self.ask(HEARTBEAT, 1, body)
        return response.take("ih")[1]


class Group:
    """Members in one event loop, which take part until all are in one generation."""

    def __init__(self, address: tuple[str, int], name: str, count: int) -> None:
        self._address = address
        self._name = name
        self._count = count
        self._members: list[_Member] = []

    async def connect(self) -> None:
        """Open the connections."""
        for _ in range(self._count):
            streams = await asyncio.open_connection(*self._address)
            self._members.append(_Member(self._name, *streams))

    async def form(self) -> float:
        """Everybody enters at once; seconds until all have an assignment in one generation."""
        begin_s = time.monotonic()
        await asyncio.gather(*(self._take_part(member) for member in self._members))
        return time.monotonic() - begin_s

    async def rebalance(self) -> float:
        """Everybody enters again, as after a change of subscription; seconds, likewise."""
        for member in self._members:
            member.is_assigned = False
        begin_s = time.monotonic()
        await asyncio.gather(*(self._take_part(member) for member in self._members))
        return time.monotonic() - begin_s

    def _is_formed(self) -> bool:
        first = self._members[0].generation
        return all(member.is_assigned and member.generation == first for member in self._members)

    async def _take_part(self, member: _Member) -> None:
        while True:
            members = await member.join()
            error = await member.sync(members)
            member.is_assigned = error == NONE
            while error == NONE:
                if self._is_formed():
                    return
                await asyncio.sleep(HEARTBEAT_S)
                if self._is_formed():
                    return
                error = await member.heartbeat()
            member.is_assigned = False
            if error != REBALANCING:
                raise WireError(f"a member is refused: code {error}")

    async def close(self) -> None:
        """Hang up."""
        for member in self._members:
            member.writer.close()
        await asyncio.gather(*(member.writer.wait_closed() for member in self._members))
