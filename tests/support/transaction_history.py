"""Transactions in the partitions of a broker, and what consumers, groups and tools see of them.

The broker runs with `SETTINGS`: without a transaction coordinator, the markers come from here.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from odradek.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.write_txn_markers import WritableTxnMarker, WriteTxnMarkersRequest
from odradek.protocol.records.batch import iterate_batches
from tests.scripts.chapters.batches import batch, produce_request
from tests.scripts.chapters.groups_members import wait_for_coordinator
from tests.scripts.chapters.groups_offsets import commit, fetch
from tests.scripts.chapters.groups_stored import OFFSETS_TOPIC
from tests.scripts.chapters.offsets import LATEST, where
from tests.scripts.chapters.transactions import marker
from tests.scripts.chapters.transactions_offsets import txn_commit
from tests.scripts.talk import Talk

TOPIC: Final = "history"
TOPIC_CONFIGS: Final = {"segment.bytes": "600"}
PARTITIONS: Final = 2
PRODUCERS: Final = tuple(range(5_000, 5_006))
OFFSETS_PARTITIONS: Final = 3
GROUP: Final = "history-group"
COMMITTED: Final = 1
SETTINGS: Final = {
    "transaction.partition.verification.enable": "false",
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "offsets.topic.replication.factor": "1",
}


class TransactionHistory:
    """What was sent, so that each producer goes on where it was."""

    def __init__(self) -> None:
        self._sequences: dict[tuple[int, int], int] = {}
        self._round = 0

    def begin(self, talk: Talk) -> None:
        """Make the topic and wait for the groups."""
        wait_for_coordinator(talk)
        talk.make_topic(TOPIC, PARTITIONS, TOPIC_CONFIGS)

    def play(self, talk: Talk) -> None:
        """Some transactions that overlap; the last two producers leave theirs open."""
        first = self._round * 100
        self._round += 1
        for _ in range(3):
            for producer_id in PRODUCERS:
                for partition in range(PARTITIONS):
                    self._send(talk, producer_id, partition)
        at = tuple(((TOPIC, partition), first + partition) for partition in range(PARTITIONS))
        for number, producer_id in enumerate((*PRODUCERS[:2], PRODUCERS[-1])):
            response = talk.quiet(
                txn_commit(GROUP, producer_id, (at[number % 2][0], first + 10 + number)), 3
            )
            assert response.topics[0].partitions[0].error_code == 0, response
        assert talk.quiet(commit(GROUP, *at), 8).topics[0].partitions[0].error_code == 0
        for number, producer_id in enumerate(PRODUCERS[:-2]):
            self.end(talk, producer_id, is_commit=number % 2 == 0)
        self._send(talk, PRODUCERS[0], 0)

    def _send(self, talk: Talk, producer_id: int, partition: int) -> None:
        sequence = self._sequences.get((producer_id, partition), 0)
        self._sequences[producer_id, partition] = sequence + 2
        content = batch(
            2,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=True,
        )
        request = produce_request(TOPIC, content, partition=partition, transactional_id="tx")
        response = talk.quiet(request, 9)
        assert response.responses[0].partition_responses[0].error_code == 0, response

    def end(self, talk: Talk, producer_id: int, *, is_commit: bool) -> None:
        """Markers in every partition."""
        places = [(TOPIC, index) for index in range(PARTITIONS)]
        places += [(OFFSETS_TOPIC, index) for index in range(OFFSETS_PARTITIONS)]
        write_markers(talk, marker(producer_id, *places, is_commit=is_commit))

    def end_all(self, talk: Talk) -> None:
        """Abort what is open."""
        for producer_id in PRODUCERS:
            self.end(talk, producer_id, is_commit=False)


def write_markers(talk: Talk, *markers: WritableTxnMarker) -> None:
    """Write markers, again until each partition takes them: one may be loaded."""
    request = WriteTxnMarkersRequest(markers=list(markers))

    def errors(response: Any) -> list[int]:
        return [
            partition.error_code
            for result in response.markers
            for topic in result.topics
            for partition in topic.partitions
        ]

    talk.until(
        "the markers", lambda: talk.quiet(request, 1), lambda response: not any(errors(response))
    )


def seen(talk: Talk) -> dict[str, Any]:
    """What the partitions and the group show."""
    shown: dict[str, Any] = {}
    for partition in range(PARTITIONS):
        for isolation in (0, COMMITTED):
            shown[f"{partition} latest {isolation}"] = _latest(talk, partition, isolation)
        shown[f"{partition} committed"] = _read_committed(talk, partition)
        described = DescribeProducersRequest(
            topics=[TopicRequest(name=TOPIC, partition_indexes=[partition])]
        )
        producers = talk.quiet(described, 0).topics[0].partitions[0].active_producers
        shown[f"{partition} producers"] = sorted(
            producers, key=lambda producer: int(producer.producer_id)
        )
    for is_stable in (False, True):
        shown[f"offsets, stable: {is_stable}"] = _offsets(talk, is_stable=is_stable)
    return shown


def _latest(talk: Talk, partition: int, isolation: int) -> int:
    request = where(LATEST, partition=partition, topic=TOPIC, isolation=isolation)
    result = talk.until(
        "the leader",
        lambda: talk.quiet(request, 6).topics[0].partitions[0],
        lambda response: response.error_code == 0,
    )
    return int(result.offset)


def _offsets(talk: Talk, *, is_stable: bool) -> Any:
    places = [(TOPIC, partition) for partition in range(PARTITIONS)]
    request = fetch(8, GROUP, places, require_stable=is_stable)
    topics_response = talk.until(
        "the coordinator",
        lambda: talk.quiet(request, 8).groups[0],
        lambda response: response.error_code == 0,
    )
    return topics_response.topics


def _fetched(talk: Talk, request: FetchRequest) -> Any:
    return talk.quiet(request, 11).responses[0].partitions[0]


def _read_committed(talk: Talk, partition: int) -> list[tuple[int, int, int]]:
    """(base offset, producer id, attributes) of the batches that a consumer keeps."""
    kept: list[tuple[int, int, int]] = []
    offset = 0
    while True:
        place = FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            isolation_level=COMMITTED,
            topics=[FetchTopic(topic=TOPIC, partitions=[place])],
        )
        response = talk.until(
            "the partition",
            partial(_fetched, talk, request),
            lambda response: response.error_code == 0,
        )
        batches = list(
            iterate_batches(memoryview(bytes(response.records or b"")), allow_partial=True)
        )
        if not batches:
            return kept
        waiting = sorted(
            response.aborted_transactions or (), key=lambda transaction: transaction.first_offset
        )
        aborted: dict[int, None] = {}
        for log_batch in batches:
            while waiting and waiting[0].first_offset <= log_batch.last_offset:
                aborted[waiting.pop(0).producer_id] = None
            if log_batch.is_control:
                aborted.pop(log_batch.producer_id, None)
            elif log_batch.producer_id not in aborted:
                kept.append((log_batch.base_offset, log_batch.producer_id, log_batch.attributes))
            offset = log_batch.next_offset
