"""Describes and alters quotas of users, clients and addresses, and SCRAM credentials of users.

Source: Kafka 3.9's ConfigCommand (alterConfig, alterQuotaConfigs, describeQuotaConfigs,
getAllClientQuotasConfigs, describeClientQuotaAndUserScramCredentialConfigs) and
DescribeUserScramCredentialsResult.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from odradek.broker.settings.types import double_text
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)
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
from odradek.tools.configs.options import CLIENTS, IPS, USERS, ConfigsError
from odradek.tools.configs.scram_credentials import HASHES, MECHANISMS, alter_credentials
from odradek.tools.errors import check, error_name

ENTITIES: Final = {USERS: "user", CLIENTS: "client-id", IPS: "ip"}
QUOTA_TYPES: Final = tuple(ENTITIES)
_SHOWN: Final = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
_THIS_NAME: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2
QUOTAS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)
IP_QUOTAS: Final = ("connection_creation_rate",)


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


def quota_line(entry: EntryData) -> str:
    """The line about an entity that has quotas."""
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


def alter_entity(
    client: Client,
    kinds: Sequence[str],
    names: Sequence[str],
    added: Mapping[str, str],
    deleted: Sequence[str],
) -> None:
    """Alter quotas, or the credentials of a user.

    names   one for each of `kinds`; an empty one is the default
    raises  ToolError
    """
    if kinds[0] == IPS:
        unknown = [name for name in (*added, *deleted) if name not in IP_QUOTAS]
        if unknown:
            raise ConfigsError(
                "Only connection quota configs can be added for 'ips' using --bootstrap-server. "
                f"Unexpected config names: {','.join(unknown)}"
            )
        _alter_quotas(client, kinds, names, added, deleted)
        return
    _check_names(kinds, names, added, deleted)
    if any(name in QUOTAS for name in (*added, *deleted)):
        _alter_quotas(client, kinds, names, added, deleted)
    else:
        alter_credentials(client, names[0], added, deleted)


def _check_names(
    kinds: Sequence[str], names: Sequence[str], added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    is_client = kinds[0] == CLIENTS or len(kinds) == 2
    kind = CLIENTS if is_client else USERS
    allowed = QUOTAS if is_client else (*QUOTAS, *HASHES)
    served = "quota" if is_client else "quota and SCRAM credential"
    for verb, given, collection in (("added", added, "Set"), ("deleted", deleted, "ArrayBuffer")):
        unknown = ", ".join(name for name in given if name not in allowed)
        if unknown:
            raise ConfigsError(
                f"Only {served} configs can be {verb} for '{kind}' using --bootstrap-server. "
                f"Unexpected config names: {collection}({unknown})"
            )
    if not is_client and any(name in HASHES for name in (*added, *deleted)):
        if "" in names:
            raise ConfigsError(
                "The use of --entity-default or --user-defaults is not allowed with User SCRAM "
                "Credentials using --bootstrap-server."
            )
        if any(name in QUOTAS for name in (*added, *deleted)):
            raise ConfigsError(
                f"Cannot alter both quota and SCRAM credential configs simultaneously for '{USERS}'"
                " using --bootstrap-server."
            )


def _alter_quotas(
    client: Client,
    kinds: Sequence[str],
    names: Sequence[str],
    added: Mapping[str, str],
    deleted: Sequence[str],
) -> None:
    before = {value.key for entry in quota_entries(client, kinds, names) for value in entry.values}
    unknown = [name for name in deleted if name not in before]
    if unknown:
        raise ConfigsError(f"Invalid config(s): {','.join(unknown)}")
    operations = [
        OpData(key=name, value=_number(name, text), remove=False) for name, text in added.items()
    ]
    operations += [OpData(key=name, value=0.0, remove=True) for name in deleted]
    entity = [
        EntityData(entity_type=ENTITIES[kind], entity_name=name or None)
        for kind, name in zip(kinds, names, strict=True)
    ]
    response = client.controller(
        AlterClientQuotasRequest(
            entries=[AlterClientQuotasRequestEntryData(entity=entity, ops=operations)],
            validate_only=False,
        ),
        AlterClientQuotasResponse,
    )
    check(*response.entries)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigsError(f"Cannot parse quota configuration value for {name}: {text}") from None
