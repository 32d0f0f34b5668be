"""Three brokers agree on the version of transactions, and serve those of version 2 together."""

from __future__ import annotations

from pathlib import Path

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.clients.libraries import connect
from tests.clients.program_client import ProgramClient
from tests.clients.test_transactions import wait_for_state
from tests.clients.test_transactions_v2 import NEWEST, epoch_of, values
from tests.support.broker_cluster import BrokerCluster
from tests.support.features import finalized_features, update_transaction_version, wait_for_level
from tests.support.transactional_workers import committed_values
from tests.support.wire import Wire

TOPIC = "version-2"
COUNT = 6
TRANSACTION = 1


def finalize(cluster: BrokerCluster) -> bool:
    """Ask every broker that runs; whether version 2 is finalized, by one of them."""
    addresses = [cluster.brokers[broker_id].address for broker_id in cluster.running]
    errors = [update_transaction_version(address)[0] for address in addresses]
    return errors.count(ErrorCode.NOT_CONTROLLER) == len(errors) - 1 and any(
        finalized_features(address)[1] for address in addresses
    )


def coordinator_of(cluster: BrokerCluster, transactional_id: str) -> str:
    """The address of the broker that coordinates a transactional id."""
    alive = cluster.brokers[cluster.running[0]].address
    request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[transactional_id])
    with Wire(alive) as wire:
        (coordinator,) = wire.call(request, 4).coordinators
    return f"{coordinator.host}:{coordinator.port}"


def test_every_broker_shows_what_the_controller_finalized_also_one_that_was_away(
    cluster: BrokerCluster, tmp_path: Path
) -> None:
    cluster.create_topic(TOPIC, partitions=1)
    client = connect(NEWEST, cluster.bootstrap, tmp_path)
    assert isinstance(client, ProgramClient)
    away = cluster.running[-1]
    cluster.kill(away)
    cluster.wait(lambda: finalize(cluster), "version 2 is finalized")
    cluster.start(away)
    cluster.wait_until_complete(TOPIC)
    for broker in cluster.brokers.values():
        wait_for_level(broker.address, 2)
    epochs = {finalized_features(broker.address)[0] for broker in cluster.brokers.values()}
    assert len(epochs) == 1
    # Coordinators on all brokers, of partitions of one leader; a leader dies in between.
    expected: list[bytes] = []
    for number in range(4):
        name = f"tx-{number}"
        client.run(f"transactions {name} {TOPIC} {COUNT} group")
        expected += values(name, COUNT)
        coordinator = coordinator_of(cluster, name)
        wait_for_state(coordinator, name, "CompleteAbort")
        assert epoch_of(coordinator, name) == COUNT
        if number == 1:
            cluster.kill(cluster.running[0])
    client.close()
    assert committed_values(cluster.bootstrap, TOPIC) == expected
