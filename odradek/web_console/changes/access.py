"""Changes of access: ACLs, SCRAM credentials, quotas."""

from __future__ import annotations

import math
from typing import Final

from odradek.tools.acls.bindings import (
    OPERATIONS,
    PERMISSION_TYPES,
    RESOURCE_TYPES,
    SPECIFIC,
    AclPattern,
    AclRule,
)
from odradek.tools.acls.queries import create_acls, delete_acls
from odradek.tools.client import Client
from odradek.tools.configs.options import CLIENTS, IPS, USERS
from odradek.tools.configs.quotas import IP_QUOTAS, QUOTAS, alter_entity, quota_entries
from odradek.tools.configs.scram_credentials import (
    HASHES,
    alter_credentials,
    store_scram_credential,
)
from odradek.web_console.arguments import PageArgumentError, PageArguments
from odradek.web_console.changes.planned_change import PlannedChange, PreviewLine
from odradek.web_console.cluster import ShownCluster

BACK: Final = "/access"
ACTS: Final = ("add", "remove")
DEFAULT: Final = "<default>"
"""In place of a name: the default of its type."""


def plan_acl(_: ShownCluster, form: PageArguments) -> PlannedChange:
    """Add or remove an entry.

    raises  PageArgumentError
    """
    is_added = form.choice("act", ACTS) == "add"
    pattern = AclPattern(
        form.choice("resource", RESOURCE_TYPES[2:]),
        form.required("name"),
        form.choice("pattern", SPECIFIC),
    )
    rule = AclRule(
        form.required("principal"),
        form.text("host", "*"),
        form.choice("operation", OPERATIONS[2:]),
        form.choice("permission", ("ALLOW", "DENY")),
    )
    assert rule.permission_type in PERMISSION_TYPES
    text = f"{rule.permission_type} {rule.operation} from {rule.host}"
    line = PreviewLine(
        f"{rule.principal} on {pattern.resource_type} {pattern.name} ({pattern.pattern_type})",
        "" if is_added else text,
        text if is_added else "",
    )

    def apply(client: Client) -> list[str]:
        (create_acls if is_added else delete_acls)(client, pattern, [rule])
        return ["Added the entry." if is_added else "Removed the entry."]

    return PlannedChange(
        "acl",
        f"{'Add' if is_added else 'Remove'} an ACL",
        [line],
        apply,
        {"act": "add" if is_added else "remove", **pattern._asdict(), **rule._asdict()},
        BACK,
    )


def plan_user(_: ShownCluster, form: PageArguments) -> PlannedChange:
    """Set the password of a user by SCRAM, or delete it.

    raises  PageArgumentError
    """
    user = form.required("user")
    mechanism = form.choice("mechanism", tuple(HASHES))
    is_added = form.choice("act", ACTS) == "add"
    password = form.raw("password")
    if is_added and not password:
        raise PageArgumentError("'password' is missing")

    def apply(client: Client) -> list[str]:
        if is_added:
            store_scram_credential(client, user, mechanism, password)
            return [f"{user} can log in by {mechanism}."]
        alter_credentials(client, user, {}, [mechanism])
        return [f"{user} can no longer log in by {mechanism}."]

    return PlannedChange(
        "user",
        f"{'Set' if is_added else 'Delete'} the password of {user}",
        [PreviewLine(f"{user}, {mechanism}", "", "a new password" if is_added else "deleted")],
        apply,
        {"act": "add" if is_added else "remove", "user": user, "mechanism": mechanism},
        BACK,
    )


def plan_quota(cluster: ShownCluster, form: PageArguments) -> PlannedChange:
    """Set a quota of a user, a client id, both, or an address; without a value it is deleted.

    raises  ToolError
    """
    given = [
        (kind, form.text(name))
        for kind, name in ((USERS, "user"), (CLIENTS, "client_id"), (IPS, "ip"))
        if form.text(name)
    ]
    kinds = [kind for kind, _ in given]
    names = ["" if name == DEFAULT else name for _, name in given]
    if not kinds or (IPS in kinds and len(kinds) > 1):
        raise PageArgumentError("a quota is of a user, a client id, both, or an address")
    quota = form.choice("quota", (*QUOTAS, *IP_QUOTAS))
    value = form.text("value")
    if value and not _is_finite(value):
        raise PageArgumentError(f"'value': {value} is not a number")
    entries = cluster.call(lambda client: quota_entries(client, kinds, names))
    before = {row.key: row.value for entry in entries for row in entry.values}
    entity = ", ".join(f"{kind} {name}" for kind, name in given)

    def apply(client: Client) -> list[str]:
        added, deleted = ({quota: value}, []) if value else ({}, [quota])
        alter_entity(client, kinds, names, added, deleted)
        return [f"Changed {quota}."]

    return PlannedChange(
        "quota",
        f"Change a quota of {entity}",
        [PreviewLine(quota, str(before.get(quota, "none")), value or "none")],
        apply,
        {"entity": entity, "quota": quota, "value": value or None},
        BACK,
    )


def _is_finite(text: str) -> bool:
    # A broker takes NaN for 0, which stops the client.
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
