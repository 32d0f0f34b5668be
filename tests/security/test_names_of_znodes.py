"""Names that no node of ZooKeeper has: Apache Kafka responds to them with UNKNOWN_SERVER_ERROR."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.tools.initial_scram_users import scram_user
from tests.odradek.console_tools import our_tool_here
from tests.security.quota_requests import Names, alter
from tests.support.apache import apache_kafka
from tests.support.broker_process import odradek_broker
from tests.support.wire import Wire
from tests.support.zookeeper import zookeeper

SHA_256 = 1
GROUP, LITERAL, READ, ALLOW = 3, 3, 3, 3
NAMES = pytest.mark.parametrize("name", [".", ".."])
SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with odradek_broker(tmp_path_factory.mktemp("ours"), overrides=SETTINGS) as broker:
        yield broker.address


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("apache")
    with (
        zookeeper(folder / "zookeeper") as address,
        apache_kafka(folder, zookeeper_address=address, overrides=SETTINGS) as broker,
    ):
        yield broker.address


def errors_of(address: str, name: str) -> dict[str, tuple[int, str | None]]:
    """The error and its message of each request that would name a node."""
    credential = scram_user("any", "SCRAM-SHA-256", "secret").credential
    upsertion = ScramCredentialUpsertion(
        name=name,
        mechanism=SHA_256,
        iterations=credential.iterations,
        salt=credential.salt,
        salted_password=bytes(32),
    )
    deletion = ScramCredentialDeletion(name=name, mechanism=SHA_256)
    acl = AclCreation(
        resource_type=GROUP,
        resource_name=name,
        resource_pattern_type=LITERAL,
        principal="User:a",
        host="*",
        operation=READ,
        permission_type=ALLOW,
    )
    entities: list[Names] = [{"user": name}, {"client-id": name}, {"user": "u", "client-id": name}]
    with Wire(address) as client:
        errors: dict[str, tuple[int, str | None]] = {}
        for what, deletions, upsertions in (("set", [], [upsertion]), ("delete", [deletion], [])):
            request = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
            (user,) = client.call(request, 0).results
            errors[f"{what} a credential"] = (user.error_code, user.error_message)
        for entity in entities:
            (entry,) = client.call(alter(entity, {"producer_byte_rate": 5.0}), 1).entries
            errors["quota of " + ", ".join(entity)] = (entry.error_code, entry.error_message)
        (created,) = client.call(CreateAclsRequest(creations=[acl]), 3).results
        errors["acl"] = (created.error_code, created.error_message)
    return errors


@NAMES
def test_name_that_no_node_has_is_refused_with_a_reason(ours: str, name: str) -> None:
    user = (ErrorCode.UNACCEPTABLE_CREDENTIAL, f"Username must not be '{name}'")
    of_user = (ErrorCode.INVALID_REQUEST, f"user '{name}' not supported")
    of_client = (ErrorCode.INVALID_REQUEST, f"client-id '{name}' not supported")
    assert errors_of(ours, name) == {
        "set a credential": user,
        "delete a credential": user,
        "quota of user": of_user,
        "quota of client-id": of_client,
        "quota of user, client-id": of_client,
        "acl": (ErrorCode.INVALID_REQUEST, f"Invalid resource name '{name}'"),
    }
    words = ["--bootstrap-server", ours, "--alter", "--entity-type", "users", "--entity-name", name]
    done = our_tool_here("configs", [*words, "--add-config", "SCRAM-SHA-256=[password=secret]"])
    assert done.exit_code == 1
    assert f"Username must not be '{name}'" in done.errors


@NAMES
@pytest.mark.client
@pytest.mark.judge
def test_apache_kafka_says_no_reason(apache: str, name: str) -> None:
    assert set(errors_of(apache, name).values()) == {(ErrorCode.UNKNOWN_SERVER_ERROR, None)}
