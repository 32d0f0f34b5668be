"""The newest Java client uses transactions of version 2 where they are finalized (KIP-890)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odradek.broker.topics import TRANSACTION_TOPIC
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from tests.clients.contract import transacted
from tests.clients.libraries import connect
from tests.clients.program_client import ProgramClient
from tests.clients.test_transactions import cut_last_batch, newest_segment, wait_for_state
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.features import (
    SAFE_DOWNGRADE,
    UPGRADE,
    finalized_features,
    update_transaction_version,
    wait_for_level,
)
from tests.support.transactional_workers import committed_values
from tests.support.wire import Wire

NEWEST = "java-4.3.0"
OLDER = "java-3.9.2"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker on which version 2 is finalized."""
    with odradek_broker(tmp_path_factory.mktemp("broker")) as broker:
        assert update_transaction_version(broker.address) == (ErrorCode.NONE, None)
        yield broker


@pytest.fixture(scope="module")
def java(
    broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, ProgramClient]]:
    """A client of 3.9 and one of 4.3."""
    folder = tmp_path_factory.mktemp("clients")
    clients: dict[str, ProgramClient] = {}
    for name in (NEWEST, OLDER):
        java_client = connect(name, broker.address, folder)
        assert isinstance(java_client, ProgramClient)
        clients[name] = java_client
    yield clients
    for java_client in clients.values():
        java_client.close()


def epoch_of(address: str, transactional_id: str) -> int:
    """That of the producer with a transactional id."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    with Wire(address) as wire:
        (described,) = wire.call(request, 0).transaction_states
    return int(described.producer_epoch)


def committed_offset(address: str, topic: str, group: str) -> int:
    """Of the only partition, when no transaction is open."""
    topic_request = OffsetFetchRequestTopic(name=topic, partition_indexes=[0])
    asked = OffsetFetchRequestGroup(group_id=group, topics=[topic_request])
    with Wire(address) as wire:
        response = wire.call(OffsetFetchRequest(groups=[asked], require_stable=True), 8)
    return int(response.groups[0].topics[0].partitions[0].committed_offset)


def values(transactional_id: str, count: int) -> list[bytes]:
    """What `transactions` commits: every third transaction is aborted."""
    return [f"{transactional_id}-{number}".encode() for number in range(count) if number % 3 != 2]


def test_epoch_rises_with_each_transaction_of_the_newest_client_only(
    broker: BrokerProcess, java: dict[str, ProgramClient]
) -> None:
    address = broker.address
    java[NEWEST].create_topic("rising", 1)
    java[OLDER].run("transactions old rising 6 group-old")
    java[NEWEST].run("transactions new rising 6 group-new")
    wait_for_state(address, "old", "CompleteAbort")
    wait_for_state(address, "new", "CompleteAbort")
    assert epoch_of(address, "old") == 0
    assert epoch_of(address, "new") == 6
    assert committed_values(address, "rising") == values("old", 6) + values("new", 6)
    for group in ("group-old", "group-new"):
        assert committed_offset(address, "rising", group) == 4


def test_clients_of_both_versions_take_over_one_transactional_id(
    broker: BrokerProcess, java: dict[str, ProgramClient]
) -> None:
    address = broker.address
    java[NEWEST].create_topic("shared", 1)
    for name, epoch in ((OLDER, 0), (NEWEST, 2), (OLDER, 3), (NEWEST, 5)):
        java[name].transact("shared", "shared", 2, is_commit=True)
        wait_for_state(address, "shared", "CompleteCommit")
        assert epoch_of(address, "shared") == epoch
    assert committed_values(address, "shared") == transacted("shared", 2, is_commit=True) * 4


def test_producer_of_version_2_that_was_replaced_is_fenced(
    broker: BrokerProcess, java: dict[str, ProgramClient]
) -> None:
    java[NEWEST].create_topic("replaced", 1)
    java[NEWEST].run("replaced zombie replaced")
    assert committed_values(broker.address, "replaced") == transacted("zombie", 1, is_commit=True)


@pytest.mark.parametrize(("is_commit", "has_marker"), [(True, False), (False, True)])
def test_transaction_of_version_2_that_was_prepared_before_a_kill_ends_after_the_start(
    broker: BrokerProcess, java: dict[str, ProgramClient], is_commit: bool, has_marker: bool
) -> None:
    complete = "CompleteCommit" if is_commit else "CompleteAbort"
    name = f"killed-{complete}"
    java[NEWEST].create_topic(name, 1)
    java[NEWEST].transact(name, name, 3, is_commit=is_commit)
    wait_for_state(broker.address, name, complete)
    broker.kill()
    cut_last_batch(newest_segment(broker.data, TRANSACTION_TOPIC))
    if not has_marker:
        cut_last_batch(newest_segment(broker.data, name))
    broker.start()
    wait_for_state(broker.address, name, complete)
    assert epoch_of(broker.address, name) == 1
    assert finalized_features(broker.address)[1] == {"transaction.version": 2}
    expected = transacted(name, 3, is_commit=True) if is_commit else []
    assert committed_values(broker.address, name) == expected


def test_newest_client_uses_version_1_while_version_2_is_not_finalized(
    broker: BrokerProcess, java: dict[str, ProgramClient]
) -> None:
    address = broker.address
    java[NEWEST].create_topic("switched", 1)
    for level, kind, epoch in ((0, SAFE_DOWNGRADE, 0), (2, UPGRADE, 3)):
        assert update_transaction_version(address, level, kind) == (ErrorCode.NONE, None)
        wait_for_level(address, level)
        name = f"switched-{level}"
        java[NEWEST].run(f"transactions {name} switched 3 group-switched")
        wait_for_state(address, name, "CompleteAbort")
        assert epoch_of(address, name) == epoch
