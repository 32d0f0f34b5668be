"""Our broker beside the recording of Apache Kafka 3.9.2: every API under every kind of ACL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from kazoo.client import KazooClient

from odradek.broker.handlers.shared.table import HANDLERS
from tests.security.acl_matrix import COLUMNS, PRINCIPAL, ROWS, SETTINGS, Matrix
from tests.security.record_acl_matrix import RECORDING, SUPER_USERS, bootstrap
from tests.support.broker_process import odradek_broker
from tests.support.compacted import wait_until
from tests.support.ports import free_port

RECORDED: Final[dict[str, dict[str, Any]]] = json.loads(RECORDING.read_text())

Responses = dict[str, dict[str, Any]]
PERMITTED: Final = ("literal", "prefixed", "wildcard", "super user")
OTHERWISE: Final = {
    "metadata that creates": "the response waits for the topic (docs/deviations.md)"
}
"""Rows whose permitted cells differ -> why."""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Responses:
    responses: Responses = {}
    for is_super, super_users in SUPER_USERS.items():
        folder: Path = tmp_path_factory.mktemp("matrix")
        tree = f"127.0.0.1:{free_port()}"
        settings = {**SETTINGS, **super_users, "odradek.embedded.zookeeper.listener": tree}
        with odradek_broker(folder, overrides=settings) as broker:
            client = KazooClient(tree)
            client.start()
            bootstrap(client)
            client.create(
                "/kafka-acl-changes/acl_changes_", b"CLUSTER:kafka-cluster", sequence=True
            )
            matrix = Matrix(broker.address, is_super=is_super)
            wait_until("the first ACLs are read", matrix.may_administrate)
            for row, columns in matrix.play().items():
                responses.setdefault(row, {}).update(columns)
            matrix.close()
            client.stop()
            client.close()
    return responses


@pytest.mark.parametrize("row", [row.name for row in ROWS])
def test_responses_under_acls_are_those_of_apache_kafka(played: Responses, row: str) -> None:
    assert list(RECORDED[row]) == list(COLUMNS)
    different = {
        column: (played[row][column], response)
        for column, response in RECORDED[row].items()
        if played[row][column] != response and not (row in OTHERWISE and column in PERMITTED)
    }
    assert not different


def test_matrix_asks_every_api_that_asks_the_authorizer_and_that_apache_kafka_serves() -> None:
    asked = {row.api for row in ROWS}
    # Not served by 3.9 in ZooKeeper mode.
    newer = {55, 75}
    assert {api.key for api in HANDLERS if api.authorizes} <= asked | newer
    assert sum(map(len, RECORDED.values())) >= 490
    assert PRINCIPAL == "User:ANONYMOUS"
