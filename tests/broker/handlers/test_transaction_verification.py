"""Produce and TxnOffsetCommit ask the transaction coordinator, which is a script here."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.node import transaction_coordination
from odradek.broker.transaction_verifier import PartitionErrors, VerifiedTransaction
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.pending import Pending
from tests.scripts.chapters.batches import batch, produce_to
from tests.scripts.chapters.transactions import marker
from tests.scripts.chapters.transactions_offsets import txn_commit
from tests.support.node_here import Caller, NodeHere, decoded, framed, node_here

TOPIC = "t"
T_0, T_1 = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
PRODUCE, ABORTABLE, MARKERS = 9, 11, 1
ONE = 4_000


class ScriptedVerifier:
    """The coordinator's responses are given by the test."""

    def __init__(self) -> None:
        self.asked: list[tuple[VerifiedTransaction, Pending[PartitionErrors]]] = []

    def verify(self, transaction: VerifiedTransaction) -> Pending[PartitionErrors]:
        pending: Pending[PartitionErrors] = Pending()
        self.asked.append((transaction, pending))
        return pending

    def close(self) -> None:
        """Nothing is connected."""


class Scene:
    """A node, a connection, and what the verifier was asked."""

    def __init__(self, here: NodeHere, verifier: ScriptedVerifier) -> None:
        self.here = here
        self.verifier = verifier
        self.caller = here.caller()
        topic = CreatableTopic(
            name=TOPIC, num_partitions=2, replication_factor=1, assignments=[], configs=[]
        )
        made = self.call(CreateTopicsRequest(topics=[topic]), 5)
        assert made.topics[0].error_code == 0
        here.until(lambda: self.partition(1).leader is not None, "the partitions have no leader")

    def partition(self, index: int) -> Any:
        partition = self.here.node.services.partitions.get(TOPIC, index)
        assert partition is not None
        return partition

    def call(self, request: Any, version: int) -> Any:
        return self.here.call(self.caller, request, version)

    def ask(self, request: Any, version: int, count: int) -> VerifiedTransaction:
        """Send; the question that the verifier gets, of `count` in all."""
        self.caller.send(request, version)
        self.here.until(lambda: len(self.verifier.asked) >= count, "no verification")
        return self.verifier.asked[-1][0]

    def response(self, **errors: ErrorCode) -> None:
        """Resolve the last verification; errors by `t0`, `t1`, `offsets`."""
        transaction, pending = self.verifier.asked[-1]
        codes = list(errors.values())
        pending.resolve(dict(zip(transaction.partitions, codes, strict=False)))

    def responses(self, count: int, caller: Caller | None = None) -> list[Any]:
        """The next responses of the connection, in their order."""
        caller = caller or self.caller
        frames: list[bytes] = []

        def have_come() -> bool:
            frames.extend(caller.frames())
            return len(frames) >= count

        self.here.until(have_come, "no response")
        asked = caller.asked[:count]
        del caller.asked[:count]
        return [
            decoded(frame, key, version)
            for frame, (_, key, version) in zip(frames, asked, strict=True)
        ]

    def end(self, *, is_commit: bool = True) -> None:
        """A marker in both partitions."""
        request = WriteTxnMarkersRequest(
            markers=[marker(ONE, (TOPIC, 0), (TOPIC, 1), is_commit=is_commit)]
        )
        other = self.here.caller()
        response = self.here.call(other, request, MARKERS)
        assert not any(p.error_code for p in response.markers[0].topics[0].partitions)


@contextmanager
def scene_with(folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: str) -> Iterator[Scene]:
    verifier = ScriptedVerifier()
    monkeypatch.setattr(transaction_coordination, "CoordinatorVerifier", lambda *_, **__: verifier)
    with node_here(folder, **settings) as here:
        yield Scene(here, verifier)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    with scene_with(tmp_path, monkeypatch) as made:
        yield made


def produced(*places: tuple[int, int], producer_id: int = ONE) -> ProduceRequest:
    """(partition, sequence): a transactional batch of one record each."""
    content = [
        (
            TOPIC,
            index,
            batch(
                1,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequence,
                is_transactional=True,
            ),
        )
        for index, sequence in places
    ]
    return produce_to(content, transactional_id="tx")


def errors_of(response: Any) -> list[int]:
    return [
        partition.error_code
        for topic in response.responses
        for partition in topic.partition_responses
    ]


def test_first_batches_are_verified_together_and_the_next_ones_are_not(scene: Scene) -> None:
    asked = scene.ask(produced((0, 0), (1, 0)), PRODUCE, 1)
    assert asked == VerifiedTransaction("tx", ONE, 0, (T_0, T_1))
    assert scene.partition(0).log.end_offset == 0
    scene.response()
    (response,) = scene.responses(1)
    assert errors_of(response) == [0, 0]
    assert errors_of(scene.call(produced((0, 1), (1, 1)), PRODUCE)) == [0, 0]
    assert len(scene.verifier.asked) == 1


def test_batches_of_one_connection_keep_their_order_while_the_first_is_verified(
    scene: Scene,
) -> None:
    for sequence in range(3):
        scene.caller.send(produced((0, sequence)), PRODUCE)
    scene.here.until(lambda: scene.verifier.asked, "no verification")
    scene.response()
    responses = scene.responses(3)
    assert [response.responses[0].partition_responses[0].base_offset for response in responses] == [
        0,
        1,
        2,
    ]
    assert len(scene.verifier.asked) == 1


@pytest.mark.parametrize("codec", ["producer", "lz4"])
def test_append_time_of_a_batch_is_that_after_its_verification(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str
) -> None:
    settings = {"log.message.timestamp.type": "LogAppendTime", "compression.type": codec}
    with scene_with(tmp_path, monkeypatch, **settings) as scene:
        began_s = time.time()
        scene.ask(produced((0, 0)), PRODUCE, 1)
        scene.here.until(lambda: time.time() > began_s + 0.002, "the clock stands still")
        other = scene.here.caller()
        appended = scene.here.call(other, produce_to([(TOPIC, 0, batch(1))]), PRODUCE)
        scene.response()
        (response,) = scene.responses(1)
    assert errors_of(appended) == errors_of(response) == [0]
    first, second = (each.responses[0].partition_responses[0] for each in (appended, response))
    assert (first.base_offset, second.base_offset) == (0, 1)
    assert began_s * 1000 < first.log_append_time_ms <= second.log_append_time_ms


def test_marker_during_the_verification_refuses_the_batch(scene: Scene) -> None:
    scene.ask(produced((0, 0)), PRODUCE, 1)
    scene.end(is_commit=False)
    scene.response()
    (response,) = scene.responses(1)
    assert errors_of(response) == [ErrorCode.INVALID_TXN_STATE]
    assert scene.partition(0).log.end_offset == 1
    assert scene.partition(0).last_stable_offset == 1
    scene.ask(produced((0, 0)), PRODUCE, 2)
    scene.response()
    (response,) = scene.responses(1)
    assert errors_of(response) == [0]


@pytest.mark.parametrize(
    ("error", "version", "code"),
    [
        (ErrorCode.INVALID_TXN_STATE, PRODUCE, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, PRODUCE, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.PRODUCER_FENCED, ABORTABLE, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.NOT_COORDINATOR, ABORTABLE, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, PRODUCE, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
def test_error_of_one_partition_refuses_its_batch_and_no_other(
    scene: Scene, error: ErrorCode, version: int, code: ErrorCode
) -> None:
    scene.ask(produced((0, 0), (1, 0)), version, 1)
    scene.response(t0=error)
    (response,) = scene.responses(1)
    assert errors_of(response) == [code, 0]
    assert response.responses[0].partition_responses[0].log_start_offset == -1
    assert [scene.partition(index).log.end_offset for index in (0, 1)] == [0, 1]


def test_batch_of_a_client_that_is_gone_after_the_verification_is_appended(scene: Scene) -> None:
    scene.ask(produced((0, 0)), PRODUCE, 1)
    scene.caller.close()
    scene.response()
    scene.here.until(lambda: scene.partition(0).log.end_offset == 1, "nothing was appended")
    scene.here.until(lambda: not scene.here.server.connections, "the connection is still open")
    assert not scene.here.failures


def test_offsets_are_verified_with_the_partition_of_their_group(scene: Scene) -> None:
    def is_found() -> bool:
        response = scene.call(FindCoordinatorRequest(key="g", key_type=0), 3)
        return bool(response.error_code == 0)

    scene.here.until(is_found, "no coordinator")
    request = txn_commit("g", ONE, ((TOPIC, 0), 5))

    def is_asked() -> bool:
        # Until the partition of the group is loaded.
        scene.caller.send(request, 3)
        scene.here.until(lambda: scene.verifier.asked or scene.caller.frames(), "no response")
        if not scene.verifier.asked:
            scene.caller.asked.clear()
        return bool(scene.verifier.asked)

    scene.here.until(is_asked, "no verification")
    (place,) = scene.verifier.asked[0][0].partitions
    assert place.topic == "__consumer_offsets"
    scene.response(offsets=ErrorCode.INVALID_TXN_STATE)
    (response,) = scene.responses(1)
    assert response.topics[0].partitions[0].error_code == ErrorCode.INVALID_TXN_STATE
    scene.ask(request, 3, 2)
    scene.response()
    (response,) = scene.responses(1)
    assert response.topics[0].partitions[0].error_code == 0
    group = OffsetFetchRequestGroup(group_id="g", topics=None)
    fetched = scene.call(OffsetFetchRequest(groups=[group], require_stable=True), 8)
    assert fetched.groups[0].topics == []


def test_verification_that_is_switched_off_asks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verifier = ScriptedVerifier()
    monkeypatch.setattr(transaction_coordination, "CoordinatorVerifier", lambda *_, **__: verifier)
    with node_here(tmp_path, transaction_partition_verification_enable="false") as here:
        scene = Scene(here, verifier)
        scene.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 4)
        assert errors_of(scene.call(produced((0, 0)), PRODUCE)) == [0]
        assert not verifier.asked


def test_batch_of_an_id_without_a_coordinator_gets_an_error_that_is_retried(tmp_path: Path) -> None:
    with node_here(tmp_path) as here:
        scene = Scene(here, ScriptedVerifier())
        assert errors_of(scene.call(produced((0, 0)), PRODUCE)) == [ErrorCode.NOT_ENOUGH_REPLICAS]


def test_batch_directly_after_the_one_that_opens_the_transaction_is_appended(scene: Scene) -> None:
    def verify(transaction: VerifiedTransaction) -> Pending[PartitionErrors]:
        return Pending.of(dict.fromkeys(transaction.partitions, ErrorCode.NONE))

    scene.verifier.verify = verify  # type: ignore[method-assign]
    requests = [produced((0, sequence)) for sequence in range(3)]
    packet = b"".join(framed(request, PRODUCE, number) for number, request in enumerate(requests))
    scene.caller.send_bytes(packet)
    frames: list[bytes] = []

    def have_come() -> bool:
        frames.extend(scene.caller.frames())
        return len(frames) == len(requests)

    scene.here.until(have_come, "no response")
    responses = [decoded(frame, 0, PRODUCE) for frame in frames]
    errors = [response.responses[0].partition_responses[0].error_code for response in responses]
    assert errors == [0, 0, 0]
    assert scene.partition(0).log.end_offset == len(requests)
