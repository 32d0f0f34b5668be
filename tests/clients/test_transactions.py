"""Transactions are not supported: every library fails at once, with the broker's reason."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from odradek.broker.refused_transactions import REFUSAL
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.clients.contract import WAIT_S, Client
from tests.clients.libraries import connect
from tests.support.broker_process import BrokerProcess
from tests.support.wire import Wire

FINAL_ERRORS = {
    "java-4.3.0": REFUSAL,
    "java-3.9.2": REFUSAL,
    "java-2.8.2": REFUSAL,
    "java-1.1.1": "Cluster authorization failed",
    "confluent-kafka": f"FATAL.*{REFUSAL}",
    "kafka-python": "ClusterAuthorizationFailed",
    "aiokafka": "ClusterAuthorizationFailed",
    "franz-go": "fatal, unrecoverable.*CLUSTER_AUTHORIZATION_FAILED",
    "sarama": "client is not authorized",
    "kafka-go": "Transactional ID Authorization Failed",
    "kafkajs": "Failed to find group coordinator",
}
"""The error of each library, which is not a time-out: the broker's text where it is shown."""


@pytest.fixture(scope="module")
def own_client(
    broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Client]:
    """A client library connected to `broker`."""
    folder = tmp_path_factory.mktemp("transactions")
    return lambda name: connect(name, broker.address, folder)


@pytest.mark.parametrize("library", FINAL_ERRORS)
def test_transactional_producer_fails_with_a_reason_and_one_warning(
    broker: BrokerProcess, own_client: Callable[[str], Client], library: str
) -> None:
    client = own_client(library)
    name = f"tx-{library}"
    try:
        with pytest.raises(Exception, match=re.compile(FINAL_ERRORS[library], re.DOTALL)):
            client.begin_transactions(name)
    finally:
        client.close()
    broker.process.wait_for_line(f"transactional id {name} ", timeout_s=WAIT_S)
    warnings = [line for line in broker.process.lines() if f"transactional id {name} " in line]
    assert len(warnings) == 1
    assert "WARNING" in warnings[0]


@pytest.mark.parametrize(
    ("transactional_id", "error"),
    [
        ("tx", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ("", ErrorCode.INVALID_REQUEST),
        (None, ErrorCode.NONE),
    ],
)
def test_transactional_id_receives_no_producer_id(
    broker: BrokerProcess, transactional_id: str | None, error: ErrorCode
) -> None:
    asked = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    with Wire(broker.address) as wire:
        for version in range(6):
            assert wire.call(asked, version).error_code == error
