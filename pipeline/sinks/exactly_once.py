"""Writes batches to a Kafka topic in transactions, each with the number of its batch.

The executors compute a batch; the driver sends it in one transaction, which also commits the number
of the batch as the offset of a group.  A batch that is repeated after a crash is found to be
written by this offset, and not written again.  Initialising the producer ends the transaction of a
killed run, and fences a run that still sends: both use one transactional id, which belongs to the
checkpoint.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa
from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from odradek.pipeline.librdkafka import LOG_LEVEL
from odradek.pipeline.report.failures import WriteBatch, in_one_line
from odradek.pipeline.sinks.written_batch import UnknownBatch, WrittenBatch, is_written, query_id

OFFSET_PARTITION: Final = 0
"""The partition of the topic whose offset, in a group of the sink's own, is the number."""
UNAVAILABLE_TIMEOUT_S: Final = 120.0
"""How long each step of a transaction waits for an unavailable cluster."""
ABORT_TIMEOUT_S: Final = 30.0
"""How long an abort may take before a new producer ends the transaction."""
REQUEST_TIMEOUT_S: Final = 10.0
RETURN_TIMEOUT_S: Final = 45.0
"""How long a call of librdkafka with REQUEST_TIMEOUT_S may take before its producer is given up."""
ATTEMPTS_MAX: Final = 3
"""How often a batch is sent whose transaction had to be aborted."""
PARTITION_OF_KEY: Final = -1
"""librdkafka's number for a partition that the partitioner chooses."""
WAIT_S: Final = 0.1
POLL_RECORDS: Final = 500
PACKED_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bound on the records of one row on their way to the driver, unless one record is larger."""
FENCED: Final = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
)
UNAVAILABLE: Final = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._WAIT_COORD,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.REQUEST_TIMED_OUT,
    }
)
"""Errors of requests outside of transactions, which librdkafka does not mark as retriable."""
Result = TypeVar("Result")


class TransactionFailed(Exception):
    """A batch was not written: its transaction is aborted, or the next run ends it."""


class _Aborted(Exception):
    """A transaction was aborted; it can be repeated."""


class _Unresponsive(Exception):
    """A producer does not end its transaction; a new one can."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record for the topic.

    partition  None: the partition of the key
    """

    value: bytes | str | None
    key: bytes | str | None = None
    partition: int | None = None
    headers: list[tuple[str, str | bytes | None]] | None = None


@dataclass(slots=True)
class Transactions:
    """Writes batches of records to one topic, each in one transaction with its number.

    properties        of librdkafka's producer, without the transactional id
    name              the transactional id, and the group of the number
    return_timeout_s  after which a call that does not return is left alone, and its producer
                      replaced
    """

    properties: Mapping[str, str]
    topic: str
    name: str
    return_timeout_s: float = RETURN_TIMEOUT_S
    _last: WrittenBatch | None = field(init=False, default=None)
    _producer: Producer = field(init=False)
    _consumer: Consumer = field(init=False)
    _refused: KafkaError | None = field(init=False, default=None)

    def open(self) -> WrittenBatch | None:
        """End the transaction of an earlier run and fence that run; return the last written batch.

        raises  TransactionFailed
        """
        shared = {**self.properties, "log_level": LOG_LEVEL}
        self._producer = Producer(
            {
                **shared,
                "transactional.id": self.name,
                "enable.idempotence": True,
                "delivery.report.only.error": True,
            }
        )
        self._consumer = Consumer(
            {
                **shared,
                "group.id": self.name,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        try:
            _retried(self._producer.init_transactions)
            # The request for metadata creates the topic when the cluster does that.
            _retried(self._await_topic)
            (committed,) = _retried(
                lambda timeout_s: self._consumer.committed([self._place()], timeout_s)
            )
        except KafkaException as error:
            raise self._failed(error.args[0]) from error
        if committed.error is not None:
            raise self._failed(committed.error)
        self._last = None
        if committed.offset != OFFSET_INVALID:
            self._last = WrittenBatch(committed.offset - 1, committed.metadata or "")
        return self._last

    def _await_topic(self, timeout_s: float) -> None:
        topic = self._producer.list_topics(self.topic, timeout_s).topics[self.topic]
        if topic.error is not None:
            raise KafkaException(topic.error)

    def _place(self, batch: WrittenBatch | None = None) -> TopicPartition:
        if batch is None:
            return TopicPartition(self.topic, OFFSET_PARTITION)
        return TopicPartition(self.topic, OFFSET_PARTITION, batch.offset, batch.digest)

    def write(self, records: Callable[[], Iterable[Record]], batch: WrittenBatch) -> None:
        """Commit the records and the number of their batch together.

        records  is called once for each attempt
        raises   TransactionFailed; errors of `records`, after the transaction was aborted
        """
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                self._attempt(records(), batch)
            except (_Aborted, _Unresponsive) as error:
                if isinstance(error, _Unresponsive) and self._is_found_written(batch):
                    return
                if attempt == ATTEMPTS_MAX:
                    raise TransactionFailed(f"topic {self.topic}: {error}") from error
            else:
                self._last = batch
                return

    def _is_found_written(self, batch: WrittenBatch) -> bool:
        """Replace the producer, which ends the transaction; whether that was committed.

        raises  TransactionFailed, also when another run has written a batch
        """
        before = self._last
        last = self.open()
        if last not in (before, batch):
            raise self._taken_over()
        return last == batch

    def _attempt(self, records: Iterable[Record], batch: WrittenBatch) -> None:
        self._refused = None
        producer = self._producer
        try:
            producer.begin_transaction()
            for number, record in enumerate(records, 1):
                self._send(record)
                if number % POLL_RECORDS == 0:
                    producer.poll(0)
            group = self._consumer.consumer_group_metadata()
            _retried(
                lambda timeout_s: self._returned(
                    partial(
                        producer.send_offsets_to_transaction, [self._place(batch)], group, timeout_s
                    )
                )
            )
            _retried(producer.commit_transaction)
        except _Unresponsive:
            raise
        except KafkaException as error:
            reason = self._cause(error.args[0])
            kept_open = None if reason.fatal() else self._abort()
            if kept_open is not None and not kept_open.fatal():
                raise _Unresponsive((self._refused or reason).str()) from error
            if kept_open is None and reason.txn_requires_abort():
                raise _Aborted((self._refused or reason).str()) from error
            raise self._failed(self._refused or reason) from error
        except BaseException:
            self._abort()
            raise

    def _returned(self, call: Callable[[], object]) -> None:
        """Wait for a call in a thread of its own.

        librdkafka may never return from it, whatever its time-out, when the coordinator of the
        group leaves the cluster (confluentinc/librdkafka#5511, #5456).
        raises  _Unresponsive; what the call raises
        """
        raised: list[KafkaException] = []

        def run() -> None:
            try:
                call()
            except KafkaException as error:
                raised.append(error)

        thread = threading.Thread(target=run, name=f"{self.name}: offsets", daemon=True)
        thread.start()
        thread.join(self.return_timeout_s)
        if thread.is_alive():
            raise _Unresponsive(f"no offsets were committed in {self.return_timeout_s:.0f} s")
        if raised:
            raise raised[0]

    def _send(self, record: Record) -> None:
        partition = PARTITION_OF_KEY if record.partition is None else record.partition
        while True:
            try:
                self._producer.produce(
                    self.topic,
                    value=record.value,
                    key=record.key,
                    headers=record.headers,
                    partition=partition,
                    on_delivery=self._delivered,
                )
            except BufferError:
                self._producer.poll(WAIT_S)
            else:
                return

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None and error.code() != KafkaError._PURGE_QUEUE:
            self._refused = self._refused or error

    def _cause(self, error: KafkaError) -> KafkaError:
        """What has made the producer unusable, when an error says only that it is."""
        if error.code() == KafkaError._FATAL:
            try:
                self._producer.abort_transaction(WAIT_S)
            except KafkaException as cause:
                cause_of_abort: KafkaError = cause.args[0]
                return cause_of_abort
        return error

    def _abort(self) -> KafkaError | None:
        """Abort the transaction; an error: a new producer ends it, or its time-out does."""
        try:
            _retried(self._producer.abort_transaction, ABORT_TIMEOUT_S)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            return reason
        return None

    def _failed(self, error: KafkaError) -> TransactionFailed:
        if error.code() in FENCED:
            return self._taken_over()
        return TransactionFailed(f"topic {self.topic}: {error.str()}")

    def _taken_over(self) -> TransactionFailed:
        return TransactionFailed(
            f"topic {self.topic}: another run has taken over the transactional id"
            f" {self.name!r}, or the transaction lasted longer than transaction.timeout.ms"
        )


def _retried(
    call: Callable[[float], Result], unavailable_timeout_s: float = UNAVAILABLE_TIMEOUT_S
) -> Result:
    """Repeat a call with a time-out while its error is retriable.

    raises  the last KafkaException
    """
    deadline_s = time.monotonic() + unavailable_timeout_s
    while True:
        try:
            return call(REQUEST_TIMEOUT_S)
        except KafkaException as error:
            if not _is_retriable(error.args[0]) or time.monotonic() >= deadline_s:
                raise
            time.sleep(WAIT_S)


def _is_retriable(error: KafkaError) -> bool:
    if error.fatal() or error.txn_requires_abort() or error.code() == KafkaError._CONFLICT:
        # _CONFLICT: a call whose time-out has passed is still under way.
        return False
    return bool(error.retriable()) or error.code() in UNAVAILABLE


def packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Serialize the rows of a task, many in one: the driver receives a few rows of bytes."""
    for batch in batches:
        count = max(1, len(batch) * PACKED_BYTES_MAX // max(1, batch.nbytes))
        for begin in range(0, len(batch), count):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch.slice(begin, count))
            rows = pa.array([sink.getvalue().to_pybytes()], pa.binary())
            yield pa.RecordBatch.from_arrays([rows], ["rows"])


def unpacked(rows: bytes) -> Iterator[Record]:
    """The records in a row of `packed`."""
    for batch in pa.ipc.open_stream(rows):
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        nothing = [None] * len(batch)
        values = columns["value"].to_pylist()
        keys = columns["key"].to_pylist() if "key" in columns else nothing
        partitions = columns["partition"].to_pylist() if "partition" in columns else nothing
        headers = columns["headers"].to_pylist() if "headers" in columns else nothing
        for value, key, partition, pairs in zip(values, keys, partitions, headers, strict=True):
            yield Record(value, key, partition, _headers(pairs))


def _headers(pairs: list[dict[str, Any]] | None) -> list[tuple[str, str | bytes | None]] | None:
    return None if pairs is None else [(pair["key"], pair["value"]) for pair in pairs]


def exactly_once_writer(
    properties: Mapping[str, str], topic: str, *, owner: str, checkpoint: Path, repeated: int | None
) -> WriteBatch:
    """A function for foreachBatch that writes each batch once.

    owner       the prefix of the transactional id
    checkpoint  of the query: its id is stored there, and the input of each batch
    repeated    the batch that an earlier run has begun and not finished
    """
    transactions: Transactions | None = None
    last: WrittenBatch | None = None

    def write(rows: DataFrame, batch_id: int) -> None:
        nonlocal transactions, last
        if transactions is None:
            opened = Transactions(properties, topic, transactional_id(owner, checkpoint))
            last = opened.open()
            transactions = opened
        batch = WrittenBatch(batch_id, _digest(checkpoint, batch_id))
        try:
            skip = is_written(batch, last, is_repeated=batch_id == repeated)
        except UnknownBatch as error:
            raise TransactionFailed(
                f"topic {topic}: {error}; to go on, set the offset of the group"
                f" {transactions.name!r} in {topic}-{OFFSET_PARTITION} to {batch_id}: the batch is"
                f" written, or to {batch.offset}: it is not"
            ) from error
        # Computed once, and before the transaction begins; the steps' state is stored also when
        # the batch is not written again.
        computed = rows.mapInArrow(packed, "rows binary").persist()
        try:
            computed.count()
            if not skip:
                transactions.write(lambda: _records(computed), batch)
                last = batch
        finally:
            with suppress(PySparkException, Py4JError, OSError):
                computed.unpersist()

    return in_one_line(write, TransactionFailed, KafkaException)


def _records(computed: DataFrame) -> Iterator[Record]:
    for row in computed.toLocalIterator():
        yield from unpacked(row[0])


def transactional_id(owner: str, checkpoint: Path) -> str:
    """The transactional id of a query, which ends with the id of its checkpoint.

    A new checkpoint numbers its batches from 0 again, so it must not find the number of an old one.
    """
    return f"{owner}-{query_id(checkpoint)}"


def _digest(checkpoint: Path, batch_id: int) -> str:
    """The digest of a batch's entry in Spark's offset log: its input, and when it was planned."""
    return hashlib.sha256((checkpoint / "offsets" / str(batch_id)).read_bytes()).hexdigest()


def timeout_fault(properties: Mapping[str, str]) -> str | None:
    """Compare transaction.timeout.ms with the maximum of the cluster; None when it is not known.

    cost  two requests
    """
    wanted_ms = int(properties["transaction.timeout.ms"])
    admin = AdminClient({**properties, "log_level": LOG_LEVEL})
    try:
        brokers = admin.list_topics(timeout=REQUEST_TIMEOUT_S).brokers
        resource = ConfigResource(ResourceType.BROKER, str(min(brokers)))
        described = admin.describe_configs([resource])[resource].result(REQUEST_TIMEOUT_S)
    except (KafkaException, ValueError, TimeoutError):
        return None
    entry = described.get("transaction.max.timeout.ms")
    if entry is None or entry.value is None or wanted_ms <= int(entry.value):
        return None
    return (
        f"transaction.timeout.ms is {wanted_ms}, and the cluster's transaction.max.timeout.ms is"
        f" {entry.value}"
    )
