"""The cluster of a demo: producers that send all the time, and a line each second about them and
their partition in all brokers.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Final, NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.tools.client import Client, ClientError
from odradek.tools.console.library import library
from odradek.tools.topics.requests import create_topics, new_topic

LATEST: Final = -1
CONSUMER: Final = -1
DEBUGGING_CONSUMER: Final = -2
"""Followers serve it, too, and its latest offset is the log end offset."""
MESSAGE_TIMEOUT_MS: Final = 300_000
SEND_EVERY_S: Final = 0.05
LOOK_EVERY_S: Final = 0.2
PRINT_EVERY_S: Final = 1.0


class ReplicaOffsets(NamedTuple):
    """A partition at one moment, as its leader and its replicas say."""

    in_sync: tuple[int, ...]
    high_watermark: int
    log_end_offsets: Mapping[int, int]
    """By broker; -1 for one that does not say."""

    @property
    def is_equal(self) -> bool:
        """Whether all replicas end at the high watermark."""
        return set(self.log_end_offsets.values()) == {self.high_watermark}


class DemoCluster:
    """Requests of the demo, to one broker after the other; blocks."""

    def __init__(self, bootstrap: str, timeout_ms: int) -> None:
        self._client = Client(bootstrap, timeout_ms=timeout_ms)

    def controller_id(self) -> int:
        """raises  ClientError"""
        return self._client.metadata([]).controller_id

    def create_topic(self, topic: str, replicas: Sequence[int], configs: Mapping[str, str]) -> None:
        """A topic with one partition.

        raises  ClientError, also when it is refused
        """
        new = new_topic(topic, assignment=[replicas], configs=configs)
        (created,) = create_topics(self._client, [new])
        if created.error_code:
            raise ClientError(f"{topic} cannot be created: {ErrorCode(created.error_code).name}")

    def offsets(self, topic: str, replicas: Sequence[int]) -> ReplicaOffsets:
        """The state of partition 0.

        replicas  the leader first

        raises  ClientError
        """
        (topic_metadata,) = self._client.metadata([topic]).topics
        in_sync = (
            tuple(sorted(topic_metadata.partitions[0].isr_nodes))
            if topic_metadata.partitions
            else ()
        )
        return ReplicaOffsets(
            in_sync,
            self._latest(topic, replicas[0], CONSUMER),
            {replica: self._latest(topic, replica, DEBUGGING_CONSUMER) for replica in replicas},
        )

    def _latest(self, topic: str, broker_id: int, replica_id: int) -> int:
        request = ListOffsetsRequest(
            replica_id=replica_id,
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[ListOffsetsPartition(partition_index=0, timestamp_ms=LATEST)],
                )
            ],
        )
        response = self._client.broker(broker_id).request(request, ListOffsetsResponse)
        return response.topics[0].partitions[0].offset

    def close(self) -> None:
        self._client.close()


class TimedProducer:
    """Sends to partition 0 of a topic; each record names its producer and has a number.

    Times are in ms of one clock that the caller chooses.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        name: str,
        acks: int = -1,
        request_timeout_ms: int,
        retries: bool = True,
    ) -> None:
        """
        request_timeout_ms  how long the leader waits for followers
        retries             without, an error of the broker is final, and one request is sent at a
                            time

        raises  LibraryMissingError
        """
        self.name = name
        self.request_timeout_ms = request_timeout_ms
        self.acknowledged: list[str] = []
        """Values of the records that were acknowledged; with acks=0, that were sent."""
        self.errors: Counter[str] = Counter()
        """Name of an error -> number of records."""
        self.last_acknowledged_ms = 0.0
        self._longest_ms = 0.0
        self._topic = topic
        self._now_ms = 0.0
        self._sent = 0
        configs: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "client.id": name,
            "acks": acks,
            "request.timeout.ms": request_timeout_ms,
            "message.timeout.ms": MESSAGE_TIMEOUT_MS + request_timeout_ms,
            "linger.ms": 0,
            "log_level": 0,
        }
        if not retries:
            configs |= {"message.send.max.retries": 0, "max.in.flight": 1}
        self._producer = library().Producer(configs)

    @property
    def unfinished(self) -> int:
        """How many records have neither been acknowledged nor failed."""
        return len(self._producer)

    def send(self, now_ms: float) -> None:
        """One record, without waiting."""
        value = f"{self.name}:{self._sent}"
        if not self._sent:
            self.last_acknowledged_ms = now_ms
        self._sent += 1
        try:
            self._producer.produce(
                self._topic,
                value.encode(),
                partition=0,
                on_delivery=lambda error, _: self._on_delivery(value, error),
            )
        except BufferError:
            self.errors["queue full"] += 1

    def take(self, now_ms: float) -> None:
        """Take the acknowledgements that have arrived."""
        self._now_ms = now_ms
        self._producer.poll(0)

    def measure_waits(self, now_ms: float) -> None:
        """Forget the waits until now."""
        self.last_acknowledged_ms = now_ms
        self._longest_ms = 0.0

    def longest_ms(self, now_ms: float) -> float:
        """The longest time without an acknowledgement, the present one included."""
        return max(self._longest_ms, now_ms - self.last_acknowledged_ms)

    def _on_delivery(self, value: str, error: Any) -> None:
        if error is not None:
            self.errors[error.name()] += 1
            return
        self.acknowledged.append(value)
        self._longest_ms = self.longest_ms(self._now_ms)
        self.last_acknowledged_ms = self._now_ms


UNKNOWN: Final = ReplicaOffsets((), -1, {})


class Scene:
    """One partition and the producers of a demo; every method is called on one event loop."""

    def __init__(
        self,
        cluster: DemoCluster,
        topic: str,
        replicas: Sequence[int],
        producers: Mapping[str, TimedProducer],
    ) -> None:
        """replicas  the leader first"""
        self.offsets = UNKNOWN
        self._cluster = cluster
        self._topic = topic
        self._replicas = replicas
        self._producers = producers
        self._began_s = monotonic()
        self._looking: asyncio.Future[ReplicaOffsets] | None = None
        self._looked_s = self._printed_s = float("-inf")

    def now_ms(self) -> float:
        """The clock of the producers."""
        return monotonic() * 1_000

    async def go_on(
        self,
        network: str,
        timeout_s: float,
        until: Callable[[], bool] = lambda: False,
        *,
        sends: bool = True,
    ) -> bool:
        """Send and print until a state is reached; whether it was in time.

        network  its state, which is printed
        sends    without, acknowledgements are taken only
        """
        deadline_s = monotonic() + timeout_s
        while True:
            now_ms = self.now_ms()
            for producer in self._producers.values():
                if sends:
                    producer.send(now_ms)
                producer.take(now_ms)
            self._look()
            self._print(network)
            if until():
                return True
            if monotonic() > deadline_s:
                return False
            await asyncio.sleep(SEND_EVERY_S)

    def is_complete(self) -> bool:
        """Whether all replicas are in sync and end at the high watermark."""
        return self.offsets.is_equal and self.offsets.in_sync == tuple(sorted(self._replicas))

    async def close(self) -> None:
        """Wait for the request that is under way."""
        if self._looking is not None:
            await asyncio.wait((self._looking,))

    def _look(self) -> None:
        """Take what brokers have responded, and ask them again now and then, in a thread."""
        if self._looking is not None and self._looking.done():
            with suppress(ClientError):
                self.offsets = self._looking.result()
            self._looking = None
        if self._looking is None and monotonic() - self._looked_s >= LOOK_EVERY_S:
            self._looked_s = monotonic()
            call = asyncio.to_thread(self._cluster.offsets, self._topic, self._replicas)
            self._looking = asyncio.ensure_future(call)

    def _print(self, network: str) -> None:
        if monotonic() - self._printed_s < PRINT_EVERY_S or self.offsets is UNKNOWN:
            return
        self._printed_s = monotonic()
        in_sync = ",".join(map(str, self.offsets.in_sync))
        ends = " ".join(f"{replica}:{end}" for replica, end in self.offsets.log_end_offsets.items())
        producers = "  ".join(self._state_of(producer) for producer in self._producers.values())
        print(
            f"{monotonic() - self._began_s:6.1f} s  network {network:6}  ISR {in_sync:5}  "
            f"HW {self.offsets.high_watermark:5}  LEO {ends:21}  {producers}",
            flush=True,
        )

    def _state_of(self, producer: TimedProducer) -> str:
        errors = "".join(f" {name} {count}" for name, count in sorted(producer.errors.items()))
        waits_s = (self.now_ms() - producer.last_acknowledged_ms) / 1000
        waiting = f" waits {waits_s:.1f} s" if waits_s >= PRINT_EVERY_S else ""
        return f"{producer.name}: {len(producer.acknowledged)}{waiting}{errors}"
