"""The settings of the authorizer, which Kafka's AclAuthorizer reads itself.

Source: Kafka's AclAuthorizer.configure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.broker.settings.types import InvalidValueError

AUTHORIZER_CLASSES: Final = (
    "kafka.security.authorizer.AclAuthorizer",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "odradek.AclAuthorizer",
)
"""All of them name the authorizer of this broker, which keeps its ACLs where AclAuthorizer does."""
SUPER_USERS: Final = "super.users"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"


class AuthorizerSettings(NamedTuple):
    super_users: frozenset[str]
    """Principals that may do everything, each as `User:name`."""
    allow_everyone_if_no_acl_found: bool


def authorizer_settings(written: Mapping[str, str]) -> AuthorizerSettings:
    """
    written  settings as text
    raises   InvalidValueError
    """
    text = written.get(SUPER_USERS, "")
    users = [user.strip() for user in text.split(";")]
    while users and not users[-1]:
        users.pop()
    for user in users:
        if ":" not in user:
            allowed = "Expected principals such as User:alice;User:bob"
            raise InvalidValueError(SUPER_USERS, text, allowed)
    everyone = written.get(ALLOW_EVERYONE, "false").strip().lower()
    if everyone not in ("true", "false"):
        raise InvalidValueError(ALLOW_EVERYONE, everyone, "Expected true or false")
    return AuthorizerSettings(frozenset(users), everyone == "true")
