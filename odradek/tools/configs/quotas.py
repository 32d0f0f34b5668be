"""Describes quotas of users, clients and addresses, and which SCRAM credentials users have.

Source: Kafka 3.9's ConfigCommand (describeQuotaConfigs, getAllClientQuotasConfigs,
describeClientQuotaAndUserScramCredentialConfigs) and DescribeUserScramCredentialsResult.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from odradek.broker.settings.types import double_text
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntryData,
)
from odradek.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from odradek.tools.client import Client
from odradek.tools.configs.options import CLIENTS, IPS, USERS
from odradek.tools.configs.scram_credentials import MECHANISMS
from odradek.tools.errors import check, error_name

ENTITIES: Final = {USERS: "user", CLIENTS: "client-id", IPS: "ip"}
QUOTA_TYPES: Final = tuple(ENTITIES)
_SHOWN: Final = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
_THIS_NAME: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2


def quota_lines(client: Client, kinds: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """A line for each entity that has quotas; arguments and errors as of `quota_entries`."""
    yield from map(_quota_line, quota_entries(client, kinds, names))


def quota_entries(
    client: Client, kinds: Sequence[str], names: Sequence[str]
) -> Sequence[EntryData]:
    """The entities that have quotas.

    names   in the order of their types; an empty one is the default, and without one all of the
            type are returned
    raises  ToolError
    """
    components = []
    for number, kind in enumerate(kinds):
        name = names[number] if number < len(names) else None
        match_type = _ANY if name is None else _THIS_NAME if name else _DEFAULT
        components.append(
            ComponentData(entity_type=ENTITIES[kind], match_type=match_type, match=name or None)
        )
    request = DescribeClientQuotasRequest(components=components, strict=True)
    response = client.any().request(request, DescribeClientQuotasResponse)
    check(response)
    return response.entries or ()


def _quota_line(entry: EntryData) -> str:
    named = {part.entity_type: part.entity_name for part in entry.entity}
    parts = [
        f"the default {shown}" if named[kind] is None else f"{shown} '{named[kind]}'"
        for kind, shown in _SHOWN.items()
        if kind in named
    ]
    values = sorted(entry.values, key=lambda value: value.key)
    texts = ", ".join(f"{value.key}={double_text(value.value)}" for value in values)
    return f"Quota configs for {', '.join(parts)} are {texts}"


def credential_lines(client: Client, names: Sequence[str]) -> Iterator[str]:
    """A line for each user that has SCRAM credentials.

    raises  ToolError
    """
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names])
    response = client.any().request(request, DescribeUserScramCredentialsResponse)
    check(response)
    for result in response.results:
        if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            continue
        user = f"SCRAM credential configs for user-principal '{result.user}'"
        if result.error_code:
            name = error_name(result.error_code)
            yield f"Error retrieving {user}: {name}: {result.error_message}"
            continue
        infos = ", ".join(
            f"{MECHANISMS.get(info.mechanism, 'UNKNOWN')}=iterations={info.iterations}"
            for info in result.credential_infos
        )
        yield f"{user} are {infos}"
