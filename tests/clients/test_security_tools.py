"""What clients ask about ACLs, SCRAM users, tokens and quotas of a broker that has none of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.odradek.console_tools import ApacheTools

CONFIGS_TOOL = "kafka.admin.ConfigCommand"
ACLS_TOOL = "kafka.admin.AclCommand"
TOKENS_TOOL = "org.apache.kafka.tools.DelegationTokenCommand"
RESULT_TIMEOUT_S = 30

each_version = pytest.mark.parametrize(
    "version", ["3.9.2", pytest.param("4.3.0", marks=pytest.mark.slow)]
)


@each_version
@pytest.mark.parametrize("entity", ["users", "clients", "ips"])
def test_kafka_configs_describes_entities_without_quotas(
    bootstrap: str, apache_tools: Callable[[str], ApacheTools], version: str, entity: str
) -> None:
    words = ["--bootstrap-server", bootstrap, "--describe", "--entity-type", entity]
    done = apache_tools(version).run(CONFIGS_TOOL, words)
    assert (done.exit_code, done.output.strip()) == (0, ""), done.errors


def test_kafka_acls_and_delegation_tokens_report_what_is_off(
    bootstrap: str, apache_tools: Callable[[str], ApacheTools], tmp_path: Path
) -> None:
    tools = apache_tools("3.9.2")
    listed = tools.run(ACLS_TOOL, ["--bootstrap-server", bootstrap, "--list"])
    assert "SecurityDisabledException: No Authorizer is configured" in listed.errors + listed.output
    client_config = tmp_path / "client.properties"
    client_config.write_text("")
    tokens = tools.run(
        TOKENS_TOOL,
        ["--bootstrap-server", bootstrap, "--command-config", str(client_config), "--describe"],
    )
    assert "DelegationTokenDisabledException" not in tokens.errors + tokens.output
    assert "UnsupportedByAuthenticationException" in tokens.errors + tokens.output


def test_librdkafka_gets_the_refusals_of_acls_and_alters_scram_users(bootstrap: str) -> None:
    admin: Any = AdminClient({"bootstrap.servers": bootstrap})
    make_filter: Any = AclBindingFilter
    everything = make_filter(
        *(ResourceType.ANY, None, ResourcePatternType.ANY, None, None),
        *(AclOperation.ANY, AclPermissionType.ANY),
    )
    entry = AclBinding(
        ResourceType.TOPIC,
        "t",
        ResourcePatternType.LITERAL,
        "User:u",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    # It passes over the error of DescribeAcls, also over that of Apache Kafka.
    assert admin.describe_acls(everything).result(RESULT_TIMEOUT_S) == []
    refused = [*admin.create_acls([entry]).values(), *admin.delete_acls([everything]).values()]
    assert [code_of(future) for future in refused] == ["SECURITY_DISABLED"] * 2
    assert admin.describe_user_scram_credentials().result(RESULT_TIMEOUT_S) == {}
    information = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    (stored,) = admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion("u", information, b"secret")]
    ).values()
    stored.result(RESULT_TIMEOUT_S)
    (user,) = admin.describe_user_scram_credentials().result(RESULT_TIMEOUT_S).items()
    assert (user[0], user[1].scram_credential_infos[0].iterations) == ("u", 4096)
    deletion = UserScramCredentialDeletion("u", ScramMechanism.SCRAM_SHA_256)
    admin.alter_user_scram_credentials([deletion])["u"].result(RESULT_TIMEOUT_S)
    again = admin.alter_user_scram_credentials([deletion])["u"]
    assert code_of(again) == "RESOURCE_NOT_FOUND"


def code_of(future: Any) -> str:
    with pytest.raises(KafkaException) as refusal:
        future.result(RESULT_TIMEOUT_S)
    name: str = refusal.value.args[0].name()
    return name.lstrip("_")
