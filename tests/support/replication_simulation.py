"""Three brokers that replicate one partition, in one thread, with a clock and a network of a seed.

Each broker consists of the product's parts: logs on a file system in memory, `Leadership`, the
fetchers, the Fetch handler with its sessions, `InSyncReplicas`.  The controller is a script around
the product's decisions.  What happens is drawn from a seed: appends, delays, lost and late
messages, links that fail, processes that are killed, paused or lose power, sessions that expire.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, cast
from uuid import UUID

from odradek.broker.handlers import fetch
from odradek.broker.handlers.handler import Context, Reply
from odradek.broker.purgatory import Delayed, Purgatory
from odradek.broker.replication.fetch_session import FetchSessions
from odradek.broker.replication.follower.fetcher_state import LATEST, FetchLimits
from odradek.broker.replication.follower.replica_fetcher import FetcherContext, ReplicaFetcher
from odradek.broker.replication.follower.replica_fetchers import ReplicaFetchers
from odradek.broker.replication.in_sync_replicas import Altered, InSyncReplicas
from odradek.broker.replication.leader import InSyncRules, PartitionLeader
from odradek.broker.replication.leadership import Leadership
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.partitions import Partitions
from odradek.broker.replication.replication_throttle import (
    UNLIMITED,
    RateWindow,
    ReplicationThrottle,
)
from odradek.controller.control_requests import LeaderAndIsr, LeaderAndIsrPartition
from odradek.controller.decide.elections import (
    Strategy,
    decide_election,
    decide_first_leader,
    decide_replica_offline,
)
from odradek.controller.decide.isr import AlterIsr, check_sender, decide_alter_isr
from odradek.controller.image import (
    BrokerImage,
    Image,
    PartitionImage,
    PartitionState,
    TopicImage,
)
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.pending import Pending
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.runtime.testing.virtual_clock import VirtualClock
from odradek.runtime.timers import TimingWheel
from odradek.storage.directories.disk_jobs import DiskJob
from odradek.storage.log_config import LogConfig
from tests.support.log_directories import Broker as StoredBroker
from tests.support.logs import batch, read_all

TOPIC: Final = "orders"
TOPIC_ID: Final = UUID(int=9)
KEY: Final = TopicPartition(TOPIC, 0)
COUNT: Final = 3
MIN_ISR: Final = 2
LAG_MAX_MS: Final = 400
TIMEOUT_MS: Final = 300
CONFIG: Final = LogConfig(min_insync_replicas=MIN_ISR, segment_bytes=1_500)
LIMITS: Final = FetchLimits(
    max_bytes=2_000, partition_max_bytes=500, min_bytes=1, max_wait_ms=60, backoff_ms=40
)
DISK_MS: Final = 8
READING: Final = SimpleNamespace(fetch_max_bytes=2_000, replica_selector_class="")


class Broken(AssertionError):
    """A promise was broken; the text has the seed and what happened last."""


@dataclass
class Sent:
    """An acks=all record whose response waits."""

    partition: Partition
    leader: PartitionLeader
    offset: int
    value: bytes


class Connection:
    """From a fetcher of one process to one broker; requests and responses stay in order."""

    def __init__(self, source: SimulatedBroker, target_id: int) -> None:
        self.source = source
        self.target_id = target_id
        self.is_closed = False
        self._last_ms = 0

    def send(self, message: Any, version: int) -> Pending[Any]:
        """Arrives later, or never; fails after a time-out."""
        simulation, response = self.source.simulation, Pending[Any]()
        process = self.source.process

        def lost() -> None:
            if not response.is_done:
                response.fail(ConnectionError("lost"))

        def fail() -> None:
            if not response.is_done and self.source.process is process and not self.is_closed:
                self.source.do(lost)

        def respond(value: Any) -> None:
            def arrive() -> None:
                if not response.is_done and not self.is_closed:
                    response.resolve(value)

            simulation.deliver(
                self.target_id, self.source.id, lambda: self.source.do(arrive, process)
            )

        def arrive() -> None:
            target = simulation.brokers[self.target_id]
            target.do(lambda: target.serve(message, respond))

        simulation.after(TIMEOUT_MS, fail)
        simulation.deliver(self.source.id, self.target_id, arrive)
        return response

    def close(self) -> None:
        self.is_closed = True


class SimulatedBroker:
    """A process that is up, down or paused, and its disk."""

    def __init__(self, simulation: Simulation, broker_id: int) -> None:
        self.simulation = simulation
        self.id = broker_id
        self.files = MemoryFileSystem(folders=("/a",))
        self.process = 0
        """Counts the starts."""
        self.is_up = False
        self.is_paused = False
        self.epoch = -1
        """Of the registration that the process believes to have."""
        self.start()

    def start(self) -> None:
        """Start on what is on the disk."""
        simulation = self.simulation
        clock = simulation.clock
        self.process += 1
        self.is_up, self.is_paused = True, False
        self.work: deque[Callable[[], None]] = deque()
        self.live: tuple[int, ...] = ()
        self.metadata_number = 0
        self.wheel = TimingWheel(clock.monotonic_ms())
        metrics = BrokerMetrics()
        self.stored = StoredBroker(self.files, ["/a"], now_ms=clock.now_ms()).start(
            lambda _: CONFIG
        )
        self.partitions = Partitions()
        self.purgatory = Purgatory(self.wheel, metrics)
        throttle = ReplicationThrottle(
            self.id,
            RateWindow(11, 1_000),
            rate=lambda: UNLIMITED,
            throttled=lambda topic: "",
            monotonic_ms=clock.monotonic_ms,
        )
        self.fetchers = self._build_fetchers(metrics, throttle)
        self.in_sync = InSyncReplicas(
            partitions=self.partitions,
            purgatory=self.purgatory,
            sender=self,
            wheel=self.wheel,
            clock=clock,
            metrics=metrics,
        )
        self.leadership = Leadership(
            broker_id=self.id,
            logs=self.stored.manager,
            partitions=self.partitions,
            purgatory=self.purgatory,
            config_of=lambda _: CONFIG,
            run_jobs=self.run_jobs,
            on_flush_awaited=lambda log: None,
            in_sync_rules=InSyncRules(LAG_MAX_MS, lambda one: one in self.live, clock.monotonic_ms),
            observers=[self.fetchers],
            clock=clock,
            rng=SeededRandomness(self.id),
            on_fatal=simulation.fail,
        )
        self.sessions = FetchSessions(10, simulation.random.randrange)
        self.sent: list[Sent] = []

    def _build_fetchers(
        self, metrics: BrokerMetrics, throttle: ReplicationThrottle
    ) -> ReplicaFetchers:
        return ReplicaFetchers(
            partial(
                ReplicaFetcher,
                context=FetcherContext(
                    replica_id=self.id,
                    limits=LIMITS,
                    connect=lambda leader_id: Connection(self, leader_id),
                    broker_epoch=lambda: self.epoch,
                    throttle=throttle,
                    clock=self.simulation.clock,
                    wheel=self.wheel,
                    defer=self.work.append,
                    purgatory=self.purgatory,
                    metrics=metrics,
                    truncations=self.stored.upkeep.truncations,
                    run_jobs=self.run_jobs,
                    on_storage_failure=lambda: None,
                    on_fatal=self.simulation.fail,
                ),
            ),
            1,
        )

    @property
    def partition(self) -> Partition | None:
        return self.partitions.get(TOPIC, 0) if self.is_up else None

    def do(self, call: Callable[[], object], process: int | None = None) -> None:
        """Run it in the process when that is not paused; a process that has ended drops it."""
        if self.is_up and process in (None, self.process):
            if self.is_paused:
                self.work.append(lambda: cast(None, call()))
            else:
                call()

    def run_jobs(self, jobs: Sequence[DiskJob]) -> None:
        """In a thread, which takes a while."""
        process = self.process
        for job in jobs:
            perform = partial(self.stored.perform, [job])
            delay_ms = self.simulation.random.randrange(DISK_MS)
            self.simulation.after(delay_ms, partial(self.do, perform, process))

    def turn(self) -> None:
        """What the loop does when the process runs."""
        if not self.is_up or self.is_paused:
            return
        for callback in self.wheel.advance(self.simulation.clock.monotonic_ms()):
            callback()
        for _ in range(len(self.work)):
            if self.work and self.is_up and not self.is_paused:
                self.work.popleft()()
        self.purgatory.run_notified()
        self._acknowledge()

    # Requests of other brokers.

    def serve(self, message: Any, respond: Callable[[Any], None]) -> None:
        """Respond to Fetch and ListOffsets."""
        if isinstance(message, ListOffsetsRequest):
            respond(self._list_offsets(message))
            return
        assert isinstance(message, FetchRequest)
        context = Context(
            cast(Any, self._services()), 17, 0, None, self.simulation.clock.now_ms(), "", "host", 1
        )
        outcome = fetch.run(context, message)
        if isinstance(outcome, Reply):
            respond(_received(outcome.response))
            return
        assert isinstance(outcome, Delayed)
        now_ms = self.simulation.clock.monotonic_ms()
        self.purgatory.park(outcome, now_ms, lambda one: respond(_received(one)), lambda: None)

    def _services(self) -> SimpleNamespace:
        topics = SimpleNamespace(
            name_of={TOPIC_ID: TOPIC}.get,
            absence=lambda name, index: ErrorCode.NOT_LEADER_OR_FOLLOWER,
            image=Image,
        )
        return SimpleNamespace(
            topics=topics,
            fetch_sessions=self.sessions,
            settings=READING,
            partitions=self.partitions,
            in_sync_replicas=self.in_sync,
            leader_throttle=SimpleNamespace(is_limited=False),
        )

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        (topic,) = request.topics
        (asked,) = topic.partitions
        found = ListOffsetsPartitionResponse(partition_index=0, error_code=0)
        try:
            partition = self.partitions.held(TOPIC, 0)
            partition.check_leader_epoch(asked.current_leader_epoch)
            partition.leading()
            log = partition.log
            found.offset = log.end_offset if asked.timestamp_ms == LATEST else log.log_start_offset
        except BrokerError as error:
            found.error_code = error.code
        return ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=[found])]
        )

    # Requests of the controller, and to it.

    def apply(self, request: LeaderAndIsr, live: tuple[int, ...], number: int) -> None:
        """A control request, with the brokers that are live; `number` counts those of the
        controller."""
        if request.broker_epoch == self.epoch:
            if number > self.metadata_number:
                self.metadata_number, self.live = number, live
            self.leadership.apply(request)

    def alter(self, proposals: Sequence[tuple[str, AlterIsr]]) -> Pending[Altered]:
        """The sender of `InSyncReplicas`."""
        simulation, response, process = self.simulation, Pending[Altered](), self.process
        epoch = self.epoch

        def answer(result: Altered | None) -> None:
            def arrive() -> None:
                if not response.is_done:
                    if result is None:
                        response.fail(ConnectionError("lost"))
                    else:
                        response.resolve(result)

            self.do(arrive, process)

        def arrive() -> None:
            if simulation.exposed:
                return
            result = simulation.controller.alter(self.id, epoch, proposals)
            if simulation.random.random() < 0.9:
                simulation.after(simulation.delay_ms(), lambda: answer(result))

        if simulation.random.random() < 0.9:
            simulation.after(simulation.delay_ms(), arrive)
        simulation.after(TIMEOUT_MS, lambda: answer(None))
        return response

    # Clients.

    def produce(self, value: bytes) -> None:
        """A client sends a record with acks=all to this broker."""
        partition = self.partition
        if partition is None or self.is_paused or partition.leader is None:
            return
        leader = partition.leader
        if leader.is_under_min_isr(MIN_ISR) or partition.log.is_truncating:
            return
        (result,) = partition.append([batch(value=value)], self.simulation.clock.now_ms())
        assert not isinstance(result, BrokerError), result
        self.purgatory.notify(partition.log_end_key)
        self.sent.append(Sent(partition, leader, partition.log.end_offset - 1, value))
        self._acknowledge()

    def _acknowledge(self) -> None:
        """As `broker.handlers.produce` decides."""
        waiting: list[Sent] = []
        for one in self.sent:
            leader = one.partition.leader
            if leader is None or not leader.continues(one.leader):
                continue
            if one.partition.high_watermark <= one.offset:
                waiting.append(one)
            elif not leader.lost_min_isr(MIN_ISR):
                self.simulation.acknowledge(one.offset, one.value)
        self.sent = waiting

    # Failures.

    def kill(self) -> None:
        self.is_up = False
        self.files.kill()

    def cut_power(self) -> None:
        self.is_up = False
        self.files.crash(SeededRandomness(self.simulation.random.randrange(1 << 30)))

    def records(self) -> list[tuple[int, bytes]]:
        """(leader epoch, bytes) of each record; the offset is its place."""
        partition = self.partition
        assert partition is not None
        return _batches(read_all(partition.log))


def _batches(data: bytes) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    view, position = memoryview(data), 0
    while position < len(view):
        one = RecordBatch(view[position:])
        assert one.base_offset == len(found), "offsets have no gap"
        found.append((one.leader_epoch, bytes(view[position : position + one.size])))
        position += one.size
    return found


def _received(response: FetchResponse) -> FetchResponse:
    """What the follower gets: its own memory."""
    for topic in response.responses:
        for data in topic.partitions:
            records: Any = data.records
            if records is not None and not isinstance(records, bytes | memoryview):
                data.records = memoryview(records.read())
                records.release()
            elif isinstance(records, bytes):
                data.records = memoryview(records)
    return response


class ScriptedController:
    """One controller that never fails; brokers hear of its decisions late."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        replicas = tuple(range(1, COUNT + 1))
        topic = TopicImage(TOPIC, TOPIC_ID, {0: PartitionImage(0, replicas)})
        self.image = Image(controller_id=1, controller_epoch=1).with_topics([topic])
        self._next_epoch = 100
        self._sent_count = 0

    @property
    def partition(self) -> PartitionImage:
        found = self.image.partition(TOPIC, 0)
        assert found is not None
        return found

    @property
    def state(self) -> PartitionState:
        assert self.partition.state is not None
        return self.partition.state

    def register(self, broker: SimulatedBroker) -> None:
        """A broker registers; a registration that it still has was not seen to end."""
        if broker.id in self.image.brokers:
            self.expire(broker.id)
        self._next_epoch += 1
        broker.epoch = self._next_epoch
        self.image = self.image.with_brokers([BrokerImage(broker.id, broker.epoch, ())])
        self.simulation.note(f"broker {broker.id} registers with epoch {broker.epoch}")
        if self.partition.state is None:
            if len(self.image.brokers) == COUNT:
                election = decide_first_leader(self.image, TOPIC, self.partition)
                assert election is not None
                self.write(election.state)
            return
        self._elect()
        self.send()

    def expire(self, broker_id: int) -> None:
        """The session of a broker has ended."""
        self.image = self.image.with_brokers(removed=[broker_id])
        self.simulation.note(f"session of broker {broker_id} expires")
        self.write(decide_replica_offline(self.image, self.state, broker_id))
        self._elect()
        if self.simulation.exposed == broker_id:
            self.simulation.exposed = 0

    def _elect(self) -> None:
        if self.state.leader < 0:
            election = decide_election(self.image, TOPIC, self.partition, Strategy.OFFLINE)
            if election is not None:
                self.write(election.state)

    def move(self, broker_id: int) -> None:
        """Another replica becomes the preferred one, and leads when it is in sync."""
        others = tuple(one for one in self.partition.replicas if one != broker_id)
        wanted = replace(self.partition, replicas=(broker_id, *others))
        self.image = self.image.with_partitions({KEY: wanted})
        election = decide_election(self.image, TOPIC, wanted, Strategy.PREFERRED)
        if election is not None and self.state.leader != broker_id:
            self.write(election.state)

    def write(self, state: PartitionState) -> None:
        """Write the state and send it to all brokers."""
        if self.partition.state is not None and state is self.state:
            return
        epoch = 0 if self.partition.state is None else self.state.partition_epoch + 1
        self.image = self.image.with_states({KEY: replace(state, partition_epoch=epoch)})
        self.simulation.note(f"state {self.state}")
        self.send()

    def send(self) -> None:
        simulation, partition = self.simulation, self.partition
        live = tuple(self.image.brokers)
        self._sent_count += 1
        number = self._sent_count
        for broker in self.image.brokers.values():
            part = LeaderAndIsrPartition(
                topic=TOPIC,
                topic_id=TOPIC_ID,
                partition=0,
                state=self.state,
                replicas=partition.replicas,
                adding=(),
                removing=(),
                is_new=True,
            )
            request = LeaderAndIsr(1, 1, broker.broker_epoch, (part,), ())
            target = simulation.brokers[broker.broker_id]

            def arrive(target: SimulatedBroker = target, request: LeaderAndIsr = request) -> None:
                target.do(lambda: target.apply(request, live, number))

            simulation.control(target.id, arrive)

    def alter(
        self, broker_id: int, epoch: int, proposals: Sequence[tuple[str, AlterIsr]]
    ) -> Altered | None:
        """AlterPartition; None: the whole request has failed."""
        ((_, proposal),) = proposals
        try:
            check_sender(self.image, broker_id, epoch)
        except BrokerError:
            return None
        try:
            state = decide_alter_isr(self.image, self.partition, broker_id, proposal)
        except BrokerError as error:
            return [error.code]
        self.write(state)
        return [self.state]


class Simulation:
    """A history of one seed."""

    def __init__(self, seed: int, *, has_power_cuts: bool = True) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.clock = VirtualClock()
        self.history: deque[str] = deque(maxlen=80)
        self.exposed = 0
        """A broker that has lost power, until the controller knows: no other one leaves the in-sync
        replicas.  Else the last one of them might be the one that lost records."""
        self.acknowledged: dict[int, bytes] = {}
        self.committed: list[tuple[int, bytes]] = []
        self.cut_links: set[tuple[int, int]] = set()
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0
        self._control_ms: dict[int, int] = {}
        self._value = 0
        self._watermarks: dict[tuple[int, int], tuple[PartitionLeader, int]] = {}
        self._has_power_cuts = has_power_cuts
        self.is_calm = False
        self.brokers: dict[int, SimulatedBroker] = {}
        self.controller = ScriptedController(self)
        for broker_id in range(1, COUNT + 1):
            self.brokers[broker_id] = SimulatedBroker(self, broker_id)
        for broker in self.brokers.values():
            self.controller.register(broker)

    # Time and network.

    def note(self, text: str) -> None:
        self.history.append(f"{self.clock.now_ms() % 10_000_000} {text}")

    def fail(self, reason: str) -> None:
        """A promise is broken."""
        raise Broken(f"seed {self.seed}: {reason}\n" + "\n".join(self.history))

    def after(self, delay_ms: int, call: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (self.clock.monotonic_ms() + delay_ms, self._number, call))

    def delay_ms(self) -> int:
        """Mostly short, rarely very long."""
        return self.random.choice((0, 1, 1, 2, 3, 5, 8, 200 if not self.is_calm else 8))

    def deliver(self, source: int, target: int, call: Callable[[], None]) -> None:
        """A message between brokers, unless the link is cut."""
        if (source, target) not in self.cut_links:
            self.after(self.delay_ms(), call)

    def control(self, target: int, call: Callable[[], None]) -> None:
        """A message of the controller: never lost, in order, and sometimes once more, late."""
        now_ms = self.clock.monotonic_ms()
        due_ms = max(now_ms + self.delay_ms(), self._control_ms.get(target, 0))
        self._control_ms[target] = due_ms
        self.after(due_ms - now_ms, call)
        if self.random.random() < 0.1:
            self.after(self.random.randrange(1_000), call)

    def pass_time(self, ms: int) -> None:
        """Run everything that becomes due."""
        end_ms = self.clock.monotonic_ms() + ms
        while True:
            while self._events and self._events[0][0] <= self.clock.monotonic_ms():
                heapq.heappop(self._events)[2]()
            for broker in self.brokers.values():
                broker.turn()
            if self.clock.monotonic_ms() >= end_ms:
                return
            self.clock.advance(1)

    # What happens.

    def run(self, steps: int) -> None:
        """Random steps, then calm; every promise is checked."""
        choices: list[Callable[[], None]] = []
        for weight, action in (
            (40, self._produce),
            (10, self._check_lag),
            (3, self._stop),
            (8, self._start),
            (4, self._pause),
            (8, self._resume),
            (4, self._expire),
            (4, self._cut_link),
            (6, self._heal_links),
            (4, self._move),
            (6, self._flush),
            (4, self._checkpoint),
        ):
            choices += [action] * weight
        for _ in range(steps):
            self.random.choice(choices)()
            self.pass_time(self.random.choice((0, 1, 2, 5, 15, 60)))
            self._check_watermarks()
        self._calm_down()
        self._check_end()

    def _one(self) -> SimulatedBroker:
        return self.brokers[self.random.randrange(COUNT) + 1]

    def _produce(self) -> None:
        for broker in self.brokers.values():
            for _ in range(self.random.randrange(4)):
                self._value += 1
                broker.produce(b"%d" % self._value)

    def _check_lag(self) -> None:
        broker = self._one()
        broker.do(broker.in_sync.check)

    def _stop(self) -> None:
        broker = self._one()
        if not broker.is_up or self.exposed:
            return
        state = self.controller.state
        others = [
            one
            for one in state.isr
            if one != broker.id and self.brokers[one].is_up and one in self.controller.image.brokers
        ]
        if self._has_power_cuts and others and self.random.random() < 0.5:
            self.note(f"broker {broker.id} loses power")
            broker.cut_power()
            self.exposed = broker.id if broker.id in self.controller.image.brokers else 0
        else:
            self.note(f"broker {broker.id} is killed")
            broker.kill()

    def _start(self) -> None:
        broker = self._one()
        if not broker.is_up:
            self.note(f"broker {broker.id} starts")
            broker.start()
            self.controller.register(broker)

    def _pause(self) -> None:
        broker = self._one()
        if broker.is_up and not broker.is_paused:
            self.note(f"broker {broker.id} is paused")
            broker.is_paused = True

    def _resume(self) -> None:
        broker = self._one()
        if broker.is_up and broker.is_paused:
            self.note(f"broker {broker.id} goes on")
            broker.is_paused = False
            broker.turn()
            if broker.id not in self.controller.image.brokers:
                self.after(self.delay_ms(), lambda: self._register_again(broker, broker.process))

    def _register_again(self, broker: SimulatedBroker, process: int) -> None:
        if broker.is_up and broker.process == process:
            self.controller.register(broker)

    def _expire(self) -> None:
        broker = self._one()
        is_away = not broker.is_up or broker.is_paused
        if self.exposed not in (0, broker.id):
            return
        if is_away and broker.id in self.controller.image.brokers:
            self.controller.expire(broker.id)

    def _cut_link(self) -> None:
        link = (self._one().id, self._one().id)
        self.note(f"link {link} is cut")
        self.cut_links.add(link)

    def _heal_links(self) -> None:
        self.cut_links.clear()

    def _move(self) -> None:
        self.controller.move(self._one().id)

    def _flush(self) -> None:
        broker = self._one()
        partition = broker.partition
        if partition is not None and not broker.is_paused and not partition.log.is_truncating:
            broker.stored.flush(partition.log)

    def _checkpoint(self) -> None:
        broker = self._one()
        if broker.is_up and not broker.is_paused:
            broker.stored.perform(broker.stored.upkeep.checkpoint())
            broker.stored.perform(broker.stored.upkeep.checkpoint_high_watermarks())

    # Promises.

    def acknowledge(self, offset: int, value: bytes) -> None:
        former = self.acknowledged.setdefault(offset, value)
        if former != value:
            self.fail(f"offset {offset} was acknowledged for {former!r} and for {value!r}")

    def _check_watermarks(self) -> None:
        """A high watermark does not fall in a leadership; what is below one never changes."""
        for broker in self.brokers.values():
            partition = broker.partition
            if partition is None or partition.log.is_truncating:
                continue
            key = (broker.id, broker.process)
            known = self._watermarks.get(key)
            leader, watermark = partition.leader, partition.high_watermark
            if known is not None and known[0] is leader and watermark < known[1]:
                self.fail(f"high watermark of broker {broker.id} falls to {watermark}")
            if leader is not None:
                self._watermarks[key] = leader, watermark
            if watermark <= len(self.committed) and self.random.random() < 0.8:
                continue
            records = broker.records()[:watermark]
            common = min(len(records), len(self.committed))
            if records[:common] != self.committed[:common]:
                place = next(one for one in range(common) if records[one] != self.committed[one])
                self.fail(f"broker {broker.id} has another committed record at offset {place}")
            self.committed += records[common:]

    def _calm_down(self) -> None:
        """Everything works again."""
        self.is_calm = True
        self.note("calm")
        self.cut_links.clear()
        for broker in self.brokers.values():
            if broker.is_paused:
                broker.is_paused = False
                broker.turn()
            if not broker.is_up:
                broker.start()
                self.controller.register(broker)
            elif broker.id not in self.controller.image.brokers:
                self.controller.register(broker)
        for _ in range(40):
            self.pass_time(100)
            for broker in self.brokers.values():
                broker.do(broker.in_sync.check)
            if len(self.controller.state.isr) == COUNT and self._is_level():
                break
        self._produce()
        self.pass_time(1_500)
        self._check_watermarks()

    def _is_level(self) -> bool:
        logs = [one.partition.log for one in self.brokers.values() if one.partition is not None]
        return len({(log.end_offset, log.high_watermark) for log in logs}) == 1

    def _check_end(self) -> None:
        if len(self.controller.state.isr) != COUNT:
            self.fail(f"not all replicas are in sync: {self.controller.state}")
        logs = [broker.records() for broker in self.brokers.values()]
        if any(log != logs[0] for log in logs):
            self.fail(f"logs differ: ends {[len(log) for log in logs]}")
        for broker in self.brokers.values():
            partition = broker.partition
            assert partition is not None
            if partition.high_watermark != len(logs[0]):
                self.fail(f"high watermark of broker {broker.id} is {partition.high_watermark}")
            if broker.sent:
                self.fail(f"{len(broker.sent)} requests of broker {broker.id} wait for ever")
        for offset, value in self.acknowledged.items():
            if offset >= len(logs[0]) or not logs[0][offset][1].endswith(
                batch(value=value).view[-len(value) - 1 :]
            ):
                self.fail(f"acknowledged record {value!r} at offset {offset} is lost")
