"""The content of one partition of an internal topic, while this broker leads it: it is loaded,
serves requests, and is closed.

It serves requests when all in-sync replicas have what it has loaded: a failover may take the rest
back, and what was responded from it (an assignment, a transaction that is to be committed) with it.
It serves, too, when these are fewer than min.insync.replicas: no broker without it can be elected,
and what needs an append is refused with COORDINATOR_NOT_AVAILABLE.  When the disk fails meanwhile,
all is loaded again later.
Differs from Kafka: coordinators of groups and transactions there serve at once what the log holds,
and take over what they could read of it.  So does this one after `REPLICATION_WAIT_MS_MAX`, which
passes only when no controller takes a replica out of sync that does not fetch.
Source: Kafka's CoordinatorRuntime, CoordinatorShard and PartitionWriter.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from odradek.broker.coordinator_log.context import CoordinatorContext
from odradek.broker.coordinator_log.loader import Replay, load_steps
from odradek.broker.replication.awaited_replication import when_replicated
from odradek.broker.replication.partition import Partition
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import RecordBatch
from odradek.runtime.work import pause

REPLICATION_WAIT_MS: Final = 1_000
"""How long one wait lasts; it is repeated."""
REPLICATION_WAIT_MS_MAX: Final = 60_000
"""How long a load waits for in-sync replicas; a replica that has stopped fetching leaves them after
one and a half times replica.lag.time.max.ms, 45 s by default."""
RELOAD_MS: Final = 1_000
"""After the first failure; twice as long after each further one."""
RELOAD_MS_MAX: Final = 60_000

C = TypeVar("C", bound=CoordinatorContext)
R = TypeVar("R", bound=Replay)

logger = logging.getLogger("odradek.coordinators")


class Written(NamedTuple):
    """The result of an append; the offsets are -1 when the batch was not appended."""

    error: ErrorCode
    base_offset: int = -1
    last_offset: int = -1


class PartitionWriter:
    """Appends to one partition of an internal topic, as long as this broker leads it without a
    break, and waits until its replicas have the records."""

    def __init__(self, partition: Partition, context: CoordinatorContext) -> None:
        self.partition = partition
        self._context = context
        self._leader = partition.leader

    def __repr__(self) -> str:
        return f"{self.partition.topic}-{self.partition.index}"

    def is_leading(self) -> bool:
        """Whether this broker has led the partition all the time since this was made.

        Differs from Kafka: one whose log directory has failed does not, as another broker may lead
        by now.
        """
        leader = self.partition.leader
        is_same = leader is not None and leader.continues(self._leader)
        return is_same and not self.partition.log.is_offline

    def write(
        self, batch: RecordBatch, check: Callable[[RecordBatch], None] | None = None
    ) -> Written:
        """Append a batch without waiting.

        check   called last before the append; the BrokerError that it raises is the error
        errors  NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, MESSAGE_TOO_LARGE, those of the log
        """
        partition = self.partition
        leader = partition.leader
        if leader is None or not leader.continues(self._leader):
            return Written(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if leader.is_under_min_isr(partition.log.config.min_insync_replicas):
            return Written(ErrorCode.NOT_ENOUGH_REPLICAS)
        if batch.size > partition.log.config.max_message_bytes:
            return Written(ErrorCode.MESSAGE_TOO_LARGE)
        if check is not None:
            try:
                check(batch)
            except BrokerError as error:
                return Written(error.code)
        (result,) = partition.append([batch], self._context.clock.now_ms())
        self._context.purgatory.notify(partition)
        self._context.purgatory.notify(partition.log_end_key)
        if isinstance(result, BrokerError):
            return Written(result.code)
        return Written(ErrorCode.NONE, result.base_offset, result.last_offset)

    def when_replicated(
        self,
        last_offset: int,
        call: Callable[[ErrorCode], None],
        *,
        timeout_ms: int,
        needs_min_isr: bool = True,
    ) -> None:
        """Call once, perhaps within this call: with NONE when all replicas in sync have the records
        up to `last_offset`, else with the error.

        needs_min_isr  False: also when fewer than min.insync.replicas are in sync
        """
        when_replicated(
            self.partition,
            self._leader,
            last_offset,
            call,
            purgatory=self._context.purgatory,
            clock=self._context.clock,
            timeout_ms=timeout_ms,
            needs_min_isr=needs_min_isr,
        )


class CoordinatorShard(ABC, Generic[C, R]):
    """A shard of a coordinator, which is loading when it is made.

    writer   appends to its partition
    content  what it holds, for the log: "groups"
    """

    def __init__(self, writer: PartitionWriter, context: C, content: str) -> None:
        self.is_loading = True
        self.has_failed = False
        """Loading the records has failed, and the next attempt has not begun."""
        self.is_closed = False
        self._writer = writer
        self._context = context
        self._content = content
        self._loading: R | None = None
        """State that the records have made so far."""
        self._reload_ms = RELOAD_MS

    def __repr__(self) -> str:
        return repr(self._writer)

    def continues_with(self, partition: Partition) -> bool:
        """Whether another leader epoch of the partition changes nothing: this broker led before."""
        is_same = self._writer.partition is partition and self._writer.is_leading()
        return is_same and not self.is_closed and not self.has_failed

    def check_ready(self) -> None:
        """Whether requests can be served.

        raises  BrokerError NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE
        """
        if self.is_closed or not self._writer.is_leading():
            raise BrokerError(ErrorCode.NOT_COORDINATOR)
        if self.has_failed:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if self.is_loading:
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def close(self) -> None:
        """This broker no longer leads the partition: requests get NOT_COORDINATOR."""
        self.is_closed = True
        self._release_loading()

    @abstractmethod
    def _new_replay(self) -> R:
        """The state with which a load begins."""

    @abstractmethod
    def _loaded(self, replay: R) -> None:
        """Take over what the records have made, and end `is_loading`."""

    def _load(self) -> None:
        """Load the partition in short steps, from the next turn on; an empty one at once."""
        log = self._writer.partition.log
        if log.log_start_offset == log.end_offset:
            self._loaded(self._new_replay())
        else:
            self._context.defer(self._begin_loading)

    def _begin_loading(self) -> None:
        if self.is_closed:
            return
        self.has_failed = False
        replay = self._loading = self._new_replay()
        self._context.scheduler.run(self._read(replay))

    async def _read(self, replay: R) -> None:
        """Read the partition, unless it is closed meanwhile."""
        context = self._context
        try:
            for _ in load_steps(self._writer.partition.log, replay):
                if replay.wait_ms:
                    await context.wait(replay.wait_ms)
                else:
                    await pause()
                if self.is_closed:
                    return
            until_ms = context.clock.monotonic_ms() + REPLICATION_WAIT_MS_MAX
            self._await_replication(replay, until_ms)
        except BrokerError as error:
            self._fail(error)
        except OSError as error:
            self._fail(error)
            context.after(self._reload_ms, self._begin_loading)
            self._reload_ms = min(2 * self._reload_ms, RELOAD_MS_MAX)

    def _await_replication(self, replay: R, until_ms: int) -> None:
        """Take over what was loaded once all in-sync replicas have it, or at `until_ms`."""

        def done(error: ErrorCode) -> None:
            if self.is_closed:
                return
            is_over = self._context.clock.monotonic_ms() >= until_ms
            match error:
                case ErrorCode.REQUEST_TIMED_OUT if not is_over:
                    self._await_replication(replay, until_ms)
                case ErrorCode.NONE | ErrorCode.REQUEST_TIMED_OUT:
                    if error:
                        logger.warning(
                            "%s: its %s are served although not all in-sync replicas have them",
                            self,
                            self._content,
                        )
                    self._loading = None
                    self._loaded(replay)
                case _:
                    pass  # This broker does not lead any more: another one loads the records.

        last_offset = self._writer.partition.log.end_offset - 1
        self._writer.when_replicated(
            last_offset, done, timeout_ms=REPLICATION_WAIT_MS, needs_min_isr=False
        )

    def _release_loading(self) -> None:
        replay, self._loading = self._loading, None
        if replay is not None:
            replay.release()

    def _fail(self, reason: object) -> None:
        self.has_failed = True
        self._release_loading()
        logger.error(
            "%s cannot be loaded, its %s have no coordinator: %s", self, self._content, reason
        )
