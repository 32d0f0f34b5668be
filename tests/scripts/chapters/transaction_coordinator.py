"""Transactional ids: who may begin, add, verify and end, and what `__transaction_state` stores."""

from __future__ import annotations

from collections.abc import Iterator
from struct import unpack_from
from typing import Any, Final

from odradek.broker.transaction.records import read_value, transaction_record
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.list_transactions import ListTransactionsRequest
from odradek.protocol.records.batch import iterate_batches
from odradek.protocol.records.record import Record, decode_records
from tests.scripts.chapters.cluster import GROUP, TRANSACTION, wait_for_coordinator
from tests.scripts.talk import Talk, metadata_of, versions_of

NAME: Final = "coordinated"
TIMEOUT_MS: Final = 60_000
STATE_TOPIC: Final = "__transaction_state"
CONCURRENT_TRANSACTIONS: Final = 51
RETRIED: Final = (14, 15, 16, CONCURRENT_TRANSACTIONS)
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR besides."""
SETTINGS: Final = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.max.timeout.ms": "100000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "offsets.topic.num.partitions": "10",
    "offsets.topic.replication.factor": "1",
}

Producer = tuple[int, int]


def play(talk: Talk) -> None:
    """One id for each subject."""
    talk.make_topic(NAME, 4)
    for kind in (GROUP, TRANSACTION):
        wait_for_coordinator(talk, kind)
    beginning(talk)
    refused_beginnings(talk)
    ends(talk)
    additions(talk)
    verification(talk)
    offsets(talk)
    fencing(talk)
    continuing(talk)
    timing_out(talk)
    listing(talk)
    stored(talk)


def init_request(
    name: str | None, producer: Producer = (-1, -1), timeout_ms: int = TIMEOUT_MS
) -> InitProducerIdRequest:
    """Of a producer that has an id already, or of a new one."""
    return InitProducerIdRequest(
        transactional_id=name,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer[0],
        producer_epoch=producer[1],
    )


def begin(talk: Talk, name: str, timeout_ms: int = TIMEOUT_MS) -> Producer:
    """A new producer, as soon as the coordinator is ready."""
    request = init_request(name, timeout_ms=timeout_ms)
    given = talk.until(
        f"a producer of {name}",
        lambda: talk.quiet(request, 4),
        lambda response: response.error_code not in RETRIED,
    )
    assert given.error_code == 0, given
    return given.producer_id, given.producer_epoch


def settle(talk: Talk, name: str) -> None:
    """Until all markers are written."""
    request = DescribeTransactionsRequest(transactional_ids=[name])
    talk.until(
        f"the end of the transaction of {name}",
        lambda: talk.quiet(request, 0).transaction_states[0].transaction_state,
        lambda state: not state.startswith("Prepare"),
    )


def wait_until_loaded(talk: Talk, name: str) -> None:
    """Until the coordinator of an id is ready."""
    request = DescribeTransactionsRequest(transactional_ids=[name])
    talk.until(
        f"the coordinator of {name}",
        lambda: talk.quiet(request, 0).transaction_states[0].error_code,
        lambda code: code not in RETRIED,
    )


def look(talk: Talk, label: str, *names: str) -> None:
    """The states of ids."""
    talk.ask(label, DescribeTransactionsRequest(transactional_ids=list(names)), 0)


def transaction(
    name: str, producer: Producer, *partitions: int, topic: str = NAME, verify: bool = False
) -> AddPartitionsToTxnTransaction:
    """Partitions of one topic."""
    return AddPartitionsToTxnTransaction(
        transactional_id=name,
        producer_id=producer[0],
        producer_epoch=producer[1],
        verify_only=verify,
        topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
    )


def add_request(
    name: str, producer: Producer, *partitions: int, topic: str = NAME
) -> AddPartitionsToTxnRequest:
    """The request of a client, until version 3."""
    added = transaction(name, producer, *partitions, topic=topic)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=added.topics,
    )


def end_request(name: str, producer: Producer, *, is_commit: bool = True) -> EndTxnRequest:
    """A commit or an abort."""
    return EndTxnRequest(
        transactional_id=name,
        producer_id=producer[0],
        producer_epoch=producer[1],
        committed=is_commit,
    )


def beginning(talk: Talk) -> None:
    """A new id in each version; then once more."""
    begin(talk, "first")
    for version in versions_of(InitProducerIdRequest):
        name = f"begins-{version}"
        wait_until_loaded(talk, name)
        talk.ask(f"{name} begins", init_request(name), version)
        talk.ask(f"{name} begins again", init_request(name, timeout_ms=5_000), version)
    look(talk, "new ids", "begins-0", "begins-5", "never", "")


def refused_beginnings(talk: Talk) -> None:
    """Wrong time-outs, ids and epochs."""
    for timeout_ms in (-1, 0, 100_000, 100_001, 2**31 - 1):
        request = init_request(f"waits-{timeout_ms}", timeout_ms=timeout_ms)
        talk.ask(f"time-out {timeout_ms}", request, 4)
        talk.ask(f"no id, time-out {timeout_ms}", init_request(None, timeout_ms=timeout_ms), 4)
    for version in (2, 4):
        talk.ask("an empty id", init_request("", timeout_ms=0), version)
    talk.ask("an id without an epoch", init_request("half", (5, -1)), 4)
    talk.ask("an epoch without an id", init_request("half", (-1, 5)), 4)
    talk.ask("an id that never began", init_request("other", (77, 3)), 4)
    look(talk, "after refusals", "half", "other", "waits-0")


def ends(talk: Talk) -> None:
    """Commit and abort in each version, at the wrong time and again."""
    for version in versions_of(EndTxnRequest):
        name = f"ends-{version}"
        producer = begin(talk, name)
        talk.ask(f"{name}: nothing to commit", end_request(name, producer), version)
        for is_commit in (True, False):
            ended = end_request(name, producer, is_commit=is_commit)
            other = end_request(name, producer, is_commit=not is_commit)
            talk.quiet(add_request(name, producer, 0), 3)
            talk.ask(f"{name}: ends, commit {is_commit}", ended, version)
            settle(talk, name)
            talk.ask(f"{name}: again, commit {is_commit}", ended, version)
            talk.ask(f"{name}: otherwise, commit {is_commit}", other, version)
            look(talk, f"{name} after commit {is_commit}", name)
        fenced = end_request(name, (producer[0], producer[1] + 1))
        talk.ask(f"{name}: another epoch", fenced, version)
        talk.ask(f"{name}: another producer", end_request(name, (77, 0)), version)
    talk.ask("an unknown id ends", end_request("never", (77, 0)), 3)
    talk.ask("an empty id ends", end_request("", (77, 0)), 3)


def additions(talk: Talk) -> None:
    """Partitions in each version, unknown ones and those of others."""
    for version in range(4):
        name = f"adds-{version}"
        producer = begin(talk, name)
        talk.ask(f"{name}: one", add_request(name, producer, 0), version)
        talk.ask(f"{name}: the same and more", add_request(name, producer, 0, 1, 2), version)
        talk.ask(f"{name}: one unknown", add_request(name, producer, 3, 9), version)
        unknown = add_request(name, producer, 0, topic="never-made")
        talk.ask(f"{name}: an unknown topic", unknown, version)
        internal = add_request(name, producer, 0, topic=STATE_TOPIC)
        talk.ask(f"{name}: an internal topic", internal, version)
        fenced = add_request(name, (producer[0], producer[1] + 1), 3)
        talk.ask(f"{name}: another epoch", fenced, version)
        talk.ask(f"{name}: another producer", add_request(name, (77, 0), 3), version)
        look(talk, f"{name} after additions", name)
        talk.quiet(end_request(name, producer), 3)
        settle(talk, name)
    talk.ask("an unknown id adds", add_request("never", (77, 0), 0), 3)
    talk.ask("an empty id adds", add_request("", (77, 0), 0), 3)
    talk.ask("nothing is added", add_request("adds-0", begin(talk, "adds-0")), 3)
    look(talk, "after nothing was added", "adds-0")
    talk.ask("it is aborted", end_request("adds-0", begin(talk, "adds-0"), is_commit=False), 3)


def verification(talk: Talk) -> None:
    """What brokers ask: several transactions, and whether partitions were added."""
    producer = begin(talk, "verified")
    other = begin(talk, "verified-2")
    talk.quiet(add_request("verified", producer, 0), 3)
    for version in (4, 5):
        talk.ask(
            "several transactions",
            AddPartitionsToTxnRequest(
                transactions=[
                    transaction("verified", producer, 0, 1, verify=True),
                    transaction("verified-2", other, 2),
                    transaction("never", (77, 0), 0, verify=True),
                    transaction("", (77, 0), 0, verify=True),
                    transaction("verified-3", (77, 0), 0, 9, verify=True),
                ]
            ),
            version,
        )
        fenced = (producer[0], producer[1] + 1)
        talk.ask(
            "another epoch is verified",
            AddPartitionsToTxnRequest(
                transactions=[transaction("verified", fenced, 0, verify=True)]
            ),
            version,
        )
    talk.quiet(end_request("verified", producer), 3)
    settle(talk, "verified")
    after = transaction("verified", producer, 0, verify=True)
    talk.ask("after the end", AddPartitionsToTxnRequest(transactions=[after]), 5)
    talk.quiet(end_request("verified-2", other), 3)
    settle(talk, "verified-2")


def offsets(talk: Talk) -> None:
    """A group's offsets in each version."""
    for version in versions_of(AddOffsetsToTxnRequest):
        name = f"offsets-{version}"
        producer = begin(talk, name)
        for what, given in (
            ("its own", producer),
            ("again", producer),
            ("another epoch", (producer[0], producer[1] + 1)),
            ("another producer", (77, 0)),
        ):
            request = AddOffsetsToTxnRequest(
                transactional_id=name,
                producer_id=given[0],
                producer_epoch=given[1],
                group_id="any-group",
            )
            talk.ask(f"{name}: {what}", request, version)
        look(talk, f"{name} after offsets", name)
        talk.quiet(end_request(name, producer, is_commit=False), 3)
        settle(talk, name)
    for name, group in (("", "g"), ("never", "g"), ("offsets-0", "")):
        request = AddOffsetsToTxnRequest(
            transactional_id=name, producer_id=77, producer_epoch=0, group_id=group
        )
        talk.ask(f"offsets of group {group!r}, id {name!r}", request, 3)


def fencing(talk: Talk) -> None:
    """A second producer ends the transaction of the first one."""
    for version in (1, 3, 4, 5):
        name = f"fenced-{version}"
        zombie = begin(talk, name)
        talk.quiet(add_request(name, zombie, 0), 3)
        talk.ask(f"{name}: the second begins", init_request(name), version)
        settle(talk, name)
        look(talk, f"{name} after the abort", name)
        talk.ask(f"{name}: the second begins again", init_request(name), version)
        talk.ask(f"{name}: the first adds", add_request(name, zombie, 1), min(version, 3))
        talk.ask(f"{name}: the first commits", end_request(name, zombie), min(version, 4))
        if version >= 3:
            talk.ask(f"{name}: the first continues", init_request(name, zombie), version)


def continuing(talk: Talk) -> None:
    """KIP-360: a producer that continues after an error."""
    for version in (3, 4):
        name = f"continues-{version}"
        first = begin(talk, name)
        talk.ask(f"{name}: continues", init_request(name, first), version)
        talk.ask(f"{name}: continues again", init_request(name, first), version)
        second = (first[0], first[1] + 1)
        talk.ask(f"{name}: continues further", init_request(name, second), version)
        talk.ask(f"{name}: an old epoch", init_request(name, first), version)
        talk.ask(f"{name}: a later epoch", init_request(name, (first[0], 9)), version)
        talk.ask(f"{name}: another id", init_request(name, (77, 0)), version)
        third = (first[0], first[1] + 2)
        talk.quiet(add_request(name, third, 1), 3)
        talk.ask(f"{name}: with an open transaction", init_request(name, third), version)
        settle(talk, name)
        talk.ask(f"{name}: after its abort", init_request(name, third), version)
        look(talk, f"{name} at the end", name)


def timing_out(talk: Talk) -> None:
    """A transaction that is open for too long."""
    producer = begin(talk, "slow", timeout_ms=300)
    talk.quiet(add_request("slow", producer, 2), 3)
    request = DescribeTransactionsRequest(transactional_ids=["slow"])
    talk.until(
        "the time-out",
        lambda: talk.quiet(request, 0).transaction_states[0].transaction_state,
        lambda state: state == "CompleteAbort",
    )
    look(talk, "after the time-out", "slow")
    talk.ask("it commits late", end_request("slow", producer), 3)
    talk.ask("it adds late", add_request("slow", producer, 2), 3)
    talk.ask("it continues late", init_request("slow", producer), 4)
    talk.ask("it begins again", init_request("slow"), 4)


def listing(talk: Talk) -> None:
    """All ids, and some of them."""
    producer = begin(talk, "open")
    talk.quiet(add_request("open", producer, 0), 3)
    for version in versions_of(ListTransactionsRequest):
        for what, request in (
            ("all", ListTransactionsRequest(state_filters=[], producer_id_filters=[])),
            (
                "with states",
                ListTransactionsRequest(
                    state_filters=["Ongoing", "CompleteCommit", "Unknown", "ongoing"],
                    producer_id_filters=[],
                ),
            ),
            (
                "of producers",
                ListTransactionsRequest(state_filters=[], producer_id_filters=[producer[0], 10**9]),
            ),
            (
                "of one that is not in the state",
                ListTransactionsRequest(state_filters=["Empty"], producer_id_filters=[producer[0]]),
            ),
        ):
            talk.ask(f"list {what}", request, version)
    for duration_ms in (-1, 10**9):
        request = ListTransactionsRequest(
            state_filters=["Ongoing"], producer_id_filters=[], duration_filter_ms=duration_ms
        )
        talk.ask(f"list those open for {duration_ms} ms", request, 1)
    talk.quiet(end_request("open", producer), 3)
    settle(talk, "open")


def stored(talk: Talk) -> None:
    """The records of each id in their order, as bytes without producer id and times."""
    written: dict[str, list[Any]] = {}
    partitions = len(talk.quiet(metadata_of([STATE_TOPIC]), 12).topics[0].partitions)
    for partition in range(partitions):
        for record in records_of(talk, partition):
            assert record.key is not None, "every record of the topic has a key"
            (length,) = unpack_from(">h", record.key, 2)
            name = record.key[4 : 4 + length].decode()
            written.setdefault(name, []).append(_shown(name, record))
    for name in sorted(written):
        talk.write(f"stored: {name}", written[name])


def _shown(name: str, record: Record) -> list[Any]:
    """The key, the value without what differs in each run, and whether ours has the same bytes."""
    value = record.value
    assert record.key is not None, "every record of the topic has a key"
    if value is None:
        return [record.key.hex(), None]
    again = transaction_record(name, read_value(value), 0)
    is_same = (again.key, again.value) == (record.key, value)
    has_start = unpack_from(">q", value, len(value) - 8)[0] >= 0
    return [record.key.hex(), value[:2].hex(), value[10:-16].hex(), has_start, is_same]


def records_of(talk: Talk, partition: int) -> Iterator[Record]:
    """The records of a partition of `__transaction_state`."""
    place = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 24)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=STATE_TOPIC, partitions=[place])]
    )
    content = talk.quiet(request, 12).responses[0].partitions[0].records
    for batch in iterate_batches(memoryview(bytes(content or b"")), allow_partial=True):
        assert batch.record_count == 1, "each transition is a batch"
        assert batch.codec == 0, "batches are not compressed"
        yield from decode_records(batch)
