"""Alters quotas of users, clients and addresses, or the SCRAM credentials of a user.

Source: Kafka 3.9's ConfigCommand (alterConfig, alterQuotaConfigs).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from odradek.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)
from odradek.tools.client import Client
from odradek.tools.configs.options import CLIENTS, IPS, USERS, ConfigsError
from odradek.tools.configs.quotas import ENTITIES, quota_entries
from odradek.tools.configs.scram_credentials import HASHES, alter_credentials
from odradek.tools.errors import check

QUOTAS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)
IP_QUOTAS: Final = ("connection_creation_rate",)


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
