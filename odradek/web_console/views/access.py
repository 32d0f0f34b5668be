"""ACLs, SCRAM users and quotas; each part that the cluster does not serve says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from odradek.tools.acls.queries import describe_acls
from odradek.tools.client import Client, NotServedError
from odradek.tools.configs.options import CLIENTS, IPS, USERS
from odradek.tools.configs.quotas import quota_entries
from odradek.tools.configs.scram_credentials import MECHANISMS
from odradek.tools.errors import KafkaError, refused
from odradek.web_console.arguments import PageArguments, page_of
from odradek.web_console.cluster import ShownCluster

SHAPES = ((USERS,), (CLIENTS,), (USERS, CLIENTS), (IPS,))
"""Types of entities that quotas may be for."""


def access_view(cluster: ShownCluster, arguments: PageArguments) -> dict[str, Any]:
    """raises  ClientError"""
    acls, acls_error = _ask(cluster, _acl_rows)
    users, users_error = _ask(cluster, _user_rows)
    quotas, quotas_error = _ask(cluster, _quota_rows)
    query = arguments.text("q").lower()
    shown = [row for row in acls if query in " ".join(map(str, row.values())).lower()]
    return {
        "acls": page_of(shown, arguments.page())._asdict(),
        "acls_error": acls_error,
        "users": [row for row in users if query in row["user"].lower()][:1_000],
        "users_error": users_error,
        "quotas": [row for row in quotas if query in row["entity"].lower()][:1_000],
        "quotas_error": quotas_error,
        "query": query,
    }


def _ask(
    cluster: ShownCluster, ask: Callable[[Client], list[dict[str, Any]]]
) -> tuple[list[dict[str, Any]], str | None]:
    try:
        return cluster.call(ask), None
    except (KafkaError, NotServedError) as error:
        return [], str(error)


def _acl_rows(client: Client) -> list[dict[str, Any]]:
    return [
        {**pattern._asdict(), **rule._asdict()}
        for pattern, rules in sorted(describe_acls(client, None).items())
        for rule in rules
    ]


def _user_rows(client: Client) -> list[dict[str, Any]]:
    response = client.any_broker(
        DescribeUserScramCredentialsRequest(users=None), DescribeUserScramCredentialsResponse
    )
    if response.error_code not in (0, ErrorCode.RESOURCE_NOT_FOUND):
        raise refused(response.error_code, response.error_message)
    return [
        {
            "user": result.user,
            "mechanism": MECHANISMS.get(info.mechanism, "UNKNOWN"),
            "iterations": info.iterations,
        }
        for result in sorted(response.results, key=lambda result: result.user)
        for info in result.credential_infos
    ]


def _quota_rows(client: Client) -> list[dict[str, Any]]:
    return [
        {
            "entity": ", ".join(
                f"{part.entity_type} {part.entity_name or '<default>'}" for part in entry.entity
            ),
            "quota": value.key,
            "value": value.value,
        }
        for shape in SHAPES
        for entry in quota_entries(client, list(shape), [])
        for value in entry.values
    ]
